"""`get_tool_response`: read a stored value again, whole or in parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any, Literal

from ptc import ToolContext, ToolError, tool
from ptc._core import _json
from ptc._records._stored_file import StoredFile
from ptc._schema._bounds import Bounds

from .._killable import in_killable_thread
from ..search._ripgrep import Ripgrep
from . import _pointer
from ._json_scan import JsonScan, NotJsonError
from ._parts import Request, StoredPart, json_part, not_json, text_part
from ._search import MAX_CONTEXT_CHARS, Occurrence, Search, add_pointers, find_occurrences
from ._text import Text, string_text

__all__ = ["get_tool_response"]

DIRECT_CHARS = 16_000
"""Default size of a part for a model that calls the tool directly."""
SCRIPT_CHARS = 1_000_000
"""Default size of a part for a script."""
MAX_CHARS = 2_000_000
_MIN_CHARS = 200
_MATCHES = 20
_MAX_MATCHES = 1_000


def _render(part: StoredPart) -> str:
    if part.unit == "matches":
        text = "\n".join(map(_match_text, part.value))
    else:
        text = part.value if isinstance(part.value, str) else _json.dumps(part.value).decode()
    return text if part.unit == "value" else f"{text}\n\n[{_position(part)}]".lstrip()


def _match_text(row: Occurrence) -> str:
    where = f" {row.pointer}" if row.pointer else ""
    return f"byte {row.offset:,}, line {row.line:,}{where}: {row.text}"


def _position(part: StoredPart) -> str:
    end = part.total if part.next is None else part.next
    of = "" if part.total is None else f" of {part.total:,}"
    if not part.value:
        words = f"no {part.unit} from offset {part.offset:,} on{of and f'; all: {part.total:,}'}"
    else:
        last = "" if end is None else f" to {end - 1:,}"
        words = f"{part.unit} {part.offset:,}{last}{of}"
    more = "" if part.next is None else f"; next: offset={part.next}"
    return words + more + (f"; {part.note}" if part.note else "")


@tool(render=_render)
async def get_tool_response(
    ctx: ToolContext,
    handle: str,
    pointer: str = "",
    offset: Annotated[int, Bounds(ge=0)] = 0,
    limit: Annotated[int, Bounds(ge=1)] | None = None,
    unit: Literal["lines", "bytes"] | None = None,
    search: str = "",
    regex: bool = False,
    context: Annotated[int, Bounds(ge=0, le=MAX_CONTEXT_CHARS)] = 80,
    max_chars: Annotated[int, Bounds(ge=_MIN_CHARS, le=MAX_CHARS)] | None = None,
) -> StoredPart:
    """Read a truncated result or an attachment again, whole or in parts.

    Returns {value, unit, offset, next, total, note}. A long value comes in parts: continue with
    offset=next until that is null.

    Args:
        ctx: The call.
        handle: Handle or address from the note of the result.
        pointer: JSON pointer to a part, such as "/rows/0/name".
        offset: Items, members, lines or matches to skip.
        limit: Maximum number of them.
        unit: Read the text by lines or bytes.
        search: Text to find; the value is then a list of {offset, line, text, pointer}.
        regex: True: search is a regular expression.
        context: Characters around each match.
        max_chars: Size of a part. Default: 16,000; in a script 1,000,000.
    """
    if search and unit is not None:
        msg = "pass search or unit, not both: matches have the offset in bytes and the line"
        raise ToolError(msg, code="invalid_arguments")
    chars = max_chars or (DIRECT_CHARS if ctx.run_id is None else SCRIPT_CHARS)
    wanted = Request(pointer, offset, limit, chars)
    how = Search(search, regex=regex, context=context) if search else None
    ripgrep = Ripgrep("omit regex to search for plain text")
    stopped: list[bool] = []

    def check() -> None:
        if stopped:
            raise ToolError("the call was cancelled", code="cancelled")

    def kill() -> None:
        stopped.append(True)
        ripgrep.kill()

    def work() -> StoredPart:
        with ExitStack() as stack:
            stack.callback(ripgrep.end)
            file = stack.enter_context(ctx.open_stored(handle))
            file.on_read = check
            try:
                return _part(file, wanted, unit, how, ripgrep)
            except NotJsonError as error:
                raise not_json(file, error) from None
            except OSError as error:
                msg = f"the stored value cannot be read: {error}"
                raise ToolError(msg, code="unreadable") from None

    return await in_killable_thread(work, kill)


def _part(
    file: StoredFile,
    wanted: Request,
    unit: Literal["lines", "bytes"] | None,
    how: Search | None,
    ripgrep: Ripgrep,
) -> StoredPart:
    is_json = file.suffix == ".json" or wanted.pointer != ""
    if how is None and unit is None and is_json:
        return json_part(file, wanted)
    with _text(file, wanted.pointer) if is_json else _whole_text(file) as text:
        if how is None:
            return text_part(file, text, wanted, unit=unit or "lines")
        limit = min(wanted.limit or _MATCHES, _MAX_MATCHES)
        found, more = find_occurrences(ripgrep, text, how, wanted.offset, limit, wanted.max_chars)
        if is_json and text.name == file.name:
            found = add_pointers(found, text, wanted.pointer)
    end = wanted.offset + len(found)
    value: list[Any] = list(found)
    return StoredPart(value, "matches", wanted.offset, end if more else None, None if more else end)


@contextmanager
def _whole_text(file: StoredFile) -> Iterator[Text]:
    yield Text.of_file(file)


@contextmanager
def _text(file: StoredFile, pointer: str) -> Iterator[Text]:
    """Yield the text at a pointer: a string decoded, everything else as its JSON."""
    scan = JsonScan(file.read)
    _pointer.find(scan, pointer)
    if not pointer and scan.next_byte() != b'"':
        # A file that is not JSON after all can be read as text.
        yield Text.of_file(file)
        return
    opening = scan.next_byte()
    span = scan.skip_value()
    if opening != b'"':
        yield Text.of_file(file, span)
        return
    with string_text(file, span) as text:
        yield text
