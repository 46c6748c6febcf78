"""Replies to the calls of a model: bounded text, data, images and files, for all bindings.

Rule 1: a failure is a reply with `is_error`, with its text and code; it is never a value.
    tests/bindings/test_export.py::test_failure_of_a_tool_is_an_error_with_text_and_code
Rule 2: a result that is too long for the model is stored, and the model reads its start.
    tests/bindings/test_export.py::test_large_value_is_a_preview_and_is_stored
Rule 3: text of strangers is marked or stripped; notes and next steps of the host are not.
    tests/bindings/test_untrusted_replies.py::test_preview_and_long_error_have_whole_markers
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import ptc
from ptc._core import _json
from ptc._core._redact import safe_text
from ptc._records._preview import Reader, address_of, preview_of, recall_note, with_addresses
from ptc._tools._untrusted import UntrustedMode, model_data, model_text
from ptc.models import ModelUsage

from ._outcome import FAILURE_CHARS, outcome, outcome_of_error, truncate
from ._outcome_text import outcome_texts
from ._previews import Previews, is_recall

__all__ = ["Preview", "Reply", "reply_of_error", "reply_of_run", "reply_of_tool"]

_SHOWN_PART = 4
"""A model reads a quarter of what needs no preview, and then knows what to ask for."""
_NOTE_CHARS = 200
"""Room for the address of the rest of a long error."""
_SHOWN_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_SHOWN_IMAGES = 4
_SHOWN_BYTES = 2 << 20
"""Images that a script attached are shown to the model up to this size; the others are listed."""


@dataclass(frozen=True, slots=True)
class Preview:
    """Start of a value that is too large for a model, and the address of all of it."""

    preview: str
    """Its first characters."""
    bytes: int
    """Bytes of the whole value as it is stored: a string as text, everything else as JSON."""
    uri: str
    """Address of the stored value; empty: it could not be stored."""
    next: str = ""
    """How the model reads the rest."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        data = asdict(self)
        return data if self.next else {key: data[key] for key in ("preview", "bytes", "uri")}


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one call, for a model and its framework."""

    texts: tuple[str, ...]
    """Text for a model, in parts."""
    data: Any = None
    """The same as JSON data: value of a tool, `Preview` of a large one, or outcome of a run. None
    if a tool failed."""
    is_error: bool = False
    """True: the call failed, and `texts` say why. A paused run is no error."""
    code: str = ""
    """Code of the error, such as ``not_found``. Empty: no error."""
    images: tuple[ptc.ImageContent, ...] = ()
    """Images for a model."""
    files: tuple[ptc.AttachmentRef, ...] = ()
    """Stored files of the result."""
    stored: tuple[str, ...] = ()
    """SHA-256 of further files to which `texts` refer."""
    run: ptc.RunResult | None = None
    """The run; None: the tool was called directly, or no run started."""
    untrusted: UntrustedMode | None = None
    """Treatment of `texts`. Those in `data` are cleaned, and have no markers."""
    model_usage: ModelUsage = field(default_factory=ModelUsage)
    """Tokens that models of the called tools spent."""

    @property
    def text(self) -> str:
        """All texts as one."""
        return "\n\n".join(self.texts)

    @property
    def pending(self) -> tuple[ptc.PendingCall, ...]:
        """Calls that await a decision; the run is paused until they are decided."""
        paused = self.run is not None and self.run.status == "paused"
        return self.run.pending if paused and self.run is not None else ()

    @property
    def artifact(self) -> dict[str, Any]:
        """JSON data for an application.

        ``data``, and what there is of ``code``, ``run_id``, ``files`` and ``model_usage``.
        """
        data = self.data.to_dict() if isinstance(self.data, Preview) else self.data
        files = [
            {"name": file.name, "media_type": file.media_type, "uri": address_of(file.id)}
            for file in self.files
        ]
        run_id = "" if self.run is None else self.run.run_id
        usage = asdict(self.model_usage) if self.model_usage.requests else {}
        more = {"code": self.code, "run_id": run_id, "files": files, "model_usage": usage}
        return {"data": data, **{key: value for key, value in more.items() if value}}


def reply_of_run(
    result: ptc.RunResult,
    *,
    next_step: str = "",
    reader: Reader = "address",
    untrusted: UntrustedMode | None = None,
) -> Reply:
    """Convert the result of a run.

    Args:
        result: The run.
        next_step: How the reader continues it; ``""`` if that is not possible.
        reader: How the reader gets the rest of a truncated value.
        untrusted: Treatment of its texts: `ptc.Session.untrusted_in`.
    """
    data = outcome(result, next_step=next_step, reader=reader)
    texts = outcome_texts(data)
    if untrusted is not None:
        following = [f"Next: {data['next']}"] if "next" in data else []
        own = outcome_texts({key: data[key] for key in data if key != "next"})
        texts = [*(model_text(text, untrusted, source="program") for text in own), *following]
        data = model_data(data, untrusted)
    is_error = not result.ok and result.status != "paused"
    code: str = result.status if result.error is None else result.error.code
    return Reply(
        tuple(texts),
        data,
        is_error=is_error,
        code=code if is_error else "",
        images=tuple(_attached_images(result)),
        files=tuple(result.attachments),
        run=result,
        untrusted=untrusted,
    )


def reply_of_error(error: ptc.PtcError) -> Reply:
    """Convert an error that prevented a run."""
    data = outcome_of_error(error)
    return Reply(tuple(outcome_texts(data)), data, is_error=True, code=data["error"]["code"])


def _attached_images(result: ptc.RunResult) -> list[ptc.ImageContent]:
    files = [file for file in result.attached if file.media_type in _SHOWN_TYPES]
    shown = []
    for file in files[:_SHOWN_IMAGES]:
        # Somebody may have deleted it since.
        with contextlib.suppress(OSError):
            if file.size_bytes <= _SHOWN_BYTES:
                data = base64.b64encode(Path(file.path).read_bytes()).decode()
                shown.append(ptc.ImageContent(data, file.media_type))
    return shown


# --- direct calls -------------------------------------------------------------------------------


async def reply_of_tool(
    session: ptc.Session,
    tool: ptc.Tool,
    arguments: Mapping[str, Any],
    allowed_tools: list[str | ptc.Allow],
    previews: Previews,
) -> Reply:
    """Call a tool. A result that is too long is stored, and its start returned."""
    name = tool.name
    try:
        bound = previews.bound(tool, arguments)
        result = await session.tool(name, bound, allowed_tools=allowed_tools)
        # Treated once it is known which part of it is shown.
        untrusted, result = result.untrusted, replace(result, untrusted=None)
        text = _text(result)
        if result.error is not None:
            failure = _failure(session, text, result.error.code, previews.reader)
            return _treat(failure, untrusted, name)
        data = _json.dumps(result.value, what=name)
    except Exception as error:  # noqa: BLE001  # a tool's rendering is its author's code
        message = safe_text(f"Error: {name}: {type(error).__name__}: {error}")
        code = "usage" if isinstance(error, ptc.UsageError) else "error"
        return _failure(session, message, code, previews.reader)
    images = tuple(part for part in result.content if isinstance(part, ptc.ImageContent))
    used, limit = sum(len(image.data) for image in images), previews.limits.max_tool_result_bytes
    if used > limit:
        problem = (
            f"Error [result_too_large]: the images of {name} have {used:,} bytes, over the "
            f"limit of {limit:,} (max_tool_result_bytes); request fewer or smaller ones"
        )
        return Reply((problem,), is_error=True, code="result_too_large")
    files = tuple(ref for ref in result.attachments if isinstance(ref, ptc.AttachmentRef))
    whole = Reply((text,), _json.loads(data), images=images, files=files)
    if max(len(data), len(text)) > previews.chars and not is_recall(tool):
        whole = _shorten(session, whole, result.value, previews)
    return _treat(whole, untrusted, name)


def _treat(reply: Reply, untrusted: UntrustedMode | None, source: str) -> Reply:
    """Treat the text and the data of a reply; the texts after the first are notes of the host."""
    if untrusted is None:
        return reply
    text, *notes = reply.texts
    # A hostile text could grow more, by escapes.
    shown = model_text(text, untrusted, source=source, max_chars=2 * len(text) + 1_000)
    if isinstance(reply.data, Preview):
        data = replace(reply.data, preview=shown)
    else:
        data = model_data(reply.data, untrusted)
    return replace(reply, texts=(shown, *notes), data=data, untrusted=untrusted)


def _shorten(session: ptc.Session, whole: Reply, value: Any, previews: Previews) -> Reply:
    """Store a large result, and return its start with the way to the rest."""
    (text,) = whole.texts
    found = preview_of(
        value,
        session.artifacts,
        previews.chars,
        text=text,
        shown_chars=previews.chars // _SHOWN_PART,
        reader=previews.reader,
    )
    if not found.note:
        return whole
    stored = found.stored
    if stored is None:
        preview = Preview(found.text, len(_json.dumps(value)), "", found.note)
        return replace(whole, texts=(found.text, found.note), data=preview)
    following = "" if previews.reader == "address" else recall_note(stored, previews.reader)
    preview = Preview(found.text, stored.bytes, address_of(stored.sha256), following)
    texts = (found.text, found.note)
    return replace(whole, texts=texts, data=preview, stored=(stored.sha256,))


def _text(result: ptc.ToolResult) -> str:
    """Return the text of a result, with addresses of its files in place of their paths."""
    return with_addresses(result.text, result.attachments)


def _failure(session: ptc.Session, text: str, code: str, reader: Reader) -> Reply:
    """Report a failed call. A long message is stored, and its start returned."""
    if len(text) <= FAILURE_CHARS:
        return Reply((text,), is_error=True, code=code)
    start = truncate(text, FAILURE_CHARS - _NOTE_CHARS)
    stored: tuple[str, ...] = ()
    try:
        kept = session.artifacts.keep(text.encode(errors="replace"), ".txt")
    except OSError:
        note = f"The whole message has {len(text):,} characters and could not be stored."
    else:
        stored = (kept.sha256,)
        where = recall_note(kept, reader)
        note = f"This is the start. The whole message has {len(text):,} characters. {where}"
    return Reply((start, note), is_error=True, code=code, stored=stored)
