"""CrewAI: its tools for scripts; ptc's tools for its agents.

::

    with BlockingSession(tools=[SerperDevTool()]) as session:
        agent = Agent(role=..., goal=..., backstory=..., tools=as_tools(session))
        agent.kickoff("...")

Agents of CrewAI call tools from a thread: pass a `BlockingSession`, or a `Session` whose event loop
stays free, as with ``await agent.kickoff_async(...)``.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any

import anyio.to_thread

import ptc
from ptc import ToolContext

from ._export import ExportedTool, Exports
from ._foreign import data_of, foreign_tool, plain_value
from ._mcp_specs import identifier
from ._session_calls import AnySession, SessionCalls

__all__ = ["as_tools", "tools_from"]

_PREVIEW_CHARS = 8_000
"""CrewAI stores a result of about 4,000 characters itself, and its model reads none of it then: a
preview, a quarter of this number, stays below that."""


# --- in -----------------------------------------------------------------------------------------


def tools_from(thing: Any) -> ptc.Tool | None:
    """Convert a `BaseTool`. A name such as ``Search the web`` becomes ``Search_the_web``.

    A tool without an async function runs in a thread, so a call cannot be cancelled once it has
    started. Only a `ToolFailure` or an exception is a failure: CrewAI does not mark error texts.
    """
    from crewai.tools import BaseTool

    if not isinstance(thing, BaseTool):
        return None
    is_async = type(thing)._arun is not BaseTool._arun and inspect.iscoroutinefunction(
        getattr(thing, "func", thing._arun)
    )

    async def run(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        if is_async:
            return _read_result(await thing.arun(**arguments), ctx)
        return _read_result(await anyio.to_thread.run_sync(lambda: thing.run(**arguments)), ctx)

    declared = thing.result_schema
    return foreign_tool(
        identifier(thing.name),
        thing.description,
        thing.args_schema.model_json_schema(),
        run,
        result_schema=None if declared is None else declared.model_json_schema(),
    )


def _read_result(result: Any, ctx: ToolContext) -> Any:
    from crewai.tools import ToolFailure
    from pydantic import BaseModel

    if isinstance(result, ToolFailure):
        code = result.code or result.reason.value
        raise ptc.ToolError(result.message, code=identifier(code), retryable=result.retryable)
    if isinstance(result, BaseModel):
        return result.model_dump(mode="json")
    return plain_value(result, ctx)


# --- out ----------------------------------------------------------------------------------------


def as_tools(
    session: AnySession,
    *,
    allowed_tools: Iterable[str | ptc.Allow] | None = None,
    direct: Collection[str] | bool = False,
    program: bool = True,
    limits: ptc.Limits | None = None,
    preview_chars: int | None = _PREVIEW_CHARS,
) -> list[Any]:
    """Return tools (`crewai.tools.BaseTool`) for ``Agent(tools=...)``.

    A failure is a `ToolFailure` with the text and the code. CrewAI has no approvals of calls: the
    result of a paused run says so, and the application decides and resumes it. CrewAI never caches
    the results. An argument that is an object of any form is text for the model, since CrewAI
    allows no such objects.

    Args:
        session: Makes the calls; must be open while the tools are in use.
        allowed_tools: Tools that scripts and direct calls may use. None: the session's default.
        direct: Tools that are also offered one by one: their names, or True for all allowed.
        program: True: offer scripts.
        limits: Limits of each run. None: the session's.
        preview_chars: Characters of a result that the model reads whole; `get_tool_response`, if
            allowed, reads the rest. None: previews only over ``limits.max_output_bytes``.

    Raises:
        UsageError: If a name is unknown, or a direct tool is not allowed; if a `Session` is passed
            outside of its event loop.
    """
    calls = SessionCalls(session, plain=True)
    exports = Exports(
        calls.session,
        allowed_tools=allowed_tools,
        direct=direct,
        program=program,
        limits=limits,
        preview_chars=preview_chars,
    )
    return [_as_tool(exports, calls, item) for item in exports]


def never_cache(*_: Any) -> bool:
    """Say that a result may not be cached: a script may read data that changes, or write."""
    return False


def _as_tool(exports: Exports, calls: SessionCalls, item: ExportedTool) -> Any:
    from crewai.tools import BaseTool, ToolFailure
    from pydantic import BaseModel, ConfigDict

    schema = _strict_schema(item)

    class Arguments(BaseModel):
        """Any arguments: ptc validates them."""

        model_config = ConfigDict(extra="allow")

        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return schema

    class ExportedToCrewAI(BaseTool):  # type: ignore[misc]  # Any for mypy
        """A tool of a session of ptc."""

        def _run(self, **arguments: Any) -> Any:
            reply = calls.wait(partial(exports.call, item.name, _given(item, arguments)))
            if reply.is_error:
                return ToolFailure(message=reply.text, code=reply.code)
            return reply.text

    return ExportedToCrewAI(
        name=item.name,
        description=item.description,
        args_schema=Arguments,
        cache_function=never_cache,
    )


def _strict_schema(item: ExportedTool) -> dict[str, Any]:
    """Return a schema that keeps its meaning in CrewAI.

    CrewAI requires all properties, and closes each object: a free one could only be ``{}``.
    """
    required = item.parameters.get("required", ())
    properties = {}
    for name, schema in item.parameters.get("properties", {}).items():
        shown = schema
        if _is_free_object(schema):
            text = f"{schema.get('description', '')} Text of a JSON object.".strip()
            shown = {"type": "string", "description": text}
        properties[name] = shown if name in required else {"anyOf": [shown, {"type": "null"}]}
    return {**item.parameters, "properties": properties}


def _is_free_object(schema: Any) -> bool:
    return (
        isinstance(schema, Mapping)
        and schema.get("type") == "object"
        and not schema.get("properties")
    )


def _given(item: ExportedTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as the tool has them: without nulls of CrewAI, objects as data."""
    required = item.parameters.get("required", ())
    properties = item.parameters.get("properties", {})
    given = {}
    for name, value in arguments.items():
        if value is None and name not in required:
            continue
        given[name] = value
        if isinstance(value, str) and _is_free_object(properties.get(name)):
            # The tool rejects a text that is not JSON.
            given[name] = data_of(value)
    return given
