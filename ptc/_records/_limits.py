"""Limits of a run, the limit that it exceeded (`Breach`), and its resource usage (`Usage`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, NoReturn

from .._dataclass import dataclass
from ..errors import UsageError

__all__ = ["CEILING", "MAXIMA", "Breach", "CallsByTool", "Limits", "Usage"]


class CallsByTool(dict[str, int]):
    """An immutable dict, so that it can be part of a frozen `Limits`."""

    __slots__ = ()

    def _refuse(self: Any, *_: object, **__: object) -> NoReturn:
        msg = "limits are immutable; create another Limits with dataclasses.replace"
        raise TypeError(msg)

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]  # a dict is mutable and has none
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


@dataclass(frozen=True, slots=True)
class Limits:
    """Hard limits of one run. They have defaults and cannot be switched off.

    A session has one `Limits` as the default of its runs and another as the ceiling. A request
    above the ceiling is clamped to it, and the result has a warning. docs/limits.md lists for each
    limit how it is enforced and the effect of exceeding it.
    """

    timeout_ms: int = 30_000
    """Wall time of the whole run, tools included, in milliseconds."""
    max_cpu_ms: int = 60_000
    """CPU time of the script's process, in milliseconds. The kernel enforces it to whole seconds,
    the host to about a hundredth of one."""
    max_tool_calls: int = 100
    """Tool calls a script may make. Call N+1 raises a `ToolError` with code
    ``limit_exceeded``, which the script may catch to return a partial result; a script that keeps
    calling is stopped."""
    max_calls_by_tool: Mapping[str, int] = field(default_factory=CallsByTool)
    """Calls of single tools, by name: ``{"bash": 3}``. For other tools only `max_tool_calls`
    applies. The call after the last raises a `ToolError` with code ``limit_exceeded``."""
    tool_timeout_ms: int = 600_000
    """Time of one tool call with its retries, in milliseconds, approvals not counted. A call that
    takes longer is cancelled and awaited, and raises a `ToolError` with code ``timeout``. A tool
    may set a shorter time-out for each attempt, `Tool.timeout_ms`."""
    max_output_bytes: int = 65_536
    """JSON bytes of the returned value. A larger value is truncated to fit and stored whole as an
    artifact; the run still completes. A value over 16 MiB, or over this limit if that is more, is
    not stored, and ends the run."""
    max_memory_bytes: int = 268_435_456
    """Memory the script may add to its worker's own, in bytes (256 MiB)."""
    max_stdout_bytes: int = 1_048_576
    """UTF-8 bytes a script may print, to standard output and standard error together. More ends the
    run."""
    max_emit_bytes: int = 1_048_576
    """JSON bytes of all partial values a script may emit with `ctx.emit`. More ends the run."""
    max_emits: int = 10_000
    """Partial values a script may emit. More ends the run."""
    max_attachment_bytes: int = 16_777_216
    """Bytes of all files a script may attach with `ctx.attach`. More raises a `RuntimeError` in the
    script."""
    max_messages: int = 100_000
    """Pieces of text a script may print or log, and reports of progress. More ends the run. A
    number, not a rate, so that the outcome of a run does not depend on the speed of the machine."""
    max_in_flight: int = 128
    """Tool calls of one run executing at once; further ones wait in order."""
    max_tasks: int = 10_000
    """Tasks of `asyncio` that a script may have at once. One more raises a `RuntimeError` in the
    script. The worker counts them; a worker that lies is still bound by the limit on memory."""
    max_argument_bytes: int = 4_194_304
    """JSON bytes of the arguments of one tool call. More is a `ToolError`."""
    max_containers: int = 250_000
    """Lists and objects in the returned value, in all emitted values together, and in the arguments
    of one tool call: 3 bytes of JSON make 72 bytes in the host's memory. A returned value with more
    is truncated, arguments with more are a `ToolError`, emitting more ends the run."""
    max_tool_result_bytes: int = 8_388_608
    """JSON bytes of one tool result as sent to the script. More is a `ToolError`."""
    max_source_bytes: int = 131_072
    """UTF-8 bytes of the script."""
    max_inputs_bytes: int = 8_388_608
    """JSON bytes of `inputs`."""

    def __post_init__(self) -> None:
        for name, most in MAXIMA.items():
            _require_number(f"Limits.{name}", getattr(self, name), most)
        calls = self.max_calls_by_tool
        if type(calls) is not CallsByTool:
            object.__setattr__(self, "max_calls_by_tool", _calls_by_tool(calls))

    def clamp(self, ceiling: Limits) -> Limits:
        """Return these limits, lowered to `ceiling` where they are above it."""
        lower: dict[str, Any] = {n: min(getattr(self, n), getattr(ceiling, n)) for n in MAXIMA}
        mine, most = self.max_calls_by_tool, ceiling.max_calls_by_tool
        lower["max_calls_by_tool"] = {
            name: min(calls.get(name, MAXIMA["max_tool_calls"]) for calls in (mine, most))
            for name in [*mine, *(name for name in most if name not in mine)]
        }
        return replace(self, **lower)

    def raise_to(self, floor: Limits) -> Limits:
        """Return these limits, raised to `floor` where they are below it."""
        upper: dict[str, Any] = {n: max(getattr(self, n), getattr(floor, n)) for n in MAXIMA}
        mine, least = self.max_calls_by_tool, floor.max_calls_by_tool
        # A tool without an entry may be called more often than one with an entry.
        upper["max_calls_by_tool"] = {n: max(mine[n], least[n]) for n in mine if n in least}
        return replace(self, **upper)

    def over(self, ceiling: Limits) -> list[str]:
        """List the names of the limits that are above `ceiling`."""
        names = [n for n in MAXIMA if getattr(self, n) > getattr(ceiling, n)]
        most = ceiling.max_calls_by_tool
        if any(calls > most.get(tool, calls) for tool, calls in self.max_calls_by_tool.items()):
            names.append("max_calls_by_tool")
        return names


