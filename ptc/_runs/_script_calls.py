"""Tool calls of one script: numbering, limits, replay, answers, and the memory they hold."""

from __future__ import annotations

from typing import Final

from .._calls._call import OpenCall
from .._calls._dispatch import Dispatch
from .._calls._earlier import EarlierCalls
from .._calls._recorder import RunRecorder
from .._records._result import CallRecord, Failure, PendingCall
from .._tools._tool import ToolCall
from .._tools._tool_result import ToolResult
from .._wire._protocol import Call, Kind, ProtocolError
from .._workers._worker import Worker
from ._breaches import arguments_too_large, unmatched_failure
from ._call_list import CallList
from ._clocks import Clocks
from ._outcome import Outcome
from ._program import Program
from ._replay import Replay
from ._scheduler import CallScheduler

__all__ = ["HELD_BYTES", "ScriptCalls"]

_REJECTED_CALLS: Final = 1_000
"""Calls beyond ten times the budget before the script is stopped: enough for one gather that is
over the limit as a whole, too few for a loop that swallows the error."""
_MAX_CALLS_QUEUED: Final = 100_000
HELD_BYTES: Final = 32 << 20
"""Memory that the arguments of unfinished calls may hold before the host stops reading from their
script. Large enough that a single call never waits."""
_LARGE_BYTES: Final = 65_536
"""Memory of arguments that are released as soon as their call has finished."""


