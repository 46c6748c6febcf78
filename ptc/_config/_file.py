"""The configuration file: its location, its table, and the lines of its keys.

A configuration file is code: it names Python files that ptc executes, and sets permissions.

Rule 1: A file that another user could have written is an error until it is named with --config.
    tests/core/config/test_file.py::test_file_of_another_user_is_refused
Rule 2: No tool changes a ``ptc.toml``: it is a protected path (`ptc._protected`).
    tests/core/config/test_attacks.py::test_script_cannot_write_a_configuration
Rule 3: A ``ptc.toml`` that was found outside of the current folder and those above it is an error
    until it is trusted or named, so that no checkout configures a command by being its root.
    tests/core/config/test_attacks.py::test_configuration_of_another_folder_needs_trust
Rule 4: Scripts may change a ``pyproject.toml``, so its table counts only while it is as its owner
    trusted it (`ptc._config._trust`).
    tests/core/config/test_attacks.py::test_table_in_pyproject_counts_only_while_trusted
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from .._core._owner import check_owner
from ..errors import UsageError
from ._trust import is_trusted

__all__ = [
    "NAME",
    "PROJECT",
    "ConfigFile",
    "find_file",
    "is_file_trusted",
    "load_file",
    "read_bytes",
    "require_trust",
]

NAME = "ptc.toml"
PROJECT = "pyproject.toml"
_MAX_BYTES = 1_048_576


class ConfigFile:
    """A configuration file that was read."""

    def __init__(self, path: Path, text: str) -> None:
        """Parse the file.

        Args:
            path: Absolute path.
            text: Its content.

        Raises:
            UsageError: If it is not TOML; the message has the line.
        """
        self.path = path
        self.in_project = path.name == PROJECT
        """True if the configuration is the table ``[tool.ptc]`` of a pyproject.toml."""
        self._prefix = ("tool", "ptc") if self.in_project else ()
        self._lines = text.split("\n")
        # Imported here because every session looks for a file, and few find one.
        import tomllib

        try:
            whole = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            found = re.search(r" \(at line (\d+), column \d+\)", str(error))
            words = str(error).removesuffix(found[0] if found else " (at end of document)")
            line = int(found[1]) if found else len(self._lines)
            raise UsageError(f"{self.shown}:{line}: this is not valid TOML: {words}") from None
        table: Any = whole
        for name in self._prefix:
            table = table.get(name) if isinstance(table, Mapping) else None
        self.table: Any = table
        """The configuration; None if a pyproject.toml has none."""

    @property
    def shown(self) -> str:
        """Path for messages: relative to the current folder if the file lies beneath it."""
        try:
            return str(self.path.relative_to(Path.cwd()))
        except (ValueError, OSError):
            return str(self.path)

    def line(self, *names: str) -> int:
        """Return the line of a key or table, or of the nearest table around it.

        `tomllib` reports no positions. It is asked instead for the shortest beginning of the file
        that it accepts and that contains the key: this ends with the key's statement.
        """
        while names and not self._has(len(self._lines), (*self._prefix, *names)):
            names = names[:-1]
        path = (*self._prefix, *names)
        if not path:
            return 1
        first, last, end = 1, len(self._lines), len(self._lines)
        while first <= last:
            middle = (first + last) // 2
            count = next((n for n in range(middle, last + 1) if self._parse(n) is not None), None)
            if count is None:
                last = middle - 1
            elif self._has(count, path):
                end, last = count, middle - 1
            else:
                first = count + 1
        before = next(n for n in range(end - 1, -1, -1) if self._parse(n) is not None)
        return before + 1

    def _has(self, count: int, path: tuple[str, ...]) -> bool:
        table: Any = self._parse(count)
        for name in path:
            if not isinstance(table, Mapping) or name not in table:
                return False
            table = table[name]
        return True

    def _parse(self, count: int) -> dict[str, Any] | None:
        return _parse("\n".join(self._lines[:count]))


@lru_cache(4_096)
def _parse(text: str) -> dict[str, Any] | None:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def find_file(start: Path) -> Path | None:
    """Find the configuration of a folder: in it, or in the nearest folder above that has one.

    Raises:
        UsageError: If a folder has two, or a file cannot be read.
    """
    for folder in (start, *start.parents):
        own, project = folder / NAME, folder / PROJECT
        found = _exists(own)
        if _exists(project) and _has_table(project):
            if found:
                msg = f"{own} and [tool.ptc] in {project} both configure ptc; delete one of them"
                raise UsageError(msg)
            return project
        if found:
            return own
    return None


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except (OSError, ValueError):
        return False
    return True


def _has_table(path: Path) -> bool:
    data = read_bytes(path)
    # Most have none: a search is faster than a parse.
    if b"ptc" not in data or b"tool" not in data:
        return False
    import tomllib

    try:
        tool = tomllib.loads(data.decode()).get("tool")
    except (ValueError, RecursionError):
        # Another program will report it. It configures nothing.
        return False
    return isinstance(tool, Mapping) and "ptc" in tool


def load_file(path: Path, *, named: bool, check_trust: bool = True) -> ConfigFile:
    """Read a configuration file.

    Args:
        path: Absolute path.
        named: True: the operator named it; its owner does not matter.
        check_trust: False: read a file that is not trusted, to show it.

    Raises:
        UsageError: If it cannot be read, is not TOML, or is not trusted.
    """
    remedy = "name it with --config to use it, or pass --no-config to ignore it"
    data = read_bytes(path, None if named else remedy)
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        msg = f"{path} is not UTF-8 text: byte {error.start:,}; save it as UTF-8"
        raise UsageError(msg) from None
    file = ConfigFile(path, text)
    if file.in_project and file.table is None:
        msg = f"{file.shown} has no table [tool.ptc]"
        raise UsageError(msg)
    if check_trust:
        require_trust(file, named=named)
    return file


def is_file_trusted(file: ConfigFile, *, named: bool) -> bool:
    """Return True if the operator chose to use a file, by name, by place, or once for all.

    A ptc.toml counts in the folder that contains it and below, as the operator chose to work there.
    One that belongs to another folder, such as a checkout that is passed as the root, must not
    execute code or set permissions only because somebody wrote it. A pyproject.toml always needs
    trust, since scripts may change it.
    """
    here = Path.cwd().resolve()
    if not file.in_project and (named or file.path.parent in (here, *here.parents)):
        return True
    return is_trusted(file.path, file.table)


def require_trust(file: ConfigFile, *, named: bool) -> None:
    """Reject a file that is not trusted (`is_file_trusted`). Raises `UsageError`."""
    if is_file_trusted(file, named=named):
        return
    if file.in_project:
        msg = (
            f"{file.shown}:{file.line()}: [tool.ptc] is not trusted: it is new or has changed, "
            "and scripts may change a pyproject.toml. Read the table, then run "
            "`ptc config trust`; move it to a ptc.toml, which no script can change; or ignore "
            "it with --no-config"
        )
    else:
        msg = (
            f"{file.shown} is not trusted: it is neither in the current folder nor above it, and "
            "a configuration names code that ptc executes, and sets permissions. Read it, then run "
            f"`ptc config trust --root {file.path.parent}`, name it with --config, or ignore it "
            "with --no-config"
        )
    raise UsageError(msg)


def read_bytes(path: Path, remedy: str | None = None) -> bytes:
    """Read a small regular file.

    Args:
        path: The file.
        remedy: End of the error if somebody else could have written it. None: do not check.

    Raises:
        UsageError: If it cannot be read, is too large, or somebody else could have written it.
    """
    try:
        # O_NONBLOCK: opening a FIFO would wait for a writer.
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(fd, "rb") as file:
            # The opened file: between a check of the path and its use, another could replace it.
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{path} is not a regular file")
            if remedy is not None:
                check_owner(path, status, remedy)
            data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{path} cannot be read: {reason}") from None
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{path} has more than {_MAX_BYTES:,} bytes")
    return data
