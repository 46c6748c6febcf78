"""The forms of one request, in which the user of an MCP client decides on the calls of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ptc

from ._mcp_elicitation import Answer, client_name, form_of, read_answer, supports_forms

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import ElicitRequestFormParams, InputRequiredResult

__all__ = ["Dialog"]

_MAX_ROUNDS = 8
"""Forms for one request: clients of the protocol give up after 10 rounds."""


class Dialog:
    """The forms of one request."""

    def __init__(
        self,
        session: ptc.Session,
        tools: Mapping[str, ptc.Tool],
        ctx: ServerRequestContext[Any],
        client: str,
    ) -> None:
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        self._session = session
        self._tools = tools
        self._ctx = ctx
        self._client = client
        self._problems: dict[str, str] = {}
        self._later: set[str] = set()
        self._rounds = 0
        self.run_id = ""
        self.stateless: bool = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        """True: a form is a result, and its answer comes with a repeated request."""

    def can_ask(self, result: ptc.RunResult) -> bool:
        """True if the client's user can decide on a call of this run now."""
        able = self.stateless or self._ctx.session.can_send_request
        return (
            able
            and supports_forms(self._ctx)
            and self._rounds < _MAX_ROUNDS
            and bool(self._open(result.pending))
        )

    def _open(self, pending: tuple[ptc.PendingCall, ...]) -> list[ptc.PendingCall]:
        return [
            call
            for call in pending
            if call.kind == "approval" and call.call not in self._later and call.tool in self._tools
        ]

    def _form(self, call: ptc.PendingCall) -> ElicitRequestFormParams:
        return form_of(call, self._tools[call.tool], self._problems.get(call.call, ""))

    def next_leg(self, result: ptc.RunResult) -> InputRequiredResult:
        """Return a result that asks for all decisions at once; the client repeats its request."""
        from mcp_types import ElicitRequest, InputRequests, InputRequiredResult

        forms: InputRequests = {
            call.call: ElicitRequest(params=self._form(call)) for call in self._open(result.pending)
        }
        state = {"run": result.run_id, "later": sorted(self._later), "rounds": self._rounds + 1}
        # `RequestStateBoundary` encrypts it and binds it to this request.
        return InputRequiredResult(input_requests=forms, request_state=json.dumps(state))

    def restore(self, state: str) -> None:
        """Continue with the state of an earlier leg."""
        found = json.loads(state)
        self.run_id, self._rounds = found["run"], found["rounds"]
        self._later = set(found["later"])

    async def decide(self, responses: Mapping[str, Any]) -> None:
        """Record the answers to the forms of `next_leg`."""
        from mcp_types import ElicitResult

        for call in self._open(await self._session.pending(self.run_id)):
            response = responses.get(call.call)
            if isinstance(response, ElicitResult):
                await self._record(call, read_answer(call, self._tools[call.tool], response))
            else:
                self._later.add(call.call)

    async def ask(self, result: ptc.RunResult) -> None:
        """Show the forms one after the other, and record the answers."""
        from mcp.shared.exceptions import MCPError

        self._rounds += 1
        for call in self._open(result.pending):
            form = self._form(call)
            try:
                response = await self._ctx.session.elicit_form(
                    form.message, form.requested_schema, self._ctx.request_id
                )
            except MCPError:
                self._later.add(call.call)
            else:
                await self._record(call, read_answer(call, self._tools[call.tool], response))

    async def _record(self, call: ptc.PendingCall, answer: Answer) -> None:
        self._problems.pop(call.call, None)
        if answer.action == "later":
            self._later.add(call.call)
        elif answer.action == "again":
            self._problems[call.call] = answer.problem
        else:
            await self._decide(call, answer)

    async def _decide(self, call: ptc.PendingCall, answer: Answer) -> None:
        history, by = self._session.history, client_name(self._ctx, self._client)
        try:
            if answer.action == "approve":
                await history.approve(
                    call.run_id,
                    call.call,
                    by=by,
                    arguments=answer.arguments,
                    comment=answer.comment,
                )
            else:
                await history.reject(call.run_id, call.call, by=by, comment=answer.comment)
        except ptc.UsageError:
            # Decided elsewhere meanwhile, or expired: resuming the run applies that.
            self._later.add(call.call)
