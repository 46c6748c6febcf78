"""Files that tools make, stored under their digests.

Rule 1: the name that a tool gives a file has no influence on its path.
    tests/core/calls/test_attachments.py::test_hostile_attachment_name_never_leaves_the_folder
Rule 2: a reference is passed on only if its file is stored here and matches its digest.
    tests/core/calls/test_attachments.py::test_reference_to_anything_but_an_attachment_is_refused
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace

from .._records._artifacts import LocalArtifacts
from .._records._content import Attachment, AttachmentRef
from ..artifacts._store import suffix_of
from ..errors import PtcError, ToolError

__all__ = ["AttachmentStore"]


class AttachmentStore:
    """Attachments of a session, in one folder."""

    def __init__(self, files: LocalArtifacts) -> None:
        self._files = files

    def save(self, attachment: Attachment) -> AttachmentRef:
        """Store the bytes under their digest.

        Raises:
            ToolError: ``attachment_failed`` if they cannot be written.
        """
        data = attachment.data
        assert isinstance(data, bytes)  # noqa: S101  # __post_init__ has decoded it
        try:
            stored = self._files.keep(data, suffix_of(attachment.media_type, attachment.name))
        except OSError as error:
            why = error.strerror or type(error).__name__
            msg = f"attachment {attachment.name!r} cannot be stored: {why}"
            raise ToolError(msg, code="attachment_failed", retryable=True) from error
        return AttachmentRef(
            id=stored.sha256,
            name=attachment.name,
            media_type=attachment.media_type,
            path=str(self._files.path(stored.sha256)),
            size_bytes=stored.bytes,
            width=attachment.width,
            height=attachment.height,
            description=attachment.description,
        )

    def validate(self, ref: AttachmentRef) -> AttachmentRef:
        """Return `ref` with the path and size of its file, if it is stored and matches its digest.

        The path of `ref` is ignored: a record may come from another machine, or a hostile tool.

        Raises:
            ToolError: ``bad_attachment``.
        """
        with suppress(OSError, PtcError):
            found = self._files.open(ref.id) if _DIGEST.fullmatch(ref.id) else None
            if found is not None:
                with found:
                    path = str(self._files.path(ref.id))
                    return replace(ref, path=path, size_bytes=found.size)
        msg = f"attachment {ref.name!r:.80} does not refer to a file of this session's store"
        raise ToolError(msg, code="bad_attachment")


_DIGEST = re.compile(r"[0-9a-f]{64}")