def _require_number(name: str, value: object, most: int) -> None:
    # The exact type: True, 3.0 and NaN are rejected.
    if type(value) is not int or not 1 <= value <= most:
        msg = f"{name} must be an integer from 1 to {most:,}, not {value!r:.80}"
        raise UsageError(msg)


def _calls_by_tool(calls: object) -> CallsByTool:
    if not isinstance(calls, Mapping):
        msg = f'Limits.max_calls_by_tool must be a dict like {{"bash": 3}}, not {calls!r:.80}'
        raise UsageError(msg)
    for name, number in calls.items():
        if not isinstance(name, str) or not name:
            msg = f"Limits.max_calls_by_tool: {name!r:.80} is not the name of a tool"
            raise UsageError(msg)
        most = MAXIMA["max_tool_calls"]
        if type(number) is not int or not 1 <= number <= most:
            msg = (
                f"Limits.max_calls_by_tool[{name!r:.80}] must be an integer from 1 to {most:,}, "
                f"not {number!r:.80}; to allow no call of a tool, leave it out of allowed_tools"
            )
            raise UsageError(msg)
    return CallsByTool(calls)


MAXIMA = {
    "timeout_ms": 86_400_000,
    "max_cpu_ms": 86_400_000,
    "max_tool_calls": 1_000_000,
    "tool_timeout_ms": 86_400_000,
    "max_output_bytes": 67_108_864,
    "max_memory_bytes": 68_719_476_736,
    "max_stdout_bytes": 67_108_864,
    "max_emit_bytes": 67_108_864,
    "max_emits": 1_000_000,
    "max_attachment_bytes": 1_073_741_824,
    "max_messages": 10_000_000,
    "max_in_flight": 4_096,
    "max_tasks": 1_000_000,
    "max_argument_bytes": 16_000_000,
    "max_containers": 67_108_864,
    "max_tool_result_bytes": 67_108_864,
    "max_source_bytes": 8_388_608,
    "max_inputs_bytes": 67_108_864,
}
"""Maximum of each limit: a frame on the wire holds at most 64 MiB, one of a call 16 MiB, a day has
86,400 s."""


CEILING = Limits(
    timeout_ms=600_000,
    max_cpu_ms=600_000,
    max_tool_calls=10_000,
    tool_timeout_ms=600_000,
    max_output_bytes=8_388_608,
    max_memory_bytes=2_147_483_648,
    max_stdout_bytes=16_777_216,
    max_emit_bytes=16_777_216,
    max_emits=100_000,
    max_attachment_bytes=134_217_728,
    max_messages=1_000_000,
    max_in_flight=1_024,
    max_tasks=100_000,
    max_argument_bytes=16_000_000,
    max_containers=1_000_000,
    max_tool_result_bytes=67_108_864,
    max_source_bytes=1_048_576,
    max_inputs_bytes=67_108_864,
)
"""Default ceiling of a session."""


@dataclass(frozen=True, slots=True)
class Breach:
    """The limit that a run exceeded."""

    limit: str
    """Its name in `Limits`."""
    most: int
    """Maximum, in the unit of the limit."""
    used: int | None = None
    """Amount used when the run was stopped; None if it cannot be known."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that a run has used of its `Limits`."""

    duration_ms: float = 0.0
    """Wall time from the start of the script to its end, in milliseconds."""
    queued_ms: float = 0.0
    """Time the run waited for its turn and for a worker, not counted in `duration_ms`."""
    tool_calls: int = 0
    """Tool calls made, rejected ones included."""
    output_bytes: int = 0
    """JSON bytes of the value before it was truncated."""
    stdout_bytes: int = 0
    """UTF-8 bytes printed."""
    stderr_bytes: int = 0
    """UTF-8 bytes written to standard error."""
    emit_bytes: int = 0
    """JSON bytes emitted."""
