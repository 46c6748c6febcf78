"""Read a script from a file or from standard input."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from ..errors import UsageError

__all__ = ["read_script", "read_standard_input", "refuse_host_program"]

MAX_BYTES = 8_388_608
"""The ceiling of `Limits.max_source_bytes`. Reads are bounded because `/dev/zero` has no end."""


def read_script(name: str) -> tuple[str, str]:
    """Read the script `name`; ``-`` is standard input. Return its text and display name.

    Raises:
        UsageError: If it is missing, unreadable, a folder, too large or not UTF-8 text.
    """
    if name == "-":
        return _decode(read_standard_input("the script"), "standard input"), "<stdin>"
    what = f"script {name!r}"
    path = Path(name)
    try:
        if path.is_dir():
            msg = f"{what} is a folder; name a file in it"
            raise UsageError(msg)
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        where = f" (the current folder is {os.getcwd()!r})" if not path.is_absolute() else ""
        msg = f"{what} cannot be read: {reason}{where}"
        raise UsageError(msg) from None
    # A name that a traceback cannot show is replaced.
    display_name = name if name.isprintable() and len(name) <= 200 else "script.py"
    return _decode(data, what), display_name


def refuse_host_program(source: str, name: str) -> None:
    """Reject a program that uses ptc, which is not a script for it.

    Args:
        source: Text of the script.
        name: Path of the script, or ``-``.

    Raises:
        UsageError: If it imports ptc at its top level and defines no `run`.
    """
    import ast

    if "ptc" not in source:
        return
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    imported: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "run":
            return
        if isinstance(node, ast.Import):
            imported.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported.add(node.module.partition(".")[0])
    if imported & {"ptc", "ptc_tools", "ptc_bindings"}:
        what = "standard input" if name == "-" else repr(name)
        msg = (
            f"{what} is a Python program that uses ptc, not a script for ptc. Run it with: "
            f"python {shlex.quote(name)}"
        )
        raise UsageError(msg)


def read_standard_input(what: str) -> bytes:
    """Read standard input, up to one byte more than the size limit of a script.

    Raises:
        UsageError: If it is closed.
    """
    stdin = sys.stdin
    if stdin is None or stdin.closed:
        msg = f"{what} cannot be read from standard input, which is closed; name a file"
        raise UsageError(msg)
    return stdin.buffer.read(MAX_BYTES + 1)


def _decode(data: bytes, what: str) -> str:
    if len(data) > MAX_BYTES:
        msg = f"{what} has more than {MAX_BYTES:,} bytes; pass data with --inputs, not as literals"
        raise UsageError(msg)
    offset = data.find(b"\0")
    if offset >= 0:
        msg = f"{what} is not text: byte {offset:,} is NUL; name a Python script"
        raise UsageError(msg)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        msg = (
            f"{what} is not UTF-8 text: byte {error.start:,} (line {line}) is "
            f"0x{data[error.start]:02x}; save it as UTF-8"
        )
        raise UsageError(msg) from None
    # Editors on Windows write a byte order mark, which the compiler rejects in text.
    return text.removeprefix("\ufeff")
