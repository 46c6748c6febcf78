"""Preview of a value that is too long for a model, and how its reader gets the rest.

Rule 1: a note stands only beside a text that was truncated, and its numbers are exact.
    tests/core/records/test_preview.py::test_note_stands_only_beside_a_truncated_text
Rule 2: the note names `get_tool_response` only for a reader that has it.
    tests/core/records/test_preview.py::test_note_names_the_tool_only_for_a_reader_that_has_it
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from .._core import _json
from .._dataclass import dataclass
from ._artifacts import LocalArtifacts, shrink
from ._content import AttachmentRef
from ._result import Cut
from ._stored_file import handle_of

__all__ = [
    "RECALL",
    "Preview",
    "Reader",
    "address_of",
    "preview_of",
    "recall_call",
    "recall_note",
    "with_addresses",
]

RECALL = "get_tool_response"
"""Name of the tool that reads stored values."""

Reader: TypeAlias = Literal["tool", "script", "address", "path"]
"""How the reader of a preview gets the rest: it has the tool, scripts that it writes have the tool,
or it can open the file by its address or path."""

_LEAST_SHOWN = 64


@dataclass(frozen=True, slots=True)
class Preview:
    """A text for a model: whole, or its start with a note. ``str(preview)`` is both."""

    text: str
    """The text, or the part that is shown."""
    note: str = ""
    """Sizes, and how to get the rest. Empty: nothing is missing."""
    stored: Cut | None = None
    """The stored value. None: nothing is missing, or it could not be stored."""

    def __str__(self) -> str:
        return "\n\n".join(filter(None, (self.text, self.note)))

    @property
    def handle(self) -> str:
        """Handle of the stored value; empty if there is none."""
        return "" if self.stored is None else handle_of(self.stored.sha256)


def preview_of(
    value: Any,
    store: LocalArtifacts,
    limit_chars: int,
    *,
    text: str | None = None,
    shown_chars: int | None = None,
    reader: Reader = "tool",
) -> Preview:
    """Return the text of `value`, or its start if text or JSON exceeds the limit.

    The value is stored then, whole: a string as a text file, everything else as JSON.

    Args:
        value: JSON data.
        store: Where to store it.
        limit_chars: Characters that need no preview.
        text: Text of `value` for a model. None: a string as it is, or JSON.
        shown_chars: Characters of the start. None: as many as fit into the limit beside the note.
        reader: How the reader gets the rest.

    Raises:
        JsonError: If the value has no JSON form.
    """
    data = value.encode(errors="replace") if isinstance(value, str) else _json.dumps(value)
    plain = value if isinstance(value, str) else data.decode()
    shown = plain if text is None else text
    if isinstance(value, str) and value.startswith(shown[:limit_chars]):
        # A text that the tool truncated itself: the value has the number of characters.
        shown = plain
    if max(len(shown), len(plain)) <= limit_chars:
        return Preview(shown)
    stored, problem = None, ""
    try:
        stored = store.keep(data, ".txt" if isinstance(value, str) else ".json")
    except OSError as error:
        problem = error.strerror or type(error).__name__
    where = f"The rest could not be stored: {problem}."
    if stored is not None:
        where = recall_note(stored, reader)
        if reader == "path":
            where = f"All of it: {store.path(stored.sha256)}"
    room = shown_chars
    if room is None:
        room = limit_chars - len(_sizes(len(shown), len(shown), len(data))) - len(where) - 6
    start = _start(value, shown, plain, max(room, 0))
    sizes = _sizes(len(start), len(shown), len(data))
    return Preview(start, f"[{sizes} {where}]", stored)


def _start(value: Any, shown: str, plain: str, room: int) -> str:
    if len(shown) <= room:
        return shown
    if shown == plain and not isinstance(value, str) and room >= _LEAST_SHOWN:
        # Valid JSON with every key says more than the first characters.
        return _json.dumps(shrink(value, room)).decode()
    return shown[:room]


def _sizes(shown: int, total: int, data: int) -> str:
    if shown < total:
        return f"Truncated: {shown:,} of {total:,} characters."
    return f"The data of this result has {data:,} bytes and is not shown."


def recall_call(digest: str) -> str:
    """Return the call that reads a stored file again."""
    return f'{RECALL}(handle="{handle_of(digest)}")'


def recall_note(stored: Cut, reader: Reader) -> str:
    """Return the sentence that says how a reader gets a stored value."""
    call = recall_call(stored.sha256)
    if reader == "tool":
        return f"Read the rest with {call}."
    if reader == "script":
        return f"Read the rest in a script, with await ctx.{call}."
    return f"All of it: {address_of(stored.sha256) if reader == 'address' else stored.artifact}"


def address_of(digest: str) -> str:
    """Return the address of a stored file. It says nothing about the host."""
    return f"ptc://artifacts/{digest}"


def with_addresses(text: str, attachments: Iterable[object]) -> str:
    """Return `text` with the addresses of stored files in place of their paths."""
    for ref in attachments:
        if isinstance(ref, AttachmentRef):
            text = text.replace(ref.path, address_of(ref.id))
    return text
