"""Admission of a call: look-up, validation, identity and approval.

Arguments are validated once: those are approved, cached, recorded and executed.
"""

from __future__ import annotations

from dataclasses import replace

from .._core import _json
from .._core._arguments import describe_error
from .._schema._check import arguments_mapping
from .._schema._copy import copy_data
from .._tools._approval import ApprovalRequest, Decision, prompt_text, requires_approval
from .._tools._tool import Tool
from ..errors import ToolError
from ._call import OpenCall
from ._occurrences import Occurrences
from ._outcome import internal_error
from ._recorder import SuspendedError
from ._rows import redact_decision, redact_request
from ._scope import Scope

__all__ = ["Admission"]


class Admission:
    """Admission of the calls of one caller."""

    def __init__(self, scope: Scope, key_run: str | None) -> None:
        self._scope = scope
        self._occurrences = Occurrences(key_run)

    def admit(self, call: OpenCall) -> None:
        """Look up, validate and identify a call. Has no effect the second time.

        Calls of a script are admitted in the order in which the script made them, also on resume:
        the order distinguishes equal ones. An error becomes the call's `refusal`.
        """
        if call.admitted:
            return
        call.admitted = True
        self._scope.protect_record(call)
        call.refusal = call.oversized or self._validate(call)
        self._identify(call)

    def _validate(self, call: OpenCall) -> ToolError | None:
        """Look up the tool and validate the arguments; return the error if that fails."""
        try:
            tool = self._scope.find_tool(call)
            call.assign(tool)
            call.validate(tool)
        except ToolError as error:
            return error
        except Exception as error:  # noqa: BLE001  # a validator is its author's code
            return internal_error(call.call.name, error)
        return None

    def _identify(self, call: OpenCall) -> None:
        if call.parent is not None:
            call.siblings = call.parent.attempt_calls
        elif call.call.run_id is not None:
            # The host computes no keys for direct calls, and their number is unlimited.
            call.siblings = self._occurrences
        if call.siblings is not None:
            call.siblings.add(call)
        if call.parent is not None:
            call.parent.children += 1
            if self._scope.recorder is not None:
                call.path = self._scope.recorder.nested.assign_path(call.key(), call.parent.path)
            else:
                call.path = f"{call.parent.path}.{call.parent.children}"

    async def approve(self, tool: Tool, call: OpenCall, *, always: bool = False) -> None:
        """Obtain approval if the call requires it. An approver may replace the arguments.

        Args:
            tool: The tool.
            call: The call.
            always: True: the tool itself has required it, now or before the run was resumed.

        Raises:
            ToolError: If the call is rejected, or nobody can approve it.
            SuspendedError: If it is suspended until somebody decides.
        """
        arguments = arguments_mapping(call.copy_arguments())
        if not always and not await requires_approval(tool.needs_approval, arguments):
            return
        decision = await self._decide(tool, call)
        if not decision.approved:
            by = f" by {decision.by}" if decision.by else ""
            why = f": {decision.comment}" if decision.comment else ""
            raise ToolError(f"the call of {tool.name} was rejected{by}{why}", code="rejected")
        call.approved = True
        if decision.arguments is not None:
            # An approver's arguments are validated like any caller's. The call stays the same.
            call.replace_arguments(tool, decision.arguments)
            call.note_edit(decision.arguments)

    async def _decide(self, tool: Tool, call: OpenCall) -> Decision:
        approver, recorder = self._scope.shared.approver, self._scope.recorder
        if approver is None and (recorder is None or not call.may_suspend):
            msg = (
                f"{tool.name} requires approval and the session has no approver; "
                "open the session with approver="
            )
            raise ToolError(msg, code="approval_required")
        request = _request_for(tool, call)
        suspendable = recorder if call.may_suspend else None
        if suspendable is not None and (
            approver is None or suspendable.find_decision(call, "approval") is not None
        ):
            try:
                decision = suspendable.read_approval(call, request)
            except SuspendedError:
                self._scope.emit("approval_pending", call, redact_request(call, request))
                raise
        else:
            self._scope.emit("approval_pending", call, redact_request(call, request))
            decision = await self._ask(tool, request)
            if recorder is not None:
                recorder.record_decision(call, request, decision)
        self._scope.emit("approval_decided", call, redact_decision(call, decision))
        return decision

    async def _ask(self, tool: Tool, request: ApprovalRequest) -> Decision:
        approver = self._scope.shared.approver
        assert approver is not None  # noqa: S101  # `_decide` has checked
        try:
            # A copy: `request` is recorded with the decision.
            decision = await approver(
                replace(
                    request,
                    arguments=copy_data(request.arguments),
                    defaults=copy_data(request.defaults),
                )
            )
        except Exception as error:  # fail closed: a failed approver has not approved
            msg = f"the call of {tool.name} was not approved: {describe_error(error)}"
            raise ToolError(msg, code="rejected") from error
        if not isinstance(decision, Decision):
            msg = f"the approver of {tool.name} returned {decision!r:.80}, not a Decision"
            raise ToolError(msg, code="rejected")
        return decision


def _request_for(tool: Tool, call: OpenCall) -> ApprovalRequest:
    arguments = arguments_mapping(call.copy_arguments())
    return ApprovalRequest(
        call_id=call.id,
        run_id=call.call.run_id,
        tool=tool.name,
        arguments=_json.loads(_json.dumps(arguments, what="arguments")),
        fingerprint=call.fingerprint(),
        prompt=prompt_text(tool.approval_prompt, arguments),
        defaults=tool.approval_defaults,
    )
