"""OpenAI Agents SDK: its function tools for a session, and tools of a session for its agents.

::

    session = Session(tools=[a_function_tool])                      # in
    agent = Agent(name="...", tools=as_tools(session))              # out
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import ptc

from ._export import Direct, Exports
from ._openai_offers import offers
from ._previews import PREVIEW_CHARS

if TYPE_CHECKING:
    from agents import Agent, FunctionTool, Tool

__all__ = ["as_tools", "tools_from", "with_context"]


def tools_from(thing: Any) -> ptc.Tool | None:
    """Convert a ``FunctionTool``, also one made by ``agent.as_tool(...)``.

    An exception of the tool is a failure: its ``failure_error_function``, which would turn it into
    a result, only words the message. Guardrails of the tool apply.

    Args:
        thing: The tool. None is returned for an object of another package named ``agents``.

    Raises:
        UsageError: If it cannot be called outside of an agent.
    """
    try:
        from ._openai_agents_in import convert
    except ImportError:  # the application's own package `agents`
        return None
    return convert(thing)


def with_context(
    tools: Iterable[FunctionTool], context: Any, *, agent: Agent[Any] | None = None
) -> ptc.Toolset:
    """Convert function tools whose functions take a ``RunContextWrapper`` or ``ToolContext``.

    Args:
        tools: The tools.
        context: Their ``wrapper.context``.
        agent: Agent that guardrails and ``is_enabled`` see. None: one without instructions.

    Raises:
        UsageError: If a tool cannot be called outside of an agent.
    """
    from ._openai_agents_in import convert

    made = tuple(convert(tool, context=context, agent=agent, given=True) for tool in tools)
    return ptc.Toolset("openai_agents", made)


def as_tools(
    session: ptc.Session,
    *,
    allowed_tools: Iterable[str | ptc.Allow] | None = None,
    direct: Direct = False,
    program: bool = True,
    limits: ptc.Limits | None = None,
    preview_chars: int | None = PREVIEW_CHARS,
    strict: bool = False,
    approved_by: str = "OpenAI Agents SDK",
) -> list[Tool]:
    """Return tools of an open session for an agent.

    A call that needs approval interrupts the agent's run: ``result.interruptions`` has the nested
    call with its arguments, and ``state.approve(...)`` or ``state.reject(...)`` decides it. The
    script then continues in the same place; calls that ended are not repeated. The state may be
    saved and restored in another process, if that has the same journal.

    A call that failed returns its message as the tool's output, as tools of the SDK do; its trace
    span has the error. ``item.custom_data["ptc"]`` of the output's item has ``run_id``,
    ``is_error``, ``code`` and the status of the run.

    Args:
        session: Makes the calls; must be open while the tools are in use.
        allowed_tools: Tools that scripts and direct calls may use. None: the session's default.
        direct: Tools that are also offered one by one: their names, or True for all allowed.
        program: True: offer scripts.
        limits: Limits of each run. None: the session's.
        preview_chars: Characters of a result that the model reads whole; `get_tool_response`, if
            allowed, reads the rest. None: previews only over ``limits.max_output_bytes``.
        strict: True: definitions in OpenAI's strict form, where there is one; ``inputs`` of a
            script is JSON text then.
        approved_by: Name of the approver in the record of a decision.

    Raises:
        UsageError: If a name is unknown, or a direct tool is not allowed.
        SetupError: If the SDK is not installed.
    """
    try:
        from ._openai_agents_out import function_tool
    except ImportError as error:
        msg = f"install the OpenAI Agents SDK: pip install 'ptc-host[openai-agents]' ({error})"
        raise ptc.SetupError(msg) from error
    exports = Exports(
        session,
        allowed_tools=allowed_tools,
        direct=direct,
        program=program,
        limits=limits,
        preview_chars=preview_chars,
    )
    return [function_tool(exports, item, approved_by) for item in offers(exports, strict=strict)]
