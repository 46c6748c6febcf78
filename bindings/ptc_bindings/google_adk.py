"""Google ADK: its function tools for scripts; ptc's tools for its agents.

::

    async with Session(tools=[FunctionTool(look_up)]) as session:
        agent = LlmAgent(name="buyer", model=..., tools=as_tools(session))

Rule 1: a result that ADK counts as an error raises `ToolError`.
    tests/frameworks/test_google_adk.py::test_result_with_an_error_is_a_failure
Rule 2: a confirmation decides exactly the calls that its hint shows.
    tests/frameworks/test_google_adk.py::test_each_pause_needs_its_own_confirmation
Rule 3: a confirmation in one ADK session decides no call of another one.
    tests/frameworks/test_google_adk.py::test_state_cannot_name_the_run_of_another_session
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import inspect
import secrets
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import anyio.to_thread

import ptc
from ptc import ToolContext
from ptc._core import _json

from ._export import ExportedTool, Exports
from ._foreign import data_of, foreign_tool, store_file
from ._previews import PREVIEW_CHARS
from ._reply import Preview, Reply

__all__ = ["as_tools", "tools_from", "with_context"]

MakeContext: TypeAlias = Callable[[ToolContext], Any]
_RUN_KEY = "ptc_run_{}"
"""Key of the ADK session's state: the paused run of a function call, or of equal arguments."""
_CALL_AGAIN = (
    "Further calls require approval. Call this tool again with the same arguments: that repeats "
    "nothing, but asks for the approval and continues this run."
)


# --- in -----------------------------------------------------------------------------------------


def tools_from(thing: Any) -> ptc.Tool | None:
    """Convert a `FunctionTool`. ``require_confirmation`` becomes ``needs_approval=True``.

    Raises:
        UsageError: If it is another tool, a toolset or a long-running one, or needs a context of
            ADK: `with_context` takes those that are a tool.
    """
    from google.adk.tools import BaseTool, FunctionTool
    from google.adk.tools.base_toolset import BaseToolset

    if isinstance(thing, BaseToolset):
        msg = "pass the tools of an ADK toolset: tools=await toolset.get_tools()"
        raise ptc.UsageError(msg)
    if not isinstance(thing, BaseTool):
        return None
    problem = ""
    if not isinstance(thing, FunctionTool):
        problem = "it is not a FunctionTool, so it may need a context of ADK"
    elif missing := _injected(thing):
        problem = f"ADK passes {', '.join(missing)} to it"
    if problem:
        msg = f"the ADK tool {thing.name!r:.80} cannot be called by itself: {problem}. Pass "
        raise ptc.UsageError(msg + "ptc_bindings.google_adk.with_context(tool, make_context)")
    return _convert(thing, None)


def with_context(tool: Any, make_context: MakeContext) -> ptc.Tool:
    """Convert a tool that needs a ``ToolContext`` of ADK.

    Args:
        tool: The tool.
        make_context: Makes the context of each call. It receives the context of ptc.

    Raises:
        UsageError: If the tool is long-running.
    """
    return _convert(tool, make_context)


