"""Frames between host and worker, and their legal order. No I/O; it knows neither side.

Rule 1: a frame's length is checked against its kind's limit before a byte of it is buffered. Larger
    values come in parts (`_parts`), so that no single step of the host takes long or much memory.
    tests/core/wire/test_protocol.py::test_an_oversized_frame_is_refused_by_its_header
Rule 2: the table `LEGAL` alone decides which frame may follow which.
    tests/core/wire/test_protocol.py::test_every_transition_outside_the_table_is_refused
Rule 3: lists and objects are counted before a body is decoded: 3 bytes of JSON make 72 in memory.
    tests/core/wire/test_protocol.py::test_body_with_too_many_containers_is_refused_before_decoding
Rule 4: compiled code is legal only before the first line of the script runs.
    tests/core/wire/test_protocol.py::test_compiled_code_is_refused_once_the_script_runs

A frame is four bytes of length (big-endian, of what follows), one byte of kind, and the body: JSON,
or raw bytes for source and compiled code. `_messages` decodes the bodies that a worker sends. The
worker is hostile by assumption: once a script runs, the script wrote every frame that arrives.
"""

from __future__ import annotations

import signal
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from itertools import chain
from typing import Any, Final

from . import _messages
from ._bodies import INLINE_BYTES, ProtocolError, load_json
from ._messages import IN_PARTS, Call, Failure, Finding, Frame, Output, Warned

__all__ = [
    "ENVELOPE_BYTES",
    "FROM_WORKER",
    "IN_PARTS",
    "LEGAL",
    "PLACE_SIGNAL",
    "Call",
    "Decoder",
    "Failure",
    "Finding",
    "Frame",
    "Kind",
    "Output",
    "OversizedError",
    "ProtocolError",
    "State",
    "Warned",
    "encode",
    "load_json",
    "next_state",
    "parse",
]


PLACE_SIGNAL: Final[int] = getattr(signal, "SIGUSR1", 0)  # Windows has none, and no processes
"""Sent to a worker whose script computes and reads no frame: it answers FRAMES."""


class OversizedError(ProtocolError):
    """A frame announced more bytes than its kind may have; none of them was buffered."""

    def __init__(self, kind: Kind, size: int, most: int) -> None:
        super().__init__(f"{kind.name} of {size:,} bytes is over the limit of {most:,}")
        self.kind = kind
        self.size = size


class Kind(IntEnum):
    """Kinds of frame. The comment gives the body."""

    # host -> worker
    START = 1  # {"inputs", "tools", "epoch", "seed", "limits", ...}; see `TOOLS` and `_opening`
    SOURCE = 2  # raw: the script, UTF-8
    CODE = 3  # raw: compiled code, as a worker sent it for the same source
    RESULT = 4  # [id, elapsed, ok, records, value | error]
    TICK = 5  # [elapsed]
    REHEARSE = 6  # []: run the dummy scripts now; no answer
    PING = 7  # []: answer PONG when idle
    INSPECT = 8  # []: answer FRAMES; [1]: without the variables, of the waiting code only
    TOOLS = 9  # {tool: [parameter, ...]}: all tools; START has those that the script names
    # worker -> host
    READY = 16  # []
    COMPILED = 17  # raw: compiled code
    REJECTED = 18  # [finding, ...]
    CALL = 19  # [id, tool, arguments | null: in parts | bytes, if too many to send, line | null]
    CANCEL = 20  # [id]
    PRINT = 21  # [text, output]
    EMIT = 22  # the value itself, or IN_PARTS
    TIMER = 23  # [elapsed at which to send TICK]
    WARN = 24  # [code, message, path, line]
    POLLED = 25  # [line, n]: the script has read its clock n times, now on that line
    DONE = 26  # the value itself, or IN_PARTS
    FAILED = 27  # {"type", "message", "frames", ...}, see Failure
    CHECKED = 28  # [finding, ...]: findings of a preflight, which runs nothing
    PONG = 29  # []: every frame before the PING was handled, and the script waits
    FRAMES = 30  # [[function, line, [[name, text], ...]], ...]: the local variables
    PART = 31  # one step of writing a large value, see `_parts`
    ADVISED = 32  # [finding, ...]: advice about a script that will run
    PIECE = 33  # raw: a piece of the next attachment
    ATTACH = 34  # [name, media type]: the pieces before make an attachment
    PROGRESS = 35  # [done, total | null, message]
    REQUEST_TOOLS = 36  # []: answer TOOLS; once in a run


