"""Delegation of one task to a child agent, as a part of a tool call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import anyio

from .._records._content import Attachment
from .._tools._allow import AllowList
from .._tools._context import ToolContext
from ..errors import SetupError, ToolError, UsageError
from ..models._open import ModelSource
from ._kinds import AgentKind
from ._limits import Account, TaskLimits, current_account
from ._outcome import TaskProblem, TaskResult, TaskStatus, bound_text

if TYPE_CHECKING:
    from ._child import Conversation

__all__ = ["run_child"]


async def run_child(
    ctx: ToolContext,
    kind: AgentKind,
    prompt: str,
    *,
    description: str = "",
    output_schema: Any = None,
    model: ModelSource | None = None,
    allowed_tools: AllowList | None = None,
    limits: Mapping[str, Any] | None = None,
) -> TaskResult:
    """Run a child agent. Its failure is part of the result, not an exception.

    Its requests and tool calls are nested calls of the call `ctx`: when that is started again, they
    are answered from the record.

    Args:
        ctx: The call.
        kind: Kind of the agent.
        prompt: The task, with all that the agent needs to know.
        description: A few words for people.
        output_schema: Schema of the structured answer. None: that of the kind.
        model: Model. None: that of the kind, or else the session's.
        allowed_tools: Further restriction of the child's tools.
        limits: Limits by name, as in `TaskLimits`, where they are lower than those of the kind.

    Raises:
        ToolError: If the child cannot be started: no model, unknown tools, malformed limits.
        PtcError: If a call of the child is suspended.
    """
    try:
        own = kind.limits.lower(limits or {})
    except UsageError as error:
        raise ToolError(str(error), code="invalid_arguments") from None
    try:
        _check_event_loop()
        provider = await ctx.models.agent_model(kind.model if model is None else model)
        from ._child import Conversation, converse
    except (UsageError, SetupError) as error:
        raise ToolError(str(error), code="setup") from error
    parent = current_account()
    account = Account(own, parent)
    if parent is not None:
        parent.children.add(ctx.call_id)
    tools = _restricted(ctx, kind, allowed_tools, own)
    talk = Conversation()
    with anyio.move_on_after(own.timeout_ms / 1000) as time:
        await converse(
            talk,
            ctx,
            tools,
            kind,
            prompt,
            model=provider,
            schema=kind.output_schema if output_schema is None else output_schema,
            account=account,
        )
    if time.cancelled_caught:
        msg = f"timeout_ms is {own.timeout_ms:,}, and the agent took longer"
        talk.error = ToolError(msg, code="timeout")
    return _result(ctx, kind, description, talk, account)


def _check_event_loop() -> None:
    """Raise `SetupError` on trio: the agent of pydantic-ai starts tasks of asyncio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        msg = "child agents need asyncio: the agent of pydantic-ai does not run on trio"
        raise SetupError(msg) from None


def _restricted(
    ctx: ToolContext, kind: AgentKind, allowed: AllowList | None, limits: TaskLimits
) -> ToolContext:
    """Return the context that the child's calls go through."""
    if allowed is not None:
        ctx = ctx.restricted(allowed)
    return ctx.restricted(kind.select_tools(ctx.tools), max_calls=limits.max_tool_calls)


def _result(
    ctx: ToolContext, kind: AgentKind, description: str, talk: Conversation, account: Account
) -> TaskResult:
    error = talk.error
    status: TaskStatus = "completed"
    if error is not None:
        status = "limit_exceeded" if error.code in ("limit_exceeded", "timeout") else "failed"
    warnings = list(_warnings(account))
    transcript = None
    if talk.messages:
        try:
            transcript = ctx.attach(
                Attachment(
                    f"{kind.name}.json",
                    "application/json",
                    talk.transcript,
                    description=f"Messages of the agent {kind.name}: {description}"[:500],
                )
            ).id
        except ToolError as problem:
            warnings.append(f"the transcript was not stored: {problem.message}")
    return TaskResult(
        agent=kind.name,
        status=status,
        answer=bound_text(talk.answer),
        object=talk.object,
        description=description,
        usage=account.usage,
        transcript=transcript,
        error=None if error is None else TaskProblem(error.code, error.message),
        warnings=tuple(warnings),
        call=ctx.call_id,
    )


def _warnings(account: Account) -> Iterable[str]:
    if account.limits.max_cost_usd is not None and account.unpriced:
        yield (
            f"max_cost_usd could not be enforced: the price of {account.unpriced} of "
            f"{account.steps} model responses is unknown"
        )
