"""Prompts: a text, texts with files, or a conversation. They become the turns of a request.

Rule 1: the media type of a file is that of its content; a declaration that differs is an error
(test_file_is_identified_by_its_content_and_not_by_its_name).
Rule 2: files are counted and bounded before anything is sent (test_prompt_is_bounded_...).
Rule 3: data never names a path. Only the application passes paths; a script passes the handle of a
stored file, or bytes (test_script_cannot_send_a_file_by_its_path).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict

from .._records._content import (
    Attachment,
    AttachmentRef,
    ImageContent,
    TextContent,
    decode_base64,
)
from .._records._media import OFFICE_TYPES, detect_media_type
from .._records._stored_file import StoredFile
from ..errors import ToolError, UsageError
from ..models._model import Model, Turn

__all__ = [
    "MAX_FILES",
    "MAX_FILE_BYTES",
    "Message",
    "OpenStored",
    "Part",
    "Prompt",
    "files_of",
    "read_prompt",
    "require_files",
]

MAX_FILE_BYTES = 33_554_432
"""Bytes of all files of a prompt (32 MiB). Anthropic takes requests of 32 MB, OpenAI files of 50 MB
in all."""
MAX_FILES = 100
"""Files of a prompt. Anthropic takes 100 images in a request."""
MAX_PARTS = 1_000
"""Texts and files of a prompt, over all messages."""

Part: TypeAlias = (
    "str | TextContent | ImageContent | Attachment | AttachmentRef | Path | Mapping[str, Any]"
)
"""Text, or a file: an image (PNG, JPEG, GIF, WebP), a PDF, an Office file, or UTF-8 text. A mapping
is ``{"type": "text", "text": ...}``, ``{"type": "file", "data": BASE64}`` or, in a script, the
handle of a stored file: ``{"id": ...}``."""


class Message(TypedDict):
    """One message of a prompt."""

    role: Literal["user", "model", "assistant"]
    """``assistant`` is the same as ``model``."""
    content: str | Sequence[Part]


Prompt: TypeAlias = "str | Sequence[Part] | Sequence[Message]"
"""A text, texts and files in order, or messages, of which the last is the user's."""
OpenStored: TypeAlias = Callable[[str], StoredFile]
"""Opens a stored file by its handle, as `ToolContext.open_stored`."""

_ROLES: Mapping[Any, Literal["user", "model"]] = {
    "user": "user",
    "model": "model",
    "assistant": "model",
}
_SAME = {"image/jpg": "image/jpeg", "application/x-pdf": "application/pdf"}
_TEXT_LIKE = ("text/", "application/json", "application/xml", "application/yaml", "image/svg+xml")
_KINDS = "an image (PNG, JPEG, GIF or WebP), a PDF, a docx, xlsx or pptx file, or UTF-8 text"


def read_prompt(
    prompt: Any, *, open_stored: OpenStored | None = None, where: str = "prompt"
) -> tuple[Turn, ...]:
    """Convert a prompt to turns. Reads files, so call it in a thread unless `prompt` is a text.

    Args:
        prompt: See `Prompt`.
        open_stored: Opens stored files for ``{"id": ...}``. None: there are none.
        where: Name of the argument in messages.

    Raises:
        UsageError: If a part is malformed, too large, or a kind of file that is not supported.
    """
    reader = _PartReader(open_stored)
    messages = _messages(prompt, where)
    turns = tuple(reader.turn(role, content, place) for role, content, place in messages)
    if turns[-1].role != "user" or turns[0].role != "user":
        msg = f"{where}: the first and the last message must have the role 'user'"
        raise UsageError(msg)
    return turns


def files_of(turns: Iterable[Turn]) -> list[Attachment]:
    """Return the files of `turns`."""
    return [file for turn in turns for file in turn.files]


