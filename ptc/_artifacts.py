"""Values too large for their place: kept whole in a file, cut to fit where they are shown."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from pathlib import Path
from typing import Any

from . import _json
from ._result import Cut

__all__ = ["ArtifactStore", "shrink"]

_MARK = "…cut…"


class ArtifactStore:
    """A folder of whole values, named by their digest. Made when it is first needed.

    Args:
        folder: Where the files go.
        root: The session's root. Beneath it no link is followed: a tool, or a command that a tool
            ran, may have put one there to have the host write outside.
    """

    def __init__(self, folder: Path, root: Path | None = None) -> None:
        self._folder = folder
        self._root = root if root is not None and folder.is_relative_to(root) else None

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self._folder

    def keep(self, data: bytes, suffix: str = ".json") -> Cut:
        """Write `data` once and tell where. Safe against a crash in the middle.

        Raises:
            OSError: If the folder cannot be written, or a link stands in its place.
        """
        digest = hashlib.sha256(data).hexdigest()
        name = f"{digest}{suffix}"
        folder = self._open()
        try:
            if not _is_file(name, folder):
                _write(b"*\n", ".gitignore", folder)
                _write(data, name, folder)
        finally:
            os.close(folder)
        return Cut(bytes=len(data), sha256=digest, artifact=str(self._folder / name))

    def _open(self) -> int:
        if self._root is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            return os.open(self._folder, _FOLDER)
        fd = os.open(self._root, _FOLDER)
        for part in self._folder.relative_to(self._root).parts:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=fd)
            try:
                inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=fd)
            finally:
                os.close(fd)
            fd = inner
        return fd


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def _is_file(name: str, folder: int) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _write(data: bytes, name: str, folder: int) -> None:
    """Write a file whole or not at all; what has the name, a link too, is replaced."""
    temporary = f".{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(temporary, flags, 0o600, dir_fd=folder), "wb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def shrink(value: Any, most_bytes: int) -> Any:
    """`value` cut to at most `most_bytes` of JSON, still of the same shape where it can be.

    Long text keeps its beginning and says how much is missing; a list keeps its first items and
    ends in ``{"…cut…": "17 of 40 items left out"}``; an object keeps its keys, each value cut to
    its share, and names the keys it had to leave out. Nothing is rounded or reordered.
    """
    budget = most_bytes
    cut = _cut(value, budget)
    # Escapes make text longer than its characters: tighten until it fits.
    while len(_json.dumps(cut)) > most_bytes:
        budget = budget * 3 // 4
        if budget < _SMALLEST:
            return {_MARK: "value left out"} if most_bytes >= _SMALLEST else None
        cut = _cut(value, budget)
    return cut


_SMALLEST = 32
_NOTE_BYTES = 64
"""Room kept for the note that says what was left out."""


def _size(value: Any) -> int:
    return len(_json.dumps(value))


def _cut(value: Any, budget: int) -> Any:
    if _size(value) <= budget:
        return value
    if isinstance(value, str):
        return _cut_text(value, budget)
    if isinstance(value, list):
        return _cut_list(value, budget)
    if isinstance(value, dict):
        return _cut_object(value, budget)
    return {_MARK: "number left out"}


def _cut_text(text: str, budget: int) -> str:
    room = max(0, budget - _NOTE_BYTES)
    kept = text.encode()[:room].decode(errors="ignore")
    return f"{kept} {_MARK} {len(text) - len(kept):,} of {len(text):,} characters left out"


def _cut_list(items: list[Any], budget: int) -> list[Any]:
    kept: list[Any] = []
    room = budget - _NOTE_BYTES
    for item in items:
        size = _size(item) + 1
        if size > room:
            # The first item is cut rather than dropped: it shows what the items look like.
            if not kept and room > 2 * _NOTE_BYTES:
                kept.append(_cut(item, room))
            break
        kept.append(item)
        room -= size
    missing = len(items) - len(kept)
    note = {_MARK: f"{missing:,} of {len(items):,} items left out"}
    return [*kept, note] if missing else kept


def _cut_object(value: dict[str, Any], budget: int) -> dict[str, Any]:
    room = budget - _NOTE_BYTES
    kept: dict[str, Any] = {}
    sizes = {key: _size(item) for key, item in value.items()}
    left = len(value)
    # Small values first get their place; what is over is shared by the large ones.
    shares: dict[str, int] = {}
    for key in sorted(value, key=lambda name: sizes[name]):
        cost = _size(key) + 2
        share = (room // left) - cost
        shares[key] = min(sizes[key], max(0, share))
        room -= min(sizes[key], max(0, share)) + cost
        left -= 1
    missing = 0
    for key, item in value.items():
        if sizes[key] <= shares[key]:
            kept[key] = item
        elif shares[key] > _NOTE_BYTES + _SMALLEST:
            kept[key] = _cut(item, shares[key])
        else:
            missing += 1
    if missing:
        kept[_MARK] = f"{missing:,} of {len(value):,} keys left out"
    return kept
