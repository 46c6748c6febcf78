"""Pipeline that executes tool calls of a script, an application or another tool.

Stages, in this order::

    look up and allow -> validate -> budget -> approve -> cache -> limit of the tool -> breaker
    -> execute with retry -> convert -> bound

`_admission` and `_execution` have the stages. A call that a stage refuses has a result with an
error; no exception is raised.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .._records._limits import Limits
from .._records._result import CallStatus, EventKind, Failure
from .._tools._approval import ApprovalNeededError
from .._tools._environment import Environment
from .._tools._tool import Tool
from .._tools._tool_result import ToolResult
from ..errors import ToolError
from ..journal._journal import CallRow
from ._admission import Admission
from ._budget import Budget
from ._call import OpenCall
from ._execute import cancellation_in
from ._execution import Execution, RunMemory
from ._outcome import bound_result, encode_error, encode_result, failed_result, internal_error
from ._recorder import RunRecorder, SuspendedError
from ._reuse import is_over_budget, make_once
from ._rows import read_call, read_error, read_outcome
from ._scope import OnEvent, Scope, Shared
from ._timeout import CallTimeout

__all__ = ["Dispatch"]

_log = logging.getLogger("ptc")


class Dispatch:
    """Call pipeline of one caller, with its tools, limits and results."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        shared: Shared,
        *,
        limits: Limits,
        budget: Budget | None = None,
        call_timeout: CallTimeout | None = None,
        environment: Environment | None = None,
        discovery: Callable[[], Mapping[str, Tool]] | None = None,
        on_event: OnEvent | None = None,
        memory: RunMemory | None = None,
        key_run: str | None = None,
    ) -> None:
        """Create the pipeline.

        Args:
            tools: Allow-list of the caller.
            shared: State shared by all calls of the session.
            limits: Limits of the run, or of a direct call.
            budget: Calls that the caller may make; None: direct calls are not counted.
            call_timeout: Time of one call with all its attempts; None: only the tool's own
                time-out applies.
            environment: Values of the tools' ``env=``. Default: the session's.
            discovery: Creates the tools of `ctx` itself, which need not be on the allow-list.
                Called on first use: most runs use none.
            on_event: Receives the kind of each `RunEvent`, the call, and data, in the event loop.
            memory: Earlier executions for the caller. None: there were none.
            key_run: Run to which the keys of the calls belong; None: the run that makes them.
        """
        self._scope = Scope(
            tools,
            shared,
            environment or shared.environment,
            limits,
            budget,
            call_timeout,
            discovery,
            on_event,
        )
        self._admission = Admission(self._scope, key_run)
        self._execution = Execution(self._scope, self, memory)
        self.nested: dict[str, OpenCall] = {}
        """Calls of a run that its tools made, by path."""

    @property
    def recorder(self) -> RunRecorder | None:
        """Recorder of the run; None: nothing is recorded."""
        return self._scope.recorder

    @recorder.setter
    def recorder(self, recorder: RunRecorder | None) -> None:
        self._scope.recorder = recorder

    @property
    def on_event(self) -> OnEvent | None:
        """Subscriber; None: no events are sent."""
        return self._scope.on_event

    @on_event.setter
    def on_event(self, on_event: OnEvent | None) -> None:
        self._scope.on_event = on_event

    def when_killed(self, finish: Callable[[Failure], None]) -> None:
        """Set the function that finishes the run if the process of a tool's script is killed."""
        self._scope.on_killed = finish

    def admit(self, call: OpenCall) -> None:
        """Look up, validate and identify a call. Has no effect the second time."""
        self._admission.admit(call)

    async def run(self, call: OpenCall) -> ToolResult:
        """Run a call to its end. A failure is in the result.

        If the task is cancelled, the call's status is ``unknown`` and the cancellation propagates.

        Raises:
            SuspendedError: If the call is suspended until a decision.
        """
        self.admit(call)
        try:
            result = await self._run_admitted(call)
            call.succeed()
            # A recorded or decided outcome has no effect now.
            has_effect = call.side_effect and not call.outcome.recorded
            if has_effect or result.attachments:
                await self._complete(call, result, has_effect=has_effect)
        except SuspendedError:
            raise
        except Exception as error:  # noqa: BLE001  # a tool's own: it becomes a result
            result = failed_result(self._scope, call, error)
            assert result.error is not None  # noqa: S101  # it failed
            call.fail(result.error)
        except BaseExceptionGroup as group:
            # An approver, a predicate or a hook that failed while it was being cancelled.
            raise cancellation_in(group) or group from None
        finally:
            call.stop_clock()
        return result

    async def _run_admitted(self, call: OpenCall) -> ToolResult:
        """Return the recorded outcome of an admitted call, or make it."""
        name, tool, recorder = call.call.name, call.tool, self._scope.recorder
        if tool is None or call.refusal is not None:
            raise call.refusal or internal_error(name, "it was not looked up")
        if recorder is not None and recorder.earlier is not None:
            # Before it is charged: a nested call that is held will be another object.
            recorder.hold_new_effect(recorder.earlier, call)
        if not call.charged:
            if self._scope.budget is not None:
                self._scope.budget.reserve(name)
            if call.reach is not None:
                call.reach.reserve(name)
            call.charged = True
        if recorder is None:
            if tool.side_effect and not tool.repeatable and call.parent is not None:
                return await make_once(call, partial(self._make, tool, call))
            return await self._make(tool, call)
        end = recorder.find_outcome(call)
        if end is None:
            return await self._make(tool, call)
        self._execution.count_recorded(call.path, name, end, call.attempt)
        return read_outcome(name, end)

    async def _make(self, tool: Tool, call: OpenCall) -> ToolResult:
        if tool.cache is None and tool.max_executions_per_run is not None:
            # No approval is requested for a call that could not be made.
            self._execution.check_execution_limit(tool)
        recorder = self._scope.recorder
        decided = recorder is not None and recorder.find_decision(call, "approval") is not None
        if decided or tool.needs_approval is not False:
            await self._admission.approve(tool, call, always=decided)
        try:
            return await self._execution.execute(tool, call)
        except ApprovalNeededError:
            # The approval of one call must not make its cached result available to all.
            if call.approved or tool.cache is not None:
                raise
        self._withdraw(call, "requires approval")
        await self._admission.approve(tool, call, always=True)
        return await self._execution.execute(tool, call)

    async def _complete(self, call: OpenCall, result: ToolResult, *, has_effect: bool) -> None:
        """Send the attachments of a call that has succeeded, and call the hook for its effect.

        Its outcome is known: it is recorded even if this is interrupted.
        """
        call.completing = result
        if result.attachments:
            # Before the call is recorded: the machine that resumes the run may need them.
            await self._scope.shared.artifacts.send()
        if has_effect:
            await self._call_hook(call)
        call.completing = None

    async def _call_hook(self, call: OpenCall) -> None:
        hook = self._scope.shared.after_side_effect
        if hook is None:
            return
        try:
            await hook(call.record())
        except Exception:  # noqa: BLE001  # the effect has happened: a hook cannot undo that
            _log.exception("after_side_effect failed for %s", call.id)

    # --- record -----------------------------------------------------------------------------

    def resume(self, recorder: RunRecorder) -> None:
        """Continue a recorded run, with the results that were cached for it."""
        self.recorder = recorder
        self._execution.resume(recorder)

    def replay(self, call: OpenCall, row: CallRow) -> None:
        """Count a call that is not repeated: the script received its outcome before."""
        assert row.end is not None  # noqa: S101  # only calls that have ended are recalled
        self.admit(call)
        error = read_error(row)
        call.restore(row, error)
        if self.recorder is not None:
            self.recorder.note_edit(call)
        budget = self._scope.budget
        if budget is not None and call.refusal is None and not is_over_budget(error):
            budget.charge_recorded(call.call.name)
        self._execution.count_recorded(call.path, call.call.name, row.end, row.attempt)

    def calls_below(self, count: int, run_id: str | None) -> list[OpenCall]:
        """List the calls that tools made for the first `count` calls, under any host."""
        found = dict(self.nested)
        recorder = self.recorder
        for path, row in recorder.nested.recorded.items() if recorder is not None else ():
            if path not in found and int(path.partition(".")[0]) <= count:
                found[path] = read_call(row, run_id)
                if recorder is not None:
                    recorder.note_edit(found[path])
        return list(found.values())

    def answer(self, call: OpenCall, result: ToolResult) -> tuple[bool, bytes]:
        """Encode the result of a call for a script: True if it is a value, and the message body."""
        return encode_result(self._scope, call, result)

    def bound(self, call: OpenCall, result: ToolResult) -> ToolResult:
        """Return the result of a direct call; a value over its limit becomes an error."""
        return bound_result(self._scope, call, result)

    def record(self, call: OpenCall, ok: bool, body: bytes, elapsed: float | None) -> None:
        """Record the outcome of a call, and the time of its delivery; None: not delivered."""
        if self.recorder is not None:
            self.recorder.record_end(call, call.outcome.status, ok, body, elapsed)

    def record_cancellation(self, call: OpenCall) -> None:
        """Record that a call was cancelled.

        If its function had ended, its outcome is recorded. If not, and it has an effect, its
        outcome is unknown.
        """
        result, call.completing = call.completing, None
        if self.recorder is None or call.reused_end is not None:
            return
        if result is not None:
            self.record(call, *self.answer(call, result), None)
            return
        if call.start_row is None:
            return
        if not call.was_called:
            self._withdraw(call, "was cancelled before its function was called")
            return
        msg = f"{call.call.name} was cancelled while it ran; its effect may have happened"
        self._record_interruption(call, "unknown", msg)

    def _withdraw(self, call: OpenCall, why: str) -> None:
        """Note and record that a call that was started has had no effect."""
        call.withdraw()
        self._record_interruption(call, "not_started", f"{call.call.name} {why}")

    def _record_interruption(self, call: OpenCall, status: CallStatus, message: str) -> None:
        if self.recorder is not None and call.start_row is not None:
            body = encode_error(ToolError(message, code="cancelled", tool=call.call.name))
            self.recorder.record_end(call, status, False, body, None)

    def emit(self, kind: EventKind, call: OpenCall, data: Any = None) -> None:
        """Send an event to the subscriber."""
        if self._scope.on_event is not None:
            self._scope.emit(kind, call, data)