def require_files(model: Model, media_types: Iterable[str]) -> None:
    """Check that a model takes files of all `media_types`, as far as it knows.

    Raises:
        UsageError: If it does not.
    """
    why_not = getattr(model, "why_not_file", None)
    for media_type in media_types:
        if why_not is not None and (why := why_not(media_type)) is not None:
            msg = f"prompt: {why}; choose another model, or send the text of the file"
            raise UsageError(msg)


def _messages(prompt: Any, where: str) -> list[tuple[Literal["user", "model"], Any, str]]:
    if isinstance(prompt, str | Path) or not isinstance(prompt, Sequence):
        return [("user", [prompt] if isinstance(prompt, Path) else prompt, where)]
    if not any(isinstance(item, Mapping) and "role" in item for item in prompt):
        return [("user", prompt, where)]
    found: list[tuple[Literal["user", "model"], Any, str]] = []
    for number, item in enumerate(prompt):
        place = f"{where}[{number}]"
        if not isinstance(item, Mapping) or item.keys() != {"role", "content"}:
            msg = f'{place} must be {{"role": ..., "content": ...}}, as the other messages are'
            raise UsageError(msg)
        role = _ROLES.get(item["role"]) if isinstance(item["role"], str) else None
        if role is None:
            msg = f"{place}: role must be user or model, not {item['role']!r:.80}; pass system="
            raise UsageError(msg)
        found.append((role, item["content"], f"{place}.content"))
    return found


