"""Files that a script attached: received in pieces, bounded, and stored when the run has finished.

Rule 1: the memory that the files of a run take is bounded.
    tests/core/runs/test_values.py::test_illegal_attachments_are_refused
"""

from __future__ import annotations

from functools import partial

import anyio
import anyio.to_thread

from .._calls._attachments import AttachmentStore
from .._records._content import Attachment, AttachmentRef
from .._records._result import RunWarning
from .._wire._messages import MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS
from .._wire._protocol import ProtocolError
from ..errors import ToolError

__all__ = ["AttachedFiles"]


class AttachedFiles:
    """Files of one run.

    Attributes:
        stored: The stored files.
        warnings: A warning for each file that could not be stored.
    """

    def __init__(self) -> None:
        self._bytes = 0
        self._pieces: list[bytes] = []
        self._files: list[Attachment] = []
        self.stored: list[AttachmentRef] = []
        self.warnings: list[RunWarning] = []

    def take_piece(self, piece: bytes) -> None:
        """Add a piece of the next file.

        Raises:
            ProtocolError: If it is empty, or the files are too large in total.
        """
        self._bytes += len(piece)
        if not piece or self._bytes > MAX_ATTACHMENT_BYTES:
            msg = "a piece of an attachment is empty, or the attachments are too large"
            raise ProtocolError(msg)
        self._pieces.append(piece)

    def finish_file(self, name: str, media_type: str) -> None:
        """Make a file of the pieces before.

        Raises:
            ProtocolError: If there are too many files, or its name or type is invalid.
        """
        data, self._pieces = b"".join(self._pieces), []
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
