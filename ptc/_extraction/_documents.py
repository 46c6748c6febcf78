"""Documents to extract from: files, folders, globs, JSONL lines, and iterators of the caller."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import anyio.to_thread

from .._dataclass import dataclass
from ..errors import UsageError

__all__ = ["SURROGATE", "Document", "DocumentSource", "Documents", "open_documents"]

MAX_DOCUMENT_BYTES = 67_108_864
"""Larger files are no documents but dumps: they would be sent to the model in hundreds of parts."""
_LINES = (".jsonl", ".ndjson")
SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a pair, in a text that is not valid Unicode."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document."""

    id: str
    """Name of its row; unique among the documents. Half of a surrogate pair in it is escaped."""
    text: str
    source: str | None = None
    """File, and line of a JSONL file, that it comes from."""
    error: str | None = None
    """Reason that the text cannot be read; such a document gets a dead row."""

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not isinstance(self.text, str):
            raise UsageError(_not_a_document(self))
        # Names of files need not be UTF-8, and JSON may hold half of a pair: rows can have neither.
        for name in ("id", "source"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, _escape(value))
        if self.error is None and (found := SURROGATE.search(self.text)) is not None:
            reason = f"is not Unicode text: character {found.start():,} is half of a surrogate pair"
            object.__setattr__(self, "error", reason)


