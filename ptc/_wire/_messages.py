"""Bodies of the frames that a worker sends, decoded to exact types.

Rule 1: a body is decoded to exact types or raises `ProtocolError`; nothing is ever evaluated or
    unpickled. tests/core/wire/test_protocol.py::test_a_body_of_the_wrong_shape_is_refused
"""

from __future__ import annotations

import re
from dataclasses import field
from enum import IntEnum
from typing import Any, Final

from .._dataclass import dataclass
from ._bodies import MAX_DEPTH, NOTHING, ProtocolError, Tally, decode, tally

__all__ = [
    "ATTACHMENT_PIECE",
    "FAILURE_LIMITS",
    "IN_PARTS",
    "MAX_ATTACHMENTS",
    "MAX_ELAPSED",
    "MAX_FINDINGS",
    "MAX_FRAMES",
    "MAX_ID",
    "MAX_MESSAGE",
    "MAX_NAME",
    "MAX_PRINT",
    "Call",
    "Failure",
    "Finding",
    "Frame",
    "Output",
    "Warned",
    "is_media_type",
    "parse_attach",
    "parse_call",
    "parse_elapsed",
    "parse_failure",
    "parse_findings",
    "parse_frames",
    "parse_nothing",
    "parse_number",
    "parse_polled",
    "parse_print",
    "parse_progress",
    "parse_raw",
    "parse_rejected",
    "parse_value",
    "parse_warning",
]

IN_PARTS: Final = b"="
"""Body of EMIT or DONE in place of JSON: the parts received before this frame make the value."""

MAX_NAME = 256
"""Characters of a name: of a tool, a function, a type."""
MAX_MESSAGE = 8_192
"""Characters of a message or a hint."""
MAX_FRAMES = 24
"""Lines of a traceback."""
MAX_FINDINGS = 100
"""Findings about a rejected script."""
MAX_PRINT = 131_072
"""Characters of one piece of printed text."""
MAX_ATTACHMENTS = 100
"""Files that a script may attach."""
ATTACHMENT_PIECE = 65_536
"""Bytes of an attachment in one frame."""
MAX_ELAPSED = 1e9
"""Seconds since the start that a script may wait for: 31 years."""
MAX_ID = 2**53


FAILURE_LIMITS: Final = frozenset(
    {
        "max_tool_calls",
        "max_calls_by_tool",
        "max_executions_per_run",
        "max_tasks",
        "max_output_bytes",
        "max_emit_bytes",
        "max_attachment_bytes",
    }
)
"""Limits that a worker may report as exceeded. Each ends only the script itself, so a false report
harms nobody else."""
_FAILURE_CODES: Final = frozenset(
    {"exception", "tool_error", "memory", "recursion", "not_json", "exit"}
) | {f"limit_{name}" for name in FAILURE_LIMITS}
"""Codes of FAILED. The host acts on codes of its own, such as ``killed``, which none may forge."""


class Output(IntEnum):
    """Destination of a PRINT."""

    STDOUT = 0
    STDERR = 1
    LOG = 2
    """Also standard error, from `logging` or `ctx.log`."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call by the script."""

    id: int
    """Number that the worker chose, unique in the run."""
    name: str
    """Tool's name."""
    arguments: dict[str, Any] | int | None
    """As the script passed them; not validated. A number: their size in bytes, over the limit, so
    they were not sent. None: the parts received before this frame make them."""
    line: int | None
    """Line of the script, for display."""
    found: Tally = field(default=NOTHING, compare=False)
    """Count of the values in `arguments`, if they were sent."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a script's traceback."""

    line: int
    end_line: int
    column: int
    """1-based; 0: unknown."""
    end_column: int
    name: str
    """Function's name."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception that left the script."""

    type: str
    message: str
    frames: tuple[Frame, ...]
    """The script's own frames, outermost first."""
    code: str
    """``exception``, ``tool_error``, ``memory``, ``recursion``, ``not_json``, ``exit`` or
    ``limit_<name>``."""
    tool: str
    """Tool that raised the error, or ``""``."""
    hint: str
    """Suggested fix, or ``""``."""


