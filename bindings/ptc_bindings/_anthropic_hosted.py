"""Claude's own programs: code that Anthropic executes, with the tools of a session."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import ptc
from ptc.models import ModelUsage

from ._anthropic_replies import HOSTED, ToolUses

__all__ = ["HostedRun", "run_hosted"]


@dataclass(frozen=True, slots=True)
class HostedRun:
    """The end of a conversation."""

    message: Any
    """Last message of Claude, a `BetaMessage`. Its ``stop_reason`` says why it ended."""
    messages: list[Any]
    """The whole conversation, to continue it."""
    container: str | None
    """Id of the container; None: there was none."""
    usage: ModelUsage
    """Tokens of all requests."""
    tool_usage: ModelUsage
    """Tokens that models of the called tools spent."""


async def run_hosted(
    client: Any,
    session: ptc.Session,
    *,
    messages: Iterable[Any],
    allowed_tools: Iterable[str | ptc.Allow] | None = None,
    limits: ptc.Limits | None = None,
    max_requests: int = 50,
    **request: Any,
) -> HostedRun:
    """Let Claude write programs that Anthropic executes and that call tools of `session` here.

    The sandbox is Anthropic's; ptc's allow-list, approvals and limits of a call hold. Results are
    JSON text. Each call must end within about four minutes, so that nobody can be asked for an
    approval, unless the session has an ``approver``. To let scripts run in ptc's sandbox, use
    `as_tools`.

    Args:
        client: An `AsyncAnthropic`.
        session: Makes the calls; must be open.
        messages: The conversation so far.
        allowed_tools: Tools that the programs may call. None: the session's default.
        limits: Limits of each call. None: the session's.
        max_requests: Requests after which the conversation is given up.
        **request: Further arguments of ``client.beta.messages.create``: ``model``, ``max_tokens``,
            ``system``, ``container``, ``tools`` for tools that Anthropic executes ...

    Raises:
        UsageError: If the client is not async, or a name is unknown.
        ModelError: After `max_requests` requests.
    """
    uses = ToolUses(
        session,
        allowed_tools=allowed_tools,
        direct=True,
        program=False,
        limits=limits,
        hosted=True,
    )
    if not inspect.iscoroutinefunction(inspect.unwrap(client.beta.messages.create)):
        raise ptc.UsageError("run_hosted needs an async client, such as anthropic.AsyncAnthropic")
    tools = [*request.pop("tools", ()), *uses.params]
    if all(tool.get("name") != "code_execution" for tool in tools):
        tools.insert(0, {"type": HOSTED, "name": "code_execution"})
    conversation = list(messages)
    usage = ModelUsage()
    for _ in range(max_requests):
        message = await client.beta.messages.create(**request, tools=tools, messages=conversation)
        conversation.append({"role": "assistant", "content": message.content})
        usage += _usage(message.usage)
        if message.container is not None:
            request["container"] = _container(request.get("container"), message.container.id)
        if message.stop_reason == "pause_turn":
            continue
        reply = await uses.answer(message)
        if reply is None:
            container = None if message.container is None else message.container.id
            return HostedRun(message, conversation, container, usage, uses.model_usage)
        conversation.append(reply)
    msg = f"Claude did not finish within {max_requests} requests; raise max_requests"
    raise ptc.ModelError(msg)


def _container(requested: Any, container_id: str) -> Any:
    """Return the container of the next request, with the skills of the first."""
    return {**requested, "id": container_id} if isinstance(requested, Mapping) else container_id


def _usage(usage: Any) -> ModelUsage:
    anthropic = {"cache_read_tokens": "cache_read_input_tokens"}
    anthropic["cache_write_tokens"] = "cache_creation_input_tokens"
    names = [field.name for field in fields(ModelUsage) if field.name != "requests"]
    counts = {name: getattr(usage, anthropic.get(name, name), None) or 0 for name in names}
    return ModelUsage(requests=1, **counts)
