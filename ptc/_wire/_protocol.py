"""What host and worker may say to each other, and when. No I/O; it knows no side.

Rule 1: a frame's length is checked against its kind's limit before a byte of it is kept. Larger
    values come in parts (`_parts`), so that no single step of the host takes long or much memory.
    tests/core/wire/test_protocol.py::test_an_oversized_frame_is_refused_by_its_header
Rule 2: who may say what, when, is the table `LEGAL` and nothing else.
    tests/core/wire/test_protocol.py::test_every_move_that_is_not_in_the_table_is_refused
Rule 3: a body is decoded to exact types or refused; nothing is ever evaluated or unpickled.
    tests/core/wire/test_protocol.py::test_a_body_of_the_wrong_shape_is_refused
Rule 4: lists and objects are counted before a body is decoded: 3 bytes of JSON make 72 in memory.
    tests/core/wire/test_protocol.py::test_a_body_of_too_many_lists_is_refused_before_it_is_decoded
Rule 5: compiled code is legal only before the first line of the script runs.
    tests/core/wire/test_protocol.py::test_compiled_code_is_refused_once_the_script_runs

A frame is four bytes of length (big-endian, of what follows), one byte of kind, and the body: JSON,
or raw bytes for source and compiled code. The worker is hostile by assumption: once a script runs,
whatever arrives from there was written by the script.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain
from typing import Any, Final

from ._bodies import (
    INLINE_BYTES,
    MAX_DEPTH,
    NOTHING,
    ProtocolError,
    Tally,
    decode,
    load_json,
    tally,
)

__all__ = [
    "ENVELOPE_BYTES",
    "FROM_WORKER",
    "IN_PARTS",
    "LEGAL",
    "Call",
    "Decoder",
    "Failure",
    "Kind",
    "Output",
    "OversizedError",
    "ProtocolError",
    "State",
    "encode",
    "load_json",
    "next_state",
    "parse",
]


class OversizedError(ProtocolError):
    """A frame announced more bytes than the receiver takes of its kind; none of them was kept."""

    def __init__(self, kind: Kind, size: int, most: int) -> None:
        super().__init__(f"{kind.name} of {size:,} bytes is over the limit of {most:,}")
        self.kind = kind
        self.size = size


class Kind(IntEnum):
    """Kinds of frame. The comment gives the body."""

    # host -> worker
    START = 1  # {"inputs", "tools", "epoch", "seed", "limits", "check"}
    SOURCE = 2  # raw: the script, UTF-8
    CODE = 3  # raw: compiled code, as a worker sent it for the same source
    RESULT = 4  # [id, elapsed, ok, records, value | error]
    TICK = 5  # [elapsed]
    REHEARSE = 6  # []: run the dummies now; nothing is answered
    PING = 7  # []: answer when you have nothing left to do
    INSPECT = 8  # []: show the local variables of the script
    # worker -> host
    READY = 16  # []
    COMPILED = 17  # raw: compiled code
    REJECTED = 18  # [finding, ...]
    CALL = 19  # [id, tool, arguments | null: in parts | bytes, if too many to send, line | null]
    CANCEL = 20  # [id]
    PRINT = 21  # [text, output]
    EMIT = 22  # the value itself, or IN_PARTS
    TIMER = 23  # [elapsed at which to send TICK]
    WARN = 24  # [text]
    STALLED = 25  # []: nothing the host owes can wake the script
    DONE = 26  # the value itself, or IN_PARTS
    FAILED = 27  # {"type", "message", "frames", ...}, see Failure
    CHECKED = 28  # [finding, ...]: what a look at the script found, in place of running it
    PONG = 29  # []: everything sent before the PING was handled, and the script waits
    FRAMES = 30  # [[function, line, [[name, text], ...]], ...]: the local variables
    PART = 31  # one step of writing a large value, see `_parts`


class Output(IntEnum):
    """What a PRINT is for."""

    STDOUT = 0
    STDERR = 1
    LOG = 2
    """Standard error, too, from `logging` or `ctx.log`."""


class State(IntEnum):
    """Where a worker is in its one run."""

    FORKED = 0
    IDLE = 1
    STARTED = 2
    COMPILING = 3
    RUNNING = 4
    ENDED = 5


_S, _K = State, Kind
_STAY = dict.fromkeys(
    (
        _K.RESULT,
        _K.TICK,
        _K.CALL,
        _K.CANCEL,
        _K.PRINT,
        _K.EMIT,
        _K.TIMER,
        _K.WARN,
        _K.STALLED,
        _K.PING,
        _K.PONG,
        _K.INSPECT,
        _K.FRAMES,
        _K.PART,
    ),
    _S.RUNNING,
)
LEGAL: Final[dict[State, dict[Kind, State]]] = {
    _S.FORKED: {_K.READY: _S.IDLE},
    _S.IDLE: {_K.REHEARSE: _S.IDLE, _K.START: _S.STARTED},
    _S.STARTED: {_K.SOURCE: _S.COMPILING, _K.CODE: _S.RUNNING},
    _S.COMPILING: {
        _K.COMPILED: _S.RUNNING,
        _K.REJECTED: _S.ENDED,
        _K.CHECKED: _S.ENDED,
        _K.FAILED: _S.ENDED,  # no memory for inputs or source
    },
    _S.RUNNING: {**_STAY, _K.DONE: _S.ENDED, _K.FAILED: _S.ENDED},
    _S.ENDED: {},
}
"""state -> kind of frame -> next state. What is not here is a `ProtocolError`."""


def next_state(state: State, kind: Kind) -> State:
    """The state after a frame of `kind`. Raises `ProtocolError` if it is not legal now."""
    try:
        return LEGAL[state][kind]
    except KeyError:
        msg = f"{kind.name} is not legal in state {state.name}"
        raise ProtocolError(msg) from None


_MIB = 1 << 20
MAX_BODY: Final[dict[int, int]] = {
    _K.START: 72 * _MIB,
    _K.SOURCE: 9 * _MIB,
    _K.CODE: 32 * _MIB,
    _K.RESULT: 72 * _MIB,
    _K.TICK: 64,
    _K.REHEARSE: 64,
    _K.READY: 64,
    _K.COMPILED: 32 * _MIB,
    _K.REJECTED: _MIB,
    _K.CALL: 16 * _MIB,
    _K.CANCEL: 64,
    _K.PRINT: 2 * _MIB,
    _K.EMIT: 68 * _MIB,
    _K.TIMER: 64,
    _K.WARN: 4096,
    _K.STALLED: 64,
    _K.PING: 64,
    _K.PONG: 64,
    _K.INSPECT: 64,
    _K.FRAMES: _MIB,
    _K.DONE: 68 * _MIB,
    _K.FAILED: _MIB,
    _K.CHECKED: _MIB,
    _K.PART: INLINE_BYTES + 1,
}
"""Largest body of each kind in bytes."""
ENVELOPE_BYTES = 4_096
"""What a call has beside its arguments: numbers, and a name whose every character is escaped."""
FROM_WORKER: Final[dict[int, int]] = {
    **MAX_BODY,
    _K.CALL: INLINE_BYTES + ENVELOPE_BYTES,
    _K.EMIT: INLINE_BYTES,
    _K.DONE: INLINE_BYTES,
}
"""The same of what a host takes from a worker, which sends larger values in parts."""

_HEADER = struct.Struct(">IB")
HEADER_BYTES = _HEADER.size
_KINDS: Final = {int(kind): kind for kind in Kind}
"""A look-up takes 30 ns, ``Kind(number)`` half a microsecond and, in a worker, pages of its own."""


def encode(kind: Kind, body: bytes) -> bytes:
    """One frame. Raises `ValueError` if `body` is over the limit of its kind."""
    if len(body) > MAX_BODY[kind]:
        msg = f"{kind.name} of {len(body):,} bytes is over the limit of {MAX_BODY[kind]:,}"
        raise ValueError(msg)
    return _HEADER.pack(len(body) + 1, kind) + body


class Decoder:
    """Bytes in, frames out. Holds at most one unfinished frame.

    Attributes:
        limits: Largest body by kind of frame.
    """

    __slots__ = ("_buffer", "limits")

    def __init__(self, limits: Mapping[int, int] = MAX_BODY) -> None:
        self._buffer = bytearray()
        self.limits = limits

    def feed(self, data: bytes) -> Iterable[tuple[Kind, bytes]]:
        """Give each frame that `data` completes; iterate over them before the next `feed`.

        Raises:
            ProtocolError: On an unknown kind or a length of zero.
            OversizedError: On a length over the limit of its kind.
        """
        if self._buffer:
            return self._frames(data)
        # Whole frames, which is what nearly always comes, need no buffer.
        frames, start, end = [], 0, len(data)
        limits = self.limits
        while end - start >= HEADER_BYTES:
            length, number = _HEADER.unpack_from(data, start)
            stop = start + 4 + length
            if stop > end or not 1 <= length <= limits.get(number, -1) + 1:
                break
            frames.append((_KINDS[number], data[start + HEADER_BYTES : stop]))
            start = stop
        return chain(frames, self._frames(data[start:])) if start < end else frames

    def _frames(self, data: bytes) -> Iterator[tuple[Kind, bytes]]:
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= HEADER_BYTES:
                length, number = _HEADER.unpack_from(buffer, start)
                most = self.limits.get(number)
                if most is None:
                    msg = f"unknown kind of frame: {number}"
                    raise ProtocolError(msg)
                if not 1 <= length <= most + 1:
                    raise OversizedError(_KINDS[number], length - 1, most)
                end = start + 4 + length
                if len(buffer) < end:
                    return
                body = bytes(memoryview(buffer)[start + HEADER_BYTES : end])
                start = end
                yield _KINDS[number], body
        finally:
            if start:
                del buffer[:start]

    @property
    def pending_bytes(self) -> int:
        """Bytes of an unfinished frame that are held."""
        return len(self._buffer)


# --- bodies from the worker, decoded to exact types ------------------------------------------


@dataclass(frozen=True, slots=True)
class Call:
    """A script called a tool."""

    id: int
    """Number the worker chose; no other call of the run has it."""
    name: str
    """Tool's name."""
    arguments: dict[str, Any] | int | None
    """As the script passed them; not validated. A number: so many bytes that they were not sent.
    None: the parts received before this frame make them."""
    line: int | None
    """Line of the script, for display."""
    found: Tally = field(default=NOTHING, compare=False)
    """What is in `arguments`, if they are here."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a script's traceback."""

    line: int
    end_line: int
    column: int
    """1-based; 0 if not known."""
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
    """A stable word: ``exception``, ``tool_error``, ``memory``, ``recursion``, ``result`` ..."""
    tool: str
    """Tool whose error it was, or ``""``."""
    hint: str
    """The way out, or ``""``."""


