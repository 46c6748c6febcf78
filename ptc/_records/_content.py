"""Content that a tool returns beside data: text, images, and stored files."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from .._dataclass import dataclass
from .._wire._messages import is_media_type
from ..errors import ToolError

__all__ = [
    "Attachment",
    "AttachmentRef",
    "Content",
    "ImageContent",
    "TextContent",
    "content_of",
]

_MOST_NAME_CHARS = 255


@dataclass(frozen=True, slots=True)
class TextContent:
    """Text for a model."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class ImageContent:
    """An image for a model. Its bytes are neither inspected nor changed."""

    data: str
    """Base64."""
    media_type: str
    """As ``image/png``."""
    type: Literal["image"] = "image"

    def __post_init__(self) -> None:
        decode_base64(self.data, "image")
        _check_media_type(self.media_type)


Content: TypeAlias = TextContent | ImageContent


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that a tool created, to be stored.

    Raises:
        ToolError: ``bad_attachment`` if a field is invalid.
    """

    name: str
    """Display name; not the path of the stored file."""
    media_type: str
    """As ``image/png``."""
    data: bytes | str
    """Bytes, or their base64 text. Stored unchanged."""
    width: int | None = None
    """In pixels."""
    height: int | None = None
    """In pixels."""
    description: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_media_type(self.media_type)
        if isinstance(self.data, str):
            object.__setattr__(self, "data", decode_base64(self.data, self.name))


@dataclass(frozen=True, slots=True)
class AttachmentRef:
    """A stored file. A tool that returns one passes the file on without a copy."""

    id: str
    """SHA-256 of the bytes, 64 hex digits."""
    name: str
    media_type: str
    path: str
    """Absolute path of the file on the machine that stored it. In a record of a run, use `id`: only
    it names the file on every machine."""
    size_bytes: int
    width: int | None = None
    height: int | None = None
    description: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_media_type(self.media_type)


def _check_name(name: object) -> None:
    if (
        not isinstance(name, str)
        or not name.isprintable()
        or not 1 <= len(name) <= _MOST_NAME_CHARS
    ):
        most = _MOST_NAME_CHARS
        msg = f"an attachment's name must be 1-{most} printable characters, not {name!r:.80}"
        raise ToolError(msg, code="bad_attachment")


def _check_media_type(media_type: object) -> None:
    if not isinstance(media_type, str) or not is_media_type(media_type):
        msg = f"a media type must be text like 'image/png', not {media_type!r:.80}"
        raise ToolError(msg, code="bad_attachment")


def decode_base64(text: str, name: str) -> bytes:
    """Decode base64. Raises `ToolError` ``bad_attachment`` if `text` is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        msg = f"{name!r}: its data is not base64: {error}"
        raise ToolError(msg, code="bad_attachment") from None


def content_of(parts: Iterable[Any]) -> tuple[Content, ...]:
    """Convert parts of a result: our types, or mappings and objects in the shape of MCP content.

    Raises:
        ToolError: ``bad_content`` for a part that is neither text nor an image.
    """
    return tuple(_part(part) for part in parts)


def _part(part: Any) -> Content:
    if isinstance(part, TextContent | ImageContent):
        return part
    row = part if isinstance(part, Mapping) else {key: getattr(part, key, None) for key in _KEYS}
    kind, text, data = row.get("type"), row.get("text"), row.get("data")
    if kind == "text" and isinstance(text, str):
        return TextContent(text)
    if kind == "image" and isinstance(data, str):
        media = row.get("mimeType") or row.get("mime_type") or row.get("media_type")
        return ImageContent(data, str(media))
    msg = f"content must be text or an image, not {kind or part!r:.80}"
    raise ToolError(msg, code="bad_content")


_KEYS = ("type", "text", "data", "mimeType", "mime_type", "media_type")
