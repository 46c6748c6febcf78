"""State that a run accumulates, and the one transition that finishes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .._records._limits import Usage
from .._records._result import (
    CallRecord,
    Cut,
    EventKind,
    Failure,
    PendingCall,
    RunEvent,
    RunResult,
    RunWarning,
    Status,
    Variables,
)
from .._wire._protocol import Output
from ._attached import AttachedFiles
from ._breaches import limit_failure
from ._intake import Intake, ReturnValue, TruncatedValue
from ._program import Program
from ._subscriber import Subscriber
from ._tail import TAIL_CHARS, Tail

__all__ = ["Outcome"]

_OUTPUT_EVENTS: Final[dict[Output, EventKind]] = {
    Output.STDOUT: "stdout",
    Output.STDERR: "stderr",
    Output.LOG: "log",
}
_MAX_WARNINGS: Final = 100


class Outcome:
    """Status, value, captured output and warnings of one run.

    A run is open until the first call of `finish`; later calls have no effect.
    """

    def __init__(
        self,
        program: Program,
        on_event: Callable[[RunEvent], None] | None,
        on_finish: Callable[[Status], None],
    ) -> None:
        """Open the outcome of `program`.

        Args:
            program: The program of the run.
            on_event: Receives the events of the run.
            on_finish: Called once, with the status, when the run finishes.
        """
        self._program = program
        self._on_finish = on_finish
        self._messages = 0
        self._failure: Failure | None = None
        self._cut: Cut | None = None
        self._frames: tuple[Variables, ...] = ()
        self._stdout, self._stderr = Tail(), Tail()
        self._warnings: list[RunWarning] = list(program.warnings)
        self.intake = Intake(program.limits)
        """Values that the script sent: emitted values, and those in transfer."""
        self.events = Subscriber(on_event, program.run_id, self._warnings, program.revision)
        self.files = AttachedFiles(program.limits.max_attachment_bytes)
        """Files that the script attached."""
        self.progress: dict[str, Any] | None = None
        """The latest report of progress."""
        self.status: Status | None = None
        """None while the run is open."""
        self.value = ReturnValue(0)

    def finish(
        self,
        status: Status,
        failure: Failure | None = None,
        *,
        value: ReturnValue | None = None,
        frames: tuple[Variables, ...] = (),
    ) -> None:
        """Finish the run, unless it has finished.

        Args:
            status: Final status.
            failure: Reason, if the run did not complete.
            value: The return value, if the script returned.
            frames: Variables of the script, if a replay was stopped.
        """
        if self.status is not None:
            return
        self.status, self._failure, self._frames = status, failure, frames
        if value is not None:
            self.value = value
        self._on_finish(status)

    def exceed(self, limit: str, used: int) -> None:
        """Finish the run because the script exceeded `limit`."""
        self.finish("limit_exceeded", limit_failure(self._program.limits, limit, used))

    def withdraw_value(self) -> None:
        """Reopen a completed run because its value is malformed."""
        self.status, self.value = None, ReturnValue(0)

    def replace_value(self, truncated: TruncatedValue) -> None:
        """Replace a value over its limit by the truncated one."""
        stored = f"the whole value is stored as {truncated.cut.artifact}"
        if truncated.problem:
            stored = f"the whole value could not be stored: {truncated.problem}"
        message = f"the value has {self.value.excess}: it was truncated; {stored}"
        self._warnings.append(RunWarning("value_truncated", message))
        self.value, self._cut = ReturnValue(self.value.size, truncated.value), truncated.cut

    def add_output(self, text: str, output: Output) -> None:
        """Capture text that the script printed or logged."""
        (self._stdout if output is Output.STDOUT else self._stderr).add(text)
        self.events.emit(_OUTPUT_EVENTS[output], text=text)
        used = self._stdout.bytes + self._stderr.bytes
        if used > self._program.limits.max_stdout_bytes:
            self.exceed("max_stdout_bytes", used)
        self._count_message()

    def report_progress(self, done: float, total: float | None, message: str) -> None:
        """Record a report of progress, and pass it on."""
        self.progress = {"done": done, "total": total, "message": message}
        self.events.emit("progress", text=message, value=self.progress)
        self._count_message()

    def _count_message(self) -> None:
        self._messages += 1
        if self._messages > self._program.limits.max_messages:
            self.exceed("max_messages", self._messages)

    def add_warning(self, warning: RunWarning) -> None:
        """Add a warning from the worker; those over 100 are dropped."""
        if len(self._warnings) < _MAX_WARNINGS:
            self._warnings.append(warning)
            self.events.emit("warning", text=str(warning), value=warning)

    def _dropped_output(self) -> list[RunWarning]:
        """Return a warning for each stream of which the result has only the end."""
        return [
            RunWarning(
                f"{stream}_truncated",
                f"the script wrote {tail.chars:,} characters to {stream}, and the result has the "
                f"last {TAIL_CHARS:,}: {tail.dropped:,} were dropped; return or attach the data",
            )
            for stream, tail in (("stdout", self._stdout), ("stderr", self._stderr))
            if tail.dropped
        ]

    @property
    def has_output(self) -> bool:
        """True if the script printed, logged, emitted, attached or reported anything."""
        return bool(self._messages or self.intake.partial or self.files.count)

    def to_result(
        self,
        *,
        calls: tuple[CallRecord, ...],
        pending: tuple[PendingCall, ...],
        warnings: list[RunWarning],
        duration_ms: float,
        queued_ms: float,
        tool_calls: int,
    ) -> RunResult:
        """Build the result of the finished run."""
        return RunResult(
            run_id=self._program.run_id,
            status=self.status or "cancelled",
            value=self.value.value,
            error=self._failure,
            partial=tuple(self.intake.partial),
            stdout=str(self._stdout),
            stderr=str(self._stderr),
            calls=calls,
            usage=Usage(
                duration_ms=round(duration_ms, 3),
                queued_ms=round(queued_ms, 3),
                tool_calls=tool_calls,
                output_bytes=self.value.size,
                stdout_bytes=self._stdout.bytes,
                stderr_bytes=self._stderr.bytes,
                emit_bytes=self.intake.emit_bytes,
            ),
            limits=self._program.limits,
            warnings=(
                *self._warnings,
                *warnings,
                *self.files.warnings,
                *self._dropped_output(),
            ),
            cut=self._cut,
            pending=pending,
            attached=tuple(self.files.stored),
            progress=self.progress,
            frames=self._frames,
        )
