"""Edit a text in the user's editor, as git and crontab do."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path

from ..errors import UsageError

__all__ = ["edit_text", "editor_command"]

_MAX_BYTES = 8_388_608


def editor_command() -> list[str] | None:
    """Return the command of the user's editor, from ``VISUAL`` or ``EDITOR``; None if unset."""
    for name in ("VISUAL", "EDITOR"):
        text = os.environ.get(name, "").strip()
        if text:
            try:
                return shlex.split(text)
            except ValueError:
                return [text]
    return None


async def edit_text(command: list[str], text: str) -> str:
    """Return `text` as the user saved it.

    Raises:
        UsageError: If the editor cannot be started or fails, or its file is not UTF-8 text.
    """
    import anyio

    # A folder of its own, readable by this user only: editors put backups beside the file.
    with tempfile.TemporaryDirectory(prefix="ptc-") as folder:
        path = _write(folder, text)
        try:
            # Standard output may be a pipe, which carries the value of the run.
            done = await anyio.run_process(
                [*command, str(path)],
                stdin=sys.stdin.fileno(),
                stdout=sys.stderr.fileno(),
                stderr=sys.stderr.fileno(),
                check=False,
            )
        except OSError as error:
            msg = f"the editor {command[0]!r} cannot be started: {error.strerror}; set EDITOR"
            raise UsageError(msg) from None
        if done.returncode:
            raise UsageError(f"the editor {command[0]!r} ended with status {done.returncode}")
        return _read(path)


def _write(folder: str, text: str) -> Path:
    path = Path(folder, "arguments.json")
    path.write_text(text, encoding="utf-8")
    return path


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the edited file cannot be read: {error}") from None
