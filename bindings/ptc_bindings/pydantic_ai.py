"""pydantic-ai: its tools and toolsets for a session, and a session's tools for its agents.

::

    async with Session(tools=[my_toolset]) as session:  # a Tool, or any AbstractToolset
        agent = Agent(model, tools=as_tools(session, allowed_tools=["price", "order"]))

Tools that use `RunContext` receive the context of the agent whose script calls them, with its
dependencies and usage. A call that requires approval becomes a deferred tool request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import ptc

from ._export import Direct, Exports
from ._previews import PREVIEW_CHARS

if TYPE_CHECKING:
    from pydantic_ai.tools import Tool
    from pydantic_ai.toolsets import FunctionToolset

    from ptc._tools._provider import ToolProvider

__all__ = ["as_tools", "as_toolset", "bind", "tools_from"]

_ABSENT: Any = object()


def tools_from(thing: Any) -> ptc.Tool | ToolProvider:
    """Convert a tool or a toolset of pydantic-ai, for ``Session(tools=[...])``.

    Raises:
        UsageError: If it is anything else.
    """
    return bind(thing)


def bind(
    thing: Any,
    *,
    deps: Any = _ABSENT,
    namespace: str = "",
) -> ptc.Tool | ToolProvider:
    """Convert a tool or a toolset of pydantic-ai, with dependencies and a namespace.

    A toolset is entered while the session is open. Its tools are listed at the start, and a tool
    that `prepare` hides later fails. A call requires approval if its tool has `requires_approval`,
    or if the tool or a toolset around it raises `ApprovalRequired`.

    Args:
        thing: A `Tool`, or any `AbstractToolset`.
        deps: Dependencies of calls outside of an agent. Default: a call that reads them fails.
        namespace: Namespace of the tools: ``ctx.<namespace>.<tool>(...)``.

    Raises:
        UsageError: If it is neither, or the result of the tool is produced outside of the agent.
    """
    from pydantic_ai import Tool
    from pydantic_ai.toolsets import AbstractToolset

    from ._pydantic_ai_tools import AgentTools, MissingDependencies, convert_tool

    deps = MissingDependencies() if deps is _ABSENT else deps
    if isinstance(thing, Tool):
        return convert_tool(thing, deps=deps, namespace=namespace)
    if isinstance(thing, AbstractToolset):
        return AgentTools(thing, deps=deps, namespace=namespace)
    kind = type(thing).__name__
    msg = f"{kind} of pydantic-ai is not a tool: pass a Tool, a toolset, or a function that calls"
    raise ptc.UsageError(f"{msg} it")


def as_tools(
    session: ptc.Session,
    *,
    allowed_tools: Iterable[str | ptc.Allow] | None = None,
    direct: Direct = False,
    program: bool = True,
    limits: ptc.Limits | None = None,
    preview_chars: int | None = PREVIEW_CHARS,
) -> list[Tool[Any]]:
    """Return tools for ``Agent(tools=...)``: ``program``, and single tools with `direct`.

    A failure raises `ToolFailed`, so that the model reads it and the agent continues. A call that
    requires approval pauses the run, and the agent's output is `DeferredToolRequests`, whose
    ``metadata[tool_call_id]["calls"]`` lists the calls with their arguments. To continue, run the
    agent with `DeferredToolResults`: an approval approves the listed calls. Pass the metadata back,
    with ``"decision": "reject"`` or other ``"arguments"`` in a call, to decide each by itself.

    Args:
        session: Makes the calls; must be open while the tools are in use.
        allowed_tools: Tools that scripts and direct calls may use. None: the session's default.
        direct: Tools that are also offered one by one: their names, or True for all allowed.
        program: True: offer scripts.
        limits: Limits of each run. None: the session's.
        preview_chars: Characters of a result that the model reads whole; `get_tool_response`, if
            allowed, reads the rest. None: previews only over ``limits.max_output_bytes``.

    Raises:
        UsageError: If a name is unknown, or a direct tool is not allowed.
    """
    from ._pydantic_ai_agent import agent_tool

    exports = Exports(
        session,
        allowed_tools=allowed_tools,
        direct=direct,
        program=program,
        limits=limits,
        preview_chars=preview_chars,
    )
    return [agent_tool(exports, item) for item in exports]


def as_toolset(
    session: ptc.Session,
    *,
    allowed_tools: Iterable[str | ptc.Allow] | None = None,
    direct: Direct = False,
    program: bool = True,
    limits: ptc.Limits | None = None,
    preview_chars: int | None = PREVIEW_CHARS,
    id: str | None = None,
) -> FunctionToolset[Any]:
    """Return the tools of `as_tools` as one toolset, for ``Agent(toolsets=...)``.

    Args:
        session: As for `as_tools`.
        allowed_tools: As for `as_tools`.
        direct: As for `as_tools`.
        program: As for `as_tools`.
        limits: As for `as_tools`.
        preview_chars: As for `as_tools`.
        id: Id of the toolset, which durable execution needs.
    """
    from pydantic_ai.toolsets import FunctionToolset

    tools = as_tools(
        session,
        allowed_tools=allowed_tools,
        direct=direct,
        program=program,
        limits=limits,
        preview_chars=preview_chars,
    )
    return FunctionToolset(tools, id=id)