def _row(body: bytes, *types: type | tuple[type, ...]) -> list[Any]:
    # The row itself is no level of the values in it.
    row = decode(body, MAX_DEPTH + 1)
    if type(row) is not list or len(row) != len(types):
        msg = f"body is not a list of {len(types)}"
        raise ProtocolError(msg)
    for index, (item, wanted) in enumerate(zip(row, types, strict=True)):
        # `type() in`, not isinstance: True is no int here.
        if type(item) not in (wanted if isinstance(wanted, tuple) else (wanted,)):
            msg = f"item {index} of the body is {type(item).__name__}"
            raise ProtocolError(msg)
    return row


_NONE = type(None)
MAX_NAME = 256
"""Characters of a name: of a tool, a function, a type."""
MAX_MESSAGE = 8_192
"""Characters of a message or a hint."""
MAX_FRAMES = 24
"""Lines of a traceback."""
MAX_FINDINGS = 100
"""Reasons why a script is refused."""
MAX_PRINT = 131_072
"""Characters of one piece of what is printed."""
MAX_ELAPSED = 1e9
"""Seconds since the start that a script may wait for: 31 years."""
MAX_ID = 2**53


def _parse_call(body: bytes) -> Call:
    number, name, arguments, line = _row(body, int, str, (dict, int, _NONE), (int, _NONE))
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


