"""The MCP server: which tools and resources it offers, and who answers each request."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import ptc
from ptc._tools._names import list_within

from ._allowed import allow_list
from ._capacity import Capacity
from ._client_scope import ClientScope
from ._definitions import (
    PROGRAM,
    PROGRAM_LOG,
    PROGRAM_RESUME,
    PROGRAM_STATUS,
    RESERVED,
    call_result,
    run_definitions,
    runs_as_program,
    server_instructions,
    server_program,
    tool_definition,
)
from ._export import script_of_call
from ._mcp_direct import call_tool
from ._mcp_programs import Programs
from ._mcp_resources import read_resource, resource_templates
from ._outcome import FAILURE_CHARS, outcome_of_busy, outcome_of_error
from ._outcome_text import outcome_texts
from ._previews import PREVIEW_CHARS, RECALL, plan_previews

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        InputRequiredResult,
        ListResourcesResult,
        ListResourceTemplatesResult,
        ListToolsResult,
        PaginatedRequestParams,
        ReadResourceRequestParams,
        ReadResourceResult,
    )

__all__ = ["create_server", "require_sdk", "serve"]

_STATE_SECONDS = 7 * 86_400.0
"""Time that a user may take to answer a form; the run itself waits longer."""


def serve(
    session: ptc.Session,
    *,
    allowed_tools: Iterable[str | ptc.Allow] | None = None,
    limits: ptc.Limits | None = None,
    preview_chars: int | None = PREVIEW_CHARS,
    direct_tools: bool = False,
    ask_client: bool = True,
    client: str = "",
) -> Server[Any]:
    """Create an MCP server over `session`, which the caller opens before and closes after it.

    ::

        async with ptc.Session(root=".") as session:
            server = serve(session, allowed_tools=["read", "grep"])
            async with stdio_server() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())

    All clients of one server have the same rights, and a client that knows the id of a run can
    read it. Where clients must not reach each other's runs and artifacts, create one server for
    each over the same session, with `client`.

    Args:
        session: Runs the programs.
        allowed_tools: Names of the tools that scripts and clients may call. None: those of the
            session, all without side effects by default.
        limits: Limits of each program. None: the session's limits.
        preview_chars: Characters of a result that the model reads whole. Of a longer one it reads
            the start, and `get_tool_response`, if allowed, is offered for the rest. None: previews
            only over ``limits.max_output_bytes``.
        direct_tools: True: offer each of these tools directly as well.
        ask_client: True: the user of a client that supports forms decides on calls that require
            approval. False: such runs pause, and an operator decides with ``ptc approve``.
        client: Name of the client, 1 to 32 letters, digits, _ and -. The server reaches only the
            runs and stored files of this client. Empty: one client has the session to itself.

    Raises:
        UsageError: If a name is unknown or invalid, or a directly offered tool has the name of
            one of the server's own, such as ``program``.
        SetupError: If the MCP SDK, 2.0 or newer, is not installed.
    """
    return create_server(
        session,
        allowed_tools,
        limits or session.limits,
        preview_chars=preview_chars,
        direct_tools=direct_tools,
        ask_client=ask_client,
        scope=ClientScope(client),
    )


def create_server(
    session: ptc.Session,
    allowed_tools: Iterable[str | ptc.Allow] | None,
    limits: ptc.Limits,
    *,
    preview_chars: int | None,
    direct_tools: bool,
    ask_client: bool,
    scope: ClientScope,
    calls: Capacity | None = None,
) -> Server[Any]:
    """Create the server of `serve`.

    Args:
        session: Runs the programs.
        allowed_tools: As for `serve`.
        limits: Limits of each program.
        preview_chars: As for `serve`.
        direct_tools: As for `serve`.
        ask_client: As for `serve`.
        scope: Runs and files that the clients reach.
        calls: Slots for concurrent calls; None: any number.
    """
    require_sdk()
    from mcp.server.lowlevel import Server
    from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

    handlers = _Handlers(
        session,
        allowed_tools,
        limits,
        preview_chars=preview_chars,
        direct_tools=direct_tools,
        ask_client=ask_client,
        scope=scope,
        calls=calls or Capacity(sys.maxsize),
    )
    server: Server[Any] = Server(
        "ptc",
        version=ptc.__version__,
        instructions=server_instructions(list(handlers.tools), direct=direct_tools),
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_resource_templates,
        on_read_resource=handlers.read_resource,
    )
    # The state names a run: a client must neither read nor change it.
    security = RequestStateSecurity.ephemeral(ttl=_STATE_SECONDS)
    server.middleware.append(RequestStateBoundary(security, default_audience="ptc"))
    return server


def require_sdk() -> None:
    """Raise `SetupError` if the SDK is missing, or older than 2.0, which has no `mcp_types`."""
    for name in ("mcp", "mcp_types"):
        if importlib.util.find_spec(name) is None:
            raise ptc.SetupError("MCP needs its SDK: pip install 'ptc-host[mcp]'")


class _Handlers:
    """Handlers of the protocol requests for tools and resources."""

    def __init__(
        self,
        session: ptc.Session,
        allowed_tools: Iterable[str | ptc.Allow] | None,
        limits: ptc.Limits,
        *,
        preview_chars: int | None,
        direct_tools: bool,
        ask_client: bool,
        scope: ClientScope,
        calls: Capacity,
    ) -> None:
        self._session = session
        self._scope = scope
        self._calls = calls
        self._allowed = scope.narrow(session, allow_list(session, allowed_tools))
        self.tools = session.select_tools(self._allowed)
        self._direct = dict(self.tools) if direct_tools else {}
        self._previews = plan_previews(self.tools, limits, preview_chars, self._direct)
        self._programs = Programs(
            session, self._allowed, self._previews, ask_client=ask_client, scope=scope
        )
        if self._previews.offers_tool:
            self._direct[RECALL] = self.tools[RECALL]
        for name in RESERVED:
            if name in self._direct:
                msg = (
                    f"a tool named {name!r} cannot be offered directly: a tool of the server has "
                    "this name; rename it"
                )
                raise ptc.UsageError(msg)
        tools = list(self.tools.values())
        self._offered = [
            server_program(session, self._allowed, self._previews.limits),
            *run_definitions(tools),
            *map(tool_definition, self._direct.values()),
        ]

    # --- tools ------------------------------------------------------------------------------

    async def list_tools(
        self, ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        """Answer ``tools/list``."""
        from mcp_types import ListToolsResult

        return ListToolsResult(tools=self._offered)

    async def call_tool(
        self, ctx: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """Answer ``tools/call``. Only an unknown tool is an error of the protocol."""
        if refusal := self._calls.refusal("calls"):
            # The result of the call, not an error of the protocol: a model can read it and wait.
            data = outcome_of_busy(refusal)
            return call_result(outcome_texts(data), data, is_error=True)
        with self._calls.hold():
            return await self._call_tool(ctx, params)

    async def _call_tool(
        self, ctx: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        arguments = params.arguments or {}
        own: dict[str, Callable[[], Awaitable[CallToolResult | InputRequiredResult]]] = {
            PROGRAM: lambda: self._program(ctx, params, arguments),
            PROGRAM_LOG: lambda: self._log(arguments),
            PROGRAM_STATUS: lambda: self._status(arguments),
            PROGRAM_RESUME: lambda: self._resume(ctx, params, arguments),
        }
        if params.name in own:
            try:
                return await own[params.name]()
            except ptc.PtcError as error:
                data = outcome_of_error(error)
                return call_result(outcome_texts(data), data, is_error=True)
        if params.name in self._direct:
            return await self._call(ctx, params, arguments)
        from mcp.shared.exceptions import MCPError
        from mcp_types import INVALID_PARAMS

        msg = f"there is no tool {params.name!r:.80} here"
        if params.name in self.tools:
            msg += f"; call it from a script: `await ctx.{params.name}(...)`"
        known = list_within([tool.name for tool in self._offered], FAILURE_CHARS - len(msg) - 20)
        raise MCPError(INVALID_PARAMS, f"{msg}; tools: {known}")

    async def _program(
        self,
        ctx: ServerRequestContext[Any],
        params: CallToolRequestParams,
        arguments: Mapping[str, Any],
    ) -> CallToolResult | InputRequiredResult:
        source, inputs = _program_arguments(arguments)
        return await self._programs.run(ctx, params, source, inputs)

    async def _log(self, arguments: Mapping[str, Any]) -> CallToolResult:
        _reject_unknown(PROGRAM_LOG, arguments, ("run_id", "first"))
        first = arguments.get("first", 1)
        if type(first) is not int or first < 1:
            msg = f"first must be an integer of at least 1, not {_json_type(first)}"
            raise ptc.UsageError(msg)
        given = arguments.get("run_id")
        return await self._programs.log(None if given is None else _run_id(arguments), first)

    async def _status(self, arguments: Mapping[str, Any]) -> CallToolResult:
        _reject_unknown(PROGRAM_STATUS, arguments, ("run_id",))
        return await self._programs.status(_run_id(arguments))

    async def _resume(
        self,
        ctx: ServerRequestContext[Any],
        params: CallToolRequestParams,
        arguments: Mapping[str, Any],
    ) -> CallToolResult | InputRequiredResult:
        known = ("run_id", "source", "reads", "allow_unmatched", "accept_changed_tools")
        _reject_unknown(PROGRAM_RESUME, arguments, known)
        correction = {name: value for name, value in arguments.items() if name != "run_id"}
        of_source = [name for name in correction if name != "accept_changed_tools"]
        if of_source and "source" not in correction:
            raise ptc.UsageError(f"{' and '.join(of_source)}: pass source as well")
        return await self._programs.resume(ctx, params, _run_id(arguments), correction)

    async def _call(
        self,
        ctx: ServerRequestContext[Any],
        params: CallToolRequestParams,
        arguments: Mapping[str, Any],
    ) -> CallToolResult | InputRequiredResult:
        tool = self._direct[params.name]
        if runs_as_program(tool):
            source = script_of_call(tool.name)
            return await self._programs.run(ctx, params, source, arguments)
        return await call_tool(
            self._session, tool, arguments, self._allowed, self._previews, self._scope
        )

    # --- resources --------------------------------------------------------------------------

    async def list_resources(
        self, ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Answer ``resources/list``: none, since knowing a name is what gives access."""
        from mcp_types import ListResourcesResult

        return ListResourcesResult(resources=[])

    async def list_resource_templates(
        self, ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """Answer ``resources/templates/list``."""
        from mcp_types import ListResourceTemplatesResult

        return ListResourceTemplatesResult(resource_templates=resource_templates())

    async def read_resource(
        self, ctx: ServerRequestContext[Any], params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        """Answer ``resources/read``."""
        if refusal := self._calls.refusal("calls"):
            from mcp.shared.exceptions import MCPError
            from mcp_types import INTERNAL_ERROR

            raise MCPError(INTERNAL_ERROR, refusal)
        with self._calls.hold():
            return await read_resource(self._session, self._programs, self._scope, params.uri)


def _program_arguments(arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    _reject_unknown(PROGRAM, arguments, ("source", "inputs"))
    source, inputs = arguments.get("source"), arguments.get("inputs")
    if not isinstance(source, str):
        msg = f"source must be a string, the text of the script, not {_json_type(source)}"
        raise ptc.UsageError(msg)
    if inputs is not None and not isinstance(inputs, dict):
        msg = f'inputs must be an object, such as {{"query": "TODO"}}, not {_json_type(inputs)}'
        raise ptc.UsageError(msg)
    return source, inputs or {}


def _json_type(value: object) -> str:
    names = {str: "a string", bool: "a boolean", list: "an array", dict: "an object"}
    return "null or missing" if value is None else names.get(type(value), "a number")


def _run_id(arguments: Mapping[str, Any]) -> str:
    run_id = arguments.get("run_id")
    if not isinstance(run_id, str):
        msg = f"run_id must be a string, the id of a run, not {_json_type(run_id)}"
        raise ptc.UsageError(msg)
    return run_id


def _reject_unknown(tool: str, arguments: Mapping[str, Any], names: tuple[str, ...]) -> None:
    unknown = [name for name in arguments if name not in names]
    if unknown:
        named = ", ".join(map(repr, unknown))
        msg = (
            f"unknown argument {named}; {tool} takes {' and '.join(names)}. Tools and limits are "
            "set by the operator of the server"
        )
        raise ptc.UsageError(msg)