_Item: TypeAlias = Document | Path | Mapping[str, Any]
DocumentSource: TypeAlias = str | Path | Iterable[_Item] | AsyncIterable[_Item]
"""A folder, file, glob or JSONL file, or documents: `Document`, a path, or ``{"id", "text"}``."""


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents that are read while they are iterated over."""

    total: int | None
    """Number of documents; None if it is unknown in advance."""
    read: Callable[[], AsyncGenerator[Document, None]]


def open_documents(source: DocumentSource, excluded: Collection[Path] = ()) -> Documents:
    """Find the documents of `source`; the texts are read later.

    Args:
        source: A folder, file, glob or JSONL file, or documents.
        excluded: Files that are no documents although they match: the extraction's own.

    Raises:
        UsageError: If nothing matches, or `source` is of the wrong type.
    """
    if isinstance(source, str | Path):
        return _found(source, {os.path.realpath(path) for path in excluded})
    if isinstance(source, AsyncIterable):
        return Documents(None, lambda: _convert_async(source))
    if isinstance(source, Iterable) and not isinstance(source, bytes | Mapping):
        items = list(source) if isinstance(source, list | tuple) else source
        total = len(items) if isinstance(items, list) else None
        return Documents(total, lambda: _pull(map(_convert, items)))
    msg = (
        "documents must be a folder, file, glob or JSONL file, or an iterable of documents, "
        f"not {source!r:.80}"
    )
    raise UsageError(msg)


def _found(source: str | Path, excluded: set[str]) -> Documents:
    path = Path(source)
    if path.suffix in _LINES and path.is_file():
        return Documents(_count_lines(path), lambda: _pull(_read_lines(path)))
    if path.is_file():
        files, root = [(path.name, path)], None
    elif path.is_dir():
        files = [(name.relative_to(path).as_posix(), name) for name in _walk(path, "**/*")]
        root = path
    else:
        root = Path(*_fixed_parts(path))
        files = [(name.as_posix(), name) for name in _expand(str(source))]
    files = [
        (name, file)
        for name, file in files
        if file.is_file() and os.path.realpath(file) not in excluded
    ]
    if not files:
        msg = f"no document matches {str(source)!r}; pass a folder, a file, a glob or a JSONL file"
        raise UsageError(msg)
    read = [partial(_read_file, name, file, root) for name, file in files]
    return Documents(len(files), lambda: _pull(function() for function in read))


def _fixed_parts(path: Path) -> Iterator[str]:
    """Yield the parts of a glob before its first wildcard."""
    for part in path.parts:
        if glob.has_magic(part):
            return
        yield part


def _expand(pattern: str) -> list[Path]:
    """Return the paths that match a glob."""
    head, stars, tail = pattern.partition("**")
    if not stars or head[-1:] not in ("", "/") or tail[:1] not in ("", "/"):
        return sorted(map(Path, glob.glob(pattern)))
    roots = glob.glob(head) if head else ["."]
    return sorted({name for root in roots for name in _walk(Path(root), f"**/{tail[1:] or '*'}")})


def _walk(folder: Path, pattern: str) -> list[Path]:
    """Return what matches below a folder, apart from hidden names.

    Unlike `glob.glob`, `Path.glob` does not follow links to folders in ``**``: two links to their
    own folder have 2**40 paths.
    """
    return sorted(
        name
        for name in folder.glob(pattern)
        if not any(part.startswith(".") for part in name.relative_to(folder).parts)
    )


async def _pull(documents: Iterator[Document]) -> AsyncGenerator[Document, None]:
    """Iterate in a thread, since reading a file blocks."""
    while (found := await anyio.to_thread.run_sync(next, documents, None)) is not None:
        yield found


async def _convert_async(source: AsyncIterable[Any]) -> AsyncGenerator[Document, None]:
    async for item in source:
        yield await anyio.to_thread.run_sync(_convert, item)


def _convert(item: Any) -> Document:
    if isinstance(item, Document):
        return item
    if isinstance(item, Path):
        return _read_file(item.as_posix(), item)
    if isinstance(item, Mapping):
        name, text = item.get("id"), item.get("text")
        if isinstance(name, str | int) and not isinstance(name, bool) and isinstance(text, str):
            source = item.get("source")
            return Document(str(name), text, source if isinstance(source, str) else None)
    raise UsageError(_not_a_document(item))


def _not_a_document(item: Any) -> str:
    return (
        'a document must be a Document, a pathlib.Path, or a dict {"id": ..., "text": ...} of '
        f"texts, not {item!r:.80}"
    )


def _read_file(name: str, path: Path, root: Path | None = None) -> Document:
    """Read a file.

    Args:
        name: Id of the document.
        path: The file.
        root: Folder that was searched. An archive may contain a link to a secret file, whose text
            would be sent to the model.
    """
    if root is not None and not path.resolve().is_relative_to(root.resolve()):
        reason = f"is behind a link out of {str(root)!r}; to send it, pass its own path"
        return Document(name, "", str(path), reason)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        return Document(name, "", str(path), f"cannot be read: {error.strerror or error}")
    if len(data) > MAX_DOCUMENT_BYTES:
        return Document(name, "", str(path), f"has more than {MAX_DOCUMENT_BYTES:,} bytes")
    if data.startswith(b"%PDF-"):
        return _read_pdf(name, path)
    try:
        return Document(name, data.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        reason = f"is not UTF-8 text: byte {error.start:,} is 0x{data[error.start]:02x}"
        return Document(name, "", str(path), reason)


def _read_pdf(name: str, path: Path) -> Document:
    """Read the text of a PDF, with a form feed between pages."""
    try:
        from pypdf import PdfReader
    except ImportError:
        reason = "is a PDF; run: pip install pypdf, or convert it with: pdftotext -layout"
        return Document(name, "", str(path), reason)
    try:
        text = "\f".join(page.extract_text() for page in PdfReader(path).pages)
    except Exception as error:  # noqa: BLE001  # a damaged file raises errors of any kind
        return Document(name, "", str(path), f"is a PDF that cannot be read: {error}")
    if not text.strip():
        reason = "is a PDF without text, perhaps a scan; recognize its text first (OCR)"
        return Document(name, "", str(path), reason)
    return Document(name, text, str(path))


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())


def _escape(text: str) -> str:
    """Return `text` with bytes of a file name that are not UTF-8, and half pairs, escaped."""
    if SURROGATE.search(text) is None:
        return text
    try:
        return os.fsencode(text).decode(errors="backslashreplace")
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()


def _read_lines(path: Path) -> Iterator[Document]:
    with path.open("rb") as file:
        for number, line in enumerate(iter(partial(file.readline, MAX_DOCUMENT_BYTES), b""), 1):
            place = f"{path}:{number}"
            rest = line
            while len(rest) == MAX_DOCUMENT_BYTES and not rest.endswith(b"\n"):
                rest = file.readline(MAX_DOCUMENT_BYTES)
            if rest is not line:
                yield Document(place, "", place, f"has more than {MAX_DOCUMENT_BYTES:,} bytes")
            elif line.strip():
                yield _parse_line(line, place)


def _parse_line(line: bytes, place: str) -> Document:
    try:
        item = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Document(place, "", place, f"is not JSON: {error}")
    try:
        found = _convert(item)
    except UsageError:
        return Document(place, "", place, 'needs the texts "id" and "text" in a JSON object')
    return Document(found.id, found.text, place)
