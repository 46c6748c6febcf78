"""Ownership of files whose content the host acts on."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ..errors import UsageError

__all__ = ["check_owner"]


def check_owner(path: Path, status: os.stat_result, remedy: str) -> None:
    """Reject a file that somebody else could have written, or a link that somebody else made.

    Args:
        path: The file.
        status: Of the opened file: between a check and its use, another could replace it.
        remedy: End of the error.

    Raises:
        UsageError: If another user owns it, or every user may write it.
    """
    if not hasattr(os, "geteuid"):
        return
    # Root could change any file anyway.
    trusted = (0, os.geteuid())
    if status.st_uid not in trusted or path.lstat().st_uid not in trusted:
        raise UsageError(f"{path} belongs to another user; {remedy}")
    if status.st_mode & stat.S_IWOTH:
        raise UsageError(f"{path} may be written by every user (chmod o-w); {remedy}")
