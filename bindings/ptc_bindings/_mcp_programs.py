"""Runs of an MCP client: start, ask for approval, resume, report.

Rule 1: a client reaches only runs that a client started, with tools that this server allows.
    tests/bindings/test_mcp_approvals.py::test_client_cannot_reach_runs_that_others_started
Rule 2: a client can resume a run, and its user can decide in a form; no tool of the model decides.
    tests/bindings/test_mcp_approvals.py::test_resuming_before_the_decision_pauses_again
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ptc
from ptc._runs._program_row import load_result, recorded_tools
from ptc._tools._untrusted import model_text
from ptc.journal._journal import RunRow

from ._client_scope import ClientScope
from ._definitions import PROGRAM_LOG, PROGRAM_RESUME, call_result
from ._mcp_dialog import Dialog
from ._mcp_progress import Progress
from ._outcome import outcome_of_error
from ._outcome_text import outcome_texts
from ._previews import Previews
from ._reply import Reply, reply_of_run
from ._run_log import run_log, run_record

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        InputRequiredResult,
    )

__all__ = ["Programs"]


class Programs:
    """The runs that clients of one server start."""

    def __init__(
        self,
        session: ptc.Session,
        allowed_tools: list[str | ptc.Allow],
        previews: Previews,
        *,
        ask_client: bool,
        scope: ClientScope,
    ) -> None:
        """Prepare to run scripts.

        Args:
            session: Runs them.
            allowed_tools: Their allow-list.
            previews: Their limits, and how a model reads a truncated value.
            ask_client: True: the user of a client that supports forms decides on approvals.
            scope: Runs and files that the clients reach.
        """
        self._session = session
        self._allowed = allowed_tools
        self._tools = session.select_tools(allowed_tools)
        self._previews = previews
        self._ask_client = ask_client
        self._scope = scope
        self._latest: str | None = None

    # --- requests ---------------------------------------------------------------------------

    async def run(
        self,
        ctx: ServerRequestContext[Any],
        params: CallToolRequestParams,
        source: str,
        inputs: Mapping[str, Any],
    ) -> CallToolResult | InputRequiredResult:
        """Run a script, or continue the run that a form belongs to."""
        run_id = self._scope.new_run_id()

        async def start(on_event: Callable[[ptc.RunEvent], None]) -> ptc.RunResult:
            self._latest = run_id
            return await self._session.program(
                source=source,
                inputs=inputs,
                allowed_tools=self._allowed,
                limits=self._previews.limits,
                run_id=run_id,
                on_event=on_event,
            )

        return await self._run(ctx, params, start)

    async def resume(
        self,
        ctx: ServerRequestContext[Any],
        params: CallToolRequestParams,
        run_id: str,
        correction: Mapping[str, Any],
    ) -> CallToolResult | InputRequiredResult:
        """Resume a run, or continue it with a corrected script.

        A run that has ended is reported as it ended if there is no other script.
        """
        await self.find(run_id)

        async def start(on_event: Callable[[ptc.RunEvent], None]) -> ptc.RunResult:
            if not correction:
                return await self._resume(run_id, on_event)
            self._latest = run_id
            return await self._session.resume(
                run_id, allowed_tools=self._allowed, on_event=on_event, **correction
            )

        return await self._run(ctx, params, start)

    async def status(self, run_id: str) -> CallToolResult:
        """Report the status of a run, and what it waits for."""
        row = await self.find(run_id)
        result = load_result(row)
        if result is None:
            return call_result([f"Run {run_id}: {row.status}; no result is recorded yet."], None)
        if row.status == "paused":
            result = replace(result, pending=await self._session.pending(run_id))
        reply = self._reply(result)
        return call_result([f"Run {run_id}: {row.status}", *reply.texts], reply.data)

    async def log(self, run_id: str | None, first: int) -> CallToolResult:
        """Report the calls and the output of a run; None: of the latest one."""
        run_id = run_id or self._latest
        if run_id is None:
            raise ptc.UsageError("this server has run no script yet; pass run_id")
        row = await self.find(run_id)
        recorded = await self._session.history.recorded(run_id)
        text = run_log(recorded, load_result(row), first)
        untrusted = self._session.untrusted_in(call.tool for call in recorded.calls)
        return call_result([model_text(text, untrusted, source=PROGRAM_LOG)], None)

    async def record(self, run_id: str) -> bytes:
        """Return the record of a run as JSON."""
        result = load_result(await self.find(run_id))
        if result is not None:
            self._scope.grant(result)
        return run_record(await self._session.history.recorded(run_id), result)

    async def find(self, run_id: str) -> RunRow:
        """Return a run that a client may reach. Raises `UsageError`.

        The id of a run is random, so only somebody who was told can name it.
        """
        # A run of the operator may have used tools, and read data, that no client may see.
        known = self._scope.owns_run(run_id)
        row = await self._session.history.find(run_id) if known else None
        if row is None:
            # The same text for a run of another client: its existence is not disclosed either.
            msg = f"there is no run {run_id!r:.80} of an MCP client; check run_id"
            raise ptc.UsageError(msg)
        more = [name for name in recorded_tools(row) if name not in self._tools]
        if more:
            msg = f"run {run_id!r} used tools that this server does not allow: {', '.join(more)}"
            raise ptc.UsageError(msg)
        return row

    # --- execution --------------------------------------------------------------------------

    async def _run(
        self,
        ctx: ServerRequestContext[Any],
        params: CallToolRequestParams,
        start: Callable[[Callable[[ptc.RunEvent], None]], Awaitable[ptc.RunResult]],
    ) -> CallToolResult | InputRequiredResult:
        progress = Progress(ctx.session.report_progress)

        async def run() -> CallToolResult | InputRequiredResult:
            dialog = Dialog(self._session, self._tools, ctx, self._scope.name)
            try:
                if params.request_state is not None:
                    dialog.restore(params.request_state)
                    await self.find(dialog.run_id)
                    await dialog.decide(params.input_responses or {})
                    result = await self._resume(dialog.run_id, progress.on_event)
                else:
                    result = await start(progress.on_event)
                while self._ask_client and dialog.can_ask(result):
                    if dialog.stateless:
                        return dialog.next_leg(result)
                    await dialog.ask(result)
                    result = await self._resume(result.run_id, progress.on_event)
            except ptc.PtcError as error:
                data = outcome_of_error(error)
                return call_result(outcome_texts(data), data, is_error=True)
            return self._report(result)

        return await progress.report_during(run)

    async def _resume(self, run_id: str, on_event: Callable[[ptc.RunEvent], None]) -> ptc.RunResult:
        try:
            return await self._session.resume(
                run_id, allowed_tools=self._allowed, on_event=on_event
            )
        except ptc.JournalError:
            # It may have ended before, or meanwhile in another process.
            row = await self.find(run_id)
            ended = load_result(row)
            if ended is None or row.status in ("paused", "cancelled"):
                raise
            return ended

    def _report(self, result: ptc.RunResult) -> CallToolResult:
        reply = self._reply(result)
        return call_result(
            list(reply.texts),
            reply.data,
            is_error=reply.is_error,
            images=reply.images,
            files=reply.files,
            run_id=result.run_id,
        )

    def _reply(self, result: ptc.RunResult) -> Reply:
        self._scope.grant(result)
        untrusted = self._session.untrusted_in(call.tool for call in result.calls)
        return reply_of_run(
            result, next_step=_next_step(result), reader=self._previews.reader, untrusted=untrusted
        )


def _next_step(result: ptc.RunResult) -> str:
    run_id = result.run_id
    if result.status != "paused":
        if not any(warning.code == "effects_made" for warning in result.warnings):
            return ""
        return (
            f'Correct the script and call the tool {PROGRAM_RESUME} with {{"run_id": "{run_id}", '
            '"source": "..."}: calls that have succeeded are not repeated. Do not run it as a new '
            "program: that would repeat their effects."
        )
    resume = f'call the tool {PROGRAM_RESUME} with {{"run_id": "{run_id}"}}'
    if not result.pending:
        return f"Every call is decided: {resume}."
    kinds = {call.kind for call in result.pending}
    commands = [f"`ptc approve {run_id} CALL` or `ptc reject {run_id} CALL`"] * (
        "approval" in kinds
    )
    commands += [f"`ptc settle {run_id} CALL --outcome OUTCOME`"] * ("unknown" in kinds)
    return (
        f"A person decides on the server's machine with {' and '.join(commands)}, with the "
        f"server's --root. Then {resume}. Do not run the script again: that would repeat its calls."
    )
