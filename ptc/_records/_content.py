"""What a tool can show a model beside data: text, images, and files that are kept."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..errors import ToolError

__all__ = [
    "Attachment",
    "AttachmentRef",
    "Content",
    "ImageContent",
    "TextContent",
    "content_of",
]

_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")
_MOST_NAME_CHARS = 255


@dataclass(frozen=True, slots=True)
class TextContent:
    """Text for a model."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class ImageContent:
    """An image for a model. Its bytes are neither looked at nor changed."""

    data: str
    """Base64."""
    media_type: str
    """As ``image/png``."""
    type: Literal["image"] = "image"

    def __post_init__(self) -> None:
        decoded(self.data, "image")
        _check_media_type(self.media_type)


Content: TypeAlias = TextContent | ImageContent


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that a tool made and that is to be kept.

    Raises:
        ToolError: ``bad_attachment`` if a part of it is unusable.
    """

    name: str
    """What people call it; not where it is kept."""
    media_type: str
    """As ``image/png``."""
    data: bytes | str
    """Its bytes, or text that is their base64. Kept as they are."""
    width: int | None = None
    """In pixels."""
    height: int | None = None
    """In pixels."""
    description: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_media_type(self.media_type)
        if isinstance(self.data, str):
            object.__setattr__(self, "data", decoded(self.data, self.name))


@dataclass(frozen=True, slots=True)
class AttachmentRef:
    """A file that is kept. A tool that returns one passes the file on without a second copy."""

    id: str
    """SHA-256 of the bytes, 64 hex digits."""
    name: str
    media_type: str
    path: str
    """Where it is: absolute, inside the session's attachment store."""
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
        msg = f"an attachment's name is 1-{_MOST_NAME_CHARS} printable characters, not {name!r:.80}"
        raise ToolError(msg, code="bad_attachment")


def _check_media_type(media_type: object) -> None:
    if not isinstance(media_type, str) or not _MEDIA_TYPE.fullmatch(media_type):
        msg = f"a media type is text like 'image/png', not {media_type!r:.80}"
        raise ToolError(msg, code="bad_attachment")


def decoded(text: str, name: str) -> bytes:
    """The bytes of base64 `text`. Raises `ToolError` ``bad_attachment`` if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        msg = f"{name!r}: its data is not base64: {error}"
        raise ToolError(msg, code="bad_attachment") from None


def content_of(parts: Iterable[Any]) -> tuple[Content, ...]:
    """Parts of a result for a model: our types, or mappings and objects of the shape of MCP's.

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
    msg = f"content is text or an image, not {kind or part!r:.80}"
    raise ToolError(msg, code="bad_content")


_KEYS = ("type", "text", "data", "mimeType", "mime_type", "media_type")
