"""``ctx.attach``: files that a script makes, sent to the host in pieces."""

from __future__ import annotations

import hashlib
import io
from typing import Any, Final

from .._wire._messages import ATTACHMENT_PIECE, MAX_ATTACHMENTS, MAX_NAME, is_media_type
from .._wire._protocol import Kind
from . import _values
from ._budget import Budget, LimitError
from ._record import Record
from ._wire import Wire

__all__ = ["Attacher"]

_TYPES: Final = {
    "csv": "text/csv",
    "gif": "image/gif",
    "gz": "application/gzip",
    "html": "text/html",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "json": "application/json",
    "md": "text/markdown",
    "pdf": "application/pdf",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain",
    "webp": "image/webp",
    "xml": "application/xml",
    "zip": "application/zip",
}
"""The library's table reads files of the machine."""


class Attacher:
    """Sends the attachments of one run."""

    __slots__ = ("_budget", "_bytes", "_count", "_wire")

    def __init__(self, wire: Wire, budget: Budget) -> None:
        """Send on `wire`, within the limits of `budget`."""
        self._wire = wire
        self._budget = budget
        self._bytes = self._count = 0

    def attach(self, name: str, data: object, media_type: str | None = None) -> Record:
        """Send a file.

        Args:
            name: Its name; not a path.
            data: Bytes, or text, which is encoded as UTF-8; also a `BytesIO` or `StringIO`.
            media_type: For example ``image/png``. Default: by the end of the name.

        Returns:
            Its name, media type, size and digest, by which the host knows it.

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: If the name or the media type is invalid, or there are too many files.
            LimitError: If the files of the run exceed their limit.
        """
        content = _bytes_of(data)
        name, kind = _name_of(name), _type_of(name, media_type, data)
        if self._count >= MAX_ATTACHMENTS:
            msg = f"a run can attach {MAX_ATTACHMENTS} files; join some of them"
            raise ValueError(msg)
        most = self._budget.limit("max_attachment_bytes")
        if self._bytes + len(content) > most:
            msg = f"the attachments have {self._bytes + len(content):,} bytes; at most {most:,}"
            raise LimitError(f"{msg} (max_attachment_bytes)", "max_attachment_bytes")
        self._bytes += len(content)
        self._count += 1
        for start in range(0, len(content), ATTACHMENT_PIECE):
            self._wire.queue(Kind.PIECE, content[start : start + ATTACHMENT_PIECE])
        self._wire.queue(Kind.ATTACH, _values.dumps([name, kind], "attachment"))
        digest = hashlib.sha256(content).hexdigest()
        size = len(content)
        return Record({"name": name, "media_type": kind, "size_bytes": size, "id": digest})

    def report(self, done: Any, total: Any = None, message: str = "") -> None:
        """Send a report of progress.

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: If a number is not finite.
        """
        numbers = [_number_of(done), None if total is None else _number_of(total)]
        text = _values.shorten(str(message), _MESSAGE_CHARS)
        self._wire.send(Kind.PROGRESS, _values.dumps([*numbers, text], "progress"))
        self._budget.count_text("")


_MESSAGE_CHARS: Final = 500
_LARGEST: Final = 1e15


def _number_of(value: object) -> float:
    # Of a script's class, the conversion may return anything.
    number = float(value) if isinstance(value, int | float) else None
    if number is None or not -_LARGEST <= number <= _LARGEST:
        msg = f"progress takes numbers up to {_LARGEST:g}, not {type(value).__name__}"
        raise TypeError(msg)
    return number


def _bytes_of(data: object) -> bytes:
    # Methods of the builtin types: those of a script's class may return anything.
    if isinstance(data, str):
        return str.encode(data)
    if isinstance(data, bytes | bytearray):
        return bytes(bytearray(data)) if type(data) is not bytes else data
    if isinstance(data, io.BytesIO):
        return io.BytesIO.getvalue(data)
    if isinstance(data, io.StringIO):
        return str.encode(io.StringIO.getvalue(data))
    msg = f"attach takes bytes or text, not {type(data).__name__}"
    raise TypeError(msg)


def _name_of(name: object) -> str:
    if not isinstance(name, str):
        msg = f"the name of an attachment is text, not {type(name).__name__}"
        raise TypeError(msg)
    text = str.__str__(name)
    if not text.isprintable() or not 1 <= len(text) <= MAX_NAME - 1:
        msg = f"the name of an attachment has 1 to {MAX_NAME - 1} printable characters"
        raise ValueError(msg)
    return text


def _type_of(name: str, media_type: object, data: object) -> str:
    if media_type is None:
        fallback = "text/plain" if isinstance(data, str) else "application/octet-stream"
        return _TYPES.get(str.__str__(name).rpartition(".")[2].lower(), fallback)
    if not isinstance(media_type, str):
        msg = f"a media type is text such as 'image/png', not {type(media_type).__name__}"
        raise TypeError(msg)
    text = str.lower(media_type)
    if not is_media_type(text):
        msg = f"a media type is text such as 'image/png', not {text[:80]!r}"
        raise ValueError(msg)
    return text