class State(IntEnum):
    """Progress of a worker in its one run."""

    FORKED = 0
    IDLE = 1
    STARTED = 2
    COMPILING = 3
    RUNNING = 4
    ENDED = 5
    ADVISED = 6


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
        _K.POLLED,
        _K.PING,
        _K.PONG,
        _K.INSPECT,
        _K.FRAMES,
        _K.PART,
        _K.PIECE,
        _K.ATTACH,
        _K.PROGRESS,
        _K.REQUEST_TOOLS,
        _K.TOOLS,
    ),
    _S.RUNNING,
)
LEGAL: Final[dict[State, dict[Kind, State]]] = {
    _S.FORKED: {_K.READY: _S.IDLE},
    _S.IDLE: {_K.REHEARSE: _S.IDLE, _K.START: _S.STARTED},
    _S.STARTED: {_K.SOURCE: _S.COMPILING, _K.CODE: _S.RUNNING},
    _S.COMPILING: {
        _K.REQUEST_TOOLS: _S.COMPILING,
        _K.TOOLS: _S.COMPILING,
        _K.ADVISED: _S.ADVISED,
        _K.COMPILED: _S.RUNNING,
        _K.REJECTED: _S.ENDED,
        _K.CHECKED: _S.ENDED,
        _K.FAILED: _S.ENDED,  # no memory for inputs or source
    },
    _S.ADVISED: {
        _K.COMPILED: _S.RUNNING,
        _K.REJECTED: _S.ENDED,
        _K.FAILED: _S.ENDED,  # no memory for the code
    },
    _S.RUNNING: {**_STAY, _K.DONE: _S.ENDED, _K.FAILED: _S.ENDED},
    _S.ENDED: {},
}
"""state -> kind of frame -> next state. Any other frame raises `ProtocolError`."""


def next_state(state: State, kind: Kind) -> State:
    """Return the state after a frame of `kind`. Raises `ProtocolError` if it is not legal now."""
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
    _K.WARN: 8192,
    _K.POLLED: 64,
    _K.PING: 64,
    _K.PONG: 64,
    _K.INSPECT: 64,
    _K.TOOLS: 72 * _MIB,
    _K.REQUEST_TOOLS: 64,
    _K.FRAMES: _MIB,
    _K.DONE: 68 * _MIB,
    _K.FAILED: _MIB,
    _K.CHECKED: _MIB,
    _K.PART: INLINE_BYTES + 1,
    _K.ADVISED: _MIB,
    _K.PIECE: _messages.ATTACHMENT_PIECE,
    _K.ATTACH: 4096,
    _K.PROGRESS: 8192,
}
"""Largest body of each kind in bytes."""
ENVELOPE_BYTES = 4_096
"""Bytes of a call beside its arguments: numbers, and a name of escaped characters only."""
FROM_WORKER: Final[dict[int, int]] = {
    **MAX_BODY,
    _K.CALL: INLINE_BYTES + ENVELOPE_BYTES,
    _K.EMIT: INLINE_BYTES,
    _K.DONE: INLINE_BYTES,
}
"""The same for a host's decoder: a worker sends larger values in parts."""

_HEADER = struct.Struct(">IB")
HEADER_BYTES = _HEADER.size
_KINDS: Final = {int(kind): kind for kind in Kind}
"""A lookup takes 30 ns, ``Kind(number)`` half a microsecond and, in a worker, pages of its own."""


def encode(kind: Kind, body: bytes) -> bytes:
    """Build one frame. Raises `ValueError` if `body` is over the limit of its kind."""
    if len(body) > MAX_BODY[kind]:
        msg = f"{kind.name} of {len(body):,} bytes is over the limit of {MAX_BODY[kind]:,}"
        raise ValueError(msg)
    return _HEADER.pack(len(body) + 1, kind) + body


class Decoder:
    """Decodes a stream of bytes into frames. Buffers at most one unfinished frame.

    Attributes:
        limits: Largest body by kind of frame.
    """

    __slots__ = ("_buffer", "limits")

    def __init__(self, limits: Mapping[int, int] = MAX_BODY) -> None:
        self._buffer = bytearray()
        self.limits = limits

    def feed(self, data: bytes) -> Iterable[tuple[Kind, bytes]]:
        """Return each frame that `data` completes; iterate over them before the next `feed`.

        Raises:
            ProtocolError: On an unknown kind or a length of zero.
            OversizedError: On a length over the limit of its kind.
        """
        if self._buffer:
            return self._frames(data)
        # The common case, whole frames, needs no buffer.
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
        """Number of buffered bytes of an unfinished frame."""
        return len(self._buffer)


_PARSERS: dict[Kind, Callable[[bytes], Any]] = {
    Kind.READY: _messages.parse_nothing,
    Kind.COMPILED: _messages.parse_raw,
    Kind.REJECTED: _messages.parse_rejected,
    Kind.ADVISED: _messages.parse_findings,
    Kind.CHECKED: _messages.parse_findings,
    Kind.CALL: _messages.parse_call,
    Kind.CANCEL: _messages.parse_number,
    Kind.PRINT: _messages.parse_print,
    Kind.EMIT: _messages.parse_value,
    Kind.TIMER: _messages.parse_elapsed,
    Kind.WARN: _messages.parse_warning,
    Kind.POLLED: _messages.parse_polled,
    Kind.PONG: _messages.parse_nothing,
    Kind.REQUEST_TOOLS: _messages.parse_nothing,
    Kind.FRAMES: _messages.parse_frames,
    Kind.DONE: _messages.parse_value,
    Kind.FAILED: _messages.parse_failure,
    Kind.PART: _messages.parse_raw,
    Kind.PIECE: _messages.parse_raw,
    Kind.ATTACH: _messages.parse_attach,
    Kind.PROGRESS: _messages.parse_progress,
}


def parse(kind: Kind, body: bytes) -> Any:
    """Decode the body of a frame from the worker to exact types.

    Raises:
        ProtocolError: If the body has the wrong shape, or `kind` is not one a worker sends.
    """
    parser = _PARSERS.get(kind)
    if parser is None:
        msg = f"a worker does not send {kind.name}"
        raise ProtocolError(msg)
    return parser(body)