def _convert(tool: Any, make_context: MakeContext | None) -> ptc.Tool:
    if tool.is_long_running:
        msg = (
            f"the ADK tool {tool.name!r:.80} is long-running: its result arrives later, in a "
            "conversation. Pass a function that waits for the result"
        )
        raise ptc.UsageError(msg)
    declaration = tool._get_declaration()
    schema = {} if declaration is None else _schema_of(declaration)
    function = getattr(tool, "func", None)
    blocks = function is not None and not _is_async(function)

    async def run(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        context = _Confirmed() if make_context is None else make_context(ctx)
        call = partial(tool.run_async, args=arguments, tool_context=context)
        if blocks:
            result = await anyio.to_thread.run_sync(lambda: asyncio.run(call()))
        else:
            result = await call()
        return _read_result(result, ctx)

    made = foreign_tool(tool.name, tool.description, schema, run)
    # A function that decides from the arguments is ADK's to call: approval is always asked for.
    return replace(made, needs_approval=bool(getattr(tool, "_require_confirmation", False)))


class _Confirmed:
    """A context that says that a person approved the call, as ptc made sure of."""

    function_call_id = "ptc"

    def __init__(self) -> None:
        from google.adk.tools.tool_confirmation import ToolConfirmation

        self.tool_confirmation = ToolConfirmation(confirmed=True)


def _schema_of(declaration: Any) -> dict[str, Any]:
    if declaration.parameters_json_schema is not None:
        return dict(declaration.parameters_json_schema)
    if declaration.parameters is not None:
        found: dict[str, Any] = declaration.parameters.json_schema.model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        return found
    return {}


def _injected(tool: Any) -> list[str]:
    """Return the parameters of a function that are not for a model and have no default."""
    declaration = tool._get_declaration()
    known = {} if declaration is None else _schema_of(declaration).get("properties", {})
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [
        parameter.name
        for parameter in inspect.signature(tool.func).parameters.values()
        if parameter.kind in named
        and parameter.default is parameter.empty
        and parameter.name not in known
    ]


def _is_async(function: Any) -> bool:
    call = getattr(function, "__call__", None)  # noqa: B004  # an object may define it as async
    return any(
        check(item)
        for check in (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
        for item in (function, call)
    )


def _read_result(result: Any, ctx: ToolContext) -> Any:
    """Convert a result. Raises `ToolError` if it is one by ADK's rule: a field ``error``."""
    from google.genai import types

    if isinstance(result, types.Part) and result.inline_data is not None:
        blob = result.inline_data
        return store_file(blob.data or b"", blob.mime_type or "application/octet-stream", ctx)
    if isinstance(result, str):
        return data_of(result)
    if isinstance(result, dict) and result.get("error"):
        raise ptc.ToolError(str(result["error"]))
    if isinstance(result, list):
        return [_read_result(item, ctx) for item in result]
    if isinstance(result, dict):
        return {
            name: _read_result(item, ctx) if isinstance(item, types.Part) else item
            for name, item in result.items()
        }
    return result


# --- out ----------------------------------------------------------------------------------------


def as_tools(
    session: ptc.Session,
    *,
    allowed_tools: Iterable[str | ptc.Allow] | None = None,
    direct: Collection[str] | bool = False,
    program: bool = True,
    limits: ptc.Limits | None = None,
    preview_chars: int | None = PREVIEW_CHARS,
) -> list[Any]:
    """Return tools (`google.adk.tools.BaseTool`) for ``LlmAgent(tools=...)``.

    A call that requires approval requests a confirmation of ADK; its hint lists the calls. The
    answer decides all of them, and resumes the run. A failure is a result with a field ``error``.

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
    exports = Exports(
        session,
        allowed_tools=allowed_tools,
        direct=direct,
        program=program,
        limits=limits,
        preview_chars=preview_chars,
    )
    return [_as_tool(exports, item) for item in exports]


def _as_tool(exports: Exports, item: ExportedTool) -> Any:
    from google.adk.tools import BaseTool
    from google.genai import types

    class ExportedToADK(BaseTool):  # type: ignore[misc]  # Any for mypy
        """A tool of a session of ptc."""

        def _get_declaration(self) -> types.FunctionDeclaration:
            return types.FunctionDeclaration(
                name=item.name,
                description=item.description,
                parameters_json_schema=dict(item.parameters),
            )

        async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
            return await _run(exports, item.name, args, tool_context)

    return ExportedToADK(name=item.name, description=item.description)


async def _run(exports: Exports, name: str, arguments: dict[str, Any], context: Any) -> Any:
    digest = hashlib.sha256(_json.dumps([name, arguments], what=name)).hexdigest()
    answer = context.tool_confirmation
    key = _RUN_KEY.format(digest if answer is None else context.function_call_id)
    run_id, own = context.state.get(key), _run_prefix(context.session)
    if not isinstance(run_id, str) or not run_id.startswith(own):
        reply = await exports.call(name, arguments, run_id=own + secrets.token_hex(8))
    else:
        context.state[key] = None
        if answer is not None:
            await _decide(exports, run_id, answer.confirmed, f"ADK user {context.user_id}")
        reply = await exports.resume(run_id)
    if not reply.pending or reply.run is None:
        return _result(reply)
    if answer is None:
        context.state[_RUN_KEY.format(context.function_call_id)] = reply.run.run_id
        context.request_confirmation(hint=_hint(reply))
        context.actions.skip_summarization = True
        return _result(reply)
    # ADK shows no second confirmation for one function call, so the model makes another one.
    context.state[_RUN_KEY.format(digest)] = reply.run.run_id
    return {**_result(reply), "next": _CALL_AGAIN}


def _run_prefix(session: Any) -> str:
    """Return the start of the ids of runs of an ADK session.

    A client of ADK's server may write the state of its session, and could name the run of another
    one there, to approve its calls.
    """
    owner = [session.app_name, session.user_id, session.id]
    return f"adk-{hashlib.sha256(_json.dumps(owner, what='session')).hexdigest()[:24]}-"


async def _decide(exports: Exports, run_id: str, confirmed: bool, by: str) -> None:
    for call in await exports.session.pending(run_id):
        # Somebody may have decided meanwhile: resuming applies that.
        with contextlib.suppress(ptc.UsageError):
            await exports.decide(call, "approve" if confirmed else "reject", by=by)


def _hint(reply: Reply) -> str:
    rows = [
        " ".join(filter(None, [f"{call.tool} {call.arguments}", call.prompt]))
        for call in reply.pending
    ]
    return "Approve these calls of a script?\n" + "\n".join(rows)


def _result(reply: Reply) -> Any:
    if reply.is_error:
        return {"error": reply.text, "code": reply.code}
    if isinstance(reply.data, Preview) or reply.untrusted == "mark":
        data: dict[str, Any] = {"result": reply.text}
    elif reply.run is not None:
        data = dict(reply.data)
    else:
        data = {"result": reply.data}
    if reply.images:
        from google.genai import types

        data["images"] = [
            types.Part.from_bytes(data=base64.b64decode(image.data), mime_type=image.media_type)
            for image in reply.images
        ]
    return data
