"""FastMCP: its servers, clients and tools for scripts; ptc's tools for its servers.

::

    async with Session(tools=[FastMCP("shop"), MCPServers({"web": Client(url)})]) as session: ...

    for tool in as_tools(session, allowed_tools=["read", "lookup"]):
        server.add_tool(tool)

Rule 1: a call that requires approval shows a form to the client's user, if the client supports
    forms, and no other answer decides.
    tests/frameworks/test_fastmcp.py::test_user_decides_in_a_form
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import ptc
from ptc import ToolContext

from ._definitions import call_result, structured_value, tool_definition
from ._export import ExportedTool, Exports
from ._mcp_dialog import Dialog
from ._mcp_progress import Progress
from ._mcp_specs import identifier
from ._mcp_tool import convert_tool
from ._outcome import OUTCOME_SCHEMA
from ._previews import PREVIEW_CHARS
from ._reply import Preview, Reply
from .mcp_tools import MCPServers

__all__ = ["as_tools", "connection_to", "tools_from"]

_RANDOM_NAME = re.compile(r"\w+-[0-9a-f]{4}")
"""Name of a server or client that was created without one."""


# --- in -----------------------------------------------------------------------------------------


def tools_from(thing: Any) -> ptc.Tool | MCPServers | None:
    """Convert a `FastMCP` server, a `Client` or a `Tool` of FastMCP.

    A server runs in this process, in the event loop of the MCP servers. Its name, or that of the
    client, is the namespace of its tools; ``MCPServers({"shop": thing})`` sets another one.

    Raises:
        UsageError: If it has no name of its own; if a client is connected; if a tool needs the
            context of a server.
    """
    from fastmcp import Client, FastMCP  # pyright: ignore[reportAttributeAccessIssue]  # not this module
    from fastmcp.tools import Tool

    if isinstance(thing, Tool):
        return _convert(thing)
    if not isinstance(thing, FastMCP | Client):
        return None
    kind = "FastMCP server" if isinstance(thing, FastMCP) else "FastMCP client"
    if _RANDOM_NAME.fullmatch(thing.name):
        msg = (
            f"the {kind} has no name, and the name is the namespace of its tools: pass "
            'MCPServers({"NAME": ...}) of ptc_bindings.mcp_tools with it, or give it a name'
        )
        raise ptc.UsageError(msg)
    return MCPServers({thing.name: thing})


def connection_to(thing: Any) -> Callable[[], AbstractAsyncContextManager[Any]]:
    """Return a function that connects to a server or client of FastMCP.

    Raises:
        UsageError: If it is something else, or a client that is connected.
    """
    from fastmcp import Client, FastMCP  # pyright: ignore[reportAttributeAccessIssue]  # not this module

    if not isinstance(thing, FastMCP | Client):
        msg = f"{type(thing).__name__} of FastMCP is not a server or client"
        raise ptc.UsageError(msg)
    if isinstance(thing, Client) and thing.is_connected():
        # Its connection belongs to the event loop that opened it.
        msg = f"the FastMCP client {thing.name!r:.80} is connected: pass it before `async with`"
        raise ptc.UsageError(msg)

    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        client = thing.new() if isinstance(thing, Client) else Client(thing)
        try:
            async with client:
                yield client
        finally:
            # A process outlives its connection otherwise.
            await client.close()

    return connect


def _convert(tool: Any) -> ptc.Tool:
    from fastmcp.server.context import Context
    from fastmcp.utilities.types import find_kwarg_by_type

    function = getattr(tool, "fn", None)
    if function is not None and find_kwarg_by_type(function, Context) is not None:
        msg = f"the FastMCP tool {tool.name!r:.80} needs the context of a server: pass the server"
        raise ptc.UsageError(msg)
    return convert_tool(identifier(tool.name), tool.to_mcp_tool(), _Direct(tool))


class _Direct:
    """Calls of one tool of FastMCP without a server."""

    def __init__(self, tool: Any) -> None:
        self._tool = tool

    async def call(self, tool: str, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        """Call the tool; its result has the fields of one of the protocol."""
        from fastmcp.exceptions import FastMCPError
        from fastmcp.tools.base import InputRequiredToolResult

        try:
            result = await self._tool.run(arguments)
        except FastMCPError as error:
            raise ptc.ToolError(str(error)) from None
        if isinstance(result, InputRequiredToolResult):
            msg = "it asks for input of a user during the call, which ptc does not support"
            raise ptc.ToolError(msg, code="unsupported")
        return result

    def redact(self, value: Any) -> Any:
        """Return the value: no secret is known here."""
        return value

    def failure(self, error: ptc.ToolError) -> ptc.ToolError:
        """Return the error, which needs no name of a server."""
        return error


# --- out ----------------------------------------------------------------------------------------


def as_tools(
    session: ptc.Session,
    *,
    allowed_tools: Iterable[str | ptc.Allow] | None = None,
    direct: Collection[str] | bool = False,
    program: bool = True,
    limits: ptc.Limits | None = None,
    preview_chars: int | None = PREVIEW_CHARS,
    ask_client: bool = True,
) -> list[Any]:
    """Return tools (`fastmcp.tools.Tool`) for ``FastMCP(tools=...)`` or ``add_tool``.

    A call that requires approval shows a form to the client's user; without forms, the result says
    that the run is paused. A finished tool call of a script is reported as progress.

    Args:
        session: Makes the calls; must be open while the tools are in use.
        allowed_tools: Tools that scripts and direct calls may use. None: the session's default.
        direct: Tools that are also offered one by one: their names, or True for all allowed.
        program: True: offer scripts.
        limits: Limits of each run. None: the session's.
        preview_chars: Characters of a result that the model reads whole; `get_tool_response`, if
            allowed, reads the rest. None: previews only over ``limits.max_output_bytes``.
        ask_client: False: leave every decision to the application.

    Raises:
        UsageError: If a name is unknown, or a direct tool is not allowed.
    """
    exports = Exports(
        session,
        allowed_tools=allowed_tools,
        direct=direct,
        program=program,
        limits=limits,
        preview_chars=preview_chars,
    )
    return [_as_tool(exports, item, ask_client) for item in exports]


def _as_tool(exports: Exports, item: ExportedTool, ask_client: bool) -> Any:
    from fastmcp.tools import Tool
    from mcp_types import ToolAnnotations

    class ExportedToFastMCP(Tool):  # type: ignore[misc]  # Any for mypy
        """A tool of a session of ptc."""

        async def run(self, arguments: dict[str, Any]) -> Any:
            return await _run(exports, item, arguments, ask_client)

    output = item.result_schema
    if output is not OUTCOME_SCHEMA:
        tool = exports.session.select_tools(exports.allowed_tools)[item.source_name]
        output = tool_definition(tool).output_schema
    return ExportedToFastMCP(
        name=item.name,
        description=item.description,
        parameters=dict(item.parameters),
        output_schema=None if output is None else dict(output),
        annotations=ToolAnnotations(
            read_only_hint=not item.side_effect, destructive_hint=item.side_effect
        ),
    )


async def _run(
    exports: Exports, item: ExportedTool, arguments: dict[str, Any], ask_client: bool
) -> Any:
    from fastmcp.server.dependencies import get_context
    from fastmcp.tools import ToolResult

    try:
        context = get_context()
    except RuntimeError:
        # The application called the tool itself, so there is no client to ask or to notify.
        return ToolResult.from_mcp_result(_result(item, await exports.call(item.name, arguments)))
    progress = Progress(context.report_progress)
    request = context.request_context

    async def run() -> Any:
        if not ask_client or request is None:
            reply = await exports.call(item.name, arguments, on_event=progress.on_event)
            return ToolResult.from_mcp_result(_result(item, reply))
        state, responses = context.request_state, context.input_responses
        return await _ask(exports, item, arguments, request, progress, state, responses)

    return await progress.report_during(run)


async def _ask(
    exports: Exports,
    item: ExportedTool,
    arguments: dict[str, Any],
    request: Any,
    progress: Progress,
    state: str | None,
    responses: Any,
) -> Any:
    """Call or resume a run, with forms for the calls that require approval."""
    from fastmcp.tools import ToolResult
    from fastmcp.tools.base import InputRequiredToolResult

    tools = exports.session.select_tools(exports.allowed_tools)
    dialog = Dialog(exports.session, tools, request, "")
    if state is None:
        reply = await exports.call(item.name, arguments, on_event=progress.on_event)
    else:
        # FastMCP encrypts the state and binds it to the request, so the client did not make it.
        dialog.restore(state)
        await dialog.decide(responses or {})
        reply = await exports.resume(dialog.run_id, on_event=progress.on_event)
    while reply.run is not None and dialog.can_ask(reply.run):
        if dialog.stateless:
            return InputRequiredToolResult(dialog.next_leg(reply.run))
        await dialog.ask(reply.run)
        reply = await exports.resume(reply.run.run_id, on_event=progress.on_event)
    return ToolResult.from_mcp_result(_result(item, reply))


def _result(item: ExportedTool, reply: Reply) -> Any:
    data = reply.data
    if isinstance(data, Preview):
        data = data.to_dict()
    elif reply.run is None and not reply.is_error:
        data = structured_value(data, item.result_schema)
    return call_result(
        list(reply.texts),
        data,
        is_error=reply.is_error,
        images=reply.images,
        files=reply.files,
        run_id="" if reply.run is None else reply.run.run_id,
    )
