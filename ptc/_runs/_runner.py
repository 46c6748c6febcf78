"""Requests to run, check, resume or retry a script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from .._calls._subscribers import EventSink, join_subscribers
from .._core._arguments import parts_of, require_function
from .._records._limits import Limits
from .._records._result import Finding, RunEvent, RunResult
from .._schema._copy import copy_data
from .._telemetry._run_span import GaugeSource, RunDescription, SessionTelemetry
from .._telemetry._settings import TelemetryOption
from .._tools._allow import AllowList
from .._tools._environment import Environment, environment_of
from .._tools._tool import Tool
from ._announce import OnApproval, announce
from ._correction import Correction
from ._history import History
from ._program import Program, reject_unsendable
from ._programs import ProgramBuilder, typed_result
from ._runs import Executor, OpenRecord

__all__ = ["ProgramRunner"]


class ProgramRunner:
    """Runs, checks, resumes and retries the scripts of a session.

    A repeated request with the id of a recorded run returns its result, or resumes it.
    """

    def __init__(
        self,
        programs: ProgramBuilder,
        executor: Executor,
        history: History,
        *,
        tools: Mapping[str, Tool],
        env: Mapping[str, Any] | None,
        on_event: EventSink | None = None,
        on_approval: OnApproval | None = None,
        telemetry: TelemetryOption = None,
    ) -> None:
        """Prepare to run scripts; nothing is started.

        Args:
            programs: Builds the programs.
            executor: Executes them.
            history: Record of the runs.
            tools: Tools of the session.
            env: The session's values for its tools.
            on_event: Receives the events of all runs.
            on_approval: Receives each call that a run pauses for.
            telemetry: The session's option, validated.
        """
        self._programs = programs
        self._executor = executor
        self._history = history
        self._tools = tools
        self._env = dict(env or {})
        self._on_event = on_event
        self._on_approval = on_approval
        self._telemetry = SessionTelemetry(telemetry)

    async def run(
        self,
        *,
        source: str | None,
        path: str | Path | None,
        inputs: Mapping[str, Any] | None,
        allowed_tools: AllowList | None,
        limits: Limits | Mapping[str, Any] | None,
        output_schema: Any,
        filename: str | None,
        env: Mapping[str, Any] | None,
        run_id: str | None,
        on_event: Callable[[RunEvent], None] | None,
    ) -> RunResult:
        """Run a script, as `Session.program`."""
        if allowed_tools is not None:
            # Read again if the run is resumed, and may be a generator.
            allowed_tools = parts_of("allowed_tools", allowed_tools, "a list of names of tools")
        program = self._programs.from_request(
            source=source,
            path=path,
            inputs=inputs,
            allowed_tools=allowed_tools,
            limits=limits,
            output_schema=output_schema,
            filename=filename,
            run_id=run_id,
        )
        environment = None
        if env is not None:
            environment = environment_of(self._tools.values(), self._env, env)
        early = reject_unsendable(program)
        if early is not None:
            return self._finish(early)
        if run_id is not None:
            row = await self._history.find(run_id)
            if row is not None:
                known = await self._programs.find_result(row, program)
                if known is not None:
                    return typed_result(known, output_schema)
                return await self.resume(
                    run_id, allowed_tools, output_schema, None, on_event, environment
                )
        result = await self._execute(program, on_event, environment)
        return typed_result(result, output_schema)

    async def check(
        self,
        source: str | None,
        path: str | Path | None,
        allowed_tools: AllowList | None,
        filename: str | None,
    ) -> tuple[Finding, ...]:
        """Check a script without running it, as `Session.check`."""
        program = self._programs.from_request(
            source=source, path=path, allowed_tools=allowed_tools, filename=filename
        )
        program = replace(program, only_check=True, recorded=False)
        result = reject_unsendable(program) or await self._executor.execute(program)
        if result.status == "completed":
            findings: tuple[Finding, ...] = result.value
            return findings
        if result.status == "rejected" and result.error is not None:
            return result.error.findings
        reason = result.error.message if result.error is not None else result.status
        return (Finding("check", reason, 0, 0, "", ""),)

    async def resume(
        self,
        run_id: str,
        allowed_tools: AllowList | None,
        output_schema: Any,
        until: str | None,
        on_event: Callable[[RunEvent], None] | None,
        environment: Environment | None = None,
        *,
        limits: Limits | Mapping[str, Any] | None = None,
        correction: Correction | None = None,
        accept_changed_tools: bool = False,
    ) -> RunResult:
        """Resume a recorded run, as `Session.resume`."""
        recorded = await self._programs.from_journal(
            *(run_id, allowed_tools, output_schema, until, limits),
            needs_source=correction is None,
        )
        new_limits = limits is not None
        program = await self._programs.to_continue(
            recorded,
            new_limits=new_limits,
            correction=correction,
            accept_changed_tools=accept_changed_tools,
        )
        early = reject_unsendable(program)
        if early is not None:
            return self._finish(early)
        if program.revision > recorded.revision:
            open_record: OpenRecord = partial(self._history.revise_record, program)
        else:
            new_options = new_limits or accept_changed_tools
            open_record = partial(self._history.resume_record, program, new_options=new_options)
        result = await self._execute(program, on_event, environment, open_record)
        return typed_result(result, output_schema)

    async def execute_recorded(
        self, program: Program, open_record: OpenRecord, on_event: EventSink | None = None
    ) -> RunResult:
        """Execute a program whose record is opened by `open_record`."""
        return await self._execute(program, on_event, None, open_record)

    async def retry(
        self,
        run_id: str,
        allowed_tools: AllowList | None,
        on_event: Callable[[RunEvent], None] | None,
    ) -> RunResult:
        """Run the script of a recorded run as a new run, as `Session.retry`."""
        program = await self._programs.for_retry(run_id, allowed_tools)
        return await self._execute(program, on_event)

    def current_context(self) -> str:
        """Return the active trace context, for a submitted run."""
        return self._telemetry.current_context()

    def observe(self, source: GaugeSource) -> bool:
        """Read gauges from a bound method, as `SessionTelemetry.observe`."""
        return self._telemetry.observe(source)

    async def _execute(
        self,
        program: Program,
        on_event: EventSink | None,
        environment: Environment | None = None,
        open_record: OpenRecord | None = None,
    ) -> RunResult:
        require_function("on_event", on_event)
        subscriber = join_subscribers(self._on_event, on_event)
        resumed = open_record is not None
        span = self._telemetry.open_run(partial(_describe, program, resumed=resumed))
        if span is None:
            result = await self._executor.execute(program, subscriber, environment, open_record)
        else:
            with span:
                if not resumed:
                    program = replace(program, trace=span.context)
                subscriber = join_subscribers(span.on_event, subscriber)
                result = await self._executor.execute(program, subscriber, environment, open_record)
                span.finish(result)
        if result.status not in ("completed", "paused"):
            self._history.effects.note_failed()
        self._history.notify_pending(result.pending)
        await announce(self._on_approval, result.pending)
        return self._finish(result)

    def _finish(self, result: RunResult) -> RunResult:
        """Report the end of a run to the session's subscriber."""
        if self._on_event is not None:
            self._on_event(RunEvent("finished", result.run_id, value=_copy_result(result)))
        return result


def _copy_result(result: RunResult) -> RunResult:
    """Return a result with data of its own, which a subscriber may modify."""
    return replace(
        result,
        value=copy_data(result.value),
        partial=tuple(map(copy_data, result.partial)),
        progress=copy_data(result.progress),
        pending=tuple(
            replace(call, arguments=copy_data(call.arguments), defaults=copy_data(call.defaults))
            for call in result.pending
        ),
    )


def _describe(program: Program, *, resumed: bool) -> RunDescription:
    return RunDescription(
        run_id=program.run_id,
        filename=program.filename,
        source=program.source if program.store_source else "",
        inputs=program.inputs_json,
        tools=program.tools,
        revision=program.revision,
        resumed=resumed,
        trace=program.trace,
    )
