"""Files that a script attached: received in pieces, bounded, and stored when the run has finished.

Rule 1: the files of a run take at most `Limits.max_attachment_bytes` of memory.
    tests/core/runs/test_attached.py::test_attachments_over_their_limit_end_the_run
"""

from __future__ import annotations

from functools import partial

import anyio
import anyio.to_thread

from .._calls._attachments import AttachmentStore
from .._records._content import Attachment, AttachmentRef
from .._records._result import RunWarning
from .._wire._messages import MAX_ATTACHMENTS
from .._wire._protocol import ProtocolError
from ..errors import ToolError
from ._intake import OverLimitError

__all__ = ["AttachedFiles"]


class AttachedFiles:
    """Files of one run.

    Attributes:
        stored: The stored files.
        warnings: A warning for each file that could not be stored.
    """

    def __init__(self, most_bytes: int) -> None:
        """Accept files of `most_bytes` in total."""
        self._most_bytes = most_bytes
        self._bytes = 0
        # One buffer: a list of pieces of one byte would take 40 times their size.
        self._data = bytearray()
        self._files: list[Attachment] = []
        self.stored: list[AttachmentRef] = []
        self.warnings: list[RunWarning] = []

    @property
    def count(self) -> int:
        """Number of complete files."""
        return len(self._files)

    def take_piece(self, piece: bytes) -> None:
        """Add a piece of the next file.

        Raises:
            ProtocolError: If it is empty: such pieces would take time without being counted.
            OverLimitError: If the files are too large in total.
        """
        if not piece:
            msg = "a piece of an attachment is empty"
            raise ProtocolError(msg)
        self._bytes += len(piece)
        if self._bytes > self._most_bytes:
            raise OverLimitError("max_attachment_bytes", self._bytes)
        self._data += piece

    def finish_file(self, name: str, media_type: str) -> None:
        """Make a file of the pieces before.

        Raises:
            ProtocolError: If there are too many files, or its name or type is invalid.
        """
        data, self._data = bytes(self._data), bytearray()
        if len(self._files) >= MAX_ATTACHMENTS:
            msg = f"more than {MAX_ATTACHMENTS} attachments"
            raise ProtocolError(msg)
        try:
            self._files.append(Attachment(name, media_type, data))
        except ToolError as error:
            raise ProtocolError(error.message) from None

    async def store(self, store: AttachmentStore) -> None:
        """Store the files, in a thread, when no more can come; not cancellable."""
        if self._files:
            work = partial(self._save, store)
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(work, limiter=anyio.CapacityLimiter(1))

    def _save(self, store: AttachmentStore) -> None:
        for file in self._files:
            try:
                self.stored.append(store.save(file))
            except ToolError as error:
                # A full disk must not cost the script its result.
                self.warnings.append(RunWarning("attachment_not_stored", error.message))