def _parse_number(body: bytes) -> int:
    (number,) = _row(body, int)
    return int(number)


def _parse_elapsed(body: bytes) -> float:
    (elapsed,) = _row(body, (float, int))
    if not 0 <= elapsed <= MAX_ELAPSED:
        msg = "time is out of range"
        raise ProtocolError(msg)
    return float(elapsed)


def _parse_text(body: bytes) -> str:
    (text,) = _row(body, str)
    return str(text)


def _parse_print(body: bytes) -> tuple[str, Output]:
    text, output = _row(body, str, int)
    if not 0 <= output < len(Output) or len(text) > MAX_PRINT:
        msg = f"there is no output {output}, or not for {len(text):,} characters at once"
        raise ProtocolError(msg)
    return text, Output(output)


def _parse_nothing(body: bytes) -> None:
    _row(body)


def _parse_frames(body: bytes) -> list[tuple[str, int, dict[str, str]]]:
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


def _parse_failure(body: bytes) -> Failure:
    data = decode(body)
    if type(data) is not dict or set(data) != {*_FAILURE_TEXTS, "frames"}:
        msg = "a failure has the wrong keys"
        raise ProtocolError(msg)
    for key, most in _FAILURE_TEXTS.items():
        if type(data[key]) is not str or len(data[key]) > most:
            msg = f"the {key} of a failure is not a text of at most {most:,} characters"
            raise ProtocolError(msg)
    if type(data["frames"]) is not list or len(data["frames"]) > MAX_FRAMES:
        msg = "a failure has too many frames"
        raise ProtocolError(msg)
    frames = tuple(_frame(item) for item in data["frames"])
    texts = {key: data[key] for key in _FAILURE_TEXTS}
    return Failure(frames=frames, **texts)


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason why a script is refused."""

    code: str
    message: str
    line: int
    """1-based; 0: the script as a whole."""
    column: int
    """1-based; 0: the line as a whole."""
    end_line: int
    end_column: int
    hint: str = ""
    """The way out, or ``""``."""
    advisory: bool = False
    """True if the script may be right all the same."""

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


def _parse_rejected(body: bytes) -> tuple[Finding, ...]:
    findings = _parse_findings(body)
    if not findings:
        msg = "a script is not rejected for nothing"
        raise ProtocolError(msg)
    return findings


def _parse_findings(body: bytes) -> tuple[Finding, ...]:
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


def _raw(body: bytes) -> bytes:
    return body


def _parse_value(body: bytes) -> tuple[Any, Tally]:
    """The value, and what is in it; of one that came in parts nothing."""
    return (IN_PARTS, NOTHING) if body == IN_PARTS else (decode(body), tally(body))


IN_PARTS: Final = b"="
"""Body of EMIT or DONE, which is no JSON: the parts received before this frame make the value."""


_PARSERS: dict[Kind, Callable[[bytes], Any]] = {
    Kind.READY: _parse_nothing,
    Kind.COMPILED: _raw,
    Kind.REJECTED: _parse_rejected,
    Kind.CHECKED: _parse_findings,
    Kind.CALL: _parse_call,
    Kind.CANCEL: _parse_number,
    Kind.PRINT: _parse_print,
    Kind.EMIT: _parse_value,
    Kind.TIMER: _parse_elapsed,
    Kind.WARN: _parse_text,
    Kind.STALLED: _parse_nothing,
    Kind.PONG: _parse_nothing,
    Kind.FRAMES: _parse_frames,
    Kind.DONE: _parse_value,
    Kind.FAILED: _parse_failure,
    Kind.PART: _raw,
}


def parse(kind: Kind, body: bytes) -> Any:
    """Body of a frame from the worker, in exact types.

    Raises:
        ProtocolError: If the body has the wrong shape, or `kind` is not one a worker sends.
    """
    parser = _PARSERS.get(kind)
    if parser is None:
        msg = f"a worker does not send {kind.name}"
        raise ProtocolError(msg)
    return parser(body)
