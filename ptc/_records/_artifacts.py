"""Values over their limit: stored whole in a file, and truncated for display."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._core import _json
from .._core._folder import Folder, open_folder
from .._wire._parts import LIST, OBJECT, TEXT, VALUE, Node
from ._result import Cut
from ._stored_file import Signature, StoredFile, digest_of_handle

__all__ = [
    "CUT_MARK",
    "LocalArtifacts",
    "compute_digest",
    "reference_of",
    "shrink",
]

ATTACHMENTS = "attachments"
"""Folder in which earlier versions stored attachments, below that of the artifacts."""

CUT_MARK = "…cut…"
"""Key of the note that stands for the missing part of a list or an object."""
_MAX_VERIFIED = 1_000
"""Files of which a store knows that their contents match."""


class LocalArtifacts:
    """A folder of whole values, named by their digest. Created on first use.

    A file lies in a folder named by the first two digits of its digest. Earlier versions stored
    files directly in the folder, and attachments in a folder of their own; those are still read.

    Args:
        folder: Folder of the files.
        root: The session's root. Links beneath it are not followed: a tool, or a command that a
            tool ran, may have created one to make the host write outside.
    """

    def __init__(self, folder: Path, root: Path | None = None) -> None:
        self._folder = folder
        self._root = root if root is not None and folder.is_relative_to(root) else None
        self._verified: dict[str, Signature] = {}

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        return self._folder

    def keep(self, data: bytes, suffix: str = ".json") -> Cut:
        """Store a value, unless it exists, and return its reference. A crash leaves no part.

        Args:
            data: The value.
            suffix: End of the name of its file.

        Raises:
            OSError: If the folder cannot be written, or its path contains a link.
        """
        return self.keep_pieces(lambda: (data,), suffix)

    def keep_pieces(self, pieces: Callable[[], Iterable[bytes]], suffix: str = ".json") -> Cut:
        """Store a value that is not in memory as a whole; `pieces` is called twice."""
        cut = compute_digest(pieces())
        self.store(cut, pieces, suffix)
        return replace(cut, artifact=reference_of(cut.sha256))

    def store(
        self, cut: Cut, pieces: Callable[[], Iterable[bytes]], suffix: str, *, again: bool = False
    ) -> None:
        """Store the value that `cut` describes, unless it exists or `again` is True.

        Raises:
            OSError: As `keep`; nothing is visible then.
        """
        name = f"{cut.sha256}{suffix}"
        top = self._open()
        try:
            if not _is_file(".gitignore", top):
                _write((b"*\n",), ".gitignore", top)
            shard = _open_inner(top, name[:_SHARD_CHARS])
        finally:
            top.close()
        try:
            # A file of another size was damaged, and is replaced.
            if _size_of(name, shard) == cut.bytes and not again:
                _refresh(name, shard)
                return
            _write(pieces(), name, shard)
            shard.flush()
        finally:
            shard.close()

    def read(self, digest: str) -> tuple[str, bytes] | None:
        """Return the name and the contents of a stored value; None if there is none.

        A file whose contents do not match its digest is not returned: a script may be able to write
        the folder.
        """
        if not _DIGEST.fullmatch(digest):
            return None
        with contextlib.suppress(OSError):
            found = self.open(digest)
            if found is not None:
                with found:
                    return found.name, found.read(0, found.size)
        return None

    def open(self, handle: str) -> StoredFile | None:
        """Open a stored value to read parts of it; None if there is none.

        Args:
            handle: Start of its digest, at least 16 hexadecimal digits, its reference or its
                address. A start that fits several values opens none.

        Raises:
            OSError: If it cannot be read.
        """
        return next((file for file in self._matching(handle) if self._accept(file)), None)

    def path(self, digest: str, suffix: str = ".json") -> Path:
        """Return the path of a value on this machine, stored or not. For people, not for records.

        Args:
            digest: SHA-256 of the value.
            suffix: End of the name, if there is no file.
        """
        for place, names in self._names(digest):
            return self._folder.joinpath(*place, names[0])
        return self._folder / digest[:_SHARD_CHARS] / f"{digest}{suffix}"

    def is_damaged(self, digest: str) -> bool:
        """True if there is a file of this digest whose contents do not match it."""
        files = list(self._matching(digest))
        good = [self._accept(file) for file in files]
        for file in (file for file, accepted in zip(files, good, strict=True) if accepted):
            file.close()
        return bool(files) and not any(good)

    def remove(self, digest: str, before: float | None = None) -> bool:
        """Delete a value; False if there was none.

        Args:
            digest: SHA-256 of the value.
            before: Delete it only if it was stored before this time, in seconds since 1970.

        Raises:
            OSError: If the folder cannot be written.
        """
        deleted = False
        for place, names in self._names(digest):
            with self._open(*place) as folder:
                for name in names:
                    with contextlib.suppress(FileNotFoundError):  # somebody else deleted it
                        if before is None or folder.status(name).st_mtime < before:
                            folder.remove(name)
                            deleted = True
        return deleted

    def files(self, after: str = "") -> Iterator[tuple[str, os.stat_result]]:
        """Yield the name and the status of each value, by digest, beginning after one."""
        old = [*self._list(), *self._list(ATTACHMENTS)]
        for number in range(int(after[:_SHARD_CHARS] or "0", 16), 256):
            shard = f"{number:02x}"
            found = [item for item in old if item[0].startswith(shard)]
            if self._folder.joinpath(shard).is_dir():
                found += self._list(shard)
            yield from sorted(
                (item for item in found if item[0].partition(".")[0] > after),
                key=lambda item: item[0],
            )

    def named(self, start: str) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the name and the status of each value whose digest starts with `start`."""
        for place, names in self._names(start):
            yield from self._list(*place, names=names)

    def _list(
        self, *place: str, names: Iterable[str] | None = None
    ) -> Iterator[tuple[str, os.stat_result]]:
        if not self._folder.joinpath(*place).is_dir():
            return
        with self._open(*place) as folder:
            for name in list(folder.names()) if names is None else names:
                if _DIGEST.fullmatch(name.partition(".")[0]) and _is_file(name, folder):
                    with contextlib.suppress(FileNotFoundError):
                        yield name, folder.status(name)

    def _matching(self, handle: str) -> Iterator[StoredFile]:
        """Open the files of the one value that a handle names, as they are."""
        digest = digest_of_handle(handle)
        if digest is None:
            return
        found = list(self._names(digest))
        if len({name.partition(".")[0] for _, names in found for name in names}) != 1:
            return
        for place, names in found:
            for name in names:
                file = self._open_file(name, place)
                if file is not None:
                    yield file

    def _accept(self, file: StoredFile) -> bool:
        """Verify the contents of a file, or close it."""
        if not file.verify(self._verified.get(file.digest)):
            file.close()
            return False
        if file.signature is not None:
            if len(self._verified) >= _MAX_VERIFIED:
                self._verified.clear()
            self._verified[file.digest] = file.signature
        return True

    def _names(self, digest: str) -> Iterator[tuple[tuple[str, ...], list[str]]]:
        """Yield folders, and the names in them of files whose digest starts with `digest`."""
        for place in ((digest[:_SHARD_CHARS],), (), (ATTACHMENTS,)):
            if not self._folder.joinpath(*place).is_dir():
                continue
            with self._open(*place) as folder:
                names = [name for name in folder.names() if name.startswith(digest)]
            names = [name for name in names if _DIGEST.fullmatch(name.partition(".")[0])]
            if names:
                yield place, names

    def _open_file(self, name: str, place: tuple[str, ...]) -> StoredFile | None:
        folder = self._open(*place)
        try:
            if not _is_file(name, folder):
                folder.close()
                return None
            file = folder.open(name, os.O_RDONLY)
        except BaseException:
            folder.close()
            raise
        return StoredFile(name, name.partition(".")[0], file, folder)

    def _open(self, *inner: str) -> Folder:
        """Open the folder, or one in it; missing ones are created."""
        parts = list(inner)
        if self._root is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            folder = open_folder(self._folder)
        else:
            folder = open_folder(self._root)
            parts = [*self._folder.relative_to(self._root).parts, *parts]
        for part in parts:
            with folder:
                opened = _open_inner(folder, part)
            folder = opened
        return folder