class ScriptCalls:
    """The tool calls of one script, from the frame that requests a call to its answer."""

    def __init__(
        self, program: Program, dispatch: Dispatch, outcome: Outcome, clocks: Clocks
    ) -> None:
        """Expect the calls of `program`.

        Args:
            program: The program of the run.
            dispatch: Call pipeline. If its `recorder` has deliveries, they are replayed first.
            outcome: Outcome of the run.
            clocks: Clocks of the run.
        """
        self._limits = program.limits
        self._run_id = program.run_id
        self._dispatch = dispatch
        self._outcome = outcome
        self._clocks = clocks
        self._ids: set[int] = set()
        self._unanswered: set[int] = set()
        self.worker: Worker | None = None
        """The worker that runs the script."""
        self.calls = CallList()
        self.held_bytes = 0
        """Memory that the arguments of unfinished calls hold."""
        self.scheduler = CallScheduler(dispatch, program.limits.max_in_flight, self._finish)
        self.pinged = False
        """True while an answer to PING is awaited."""
        self.replay: Replay | None = None
        """The replay in progress."""
        if dispatch.recorder is not None and dispatch.recorder.deliveries:
            self.replay = Replay(
                dispatch.recorder, dispatch, self._send, self._answer, program.until
            )
        outcome.events.muted = self.replay is not None

    # --- requests ---------------------------------------------------------------------------

    def add(self, call: Call, size: int) -> None:
        """Add a call that the script requested.

        Raises:
            ProtocolError: If its number was used before.
            DivergenceError: If a replay finds another call recorded at its position.
        """
        if call.id in self._ids:
            msg = f"call {call.id} repeats the number of an earlier call"
            raise ProtocolError(msg)
        self._ids.add(call.id)
        self._outcome.events.note_call()
        open_call = self._open(call, size)
        self.calls.add(open_call)
        most = self._limits.max_tool_calls
        if len(self.calls) > most + min(10 * most + _REJECTED_CALLS, _MAX_CALLS_QUEUED):
            self._outcome.exceed("max_tool_calls", len(self.calls))
            return
        self._unanswered.add(call.id)
        if self.replay is not None:
            self.replay.add(call.id, open_call)
            self.advance_replay()
            return
        self._schedule(call.id, open_call)

    def _open(self, call: Call, size: int) -> OpenCall:
        passed = self._outcome.intake.take_arguments(call, size)
        oversized = None
        if passed.over is not None:
            limit, used = passed.over.limit, passed.over.used
            oversized = arguments_too_large(self._limits, call.name, limit, used)
        return OpenCall(
            ToolCall(
                name=call.name,
                arguments=passed.arguments,
                seq=len(self.calls) + 1,
                run_id=self._run_id,
                line=call.line,
            ),
            weight=passed.weight,
            oversized=oversized,
        )

    def cancel(self, number: int) -> None:
        """Cancel a call that the script no longer awaits."""
        self._unanswered.discard(number)
        if self.scheduler.cancel(number) > len(self.calls):
            msg = "more calls were cancelled than made"
            raise ProtocolError(msg)

    def _schedule(self, number: int, call: OpenCall) -> None:
        """Schedule a call. Stop reading while unfinished calls hold much memory."""
        self.held_bytes += call.weight
        if self.held_bytes > HELD_BYTES and self.worker is not None:
            self.worker.hold()
        self.scheduler.add(number, call)

    # --- answers ----------------------------------------------------------------------------

    def _finish(self, number: int, call: OpenCall, result: ToolResult | None) -> None:
        if result is not None:
            self._reply(number, call, result)
        suspended = self.scheduler.suspended
        if not suspended or not self._is_held(number):
            self._release(call)
        if result is not None:
            self.calls.settle(call)
        if suspended:
            self._ping_if_idle()

    def _reply(self, number: int, call: OpenCall, result: ToolResult) -> None:
        ok, body = self._dispatch.answer(call, result)
        elapsed = None
        if self._outcome.status is None and self.worker is not None:
            elapsed = round(self._clocks.elapsed, 6)
            # The answer is sent before it is recorded, so that the script continues meanwhile.
            # Any further effect of the script passes through this process, and after this.
            self._answer(number, elapsed, body)
        self._dispatch.record(call, ok, body, elapsed)

    def _answer(self, number: int, elapsed: float, body: bytes) -> None:
        self._unanswered.discard(number)
        # [number, elapsed, ok, records, value]: the body is the last three, as it is recorded.
        # A script that awaits only this call continues at once; otherwise a send for each answer
        # would cost more than most tools.
        more = self.scheduler.is_busy
        self._send(Kind.RESULT, b"[%d,%.6f,%b" % (number, elapsed, body[1:]), more=more)

    def _send(self, kind: Kind, body: bytes, *, more: bool = False) -> None:
        assert self.worker is not None  # noqa: S101  # only while the run executes
        self.worker.send((kind, body), more=more)

    def _release(self, call: OpenCall) -> None:
        """Release the arguments of a call that has finished or is suspended."""
        # The preview is made now: for thousands of calls it would delay the end of the run.
        call.preview()
        self.held_bytes -= call.weight
        if call.weight > _LARGE_BYTES:
            call.release()
        if self.held_bytes <= HELD_BYTES and self.worker is not None:
            self.worker.release()

    # --- suspension and replay --------------------------------------------------------------

    def _only_suspended(self) -> bool:
        """Return True if every call that the script awaits is suspended."""
        suspended = self.scheduler.suspended
        return bool(suspended) and suspended.keys() == self._unanswered

    def _ping_if_idle(self) -> None:
        """If only suspended calls are unanswered, ask the script whether it waits for more."""
        if not self.pinged and self._only_suspended():
            self.pinged = True
            self._send(Kind.PING, b"[]")

    def _is_held(self, number: int) -> bool:
        """True if a call may be executed again, once the script has made all recorded effects."""
        recorder = self._dispatch.recorder
        if recorder is None or recorder.earlier is None:
            return False
        return number in self.scheduler.suspended

    def receive_pong(self) -> None:
        """Pause the run if the script waits for suspended calls and for nothing else."""
        self.pinged = False
        if not self._only_suspended():
            return
        recorder = self._dispatch.recorder
        earlier = recorder.earlier if recorder is not None else None
        if recorder is None or earlier is None or not earlier.held or recorder.pending:
            # After a decision, the script may make the missing calls.
            self._outcome.finish("paused")
        elif earlier.allows_new:
            self._release_held(recorder, earlier)
        else:
            held = self.calls.open[_top(earlier.held[0])]
            self._outcome.finish("failed", unmatched_failure(earlier, held.call.line or 0))

    def _release_held(self, recorder: RunRecorder, earlier: EarlierCalls) -> None:
        """Execute the new effects that were held, and the calls that wait for their results."""
        earlier.held.clear()
        recorder.nested.release_makings()
        suspended, self.scheduler.suspended = self.scheduler.suspended, {}
        for number, call in sorted(suspended.items(), key=lambda item: item[1].call.seq):
            call.reopen()
            self.scheduler.add(number, call)

    def find_unmatched(self) -> Failure | None:
        """Return the failure of a script that ends without the effects that are recorded."""
        recorder = self._dispatch.recorder
        if recorder is None or recorder.earlier is None or recorder.earlier.allows_new:
            return None
        return unmatched_failure(recorder.earlier, 0)

    def advance_replay(self) -> None:
        """Send the worker more of its recorded messages; resume the run after the last one."""
        replay = self.replay
        if replay is None or self._outcome.status is not None:
            return
        replay.feed()
        if not replay.done:
            return
        self.replay = None
        self._outcome.events.muted = False
        if self.worker is not None:
            self.worker.eager = False
        self._clocks.resume(replay.recorder.elapsed)
        for number, call in replay.held:
            self._schedule(number, call)
        if replay.timer is not None:
            self._clocks.wait_for(replay.timer)

    # --- records ----------------------------------------------------------------------------

    def running(self) -> list[str]:
        """List the tools of the calls that have started and not finished."""
        return [call.call.name for call in self.calls.running()]

    def running_line(self) -> int:
        """Return the line of the first call that has not finished; 0: unknown."""
        lines = (call.call.line for call in self.calls.running())
        return next((line for line in lines if line), 0)

    def last_call(self) -> str:
        """Return the script's last call and its line, in words; ``""`` if it made none."""
        if self.calls.last is None:
            return ""
        name, line = self.calls.last
        return f"its last call was {name}, on line {line or '?'}"

    async def records(self) -> tuple[CallRecord, ...]:
        """Record every call in order; calls that tools made follow their caller."""
        below = self._dispatch.calls_below(len(self.calls), self._run_id)
        return await self.calls.records(below)

    def pending(self) -> tuple[PendingCall, ...]:
        """List the calls that await a decision, if the run is paused."""
        recorder = self._dispatch.recorder
        if recorder is None or self._outcome.status != "paused":
            return ()
        return recorder.pending_calls()


def _top(path: str) -> int:
    """Return the number of the script's call that led to the call at `path`."""
    return int(path.partition(".")[0])
