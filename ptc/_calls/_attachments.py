"""Files that tools make, stored under their digests.

Rule 1: the name that a tool gives a file has no influence on its path.
    tests/core/calls/test_attachments.py::test_hostile_attachment_name_never_leaves_the_folder
Rule 2: a reference is passed on only if its file is stored here and matches its digest.
    tests/core/calls/test_attachments.py::test_reference_to_anything_but_an_attachment_is_refused
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from .._records._artifacts import ArtifactStore
from .._records._content import Attachment, AttachmentRef
from ..errors import ToolError

__all__ = ["AttachmentStore"]


class AttachmentStore:
    """Attachments of a session, in one folder."""

    def __init__(self, files: ArtifactStore) -> None:
        self._files = files

    def save(self, attachment: Attachment) -> AttachmentRef:
        """Store the bytes under their digest.

        Raises:
            ToolError: ``attachment_failed`` if they cannot be written.
        """
        data = attachment.data
        assert isinstance(data, bytes)  # noqa: S101  # __post_init__ has decoded it
        try:
            stored = self._files.keep(data, suffix=_suffix(attachment))
        except OSError as error:
            why = error.strerror or type(error).__name__
            msg = f"attachment {attachment.name!r} cannot be stored: {why}"
            raise ToolError(msg, code="attachment_failed", retryable=True) from error
        return AttachmentRef(
            id=stored.sha256,
            name=attachment.name,
            media_type=attachment.media_type,
            path=stored.artifact,
            size_bytes=stored.bytes,
            width=attachment.width,
            height=attachment.height,
            description=attachment.description,
        )

    def validate(self, ref: AttachmentRef) -> AttachmentRef:
        """Return `ref` with the size of its file, if it is stored here and matches its digest.

        Raises:
            ToolError: ``bad_attachment``.
        """
        path = Path(ref.path)
        # Compared as text with the store's own name for it, not resolved. A link planted in the
        # folder is useless, since its name has the digest and the bytes must have it too.
        inside = path.parent == self._files.folder and path.name.startswith(ref.id)
        with suppress(OSError):
            if inside and not path.is_symlink() and _digest(path) == ref.id:
                return replace(ref, size_bytes=path.stat().st_size)
        msg = f"attachment {ref.name!r:.80} does not refer to a file of this session's store"
        raise ToolError(msg, code="bad_attachment")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _suffix(attachment: Attachment) -> str:
    known = mimetypes.guess_extension(attachment.media_type, strict=True)
    if known is not None:
        return known
    own = re.search(r"\.[A-Za-z0-9]{1,8}\Z", attachment.name)
    return own[0].lower() if own else ".bin"