class _PartReader:
    """Reads the parts of one prompt, and counts them."""

    def __init__(self, open_stored: OpenStored | None) -> None:
        self._open_stored = open_stored
        self._files = self._bytes = self._parts = 0

    def turn(self, role: Literal["user", "model"], content: Any, where: str) -> Turn:
        if isinstance(content, str):
            if not content.strip():
                msg = f"{where} must be a string that is not blank"
                raise UsageError(msg)
            return Turn(role, content)
        if not isinstance(content, Sequence) or isinstance(content, bytes | bytearray):
            msg = (
                f"{where} must be a string that is not blank, or a list of texts, files or "
                f"messages, not {type(content).__name__}"
            )
            raise UsageError(msg)
        parts = [self._read(part, f"{where}[{number}]") for number, part in enumerate(content)]
        text = "\n\n".join(part for part in parts if isinstance(part, str))
        if not any(isinstance(part, Attachment) for part in parts):
            if not text.strip():
                msg = f"{where} must have a text that is not blank, or a file"
                raise UsageError(msg)
            return Turn(role, text)
        if role == "model":
            msg = f"{where}: a message of the model has texts only"
            raise UsageError(msg)
        return Turn(role, text, parts=tuple(part for part in parts if part != ""))

    def _read(self, part: Any, where: str) -> str | Attachment:
        self._parts += 1
        if self._parts > MAX_PARTS:
            msg = f"{where}: a prompt has at most {MAX_PARTS:,} parts; join its texts"
            raise UsageError(msg)
        if isinstance(part, str):
            return part
        if isinstance(part, TextContent):
            return part.text
        try:
            name, data, declared = self._load(part, where)
        except ToolError as error:
            # A stored file that does not exist keeps its code, which a script can handle.
            if error.code != "bad_attachment":
                raise
            raise UsageError(f"{where}: {error.message}") from None
        except OSError as error:
            named = f"{error.filename}: " if error.filename else ""
            raise UsageError(f"{where}: {named}{error.strerror or error}") from None
        return self._identify(name, data, declared, where)

    def _load(self, part: Any, where: str) -> tuple[str, bytes | str, str | None]:
        """Return the name, the data and the declared media type of a file."""
        if isinstance(part, Path):
            return part.name, self._read_file(part, where), None
        if isinstance(part, Attachment):
            return part.name, part.data, part.media_type
        if isinstance(part, ImageContent):
            return "image", self._decode(part.data, "image", where), part.media_type
        if isinstance(part, AttachmentRef):
            data = self._read_file(Path(part.path), where)
            if hashlib.sha256(data).hexdigest() != part.id:
                msg = f"{where}: the stored file {part.name!r:.80} has changed"
                raise UsageError(msg)
            return part.name, data, part.media_type
        if isinstance(part, Mapping):
            return self._load_mapping(part, where)
        msg = (
            f"{where} must be text or a file (pathlib.Path, Attachment, AttachmentRef, "
            f'ImageContent, or {{"type": "file", "data": ...}}), not {part!r:.80}'
        )
        raise UsageError(msg)

    def _load_mapping(
        self, part: Mapping[str, Any], where: str
    ) -> tuple[str, bytes | str, str | None]:
        kind, data, handle = part.get("type"), part.get("data"), part.get("id")
        if kind == "text" and isinstance(part.get("text"), str):
            return "", part["text"], None
        name = part.get("name", kind if kind == "image" else "file")
        declared = part.get("media_type", part.get("mimeType"))
        if isinstance(name, str) and (declared is None or isinstance(declared, str)):
            if isinstance(handle, str):
                return name, self._read_stored(handle, where), declared
            if kind in ("file", "image") and isinstance(data, str):
                return name, self._decode(data, name, where), declared
        msg = (
            f'{where} must be {{"type": "text", "text": ...}}, {{"type": "file", "data": BASE64}} '
            f'or {{"id": ...}} of a stored file, not {dict(part)!r:.80}'
        )
        raise UsageError(msg)

    def _decode(self, data: str, name: str, where: str) -> bytes:
        self._require_room(len(data) * 3 // 4 - 2, where)
        return decode_base64(data, name)

    def _read_file(self, path: Path, where: str) -> bytes:
        if "\0" in str(path):
            msg = f"{where}: {str(path)!r:.80} is not a path: it has a NUL character"
            raise UsageError(msg)
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES - self._bytes + 1)
        self._require_room(len(data), where)
        return data

    def _read_stored(self, handle: str, where: str) -> bytes:
        if self._open_stored is None:
            msg = f"{where}: no stored files here; pass the AttachmentRef or a pathlib.Path"
            raise UsageError(msg)
        with self._open_stored(handle) as file:
            self._require_room(file.size, where)
            return file.read(0, file.size)

    def _require_room(self, size: int, where: str) -> None:
        if self._bytes + size > MAX_FILE_BYTES or self._files >= MAX_FILES:
            msg = (
                f"{where}: the files of a prompt have at most {MAX_FILE_BYTES:,} bytes, and there "
                f"are at most {MAX_FILES}; send fewer pages, or several prompts"
            )
            raise UsageError(msg)

    def _identify(
        self, name: str, data: bytes | str, declared: str | None, where: str
    ) -> str | Attachment:
        """Return a file with the media type of its content; a file of text becomes text."""
        if isinstance(data, str):
            return data
        self._require_room(len(data), where)
        self._files += 1
        self._bytes += len(data)
        found = detect_media_type(data)
        if found is None or not data:
            state = "is empty" if not data else "has content of another kind"
            msg = f"{where}: {name!r:.80} {state}; a file must be {_KINDS}"
            raise UsageError(msg)
        if declared is not None and not _agrees(declared, found):
            msg = f"{where}: {name!r:.80} is declared as {declared}, but its content is {found}"
            raise UsageError(msg)
        if found == "text/plain":
            return _quote_file(name, data)
        return Attachment(name, found, data)


def _agrees(declared: str, found: str) -> bool:
    plain = declared.partition(";")[0].strip().lower()
    if plain == "application/octet-stream":
        return True
    if found == "text/plain":
        return plain.startswith(_TEXT_LIKE) or plain.endswith(("+json", "+xml"))
    if found in OFFICE_TYPES.values() and plain == "application/zip":
        return True
    return _SAME.get(plain, plain) == found


def _quote_file(name: str, data: bytes) -> str:
    # The content cannot contain its own digest, and so cannot close the tag.
    tag = f"file-{hashlib.sha256(data).hexdigest()[:16]}"
    label = name.replace('"', "'")
    return f'<{tag} name="{label}">\n{data.decode("utf-8-sig")}\n</{tag}>'
