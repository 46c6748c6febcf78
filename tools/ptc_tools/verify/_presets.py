"""Checks of well-known programs, with the folders outside the root that these need to read.

Rule 1: a preset asks for toolchains and packages only, never for a home or a file of credentials,
    whatever the files of a project say.
    tests/tools/verify/test_presets.py::test_preset_never_asks_for_a_home_or_its_credentials
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ptc import UsageError
from ptc._core._arguments import nearest

from ._checks import Check
from ._toolchains import (
    Toolchain,
    cargo_toolchain,
    go_toolchain,
    node_toolchain,
    python_program,
)

__all__ = ["PRESETS", "Preset", "detect_checks", "preset"]

_MAX_FILE_BYTES = 1_048_576
"""Bytes of a project file that detection reads; a larger file is ignored."""
_TEN_MINUTES = 600_000
_NPM_SCRIPTS = {"test": "test", "lint": "lint", "typecheck": "types"}
"""Scripts of a package.json that are checks, with their kind."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A check, and the folders that its command needs."""

    name: str
    check: Check
    readable: tuple[Path, ...]
    """Absolute files and folders outside the root, for ``builtin(readable=...)``. Empty if commands
    can read all that the program needs."""


def preset(name: str, root: str | Path = ".") -> Preset:
    """Return the check of a well-known program for a project.

    ::

        unit = preset("pytest")
        async with Session(".", toolsets=(), tools=[builtin(readable=unit.readable)]) as session:
            report = await session.verify_commands(subject="the fix", checks=[unit.check])

    A program that is not installed makes a check that reports so (``not_started``).

    Args:
        name: One of `PRESETS`: pytest, ruff, mypy, npm, cargo, go.
        root: Folder of the project.

    Raises:
        UsageError: If there is no such preset.
    """
    if name not in PRESETS:
        known = ", ".join(PRESETS)
        msg = f"there is no preset {name!r:.80}{nearest(name, PRESETS)}; presets: {known}"
        raise UsageError(msg)
    return PRESETS[name](Path(root).resolve())


def detect_checks(root: str | Path = ".") -> list[Preset]:
    """Return the checks that the files of a project call for, without running anything.

    pytest, ruff and mypy if they are configured (or there is a ``tests/conftest.py``), the scripts
    test, lint and typecheck of a package.json, ``cargo test`` for a Cargo.toml, and ``go test`` for
    a go.mod.
    """
    folder = Path(root).resolve()
    found = [PRESETS[name](folder) for name in _python_programs(folder)]
    scripts = _npm_scripts(folder)
    found += [_npm(folder, script) for script in _NPM_SCRIPTS if script in scripts]
    for name, file in (("cargo", "Cargo.toml"), ("go", "go.mod")):
        if (folder / file).is_file():
            found.append(PRESETS[name](folder))
    return found


def _python_programs(folder: Path) -> Iterator[str]:
    tables = _toml(folder / "pyproject.toml").get("tool")
    tool = tables if isinstance(tables, Mapping) else {}
    ini = _sections(folder / "setup.cfg")
    files = {
        "pytest": ("pytest.ini", ".pytest.ini", "tests/conftest.py", "conftest.py"),
        "ruff": ("ruff.toml", ".ruff.toml"),
        "mypy": ("mypy.ini", ".mypy.ini"),
    }
    sections = {"pytest": "tool:pytest", "ruff": "ruff", "mypy": "mypy"}
    for name, own in files.items():
        if name in tool or sections[name] in ini or any((folder / n).is_file() for n in own):
            yield name


# --- the presets --------------------------------------------------------------------------------


def _pytest(root: Path) -> Preset:
    check = Check("pytest", ["pytest", "-q"], "test", "The tests pass.", timeout_ms=_TEN_MINUTES)
    return _made(root, check, python_program("pytest", root))


def _ruff(root: Path) -> Preset:
    check = Check("ruff", ["ruff", "check", "."], "lint", "ruff has no findings.")
    return _made(root, check, python_program("ruff", root))


def _mypy(root: Path) -> Preset:
    # Without a target, mypy checks those of its configuration, and fails if that has none.
    tables = _toml(root / "pyproject.toml").get("tool")
    table = tables.get("mypy") if isinstance(tables, Mapping) else None
    own = set(table) if isinstance(table, Mapping) else set()
    for name in ("mypy.ini", ".mypy.ini", "setup.cfg"):
        own |= _sections(root / name).get("mypy", set())
    command = ["mypy"] if own & {"files", "packages", "modules"} else ["mypy", "."]
    check = Check("mypy", command, "types", "The types are right.", timeout_ms=_TEN_MINUTES)
    return _made(root, check, python_program("mypy", root))


def _npm(root: Path, script: str = "test") -> Preset:
    name = "npm" if script == "test" else f"npm-{script}"
    check = Check(
        name,
        ["npm", "run", script],
        _NPM_SCRIPTS[script],
        f"The script {script} of package.json succeeds.",
        timeout_ms=_TEN_MINUTES,
    )
    return _made(root, check, node_toolchain())


def _cargo(root: Path) -> Preset:
    check = Check("cargo", ["cargo", "test"], "test", "The tests pass.", timeout_ms=_TEN_MINUTES)
    return _made(root, check, cargo_toolchain())


def _go(root: Path) -> Preset:
    check = Check("go", ["go", "test", "./..."], "test", "The tests pass.", timeout_ms=_TEN_MINUTES)
    return _made(root, check, go_toolchain())


PRESETS: Mapping[str, Callable[[Path], Preset]] = {
    "pytest": _pytest,
    "ruff": _ruff,
    "mypy": _mypy,
    "npm": _npm,
    "cargo": _cargo,
    "go": _go,
}
"""Creates a check for the project in a folder, by name of the preset."""


def _made(root: Path, check: Check, chain: Toolchain) -> Preset:
    command = [chain.program, *check.command[1:]]
    outside = tuple(path for path in chain.readable if not path.is_relative_to(root))
    return Preset(check.id, replace(check, command=command, env=chain.env or None), outside)


# --- files of a project, which anybody may have written -----------------------------------------


def _read(path: Path) -> str:
    try:
        if not path.is_file() or path.stat().st_size > _MAX_FILE_BYTES:
            return ""
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_read(path))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _sections(path: Path) -> dict[str, set[str]]:
    """Return the keys of each section of an ini file."""
    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(_read(path))
    except ConfigError:
        return {}
    return {name: set(parser[name]) for name in parser.sections()}


def _npm_scripts(root: Path) -> set[str]:
    """Return the names of a package's scripts, without the placeholder of ``npm init``."""
    try:
        data = json.loads(_read(root / "package.json") or "null")
    except (ValueError, RecursionError):
        return set()
    scripts = data.get("scripts") if isinstance(data, dict) else None
    rows: Iterable[tuple[str, object]] = scripts.items() if isinstance(scripts, dict) else ()
    return {name for name, text in rows if "no test specified" not in str(text)}
