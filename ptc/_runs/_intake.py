"""Values from a worker: bounded before they are decoded, truncated outside the event loop.

Rule 1: a value over its limit is never decoded in the event loop, and each step there is bounded.
    tests/core/runs/test_intake.py::test_a_value_over_its_limit_is_decoded_in_another_thread
Rule 2: the memory that a run holds for values of its worker is bounded by its limits.
    tests/core/runs/test_intake.py::test_arguments_of_finished_calls_are_released
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import anyio
import anyio.to_thread

from .._core import _json
from .._dataclass import dataclass
from .._records._artifacts import LocalArtifacts, compute_digest, shrink
from .._records._limits import Limits
from .._records._result import Cut
from .._wire._bodies import NOTHING, ProtocolError, Tally, decode, tally
from .._wire._parts import Node, PartReader, json_of, target_of
from .._wire._protocol import ENVELOPE_BYTES, IN_PARTS, Call, Kind

__all__ = ["CallArguments", "Intake", "OverLimitError", "ReturnValue", "TruncatedValue"]

_WHOLE_BYTES: Final = 16 << 20
"""JSON of the largest value over `Limits.max_output_bytes` that is stored whole."""
_MOST_BYTES: Final = 32 << 20
"""JSON that is counted at most, so that an error can say how far over its limit a value is."""
_LEAST_CONTAINER_BYTES: Final = 2
"""JSON of the shortest list."""
_VALUE_WEIGHT: Final = 60
"""Bytes of memory that a value takes in addition to its text."""
_CONTAINER_WEIGHT: Final = 100
"""Further bytes for a list or an object: a list takes 72, an object of one key 232."""


class OverLimitError(Exception):
    """Raised when a script exceeds a limit that ends its run."""

    def __init__(self, limit: str, used: int) -> None:
        super().__init__(limit, used)
        self.limit = limit
        self.used = used


@dataclass(frozen=True, slots=True)
class CallArguments:
    """Arguments that a script passed to a tool."""

    arguments: dict[str, Any]
    weight: int
    """Approximate memory, in bytes."""
    over: OverLimitError | None = None
    """The limit that they exceed; then `arguments` is empty."""


@dataclass(frozen=True, slots=True)
class ReturnValue:
    """Value that a script returned."""

    size: int
    """Bytes of its JSON."""
    value: Any = None
    """The value, if it is within its limits."""
    large: Node | bytes | None = None
    """JSON of a value that exceeds its limits."""
    excess: str = ""
    """The exceeded limit, in words."""


@dataclass(frozen=True, slots=True)
class TruncatedValue:
    """Rest of a value that was too large."""

    value: Any
    cut: Cut
    problem: str
    """Reason that the whole value could not be stored; ``""`` if it was."""


class Intake:
    """Receives the values of one run.

    Attributes:
        partial: Values that the script emitted.
        emit_bytes: Bytes of their JSON.
    """

    def __init__(self, limits: Limits) -> None:
        """Accept values within `limits`."""
        self.partial: list[Any] = []
        self.emit_bytes = 0
        self._emit_containers = 0
        self._limits = limits
        self._reader: PartReader | None = None
        self.decoded_bytes = {
            Kind.CALL: limits.max_argument_bytes + ENVELOPE_BYTES,
            Kind.EMIT: limits.max_emit_bytes,
            Kind.DONE: limits.max_output_bytes,
        }
        """Largest body of a frame that is decoded, in bytes."""

    def take_part(self, part: bytes) -> None:
        """Add a part of the next value.

        Raises:
            ProtocolError: If it does not continue the parts before.
            OverLimitError: If the value is too large to be counted further.
        """
        kind = target_of(part)
        if kind is not None:
            self._reader = self._create_reader(kind)
            return
        reader = self._reader
        if reader is None:
            msg = "a part does not belong to a value"
            raise ProtocolError(msg)
        reader.feed(part)
        if reader.size > max(_MOST_BYTES, self._limits.max_output_bytes):
            raise OverLimitError(_LIMIT_OF[reader.kind], reader.size)

    def _create_reader(self, kind: Kind) -> PartReader:
        limits = self._limits
        keep, containers = 0, limits.max_containers
        if kind is Kind.DONE:
            most, keep = limits.max_output_bytes, max(limits.max_output_bytes, _WHOLE_BYTES)
        elif kind is Kind.EMIT:
            most = limits.max_emit_bytes - self.emit_bytes
            containers -= self._emit_containers
        else:
            most = limits.max_argument_bytes
        return PartReader(kind, most_bytes=most, most_containers=containers, keep_bytes=keep)

    def _finish_parts(self, kind: Kind) -> PartReader:
        reader, self._reader = self._reader, None
        if reader is None:
            msg = f"there are no parts before {kind.name}"
            raise ProtocolError(msg)
        reader.finish(kind)
        return reader

    def limit_error(self, kind: Kind, size: int) -> OverLimitError:
        """Build the error for a frame that came in one piece and was too large to read."""
        return OverLimitError(_LIMIT_OF[kind], size + (self.emit_bytes if kind is Kind.EMIT else 0))

    def take_emitted(self, body: tuple[Any, Tally] | bytes, size: int) -> Any:
        """Store an emitted value, and return it.

        Args:
            body: The value and its tally; its JSON if that is over the limit.
            size: Bytes of the body.

        Raises:
            OverLimitError: If there are too many values, or they are too large.
        """
        value, found = body if isinstance(body, tuple) else (None, NOTHING)
        if value is IN_PARTS:
            reader = self._finish_parts(Kind.EMIT)
            value, found, size = reader.value, reader.tally, reader.size
        limits = self._limits
        used_bytes, containers = self.emit_bytes + size, self._emit_containers + found.containers
        if used_bytes > limits.max_emit_bytes:
            raise OverLimitError("max_emit_bytes", used_bytes)
        if len(self.partial) >= limits.max_emits:
            raise OverLimitError("max_emits", len(self.partial) + 1)
        if containers > limits.max_containers:
            raise OverLimitError("max_containers", containers)
        self.emit_bytes, self._emit_containers = used_bytes, containers
        self.partial.append(value)
        return value

    def take_return(self, body: tuple[Any, Tally] | bytes, size: int) -> ReturnValue:
        """Accept the return value; of one over a limit, the JSON is returned.

        Args:
            body: The value and its tally; its JSON if that is over the limit.
            size: Bytes of the body.

        Raises:
            OverLimitError: If it is too large to be stored.
        """
        limits = self._limits
        if isinstance(body, bytes):
            return ReturnValue(size, large=body, excess=self._excess(size, NOTHING))
        value, found = body
        if value is not IN_PARTS:
            if found.containers <= limits.max_containers:
                return ReturnValue(size, value)
            return ReturnValue(
                size, large=_json.dumps_unchecked(value), excess=self._excess(size, found)
            )
        reader = self._finish_parts(Kind.DONE)
        if reader.decoded:
            return ReturnValue(reader.size, reader.value)
        if reader.root is None:
            if reader.size <= limits.max_output_bytes:
                raise OverLimitError("max_containers", reader.tally.containers)
            raise OverLimitError("max_output_bytes", reader.size)
        excess = self._excess(reader.size, reader.tally)
        return ReturnValue(reader.size, large=reader.root, excess=excess)

    def _excess(self, size: int, found: Tally) -> str:
        limits = self._limits
        if size > limits.max_output_bytes:
            return f"{size:,} bytes, over max_output_bytes={limits.max_output_bytes:,}"
        most = limits.max_containers
        return f"{found.containers:,} lists and objects, over max_containers={most:,}"

    def take_arguments(self, call: Call, size: int) -> CallArguments:
        """Return the arguments of a call.

        Args:
            call: The call as received.
            size: Bytes of its body.
        """
        arguments, found, limits = call.arguments, call.found, self._limits
        if arguments is None:
            reader = self._finish_parts(Kind.CALL)
            arguments, found, size = reader.value, reader.tally, reader.size
            if not reader.decoded:
                arguments = reader.size if reader.size > limits.max_argument_bytes else {}
            elif type(arguments) is not dict:
                msg = "the arguments of a call are not an object"
                raise ProtocolError(msg)
        if isinstance(arguments, int):
            self._reader = None
            return CallArguments({}, 0, OverLimitError("max_argument_bytes", arguments))
        if found.containers > limits.max_containers:
            return CallArguments({}, 0, OverLimitError("max_containers", found.containers))
        weight = found.values * _VALUE_WEIGHT + found.containers * _CONTAINER_WEIGHT
        return CallArguments(arguments, size + weight)

    async def truncate(self, returned: ReturnValue, artifacts: LocalArtifacts) -> TruncatedValue:
        """Store a value that is too large, and truncate it, in a thread; not cancellable.

        Raises:
            ProtocolError: If it is not JSON.
        """
        assert returned.large is not None  # noqa: S101  # the caller has checked
        work = partial(_truncate, returned.large, self._limits, artifacts)
        with anyio.CancelScope(shield=True):
            return await anyio.to_thread.run_sync(work, limiter=anyio.CapacityLimiter(1))
        raise AssertionError  # unreachable: nothing cancels this scope


_LIMIT_OF: Final = {
    Kind.CALL: "max_argument_bytes",
    Kind.DONE: "max_output_bytes",
    Kind.EMIT: "max_emit_bytes",
}


def _truncate(large: Node | bytes, limits: Limits, artifacts: LocalArtifacts) -> TruncatedValue:
    def pieces() -> Iterable[bytes]:
        return json_of(large) if isinstance(large, Node) else (large,)

    whole = large if isinstance(large, Node) else decode(large)
    value = shrink(whole, limits.max_output_bytes)
    if tally(_json.dumps_unchecked(value)).containers > limits.max_containers:
        value = shrink(whole, limits.max_containers * _LEAST_CONTAINER_BYTES)
    try:
        return TruncatedValue(value, artifacts.keep_pieces(pieces), "")
    except OSError as error:
        # A full disk must not cost the script its result.
        return TruncatedValue(value, compute_digest(pieces()), str(error))
