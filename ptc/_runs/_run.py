"""One run of a script, from the host's side: drive the worker, serve its calls, hold the limits.

Rule 1: everything is counted here; what the worker says of itself is a claim.
    tests/core/records/test_limits.py
Rule 2: when a run ends, for whatever reason, its worker is killed and every tool call still in
    flight is cancelled and awaited before the result is made.
    tests/core/runs/test_run.py::test_a_run_that_ends_leaves_no_tool_call_running
Rule 3: a run that fails loses nothing that it had: calls, partial values, output.
    tests/core/records/test_limits.py::test_a_run_that_is_stopped_keeps_what_it_had
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from .. import _json
from .._calls._call import OpenCall
from .._calls._dispatch import Dispatch
from .._calls._recorder import DivergenceError, Track, pending_call
from .._reactor import Reactor
from .._records._artifacts import ArtifactStore
from .._records._limits import Breach, Usage
from .._records._result import (
    CallRecord,
    Cut,
    EventKind,
    Failure,
    PendingCall,
    RunEvent,
    RunResult,
    Status,
    Variables,
)
from .._redact import safe_text
from .._tools._tool import ToolCall
from .._tools._tool_result import ToolResult
from .._wire import _protocol
from .._wire._protocol import Kind, Output, ProtocolError
from .._workers._process import Worker, WorkerGoneError
from ..errors import JournalError
from ._breaches import arguments_too_large, over, refused_memory, told_of_limit, used_cpu
from ._clocks import Clocks
from ._code_cache import CodeCache
from ._intake import Intake, OverLimitError, Returned
from ._opening import opening
from ._program import Program
from ._replay import Replay
from ._report import failure_of, finding_of
from ._scheduler import Serving
from ._tail import Tail
from ._violation import Violation, ViolationLog

__all__ = ["Run"]

_log = logging.getLogger("ptc")
_MESSAGE_CHARS = 4_000

_OUTPUT_EVENTS: Final[dict[Output, EventKind]] = {
    Output.STDOUT: "stdout",
    Output.STDERR: "stderr",
    Output.LOG: "log",
}
_REFUSED_CALLS = 1_000
"""Calls beyond ten times the budget that a script may make before it is stopped: room for one
gather that is over the limit as a whole, none for a loop that swallows the error."""
_MAX_CALLS_QUEUED = 100_000
_HELD_BYTES = 32 << 20
"""Memory that the arguments of calls take which have not ended, before no more is read from their
script. It never is so little that a single call waits."""
_LARGE_BYTES = 65_536
"""Memory of arguments that are let go of once their call has ended."""


class Run:
    """Drives one worker through one program."""

    def __init__(
        self,
        program: Program,
        dispatch: Dispatch,
        *,
        cache: CodeCache,
        artifacts: ArtifactStore,
        reactor: Reactor,
        violations: ViolationLog,
        on_event: Callable[[RunEvent], None] | None,
        queued_ms: float,
        follow: Callable[[], Track] | None,
    ) -> None:
        """Drive nothing yet.

        Args:
            program: What is run.
            dispatch: The way of its calls; its `track`, where it has one, is gone on with.
            cache: Code by its source.
            artifacts: Where values go that are over their limit.
            reactor: The event loop.
            violations: Where alarms are kept.
            on_event: Told what happens.
            queued_ms: How long the program waited for its turn.
            follow: Begins the line of a new run in the journal. Called when the program is on its
                way: what its worker does meanwhile it does on another core.
        """
        self._program = program
        self._limits = program.limits
        self._dispatch = dispatch
        if on_event is not None:
            dispatch.on_event = self._tell_of_call
        self._cache = cache
        self._artifacts = artifacts
        self._reactor = reactor
        self._violations = violations
        self._on_event = on_event
        self._queued_ms = queued_ms
        self._follow = follow
        self._worker: Worker | None = None
        self._calls: list[OpenCall] = []
        self._serving = Serving(dispatch, program.limits.max_in_flight, self._served)
        self._ids: set[int] = set()
        self._held = 0
        self._intake = Intake(program.limits)
        self._stdout, self._stderr = Tail(), Tail()
        self._messages = 0
        self._warnings: list[str] = list(program.warnings)
        self._stalled = False
        self._again = self._lost = self._ticked = False
        self._status: Status | None = None
        self._failure: Failure | None = None
        self._returned = Returned(0)
        self._cut: Cut | None = None
        self._clocks = Clocks(
            reactor,
            program.limits,
            timed_out=self._timed_out,
            used_cpu=self._used_cpu,
            ticked=self._tick,
        )
        self._unanswered: set[int] = set()
        self._pinged = False
        self._frames: tuple[Variables, ...] = ()
        self._replay: Replay | None = None
        if dispatch.track is not None and dispatch.track.deliveries:
            self._replay = Replay(dispatch.track, dispatch, self._send, self._answer, program.until)
        self._resumed = self._replay is not None

    async def execute(self, worker: Worker) -> RunResult:
        """Run the program in `worker` and give its result; the worker is killed in any case.

        Raises:
            WorkerGoneError: If `worker` died while it was idle, or with its zygote before the
                script did anything. The same run can be executed in another.
        """
        sent = False
        try:
            sent = worker.send(*opening(self._program, self._cache))
        finally:
            if not sent:
                worker.hang_up()
        if not sent:
            raise WorkerGoneError
        self._worker, self._lost = worker, False
        worker.on_frame, worker.on_fault, worker.on_end = self._frame, self._fault, self._gone
        worker.on_oversized, worker.decode_limits = self._oversized, self._intake.decoded_bytes
        # A script that repeats itself has its next call there as soon as it is answered.
        worker.eager = self._replay is not None
        try:
            self._clocks.start(worker)
            if self._follow is not None:
                self._dispatch.track, self._follow = self._follow(), None
            if not self._again:
                self._tell(RunEvent("started", self._program.run_id))
            await self._serving.wait()
            if self._lost:
                raise WorkerGoneError
            if self._status is None:
                await self._serving.run(worker, self._cut_off)
        finally:
            if not self._lost:
                self._cut_off()
            self._clocks.stop()
            # After the result is on its way: closing the books of a process takes system calls.
            self._reactor.call_later(0, worker.hang_up)
        if self._returned.large is not None:
            await self._truncate()
        result = self._result()
        if self._dispatch.track is not None:
            try:
                await self._dispatch.track.end(result.status, result.to_json())
            except JournalError as error:
                # What the run did it has done; only its record is cut off here.
                warning = f"the end of the run was not recorded: {error}"
                return replace(result, warnings=(*result.warnings, warning))
        return result

    def _send(self, kind: Kind, body: bytes) -> None:
        assert self._worker is not None  # noqa: S101  # only while the run is driven
        self._worker.send((kind, body))

    def _repeat(self) -> None:
        """Send the worker more of what it was sent before, and go on once it has all of it."""
        replay = self._replay
        if replay is None or self._status is not None:
            return
        replay.feed()
        if not replay.done:
            return
        self._replay = None
        if self._worker is not None:
            self._worker.eager = False
        self._clocks.go_on(replay.track.elapsed)
        for number, call in replay.held:
            self._serve(number, call)
        if replay.timer is not None:
            self._timer(replay.timer)

    def _answer(self, number: int, elapsed: float, body: bytes) -> None:
        self._unanswered.discard(number)
        # [number, elapsed, ok, records, value]: the body is the last three, as it is recorded.
        self._send(Kind.RESULT, b"[%d,%.6f,%b" % (number, elapsed, body[1:]))

    # --- waiting for somebody ---------------------------------------------------------------

    def _may_pause(self) -> None:
        """If every call that the script waits for is parked, ask it whether that is all."""
        if self._serving.parked and self._serving.parked == self._unanswered and not self._pinged:
            self._pinged = True
            self._send(Kind.PING, b"[]")

    def _ponged(self) -> None:
        self._pinged = False
        if self._serving.parked and self._serving.parked == self._unanswered:
            # The script has done all it could: it waits for those calls and for nothing else.
            self._finish("paused", None)

    def stop(self, status: Status, failure: Failure) -> None:
        """End the run now, from outside: the session closes."""
        if self._worker is not None:
            self._worker.busy_poll(1)
        self._finish(status, failure)

    # --- calls ------------------------------------------------------------------------------

    def _served(self, number: int, open_call: OpenCall, result: ToolResult | None) -> None:
        if result is not None:
            self._reply(number, open_call, result)
        self._release(open_call)
        self._may_pause()

    def _reply(self, number: int, open_call: OpenCall, result: ToolResult) -> None:
        ok, body = self._dispatch.answer(open_call, result)
        elapsed = None
        if self._status is None and self._worker is not None:
            elapsed = round(self._clocks.elapsed, 6)
            # First the answer: while the script works with it, it is written down. Whatever the
            # script does next comes through this process, and after this.
            self._answer(number, elapsed, body)
        self._dispatch.record(open_call, ok, body, elapsed)

    def _called(self, call: _protocol.Call, size: int) -> None:
        if call.id in self._ids:
            msg = f"call {call.id} comes after call {call.id}"
            raise ProtocolError(msg)
        self._ids.add(call.id)
        passed = self._intake.called(call, size)
        refusal = None
        if passed.over is not None:
            limit, used = passed.over.limit, passed.over.used
            refusal = arguments_too_large(self._limits, call.name, limit, used)
        open_call = OpenCall(
            ToolCall(
                name=call.name,
                arguments=passed.arguments,
                seq=len(self._calls) + 1,
                run_id=self._program.run_id,
                line=call.line,
            ),
            refusal=refusal,
            weight=passed.weight,
        )
        self._calls.append(open_call)
        most = self._limits.max_tool_calls
        if len(self._calls) > most + min(10 * most + _REFUSED_CALLS, _MAX_CALLS_QUEUED):
            self._over("max_tool_calls", len(self._calls))
            return
        self._unanswered.add(call.id)
        if self._replay is not None:
            self._replay.called(call.id, open_call)
            self._repeat()
            return
        self._serve(call.id, open_call)

    def _serve(self, number: int, call: OpenCall) -> None:
        """Have a call served. Reading stops while calls that have not ended hold much memory."""
        self._held += call.weight
        if self._held > _HELD_BYTES and self._worker is not None:
            self._worker.hold()
        self._serving.add(number, call)

    def _release(self, call: OpenCall) -> None:
        """Let go of the arguments of a call that has ended or is parked."""
        # Of thousands of calls, the end of the run would wait for it.
        call.preview()
        if call.weight > _LARGE_BYTES:
            call.release()
        self._held -= call.weight
        call.weight = 0
        if self._held <= _HELD_BYTES and self._worker is not None:
            self._worker.release()

    def _cancelled(self, number: int) -> None:
        self._unanswered.discard(number)
        if self._serving.withdraw(number) > len(self._calls):
            msg = "more calls were withdrawn than made"
            raise ProtocolError(msg)

    # --- frames -----------------------------------------------------------------------------

    def _frame(self, kind: Kind, message: Any, size: int) -> None:
        if self._status is not None:
            return
        try:
            self._handle(kind, message, size)
        except OverLimitError as error:
            self._over(error.limit, error.used)
        except DivergenceError as error:
            hint = "resume with the script and the tools that the run was made with, or `retry` it"
            failure = Failure(code="divergence", message=str(error), hint=hint)
            self._finish("failed", failure)

    def _handle(self, kind: Kind, message: Any, size: int) -> None:
        if isinstance(message, bytes) and kind is Kind.CALL:
            raise self._intake.oversized(kind, size)
        if kind is Kind.CALL:
            self._called(message, size)
        elif kind is Kind.PART:
            self._intake.take_part(message)
        elif kind is Kind.DONE:
            if self._replay is not None:
                self._replay.refuse_end("returned")
            self._done(self._intake.returned(message, size))
        elif kind is Kind.PRINT:
            self._printed(*message)
        elif kind is Kind.TIMER:
            self._timer(message)
        elif kind is Kind.EMIT:
            value = self._intake.emitted(message, size)
            self._tell(RunEvent("emitted", self._program.run_id, value=value))
        elif kind is Kind.CANCEL:
            self._cancelled(message)
        elif kind is Kind.COMPILED:
            self._asked_for(kind, not self._program.only_check)
            self._cache.put(self._program.source, message)
        elif kind is Kind.FAILED:
            if self._replay is not None:
                self._replay.refuse_end("failed")
            self._failed(message)
        elif kind is Kind.REJECTED:
            self._rejected(message)
        elif kind is Kind.CHECKED:
            self._asked_for(kind, self._program.only_check)
            findings = tuple(finding_of(f, self._program.source) for f in message)
            self._returned = Returned(0, findings)
            self._finish("completed", None)
        elif kind is Kind.WARN:
            self._warn(message)
        elif kind is Kind.STALLED:
            self._stalled = True
        elif kind is Kind.PONG:
            self._asked_for(kind, self._pinged)
            self._ponged()
        elif kind is Kind.FRAMES:
            self._asked_for(kind, self._replay is not None and self._replay.stopped)
            self._frames = tuple(Variables(*row) for row in message)
            self._finish("paused", None)

    @staticmethod
    def _asked_for(kind: Kind, asked: bool) -> None:
        """Refuse an answer to what this run did not ask: it would be an outcome of its choosing."""
        if not asked:
            msg = f"{kind.name} was not asked for"
            raise ProtocolError(msg)

    def _done(self, returned: Returned) -> None:
        self._returned = returned
        wrong = self._nonconforming()
        if not wrong:
            self._finish("completed", None)
            return
        more = f" (and {len(wrong) - 8} more)" if len(wrong) > 8 else ""
        message = f"the value does not conform to output_schema: {'; '.join(wrong[:8])}{more}"
        hint = "return data of the shape that was asked for"
        self._finish("failed", Failure(code="output_schema", message=message[:4_000], hint=hint))

    def _nonconforming(self) -> list[str]:
        """What is wrong with the value, by the schema that the program has for it."""
        if self._program.check_value is None:
            return []
        if self._returned.large is not None:
            # Truncated, it would not conform; whole, it is not decoded here.
            return [f"it has {self._returned.excess}, and is too large to be checked"]
        try:
            return self._program.check_value(self._returned.value)
        except Exception as error:  # noqa: BLE001  # a model's validators are anybody's code
            _log.exception("run %s: output_schema failed", self._program.run_id)
            why = _json.plain_text(safe_text(str(error)), _MESSAGE_CHARS)
            return [f"its check raised {type(error).__name__}: {why}"]

    def _failed(self, failure: _protocol.Failure) -> None:
        status, told = failure_of(failure, self._program.source, self._program.filename)
        if status == "limit_exceeded":
            told = told_of_limit(self._limits, told)
        self._finish(status, told)

    def _rejected(self, findings: tuple[_protocol.Finding, ...]) -> None:
        rows = tuple(finding_of(f, self._program.source) for f in findings)
        first = rows[0]
        more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
        self._finish(
            "rejected",
            Failure(
                code=first.code,
                message=f"{first.message}{more}",
                line=first.line,
                column=first.column,
                excerpt=first.excerpt,
                hint=first.hint,
                findings=rows,
            ),
        )

    def _printed(self, text: str, output: Output) -> None:
        (self._stdout if output is Output.STDOUT else self._stderr).add(text)
        self._tell(RunEvent(_OUTPUT_EVENTS[output], self._program.run_id, text=text))
        self._messages += 1
        used = self._stdout.bytes + self._stderr.bytes
        if used > self._limits.max_stdout_bytes:
            self._over("max_stdout_bytes", used)
        elif self._messages > self._limits.max_messages:
            self._over("max_messages", self._messages)

    def _oversized(self, kind: Kind, size: int) -> None:
        """A value came in one frame that was too large to be read."""
        error = self._intake.oversized(kind, size)
        self._over(error.limit, error.used)

    def _warn(self, text: str) -> None:
        if len(self._warnings) < 100:
            self._warnings.append(text)
            self._tell(RunEvent("warning", self._program.run_id, text=text))

    def _timer(self, deadline: float) -> None:
        self._stalled = False
        if self._replay is not None:
            self._replay.timer = deadline
            self._repeat()
            return
        self._clocks.wait_for(deadline)

    def _tick(self, elapsed: float) -> None:
        self._ticked = True
        if self._dispatch.track is not None:
            self._dispatch.track.tick(elapsed)
        self._send(Kind.TICK, b"[%r]" % elapsed)

    # --- ends -------------------------------------------------------------------------------

    def _timed_out(self) -> None:
        # What the script has said and the loop had no time to read is the script's, too.
        if self._worker is not None:
            self._worker.busy_poll(1)
        if self._status is not None:
            return
        most = self._limits.timeout_ms
        used = round(self._clocks.elapsed * 1000)
        waiting = [c.call.name for c in self._calls if c.started and not c.ended]
        message = f"the run took longer than {most:,} ms"
        if waiting:
            message += f"; it was waiting for {', '.join(waiting[:5])}"
        elif self._stalled:
            message += "; it was waiting for something that nothing could bring about"
        hint = "do less in one run, emit partial values with ctx.emit, or ask for more timeout_ms"
        if self._stalled and not waiting:
            hint = "an Event, Queue or Future that no other task of the script sets never wakes it"
        breach = Breach("timeout_ms", most, used)
        failure = Failure(code="timeout", message=message, hint=hint, breach=breach)
        self._finish("timed_out", failure)

    def _used_cpu(self, used_ms: int) -> None:
        if self._worker is not None:
            self._worker.busy_poll(1)
        self._finish("limit_exceeded", used_cpu(self._limits, used_ms))

    def _cut_off(self) -> None:
        """Cancelled from outside, if nothing else: what the worker still says is not heard."""
        self._finish("cancelled", None)

    def _over(self, name: str, used: int) -> None:
        self._finish("limit_exceeded", over(self._limits, name, used))

    def _fault(self, error: Exception) -> None:
        if isinstance(error, ProtocolError):
            self._violated(self._violations.protocol(str(error), **self._script()))
            return
        _log.error("run %s: the host failed", self._program.run_id, exc_info=error)
        why = safe_text(f"{type(error).__name__}: {error}")
        message = f"the host failed on what the script sent: {why}"
        hint = "this is a bug of ptc, not of the script; the log has its traceback"
        failure = Failure(code="internal", message=message[:_MESSAGE_CHARS], hint=hint)
        self._finish("crashed", failure)

    def _gone(self) -> None:
        """The worker's process ended; called when its last frame has been read."""
        how = self._worker.exit if self._worker is not None else None
        if how is not None and how.stopped_by_kernel:
            # An alarm whatever the run has come to: a worker may have sent its result before.
            self._violated(self._violations.system_call(how.call, **self._script()))
        if self._status is not None or how is None:
            return
        if how.why and not self._again and not self._said_anything():
            # Its zygote died. A script that has done nothing that anybody knows of begins again,
            # once, in a worker of the next.
            self._again = self._lost = True
            self._serving.wake()
            return
        number = how.signal
        if number == signal.SIGXCPU:
            self._finish("limit_exceeded", used_cpu(self._limits, None))
            return
        failure = refused_memory(self._limits, how)
        if failure is not None:
            self._finish("limit_exceeded", failure)
            return
        message = f"the worker process ended before the script did ({how.words})"
        hint = "very deep nesting of data or calls overflows the C stack of the interpreter"
        failure = Failure(code="crash", message=message, hint=hint if number == 11 else "")
        self._finish("crashed", failure)

    def _said_anything(self) -> bool:
        """True if somebody knows of something that the script has done or was told."""
        said = self._calls or self._intake.partial or self._stdout.bytes or self._stderr.bytes
        return bool(said) or self._ticked or self._resumed

    def _script(self) -> dict[str, str]:
        program = self._program
        return {"run_id": program.run_id, "filename": program.filename, "source": program.source}

    def _violated(self, violation: Violation) -> None:
        if self._status is not None:
            return
        event = RunEvent("violation", violation.run_id, text=violation.message, value=violation)
        self._tell(event)
        code, message = violation.code, violation.message
        self._finish("violation", Failure(code=code, message=message, syscall=violation.syscall))

    def _finish(self, status: Status, failure: Failure | None) -> None:
        """Set the outcome, once, and wake whoever drives the run."""
        if self._status is not None:
            return
        self._status, self._failure = status, failure
        self._clocks.end()
        if status != "completed" and self._worker is not None:
            self._worker.kill()
        self._serving.stop()

    def _tell(self, event: RunEvent) -> None:
        # What happened before was told before.
        if self._on_event is None or self._replay is not None:
            return
        try:
            self._on_event(event)
        except Exception as error:  # noqa: BLE001  # the caller's own code
            # The run is not to suffer from who watches it: a result that is lost for a log line
            # would be worse. It says so itself.
            self._on_event = None
            _log.exception("run %s: on_event failed", self._program.run_id)
            self._warnings.append(
                f"on_event raised {type(error).__name__}: "
                f"{_json.plain_text(safe_text(str(error)), 500)}; it was told nothing after that"
            )

    def _tell_of_call(self, kind: EventKind, call: OpenCall, data: Any) -> None:
        self._tell(RunEvent(kind, self._program.run_id, call=call.record(), value=data))

    def _records(self) -> tuple[CallRecord, ...]:
        """Every call in the order they were made, those that tools made after their caller."""
        calls = self._calls
        below = self._dispatch.calls_below(calls)
        if below:
            calls = sorted([*calls, *below], key=lambda call: call.place)
        return tuple(call.record() for call in calls)

    def _pending(self) -> tuple[PendingCall, ...]:
        track = self._dispatch.track
        if track is None or self._status != "paused":
            return ()
        return tuple(pending_call(row) for row in track.pending)

    async def _truncate(self) -> None:
        """Put a truncated value in the place of one that is too large."""
        returned = self._returned
        try:
            truncated = await self._intake.truncate(returned, self._artifacts)
        except ProtocolError as error:
            self._status, self._returned = None, Returned(0)
            self._fault(error)
            return
        kept = f"is whole in {truncated.cut.artifact}"
        if truncated.problem:
            kept = f"could not be kept whole: {truncated.problem}"
        self._warnings.append(f"the value has {returned.excess}: it was cut, and {kept}")
        self._returned, self._cut = Returned(returned.size, truncated.value), truncated.cut

    def _result(self) -> RunResult:
        intake = self._intake
        track = self._dispatch.track
        return RunResult(
            run_id=self._program.run_id,
            status=self._status or "cancelled",
            value=self._returned.value,
            error=self._failure,
            partial=tuple(intake.partial),
            stdout=str(self._stdout),
            stderr=str(self._stderr),
            calls=self._records(),
            usage=Usage(
                duration_ms=round(self._clocks.elapsed * 1000, 3),
                queued_ms=round(self._queued_ms, 3),
                tool_calls=len(self._calls),
                output_bytes=self._returned.size,
                stdout_bytes=self._stdout.bytes,
                stderr_bytes=self._stderr.bytes,
                emit_bytes=intake.emit_bytes,
            ),
            limits=self._limits,
            warnings=(*self._warnings, *(track.warnings if track is not None else ())),
            cut=self._cut,
            pending=self._pending(),
            frames=self._frames,
        )