@dataclass(frozen=True, slots=True)
class Warned:
    """A problem that did not stop the script."""

    code: str
    """A stable word."""
    message: str
    path: str
    """Position in a value, or ``""``."""
    line: int
    """Line of the script, for display; 0: unknown."""


_WARNING_CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")


def _row(body: bytes, *types: type | tuple[type, ...]) -> list[Any]:
    # The row itself does not count as a level of the values in it.
    row = decode(body, MAX_DEPTH + 1)
    if type(row) is not list or len(row) != len(types):
        msg = f"body is not a list of {len(types)}"
        raise ProtocolError(msg)
    for index, (item, wanted) in enumerate(zip(row, types, strict=True)):
        # `type() in`, not isinstance: True is not an int here.
        if type(item) not in (wanted if isinstance(wanted, tuple) else (wanted,)):
            msg = f"item {index} of the body is {type(item).__name__}"
            raise ProtocolError(msg)
    return row


_NONE = type(None)


_CALLS: Final = frozenset(
    (int, str, arguments, line) for arguments in (dict, int, _NONE) for line in (int, _NONE)
)


def parse_call(body: bytes) -> Call:
    row = decode(body, MAX_DEPTH + 1)
    if type(row) is not list or tuple(map(type, row)) not in _CALLS:
        _row(body, int, str, (dict, int, _NONE), (int, _NONE))  # raises the error
    number, name, arguments, line = row
    if type(arguments) is int and not 0 < arguments < MAX_ID:
        msg = "a number in place of arguments is out of range"
        raise ProtocolError(msg)
    if not 0 < number < MAX_ID or len(name) > MAX_NAME or not 0 <= (line or 0) < MAX_ID:
        msg = "id, name or line of a call is out of range"
        raise ProtocolError(msg)
    if not arguments:
        return Call(number, name, arguments, line)
    found = tally(body)
    # Without the row itself, number, name and line.
    found = Tally(found.values - 4, found.containers - 1)
    return Call(number, name, arguments, line, found)


def parse_number(body: bytes) -> int:
    (number,) = _row(body, int)
    return int(number)


def parse_elapsed(body: bytes) -> float:
    (elapsed,) = _row(body, (float, int))
    if not 0 <= elapsed <= MAX_ELAPSED:
        msg = "time is out of range"
        raise ProtocolError(msg)
    return float(elapsed)


def parse_warning(body: bytes) -> Warned:
    code, message, path, line = _row(body, str, str, str, int)
    if not _WARNING_CODE.fullmatch(code) or not 0 <= line < MAX_ID:
        msg = "the code or the line of a warning is out of range"
        raise ProtocolError(msg)
    return Warned(code, message, path, line)


def parse_print(body: bytes) -> tuple[str, Output]:
    text, output = _row(body, str, int)
    if not 0 <= output < len(Output) or len(text) > MAX_PRINT:
        msg = f"output {output} does not exist, or {len(text):,} characters are too many at once"
        raise ProtocolError(msg)
    return text, Output(output)


_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")


def is_media_type(text: str) -> bool:
    """True for text such as ``image/png``."""
    return _MEDIA_TYPE.fullmatch(text) is not None


def parse_attach(body: bytes) -> tuple[str, str]:
    name, media_type = _row(body, str, str)
    if not 1 <= len(name) < MAX_NAME or not name.isprintable() or not is_media_type(media_type):
        msg = "the name or the media type of an attachment is invalid"
        raise ProtocolError(msg)
    return name, media_type


def parse_progress(body: bytes) -> tuple[float, float | None, str]:
    done, total, message = _row(body, (float, int), (float, int, _NONE), str)
    if len(message) > MAX_MESSAGE:
        msg = f"the message of progress has {len(message):,} characters"
        raise ProtocolError(msg)
    return done, total, message


def parse_nothing(body: bytes) -> None:
    _row(body)


def parse_polled(body: bytes) -> tuple[int, int]:
    line, readings = _row(body, int, int)
    if not (0 <= line < MAX_ID and 0 <= readings < MAX_ID):
        msg = "line or number of readings is out of range"
        raise ProtocolError(msg)
    return line, readings


