"""Files that a script makes, sent to the host in pieces."""

from __future__ import annotations

import hashlib
from typing import Any

from .._wire._messages import ATTACHMENT_PIECE, MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS
from .._wire._protocol import Kind
from . import _values
from ._wire import Wire

__all__ = ["Attacher"]


class Attacher:
    """Sends the attachments of one run."""

    __slots__ = ("_bytes", "_count", "_wire")

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._bytes = self._count = 0

    def attach(self, name: str, data: bytes, media_type: str) -> dict[str, Any]:
        """Send a file.

        Returns:
            Its name, media type, size and digest, by which the host knows it.

        Raises:
            ValueError: If the files are too many or too large.
        """
        if self._count >= MAX_ATTACHMENTS or self._bytes + len(data) > MAX_ATTACHMENT_BYTES:
            msg = f"a run can attach {MAX_ATTACHMENTS} files and {MAX_ATTACHMENT_BYTES:,} bytes"
            raise ValueError(msg)
        self._bytes += len(data)
        self._count += 1
        for start in range(0, len(data), ATTACHMENT_PIECE):
            self._wire.queue(Kind.PIECE, data[start : start + ATTACHMENT_PIECE])
        self._wire.queue(Kind.ATTACH, _values.dumps([name, media_type], "attachment"))
        digest = hashlib.sha256(data).hexdigest()
        return {"name": name, "media_type": media_type, "size_bytes": len(data), "id": digest}
