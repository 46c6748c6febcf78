"""What a run may spend (`Limits`) and what it has spent (`Usage`). Frozen data, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from .errors import UsageError

__all__ = ["CEILING", "Limits", "Usage"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Hard limits of one run. They have defaults and cannot be switched off.

    A session has one `Limits` for runs that give none and another as the ceiling: what a caller
    asks for above the ceiling is clamped to it, and the result says so.
    """

    timeout_ms: int = 30_000
    """Wall time of the whole run, tools included, in milliseconds."""
    max_tool_calls: int = 100
    """Tool calls a script may make. Call N+1 raises a `ToolError` with code
    ``limit_exceeded``, which the script may catch to return what it has; one that keeps calling is
    stopped."""
    max_output_bytes: int = 65_536
    """JSON bytes of the returned value. A larger value is cut to fit and kept whole as an
    artifact; the run still completes."""
    max_memory_bytes: int = 268_435_456
    """Memory the script may add to its worker's own, in bytes (256 MiB)."""
    max_stdout_bytes: int = 1_048_576
    """UTF-8 bytes a script may print, to standard output and standard error together. More ends the
    run."""
    max_emit_bytes: int = 1_048_576
    """JSON bytes of all partial values a script may emit with `ctx.emit`. More ends the run."""
    max_in_flight: int = 128
    """Tool calls of one run executing at once; further ones wait in order."""
    max_tool_result_bytes: int = 8_388_608
    """JSON bytes of one tool result as it is handed to the script. More is a `ToolError`."""
    max_source_bytes: int = 131_072
    """UTF-8 bytes of the script."""
    max_inputs_bytes: int = 8_388_608
    """JSON bytes of `inputs`."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or not 1 <= value <= _MOST[field.name]:
                most = _MOST[field.name]
                msg = f"Limits.{field.name} must be an integer from 1 to {most:,}, not {value!r}"
                raise UsageError(msg)

    def clamp(self, ceiling: Limits) -> Limits:
        """These limits, none above `ceiling`'s."""
        lower = {f.name: min(getattr(self, f.name), getattr(ceiling, f.name)) for f in fields(self)}
        return replace(self, **lower)

    def raised(self, floor: Limits) -> Limits:
        """These limits, none below `floor`'s."""
        upper = {f.name: max(getattr(self, f.name), getattr(floor, f.name)) for f in fields(self)}
        return replace(self, **upper)

    def over(self, ceiling: Limits) -> list[str]:
        """Names of the limits that are above `ceiling`'s."""
        return [f.name for f in fields(self) if getattr(self, f.name) > getattr(ceiling, f.name)]


_MOST = {
    "timeout_ms": 86_400_000,
    "max_tool_calls": 1_000_000,
    "max_output_bytes": 67_108_864,
    "max_memory_bytes": 68_719_476_736,
    "max_stdout_bytes": 67_108_864,
    "max_emit_bytes": 67_108_864,
    "max_in_flight": 4_096,
    "max_tool_result_bytes": 67_108_864,
    "max_source_bytes": 8_388_608,
    "max_inputs_bytes": 67_108_864,
}
"""Largest value of each limit: a frame on the wire holds at most 64 MiB, a day has 86,400 s."""


CEILING = Limits(
    timeout_ms=600_000,
    max_tool_calls=10_000,
    max_output_bytes=8_388_608,
    max_memory_bytes=2_147_483_648,
    max_stdout_bytes=16_777_216,
    max_emit_bytes=16_777_216,
    max_in_flight=1_024,
    max_tool_result_bytes=67_108_864,
    max_source_bytes=1_048_576,
    max_inputs_bytes=67_108_864,
)
"""What a run may ask for where the session names no ceiling of its own."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run has spent of its `Limits`."""

    duration_ms: float = 0.0
    """Wall time from the start of the script to its end, in milliseconds."""
    queued_ms: float = 0.0
    """Time the run waited for its turn and for a worker, not counted in `duration_ms`."""
    tool_calls: int = 0
    """Tool calls made, refused ones included."""
    output_bytes: int = 0
    """JSON bytes of the value before it was cut."""
    stdout_bytes: int = 0
    """UTF-8 bytes printed."""
    stderr_bytes: int = 0
    """UTF-8 bytes written to standard error."""
    emit_bytes: int = 0
    """JSON bytes emitted."""
