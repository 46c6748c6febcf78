"""Bytes in a result or an emitted value: each is attached once, and a handle stands for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

__all__ = ["ByteValues"]

Attach: TypeAlias = Callable[[str, bytes, str], Any]
"""Sends a file of a name, its bytes and a media type; returns its handle."""

_FORMATS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png", "png"),
    (b"\xff\xd8\xff", "image/jpeg", "jpg"),
    (b"GIF8", "image/gif", "gif"),
    (b"%PDF-", "application/pdf", "pdf"),
    (b"PK\x03\x04", "application/zip", "zip"),
    (b"\x1f\x8b", "application/gzip", "gz"),
)
"""First bytes of the formats that scripts make most often."""
_NAME_CHARS: Final = 60


class ByteValues:
    """Attaches the bytes in the values of one run."""

    __slots__ = ("_attach", "_handles")

    def __init__(self, attach: Attach) -> None:
        """Attach by the function `attach`, which raises an error if there are too many bytes."""
        self._attach = attach
        self._handles: dict[bytes, Any] | None = None

    def handle(self, data: bytes, path: str) -> Any:
        """Attach bytes, unless equal ones are, and return the data that stands for them.

        Args:
            data: The bytes.
            path: Position in the value; its last part becomes the name of the file.

        Returns:
            The handle; None if the files of the run would exceed their limits.
        """
        if self._handles is None:
            self._handles = {}
        if data not in self._handles:
            known = (row[1:] for row in _FORMATS if data.startswith(row[0]))
            media_type, suffix = next(known, ("application/octet-stream", "bin"))
            try:
                handle = self._attach(f"{_stem(path)}.{suffix}", data, media_type)
            except (ValueError, RuntimeError):
                return None
            self._handles[data] = handle
        return self._handles[data]


def _stem(path: str) -> str:
    """Return a name for the file at a path: ``chart`` for ``result.files[0].chart``."""
    words = re.findall(r"[A-Za-z0-9_-]+", path)
    return words[-1][:_NAME_CHARS] if words else "bytes"
