"""Media types of files, by their content: neither a name nor a declaration is trusted."""

from __future__ import annotations

import io
import zipfile

__all__ = ["OFFICE_TYPES", "detect_media_type"]

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_OFFICE = "application/vnd.openxmlformats-officedocument"
OFFICE_TYPES = {
    "word/": f"{_OFFICE}.wordprocessingml.document",
    "xl/": f"{_OFFICE}.spreadsheetml.sheet",
    "ppt/": f"{_OFFICE}.presentationml.presentation",
}
"""Media types of Office files, by the folder in their archive."""
_TEXT = "text/plain"


def detect_media_type(data: bytes) -> str | None:
    """Return the media type of an image, PDF, Office file or UTF-8 text; None for other content."""
    for signature, media_type in _SIGNATURES:
        if data.startswith(signature):
            return media_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data.startswith(b"PK\x03\x04"):
        return _office_type(data)
    if b"\0" in data:
        return None
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    return _TEXT


def _office_type(data: bytes) -> str | None:
    try:
        # Reads the table of contents only: nothing is decompressed.
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return None
    if "[Content_Types].xml" in names:
        for folder, media_type in OFFICE_TYPES.items():
            if any(name.startswith(folder) for name in names):
                return media_type
    return None