def parse_frames(body: bytes) -> list[tuple[str, int, dict[str, str]]]:
    rows = decode(body)
    if type(rows) is not list:
        msg = "frames are not a list"
        raise ProtocolError(msg)
    found = []
    for row in rows:
        if type(row) is not list or [type(item) for item in row] != [str, int, list]:
            msg = "a frame is not [function, line, variables]"
            raise ProtocolError(msg)
        names = {}
        for pair in row[2]:
            if type(pair) is not list or [type(item) for item in pair] != [str, str]:
                msg = "a variable is not [name, text]"
                raise ProtocolError(msg)
            names[pair[0]] = pair[1]
        found.append((row[0], row[1], names))
    return found


_FRAME_TYPES = (int, int, int, int, str)


def _frame(item: Any) -> Frame:
    if (
        type(item) is not list
        or len(item) != len(_FRAME_TYPES)
        or any(type(part) is not wanted for part, wanted in zip(item, _FRAME_TYPES, strict=True))
        or any(not 0 <= part < MAX_ID for part in item[:4])
    ):
        msg = "a traceback line has the wrong shape"
        raise ProtocolError(msg)
    return Frame(item[0], item[1], item[2], item[3], item[4][:MAX_NAME])


_FAILURE_TEXTS = {
    "type": MAX_NAME,
    "message": MAX_MESSAGE,
    "code": MAX_NAME,
    "tool": MAX_NAME,
    "hint": MAX_MESSAGE,
}


def parse_failure(body: bytes) -> Failure:
    data = decode(body)
    if type(data) is not dict or set(data) != {*_FAILURE_TEXTS, "frames"}:
        msg = "a failure has the wrong keys"
        raise ProtocolError(msg)
    for key, most in _FAILURE_TEXTS.items():
        if type(data[key]) is not str or len(data[key]) > most:
            msg = f"the {key} of a failure is not a text of at most {most:,} characters"
            raise ProtocolError(msg)
    if data["code"] not in _FAILURE_CODES:
        msg = f"a failure has the unknown code {data['code'][:40]!r}"
        raise ProtocolError(msg)
    if type(data["frames"]) is not list or len(data["frames"]) > MAX_FRAMES:
        msg = "a failure has too many frames"
        raise ProtocolError(msg)
    frames = tuple(_frame(item) for item in data["frames"])
    texts = {key: data[key] for key in _FAILURE_TEXTS}
    return Failure(frames=frames, **texts)


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason to reject a script."""

    code: str
    message: str
    line: int
    """1-based; 0: the script as a whole."""
    column: int
    """1-based; 0: the line as a whole."""
    end_line: int
    end_column: int
    hint: str = ""
    """Suggested fix, or ``""``."""
    advisory: bool = False
    """True if the script may nevertheless be correct."""

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.message}" + (f" ({self.hint})" if self.hint else "")


_FINDING_TYPES = {
    "code": str,
    "message": str,
    "line": int,
    "column": int,
    "end_line": int,
    "end_column": int,
    "hint": str,
    "advisory": bool,
}


def parse_rejected(body: bytes) -> tuple[Finding, ...]:
    findings = parse_findings(body)
    if not findings:
        msg = "a script is rejected without a finding"
        raise ProtocolError(msg)
    return findings


def parse_findings(body: bytes) -> tuple[Finding, ...]:
    rows = decode(body)
    if type(rows) is not list or len(rows) > MAX_FINDINGS:
        msg = f"findings are not a list of at most {MAX_FINDINGS}"
        raise ProtocolError(msg)
    for row in rows:
        if type(row) is not dict or set(row) != set(_FINDING_TYPES):
            msg = "a finding has the wrong keys"
            raise ProtocolError(msg)
        for key, wanted in _FINDING_TYPES.items():
            if type(row[key]) is not wanted or (wanted is int and not 0 <= row[key] < MAX_ID):
                msg = f"a finding has a wrong {key}"
                raise ProtocolError(msg)
    return tuple(Finding(**row) for row in rows)


def parse_raw(body: bytes) -> bytes:
    return body


def parse_value(body: bytes) -> tuple[Any, Tally]:
    """Return the value and its tally, which is empty for a value in parts."""
    return (IN_PARTS, NOTHING) if body == IN_PARTS else (decode(body), tally(body))