_SHARD_CHARS = 2
_REFRESH_SECONDS = 3_600
"""Age from which a value that is stored again becomes young: it must not be deleted as unused."""
_DIGEST = re.compile(r"[0-9a-f]{64}")


def reference_of(digest: str) -> str:
    """Return the reference to a value in records: its digest, never its place."""
    return f"sha256:{digest}"


def _open_inner(folder: Folder, name: str) -> Folder:
    """Open a folder in another one, never through a link, and create it if it is missing."""
    with contextlib.suppress(FileExistsError):
        folder.make(name)
    return folder.enter(name)


def _size_of(name: str, folder: Folder) -> int:
    """Size of a file; -1 if there is none of that name."""
    return folder.status(name).st_size if _is_file(name, folder) else -1


def _refresh(name: str, folder: Folder) -> None:
    """Make a file young again, unless it is."""
    if time.time() - folder.status(name).st_mtime > _REFRESH_SECONDS:
        folder.touch(name)


def _is_file(name: str, folder: Folder) -> bool:
    try:
        return stat.S_ISREG(folder.status(name).st_mode)
    except FileNotFoundError:
        return False


def compute_digest(pieces: Iterable[bytes]) -> Cut:
    """Return the size and digest of a file, without storing it."""
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
    return Cut(bytes=size, sha256=digest.hexdigest(), artifact="")


def _write(pieces: Iterable[bytes], name: str, folder: Folder) -> None:
    """Write a file atomically; an existing file or link of that name is replaced."""
    temporary = f".{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with open(folder.open(temporary, flags, 0o600), "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        folder.replace(temporary, name)
    except BaseException:
        with contextlib.suppress(OSError):
            folder.remove(temporary)
        raise


