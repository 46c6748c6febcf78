"""One run of a script: execute it in a worker and enforce its limits from the host's side.

Rule 1: the host counts everything itself; counts that the worker reports are claims.
    tests/core/records/test_limits.py
Rule 2: when a run finishes, for whatever reason, its worker is killed and every tool call still in
    flight is cancelled and awaited before the result is built.
    tests/core/runs/test_run.py::test_finished_run_leaves_no_tool_call_running
Rule 3: a run that fails keeps everything it had: calls, partial values, output.
    tests/core/records/test_limits.py::test_a_run_that_is_stopped_keeps_what_it_had
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import anyio
import anyio.lowlevel

from .._calls._attachments import AttachmentStore
from .._calls._dispatch import Dispatch
from .._calls._recorder import RunRecorder
from .._core import _json
from .._core._reactor import Reactor
from .._core._redact import safe_text
from .._records._result import Failure, RunEvent, RunResult, RunWarning, Status
from .._wire._protocol import Kind, ProtocolError, State
from .._workers._worker import Exit, Worker, WorkerGoneError
from ..artifacts._session_artifacts import SessionArtifacts
from ..errors import JournalError, LeaseLostError
from ._breaches import cpu_failure, exit_failure, timeout_failure
from ._clocks import Clocks
from ._code_cache import CodeCache
from ._effects import warn_of_effects
from ._event_log import EventLog
from ._frames import FrameHandler
from ._outcome import Outcome
from ._program import Program
from ._program_row import without_source
from ._report import quote_line
from ._script_calls import ScriptCalls
from ._violation import Violation, ViolationLog

__all__ = ["Run", "RunResources"]

_log = logging.getLogger("ptc")
_MESSAGE_CHARS: Final = 4_000
_CALLS_AT_ONCE: Final = 1_000
"""Records of calls that are encoded in one iteration of the event loop: 3 ms, or 10 if all of them
have long errors."""
_SIGKILL: Final = 9
_PLACE_SECONDS: Final = 0.05
"""Time that a script has to say on which line it waits or computes, after its time is used up."""


class RunResources(NamedTuple):
    """Resources of a session that its runs share."""

    cache: CodeCache
    """Compiled scripts."""
    artifacts: SessionArtifacts
    """Store of values over their limit."""
    attachments: AttachmentStore
    """Store of files that scripts attach."""
    violations: ViolationLog
    reactor: Reactor
    """The event loop."""


class Run:
    """Executes one program in one worker."""

    def __init__(
        self,
        program: Program,
        dispatch: Dispatch,
        resources: RunResources,
        *,
        on_event: Callable[[RunEvent], None] | None = None,
        queued_ms: float = 0.0,
        start_record: Callable[[], RunRecorder] | None = None,
        warn_of_repeated: Callable[[str], Awaitable[RunWarning | None]] | None = None,
    ) -> None:
        """Prepare a run; nothing is started.

        Args:
            program: The program to execute.
            dispatch: Pipeline of its calls. If it has a `recorder`, that record is continued.
            resources: Resources that the runs of the session share.
            on_event: Receives the events of the run.
            queued_ms: Time the program waited for its turn.
            start_record: Creates the run record in the journal. It is called after the program was
                sent: the worker compiles the script meanwhile, on another core.
            warn_of_repeated: Returns a warning if the effects of a new run repeat those of a failed
                one.
        """
        self._program = program
        self._dispatch = dispatch
        self._resources = resources
        self._queued_ms = queued_ms
        self._start_record = start_record
        self._warn_of_repeated = warn_of_repeated
        self._worker: Worker | None = None
        self._restarted = self._worker_lost = self._ticked = False
        self._outcome = Outcome(program, on_event, self._close)
        self._clocks = Clocks(
            resources.reactor,
            program.limits,
            on_timeout=self._time_out,
            on_cpu_limit=self._exceed_cpu,
            on_tick=self._tick,
        )
        self._calls = ScriptCalls(program, dispatch, self._outcome, self._clocks)
        self._frames = FrameHandler(
            program, self._outcome, self._calls, self._clocks, resources.cache
        )
        self._resumed = self._calls.replay is not None
        if program.recorded:
            self._outcome.events.log = EventLog(
                lambda: dispatch.recorder, resources.reactor, program.revision
            )
        if self._outcome.events.active:
            dispatch.on_event = self._outcome.events.emit_call
        dispatch.when_killed(partial(self._outcome.finish, "crashed"))

    async def execute(self, worker: Worker) -> RunResult:
        """Run the program in `worker` and return its result; the worker is killed in any case.

        Raises:
            WorkerGoneError: If `worker` died while it was idle, or with its zygote before the
                script did anything. The same run can be executed in another.
        """
        self._attach(worker)
        scheduler = self._calls.scheduler
        try:
            self._clocks.start(worker)
            if self._start_record is not None:
                self._dispatch.recorder, self._start_record = self._start_record(), None
            if not self._restarted:
                self._outcome.events.emit("started", counted=False)
            await scheduler.wait()
            if self._worker_lost:
                raise WorkerGoneError
            if self._outcome.status is None:
                await scheduler.run(worker, self._cancel)
        finally:
            if not self._worker_lost:
                self._cancel()
            self._clocks.stop()
            # Deferred until the result is on its way: hanging up takes system calls.
            self._resources.reactor.call_later(
                0, worker.give_up if self._returns(worker) else worker.hang_up
            )
            # Last, because it writes to the journal, which may fail.
            if self._outcome.events.log is not None:
                self._outcome.events.log.flush()
        if self._outcome.value.large is not None:
            await self._truncate_value()
        await self._outcome.files.store(self._resources.attachments)
        # Before the record refers to them.
        for warning in await self._resources.artifacts.send():
            self._outcome.add_warning(warning)
        return await self._record_result(*await self._encode_result())

    async def _encode_result(self) -> tuple[RunResult, bytes]:
        """Return the result and, if the run is recorded, its JSON."""
        # Shielded: a run that has ended must not lose its result.
        with anyio.CancelScope(shield=True):
            result = await self._build_result()
            if self._dispatch.recorder is None:
                return result, b""
            recorded = result if self._program.store_source else without_source(result)
            return result, await _encode(recorded)
        raise AssertionError  # The scope suppresses no exception but its own cancellation.

    def _attach(self, worker: Worker) -> None:
        """Send the program to `worker` and subscribe to its frames."""
        sent = False
        try:
            sent = worker.send(*self._frames.open())
        finally:
            if not sent:
                worker.hang_up()
        if not sent:
            raise WorkerGoneError
        self._worker = self._calls.worker = worker
        self._worker_lost = False
        worker.on_frame, worker.on_oversized = self._frames.handle, self._frames.handle_oversized
        worker.on_fault, worker.on_end = self._fail, self._handle_exit
        worker.decode_limits = self._outcome.intake.decoded_bytes
        # A script that is replayed makes its next call as soon as it is answered.
        worker.eager = self._calls.replay is not None

    async def _truncate_value(self) -> None:
        """Truncate a return value that is over its limit."""
        outcome = self._outcome
        try:
            truncated = await outcome.intake.truncate(outcome.value, self._resources.artifacts)
        except ProtocolError as error:
            outcome.withdraw_value()
            self._fail(error)
            return
        outcome.replace_value(truncated)

    async def _build_result(self) -> RunResult:
        recorder = self._dispatch.recorder
        calls = await self._calls.records()
        effects = warn_of_effects(self._outcome.status, calls, self._program.tools)
        if self._warn_of_repeated is not None and recorder is not None and recorder.effects:
            repeated = await self._warn_of_repeated(self._program.run_id)
            effects += [] if repeated is None else [repeated]
        return self._outcome.to_result(
            calls=calls,
            pending=self._calls.pending(),
            warnings=[*effects, *(recorder.all_warnings() if recorder is not None else ())],
            duration_ms=self._clocks.elapsed * 1000,
            queued_ms=self._queued_ms,
            tool_calls=len(self._calls.calls),
        )

    async def _record_result(self, result: RunResult, data: bytes) -> RunResult:
        """Write the result, encoded as `data`, to the journal."""
        if self._dispatch.recorder is None:
            return result
        try:
            await self._dispatch.recorder.end_run(result.status, data)
        except LeaseLostError:
            # Another process executes the run: its result is the result of the run.
            raise
        except JournalError as error:
            if result.status == "paused":
                raise  # Nobody could resume it.
            # The effects of the run stand; only its record is incomplete.
            warning = RunWarning("not_recorded", f"the end of the run was not recorded: {error}")
            return replace(result, warnings=(*result.warnings, warning))
        return result

    # --- ways to finish ---------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self._program.run_id

    def interrupt(self, failure: Failure) -> None:
        """Stop the run here, without an end in its record: another host continues it."""
        if self._dispatch.recorder is not None:
            self._dispatch.recorder.interrupt()
        self.stop("cancelled", failure)

    def stop(self, status: Status, failure: Failure) -> None:
        """Finish the run now, because the session closes or the run is cancelled."""
        self._read_last_frames()
        self._outcome.finish(status, failure)

    def _close(self, status: Status) -> None:
        """Stop everything that belongs to the run; called once, when it finishes."""
        self._clocks.finish()
        worker = self._worker
        if status != "completed" and worker is not None:
            # A script that failed may have left its worker in order.
            reported = status == "failed" and worker.state is State.ENDED
            if not (reported and worker.may_return):
                worker.kill()
        self._calls.scheduler.stop()

    def _returns(self, worker: Worker) -> bool:
        """Return True if the worker may serve another run, once it was restored."""
        ended = self._outcome.status in {"completed", "failed"}
        # The check of a large value may still find that the worker is hostile.
        return ended and worker.may_return and self._outcome.value.large is None

    @property
    def _worker_is_shared(self) -> bool:
        """True if the worker may serve another run by now."""
        worker = self._worker
        return worker is not None and worker.may_return and self._outcome.status is not None

    def _cancel(self) -> None:
        """Finish the run as cancelled, unless it has finished."""
        self._outcome.finish("cancelled")

    def _read_last_frames(self) -> None:
        """Handle frames that the script sent and the event loop had no time to read."""
        if self._worker is not None and not self._worker_is_shared:
            self._worker.busy_poll(1)

    def _time_out(self) -> None:
        """Finish the run; a script that waits is first asked where."""
        self._read_last_frames()
        line, worker = self._calls.running_line(), self._worker
        if line or worker is None or worker.state is not State.RUNNING or self._resuming:
            self._finish_timed_out(line)
            return
        self._frames.on_places = self._finish_timed_out
        if not worker.send((Kind.INSPECT, b"[1]")):
            self._finish_timed_out()
            return
        self._resources.reactor.call_later(
            _PLACE_SECONDS, lambda: self._ask_place(partial(self._finish_timed_out, computing=True))
        )

    def _ask_place(self, finish: Callable[[int], None]) -> None:
        """Call `finish` with the line at which the script computes; 0: it did not say."""
        if self._outcome.status is not None:
            return
        if self._worker is None or not self._worker.ask_place():
            finish(0)
            return
        self._frames.on_places = finish
        self._resources.reactor.call_later(_PLACE_SECONDS, lambda: finish(0))

    @property
    def _resuming(self) -> bool:
        return self._calls.replay is not None

    def _checked_line(self, line: int) -> int:
        """Return `line`, which is the worker's word; 0 if the script has no such line."""
        return line if 0 <= line <= self._program.source.count("\n") + 1 else 0

    def _finish_timed_out(self, line: int = 0, computing: bool = False) -> None:
        used = self._clocks.elapsed
        running, polled = self._calls.running(), self._frames.polled
        # Reports come at twice the number of readings each: a loop that goes on was seen lately,
        # also on a machine that interrupts it.
        idle = not running and (computing or not line)
        polling = idle and polled is not None and polled[1] * 4 >= used
        if polling and polled is not None:
            line = line or polled[0]
        line = self._checked_line(line)
        failure = timeout_failure(
            self._program.limits,
            used_ms=round(used * 1000),
            running=running,
            line=line,
            polling=polling,
            computing=computing,
            last_call=self._calls.last_call(),
        )
        excerpt = quote_line(self._program.source, line)
        self._outcome.finish("timed_out", replace(failure, excerpt=excerpt))

    def _exceed_cpu(self, used_ms: int) -> None:
        self._read_last_frames()
        self._ask_place(partial(self._finish_over_cpu, used_ms))

    def _finish_over_cpu(self, used_ms: int, line: int) -> None:
        line = self._checked_line(line)
        failure = cpu_failure(self._program.limits, used_ms, line)
        excerpt = quote_line(self._program.source, line)
        self._outcome.finish("limit_exceeded", replace(failure, excerpt=excerpt))

    def _tick(self, elapsed: float) -> None:
        """Send the script the time, when its timer fires."""
        self._ticked = True
        if self._dispatch.recorder is not None:
            self._dispatch.recorder.tick(elapsed)
        if self._worker is not None:
            self._worker.send((Kind.TICK, b"[%r]" % elapsed))

    def _fail(self, error: Exception) -> None:
        """Finish the run: handling a frame raised `error`."""
        if isinstance(error, ProtocolError):
            self._alarm(self._resources.violations.protocol(str(error), **self._script()))
            return
        _log.error("run %s: the host failed", self._program.run_id, exc_info=error)
        why = safe_text(f"{type(error).__name__}: {error}")
        message = f"the host failed to process a message from the script: {why}"
        hint = "this is a bug in ptc, not in the script; the log has its traceback"
        failure = Failure(code="internal", message=message[:_MESSAGE_CHARS], hint=hint)
        self._outcome.finish("crashed", failure)

    def _handle_exit(self) -> None:
        """Finish the run: its worker's process ended, and its last frame has been read."""
        how = self._worker.exit if self._worker is not None else None
        if how is not None and how.stopped_by_kernel:
            # An alarm even if the run has finished: a worker may send its result first.
            self._alarm(self._resources.violations.system_call(how.call, **self._script()))
        if self._outcome.status is not None or how is None:
            return
        lost = how.why or self._was_dead_before(how)
        if lost and not self._restarted and not self._has_visible_effect():
            # The zygote died. A script that nobody has seen do anything is started again, once,
            # in a worker of the next zygote.
            self._restarted = self._worker_lost = True
            self._calls.scheduler.wake()
            return
        status, failure = exit_failure(self._program.limits, how)
        self._outcome.finish(status, replace(failure, hint=failure.hint or self._calls.last_call()))

    def _was_dead_before(self, how: Exit) -> bool:
        """Return True if the worker may have been killed before it got the script.

        A worker that can be restored has its wire open in the restorer, too, so that a script can
        be sent to it after its death.
        """
        worker = self._worker
        silent = worker is not None and worker.may_return and worker.state is State.COMPILING
        return silent and how.signal == _SIGKILL

    def _has_visible_effect(self) -> bool:
        """Return True if the script did anything that a restart would repeat or contradict."""
        acted = bool(self._calls.calls) or self._outcome.has_output
        return acted or self._ticked or self._resumed

    def _script(self) -> dict[str, str]:
        program = self._program
        return {"run_id": program.run_id, "filename": program.filename, "source": program.source}

    def _alarm(self, violation: Violation) -> None:
        if self._outcome.status is not None:
            return
        message = violation.message
        self._outcome.events.emit("violation", text=message, value=violation, counted=False)
        # The worker is dead: the last line that the host knows is that of the last call.
        failure = Failure(
            violation.code,
            message,
            line=self._calls.calls.last_line(),
            hint=self._calls.last_call(),
            syscall=violation.syscall,
        )
        self._outcome.finish("violation", failure)


async def _encode(result: RunResult) -> bytes:
    """Encode a result as `RunResult.to_json` does, some calls at a time."""
    if len(result.calls) <= _CALLS_AT_ONCE:
        return _json.dumps_unchecked(result)
    parts = []
    for start in range(0, len(result.calls), _CALLS_AT_ONCE):
        if start:
            await anyio.lowlevel.checkpoint()
        calls = result.calls[start : start + _CALLS_AT_ONCE]
        parts.append(_json.dumps_unchecked(calls)[1:-1])
    return _json.dumps_unchecked(replace(result, calls=_json.Fragment(b"[%b]" % b",".join(parts))))
