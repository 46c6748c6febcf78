"""The script as the user named it: a file anywhere, or standard input."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..errors import UsageError

__all__ = ["read_script", "read_standard_input"]

MOST_BYTES = 8_388_608
"""What is read at most: as much as `Limits.max_source_bytes` can be. `/dev/zero` has no end."""


def read_script(name: str) -> tuple[str, str]:
    """Read the script `name`; ``-`` is standard input. Gives the text and what to call it.

    Raises:
        UsageError: If it is missing, unreadable, a folder, too large or no UTF-8 text.
    """
    if name == "-":
        return _text(read_standard_input("the script"), "standard input"), "<stdin>"
    what = f"script {name!r}"
    path = Path(name)
    try:
        if path.is_dir():
            msg = f"{what} is a folder; name the file in it"
            raise UsageError(msg)
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        where = f" (the current folder is {os.getcwd()!r})" if not path.is_absolute() else ""
        msg = f"{what} cannot be read: {reason}{where}"
        raise UsageError(msg) from None
    # A name that a traceback could not show is not worth a refusal.
    called = name if name.isprintable() and len(name) <= 200 else "script.py"
    return _text(data, what), called


def read_standard_input(what: str) -> bytes:
    """All of standard input, at most as much as a script can have.

    Raises:
        UsageError: If there is none.
    """
    stdin = sys.stdin
    if stdin is None or stdin.closed:
        msg = f"{what} is to come from standard input, which is closed"
        raise UsageError(msg)
    return stdin.buffer.read(MOST_BYTES + 1)


def _text(data: bytes, what: str) -> str:
    if len(data) > MOST_BYTES:
        msg = f"{what} has more than {MOST_BYTES:,} bytes; pass data with --inputs, not as literals"
        raise UsageError(msg)
    place = data.find(b"\0")
    if place >= 0:
        msg = f"{what} is not text: byte {place:,} is NUL; name a Python script"
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
    # Editors on Windows write a byte order mark; a compiler given text would not know it.
    return text.removeprefix("\ufeff")
