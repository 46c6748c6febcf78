"""The folder of compiled code and snapshots: the use of its entries, and their removal.

The modification time of an entry is that of its last use. Entries are removed, never changed: a
process that has opened one keeps it, and one that finds none makes it again.

Rule 1: code is loaded only from a private folder of the user.
    tests/core/workers/test_wasm_files.py::test_cache_that_others_can_write_is_not_used
Rule 2: an entry that was used just now is not removed, whichever process used it.
    tests/core/workers/test_wasm_cache.py::test_entry_that_is_used_meanwhile_stays
"""

from __future__ import annotations

import math
import os
import shutil
import stat
import sys
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import platformdirs

from ..._dataclass import dataclass
from ...errors import SetupError

__all__ = ["NEW", "Removed", "cache_folder", "clean_cache", "describe_cache", "is_used"]

NEW: Final = ".new-"
"""Prefix of an entry that is being made."""
_OLD: Final = ".old-"
"""Prefix of an entry that is being removed; the time in seconds follows."""
_RECENT_SECONDS: Final = 3600.0
"""Time after its use in which an entry stays, however many there are."""
_UNUSED_SECONDS: Final = 90 * 86_400.0
_MOST: Final[Mapping[str, tuple[str, int]]] = {
    "snapshots": ("*.snapshot", 8),
    "compiled interpreters": ("*.cwasm", 2),
    "libraries": ("library-*", 2),
}
"""By kind, the names of its entries and how many are kept."""


@dataclass(frozen=True, slots=True)
class Removed:
    """Entries that were removed."""

    entries: int = 0
    size: int = 0
    """Bytes."""


def cache_folder() -> Path:
    """Return the folder of compiled code and snapshots; create it.

    Raises:
        SetupError: If somebody else could write to it.
    """
    folder = Path(platformdirs.user_cache_dir("ptc", appauthor=False)) / "wasm"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise SetupError(f"the cache of the wasm engine cannot be created: {error}") from None
    if sys.platform == "win32":  # a profile's folder belongs to its user
        return folder
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not own or stat.S_IMODE(found.st_mode) & 0o077:
        raise SetupError(
            f"{folder} must be a folder of yours that nobody else can open (mode 0700), since code "
            "in it is executed; change its mode, or set XDG_CACHE_HOME to another folder"
        )
    return folder


def is_used(entry: Path) -> bool:
    """Note that an entry is used from now on; return False if there is none."""
    try:
        os.utime(entry)
    except FileNotFoundError:
        return False
    except OSError:  # a cache that cannot be written, such as that of an image
        return entry.exists()
    return True


def clean_cache(folder: Path) -> Removed:
    """Remove entries that were not used for long, and the least recently used beyond a number.

    Several processes may do so at once. An entry that cannot be removed stays: Windows keeps files
    that are open.
    """
    now = time.time()
    old: list[Path] = []
    for pattern, most in _MOST.values():
        entries = sorted(folder.glob(pattern), key=_used_at, reverse=True)
        old += [
            entry
            for place, entry in enumerate(entries)
            if place >= most or now - _used_at(entry) > _UNUSED_SECONDS
        ]
    # Left over by processes that were killed.
    old += [*folder.glob(f"{NEW}*"), *folder.glob(f"{_OLD}*")]
    sizes = [_remove(entry, now) for entry in old]
    removed = [size for size in sizes if size is not None]
    return Removed(len(removed), sum(removed))


def describe_cache(folder: Path) -> str:
    """Return the number of entries by kind, and their size, in words."""
    found = {kind: list(folder.glob(pattern)) for kind, (pattern, _) in _MOST.items()}
    numbers = ", ".join(f"{kind}: {len(entries)}" for kind, entries in found.items())
    size = sum(_size(entry) for entries in found.values() for entry in entries)
    return f"{numbers} ({size / 1e6:,.0f} MB)"


def _used_at(entry: Path) -> float:
    try:
        if entry.name.startswith(_OLD):  # another process may be about to restore it
            return float(entry.name.removeprefix(_OLD).partition("-")[0])
        return entry.lstat().st_mtime
    except ValueError:
        return 0.0
    except OSError:  # another process has removed it, and may be making it again
        return math.inf


def _remove(entry: Path, now: float) -> int | None:
    """Remove an entry, unless it was used lately; return its size, or None if it is still there."""
    if now - _used_at(entry) < _RECENT_SECONDS:
        return None
    aside = entry.with_name(f"{_OLD}{int(now)}-{uuid.uuid4().hex}")
    try:
        size = _size(entry)
        entry.rename(aside)
        if now - aside.lstat().st_mtime < _RECENT_SECONDS:
            # Used since it was looked at: a process that opens it before this line makes it again.
            aside.rename(entry)
            return None
        if aside.is_dir():
            shutil.rmtree(aside)
        else:
            aside.unlink()
    except OSError:
        return None
    return size


def _size(entry: Path) -> int:
    files: Iterable[Path] = entry.rglob("*") if entry.is_dir() else (entry,)
    return sum(file.lstat().st_size for file in files if file.is_file())