def shrink(value: Any, most_bytes: int) -> Any:
    """Truncate `value` to at most `most_bytes` of JSON, of the same shape if possible.

    Long text keeps its beginning and states how much is missing; a list keeps its first items and
    ends in ``{"…cut…": "17 of 40 items left out"}``; an object keeps its keys, each value truncated
    to its share, and states how many keys are missing. Nothing is rounded or reordered.

    Args:
        value: JSON data, or the `Node` of a value in parts, which is decoded one part at a time.
        most_bytes: Bytes of JSON.

    Raises:
        ProtocolError: If a part of a `Node` is not JSON.
    """
    budget = most_bytes
    short = _shorten(value, budget)
    # Escapes make text longer than its characters: reduce the budget until it fits.
    while len(_json.dumps(short)) > most_bytes:
        budget = budget * 3 // 4
        if budget < _SMALLEST:
            return {CUT_MARK: "value left out"} if most_bytes >= _SMALLEST else None
        short = _shorten(value, budget)
    return short


_SMALLEST = 32
_NOTE_BYTES = 64
"""Room reserved for the note about the missing part."""


def _size(value: Any) -> int:
    return value.size if isinstance(value, Node) else len(_json.dumps(value))


def _shorten(value: Any, budget: int) -> Any:
    if _size(value) <= budget:
        return _read_all(value)
    if isinstance(value, Node) and value.kind == VALUE:
        value = _read_all(value)
    kind = value.kind if isinstance(value, Node) else type(value)
    if kind in (str, TEXT):
        return _shorten_text(_pieces(value), budget)
    if kind in (list, LIST):
        return _shorten_list(_batches(value), budget)
    if kind in (dict, OBJECT):
        return _shorten_object(_groups(value), budget)
    return {CUT_MARK: "number left out"}


def _shorten_text(pieces: Iterator[str], budget: int) -> str:
    room = max(0, budget - _NOTE_BYTES)
    kept: list[bytes] = []
    length = 0
    for piece in pieces:
        length += len(piece)
        if room > 0:
            kept.append(piece[:room].encode()[:room])
            room -= len(kept[-1])
    text = b"".join(kept).decode(errors="ignore")
    return f"{text} {CUT_MARK} {length - len(text):,} of {length:,} characters left out"


def _shorten_list(batches: Iterator[Sequence[Any]], budget: int) -> list[Any]:
    kept: list[Any] = []
    room = budget - _NOTE_BYTES
    count = 0
    for batch in batches:
        for item in batch if len(kept) == count else ():
            size = _size(item) + 1
            if size > room:
                # The first item is truncated rather than dropped, to show the shape of the items.
                if not kept and room > 2 * _NOTE_BYTES:
                    kept.append(_shorten(item, room))
                room = 0
                break
            kept.append(_read_all(item))
            room -= size
        count += len(batch)
    missing = count - len(kept)
    note = {CUT_MARK: f"{missing:,} of {count:,} items left out"}
    return [*kept, note] if missing else kept


def _shorten_object(groups: Iterator[Mapping[str, Any]], budget: int) -> dict[str, Any]:
    room = budget - _NOTE_BYTES
    count = least = 0
    chosen: dict[str, tuple[Any, int]] = {}
    for group in groups:
        count += len(group)
        for key, item in group.items() if least <= room else ():
            size = _size(item)
            least += _size(key) + 2 + min(size, _NOTE_BYTES + _SMALLEST)
            if least > room:
                break
            chosen[key] = item, size
    # Small values are allotted their size first; large ones share the rest.
    shares: dict[str, int] = {}
    left = len(chosen)
    for key in sorted(chosen, key=lambda name: chosen[name][1]):
        room -= _size(key) + 2
        shares[key] = min(chosen[key][1], room // left)
        room -= shares[key]
        left -= 1
    kept = {key: _shorten(item, shares[key]) for key, (item, _) in chosen.items()}
    if count > len(kept):
        kept[CUT_MARK] = f"{count - len(kept):,} of {count:,} keys left out"
    return kept


# --- values and nodes alike ---------------------------------------------------------------------


def _read_all(value: Any) -> Any:
    if not isinstance(value, Node):
        return value
    if value.kind == VALUE:
        return value.read(value.children[0])
    if value.kind == TEXT:
        return "".join(_pieces(value))
    if value.kind == LIST:
        return [_read_all(item) for batch in _batches(value) for item in batch]
    return {key: _read_all(item) for group in _groups(value) for key, item in group.items()}


def _pieces(value: Any) -> Iterator[str]:
    """Yield the pieces of a text."""
    return map(value.read, value.children) if isinstance(value, Node) else iter((value,))


def _batches(value: Any) -> Iterator[Sequence[Any]]:
    """Yield the items of a list in batches."""
    if not isinstance(value, Node):
        yield value
        return
    for child in value.children:
        yield (child,) if isinstance(child, Node) else value.read(child)


def _groups(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the members of an object in groups."""
    if not isinstance(value, Node):
        yield value
        return
    children = iter(value.children)
    for child in children:
        yield {_read_all(child): next(children)} if isinstance(child, Node) else value.read(child)
