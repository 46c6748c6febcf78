"""Forms of paths: of Windows, with drives and backslashes, and of all other systems."""

from __future__ import annotations

import os
from pathlib import PurePath, PureWindowsPath

__all__ = ["beneath", "is_absolute"]


def is_absolute(path: str, *, windows: bool = os.name == "nt") -> bool:
    """True if a path does not start at the current folder, at least not surely."""
    return bool(PureWindowsPath(path).anchor) if windows else path.startswith("/")


def beneath(root: PurePath, path: str, *, windows: bool = os.name == "nt") -> str | None:
    """Return a path relative to the root, with ``/``; None if it is absolute and outside.

    Links and ``..`` stay unresolved, and so does a slash at the end.
    """
    if windows:
        return _beneath_on_windows(PureWindowsPath(root), path)
    if not path.startswith("/"):
        return path
    parts = [part for part in path.split("/") if part not in ("", ".")]
    own = [part for part in str(root).split("/") if part]
    if parts[: len(own)] != own:
        return None
    slash = "/" if path.endswith(("/", "/.")) and parts != own else ""
    return "/".join(parts[len(own) :]) + slash or "."


def _beneath_on_windows(root: PureWindowsPath, path: str) -> str | None:
    posix = path.replace("\\", "/")
    whole = PureWindowsPath(path)
    if not whole.anchor:
        return posix
    # A drive without a root, such as `C:x`, starts at that drive's current folder.
    if not whole.is_relative_to(root):
        return None
    inner = whole.relative_to(root).as_posix()
    return inner + "/" if posix.endswith(("/", "/.")) and inner != "." else inner
