"""LangChain and LangGraph: their tools for scripts, and the tools of a session for their agents.

Pass LangChain tools and toolkits to ``Session(tools=[...])``, and a tool that needs the state,
store or runtime of a graph through `with_injected`. `as_tools` returns tools for ``create_agent``
and ``ToolNode``; in a graph with a checkpointer, a call that requires approval interrupts it.

Rule 1: a failure is an error, also if the tool's ``handle_tool_error`` would turn it into text.
    tests/frameworks/test_langchain.py::test_handled_error_of_a_tool_is_a_failure
Rule 2: the result of a tool is never lost: a ``Command`` goes to `with_injected`'s function, or the
    call fails.
    tests/frameworks/test_langchain.py::test_command_is_passed_on_or_refused
Rule 3: a script cannot set an injected parameter.
    tests/frameworks/test_langchain.py::test_injected_values_come_from_the_application

LangChain is imported on use: ``pip install 'ptc-host[langchain]'``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias, get_args

import ptc
from ptc import ToolContext
from ptc._core import _json
from ptc._tools._foreign import declared_effects

from ._foreign import data_of, foreign_tool, store_file
from ._langchain_tools import as_tools
from ._mcp_specs import identifier

__all__ = ["as_tools", "tools_from", "with_injected"]

OnCommand: TypeAlias = Callable[[Any], Any]


def tools_from(thing: Any) -> ptc.Tool | ptc.Toolset | None:
    """Convert a LangChain tool or toolkit, for `Session` and `ptc.tool_from`.

    Raises:
        UsageError: If the tool has a parameter that only a graph can provide.
    """
    from langchain_core.tools import BaseTool, BaseToolkit

    if isinstance(thing, BaseTool):
        return _convert(thing, {}, None)
    if isinstance(thing, BaseToolkit):
        tools = [_convert(tool, {}, None) for tool in thing.get_tools()]
        return ptc.Toolset(identifier(type(thing).__name__), tuple(tools))
    return None  # another Runnable, such as a chain: the general rules accept it


def with_injected(
    tool: Any, values: Mapping[str, Any] | None = None, *, on_command: OnCommand | None = None
) -> ptc.Tool:
    """Convert a LangChain tool that needs a graph, with values in place of those of a graph.

    ::

        Session(tools=[with_injected(remember, {"state": {"user": "ann"}, "store": store})])

    Args:
        tool: The tool.
        values: Values of its injected parameters, by name. No caller can see or change them.
        on_command: Receives each ``Command`` that it returns, and returns the value for the script.

    Raises:
        UsageError: If a value is missing, or is for a parameter that is not injected.
    """
    return _convert(tool, values or {}, on_command)


# --- definition -----------------------------------------------------------------------------------


def _convert(tool: Any, values: Mapping[str, Any], on_command: OnCommand | None) -> ptc.Tool:
    injected = _injected_parameters(tool)
    call_ids = {name for name, (is_call_id, _) in injected.items() if is_call_id}
    for name in values:
        if name not in injected:
            msg = f"LangChain tool {tool.name!r}: {name!r:.80} is not an injected parameter; "
            raise ptc.UsageError(f"{msg}injected are: {', '.join(injected) or 'none'}")
    required = {name for name, (_, is_required) in injected.items() if is_required}
    if missing := sorted(required - call_ids - values.keys()):
        example = f"ptc_bindings.langchain.with_injected(tool, {{{missing[0]!r}: ...}})"
        msg = (
            f"LangChain tool {tool.name!r} takes {', '.join(missing)} from a graph, and scripts "
            f"run outside of one: pass {example}"
        )
        raise ptc.UsageError(msg)
    side_effect, idempotent = declared_effects(tool, {})
    # Not as a ToolCall, which makes text of every value; only a tool that takes the id needs that.
    called, prepare = (
        _unmarked(tool, keep_format=bool(call_ids)),
        partial(_request, values, call_ids),
    )

    async def run(arguments: dict[str, Any], ctx: ToolContext) -> ptc.ToolResult:
        with _failures(tool):
            response = await called.arun(**prepare(arguments, ctx))
        return _read(tool, response, ctx, on_command)

    def run_in_thread(arguments: dict[str, Any], ctx: ToolContext) -> ptc.ToolResult:
        with _failures(tool):
            response = called.run(**prepare(arguments, ctx))
        return _read(tool, response, ctx, on_command)

    return foreign_tool(
        identifier(tool.name),
        tool.description,
        _schema(tool),
        run if _is_async(tool) else run_in_thread,
        side_effect=side_effect,
        idempotent=idempotent,
        tags=("langchain", *(tool.tags or ())),
    )


def _injected_parameters(tool: Any) -> dict[str, tuple[bool, bool]]:
    """Return the parameters that a graph sets: whether it is the call's id, and required, by name.

    They are in the tool's model, in its function's signature, or in both.
    """
    from langchain_core.tools.base import get_all_basemodel_annotations

    found = {}
    if isinstance(tool.args_schema, type):
        annotations = get_all_basemodel_annotations(tool.args_schema)
        shown = get_all_basemodel_annotations(tool.tool_call_schema)
        fields = getattr(tool.args_schema, "model_fields", {})
        for name in annotations.keys() - shown.keys():
            required = name not in fields or fields[name].is_required()
            found[name] = _is_call_id(annotations[name]), required
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or tool._run
    parameters = inspect.signature(function).parameters
    # The name that LangChain computes: a `ToolRuntime` is known by its type alone.
    for name in tool._injected_args_keys - found.keys():
        required = name not in parameters or parameters[name].default is inspect.Parameter.empty
        found[name] = name == "tool_call_id", required
    return found


def _is_call_id(annotation: Any) -> bool:
    from langchain_core.tools import InjectedToolCallId

    return any(
        part is InjectedToolCallId or isinstance(part, InjectedToolCallId)
        for part in get_args(annotation)[1:]
    )


def _schema(tool: Any) -> dict[str, Any]:
    from langchain_core.tools import Tool

    if isinstance(tool, Tool) and tool.args_schema is None:  # it takes one text
        return {"properties": tool.args, "required": list(tool.args), "additionalProperties": False}
    shown = tool.tool_call_schema
    if isinstance(shown, dict):
        return shown
    # A model of pydantic 1 has the other method. Both ignore unknown arguments: misspelled ones.
    schema: dict[str, Any] = getattr(shown, "model_json_schema", shown.schema)()
    return {"additionalProperties": False, **schema}


def _is_async(tool: Any) -> bool:
    from langchain_core.tools import BaseTool, StructuredTool, Tool

    if isinstance(tool, StructuredTool | Tool):
        return tool.coroutine is not None
    return type(tool)._arun is not BaseTool._arun


# --- calls ----------------------------------------------------------------------------------------


def _unmarked(tool: Any, *, keep_format: bool) -> Any:
    """Return the tool without the options that turn errors to text and drop artifacts."""
    options = {"handle_tool_error": False, "handle_validation_error": False}
    changes: dict[str, Any] = {k: v for k, v in options.items() if getattr(tool, k) != v}
    if tool.response_format != "content" and not keep_format:
        changes["response_format"] = "content"
    # Only if it must be: the copy of an object with a state has a state of its own.
    return tool.model_copy(update=changes) if changes else tool


def _request(
    values: Mapping[str, Any], call_ids: set[str], arguments: dict[str, Any], ctx: ToolContext
) -> dict[str, Any]:
    from langchain_core.runnables.config import ensure_config

    config = ensure_config()
    return {
        # In this order: a schema of a dict may accept any name, also one of these.
        "tool_input": {**arguments, **values},
        "config": config,
        "callbacks": config.get("callbacks"),
        "tool_call_id": ctx.call_id if call_ids else None,
    }


@contextmanager
def _failures(tool: Any) -> Iterator[None]:
    """Convert the errors of LangChain to `ToolError`; those of the tool's own code pass."""
    from langchain_core.tools import ToolException
    from pydantic import ValidationError

    try:
        yield
    except ToolException as error:
        raise ptc.ToolError(_failure_text(tool, error) or "the tool failed") from error
    except ValidationError as error:
        # Without the values: they may be secrets.
        rows = [f"{'.'.join(map(str, row['loc']))}: {row['msg']}" for row in error.errors()]
        raise ptc.ToolError("; ".join(rows), code="invalid_arguments") from None
    except Exception as error:
        if _needs_graph(error):
            msg = (
                "the tool uses interrupt() or another function of a LangGraph graph, and a script "
                "runs outside of one; for an approval, pass tool_from(tool, needs_approval=True)"
            )
            raise ptc.ToolError(msg, code="needs_graph") from error
        raise


def _failure_text(tool: Any, error: Exception) -> str:
    """Return the text that the tool's author chose for a failure, or that of the failure."""
    handler = tool.handle_tool_error
    text = handler(error) if callable(handler) else handler
    if isinstance(text, list):
        text = "\n".join(str(part.get("text", "")) for part in text if isinstance(part, dict))
    return text if isinstance(text, str) else str(error)


def _needs_graph(error: Exception) -> bool:
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(error).__mro__}
    missing = isinstance(error, KeyError) and "__pregel_" in str(error)
    return missing or "langgraph.errors.GraphBubbleUp" in kinds


# --- results --------------------------------------------------------------------------------------


def _read(
    tool: Any, response: Any, ctx: ToolContext, on_command: OnCommand | None
) -> ptc.ToolResult:
    """Convert a response to data: the artifact of the tool, or else its content."""
    from langchain_core.messages.tool import ToolMessage, ToolOutputMixin

    artifact = None
    if tool.response_format == "content_and_artifact" and not isinstance(response, ToolOutputMixin):
        if not isinstance(response, tuple) or len(response) != 2:
            msg = "the tool declares content_and_artifact and did not return such a pair"
            raise ptc.ToolError(msg, code="bad_result")
        response, artifact = response
    outputs = response if isinstance(response, list) else [response]
    if not any(isinstance(item, ToolOutputMixin) for item in outputs):
        return _result(response, artifact, ctx)
    values = []
    for item in outputs:
        if isinstance(item, ToolMessage):
            if item.status == "error":
                raise ptc.ToolError(item.text or "the tool failed")
            values.append(_result(item.content, item.artifact, ctx).value)
        elif on_command is not None:
            values.append(on_command(item))
        else:
            msg = (
                f"the tool ran and returned a {type(item).__name__} for a LangGraph graph, which "
                "is not applied outside of one; pass with_injected(tool, on_command=...)"
            )
            raise ptc.ToolError(msg, code="needs_graph")
    return ptc.ToolResult.success(values[0] if len(values) == 1 else values)


def _result(content: Any, artifact: Any, ctx: ToolContext) -> ptc.ToolResult:
    value = _data(content, ctx)
    if artifact is not None and (data := _data(artifact, ctx, or_text=False)) is not None:
        return ptc.ToolResult.success(data, text=content if isinstance(content, str) else None)
    return ptc.ToolResult.success(value)


def _data(value: Any, ctx: ToolContext, *, or_text: bool = True) -> Any:
    """Convert a value to data; one without a JSON form to text, as LangChain does, or to None."""
    if isinstance(value, str):
        return data_of(value)
    if isinstance(value, bytes):
        return store_file(value, "application/octet-stream", ctx)
    if isinstance(value, list) and (parts := _read_blocks(value, ctx)) is not None:
        return parts[0] if len(parts) == 1 else parts
    try:
        return _json.loads(_json.dumps(value))
    except _json.JsonError:
        return str(value) if or_text else None


def _read_blocks(content: list[Any], ctx: ToolContext) -> list[Any] | None:
    """Convert content blocks of any provider's form to data; None if the list is data itself."""
    from langchain_core.messages import ToolMessage
    from langchain_core.tools.base import TOOL_MESSAGE_BLOCK_TYPES

    known = (*TOOL_MESSAGE_BLOCK_TYPES, "audio", "video")
    kinds = [item.get("type") for item in content if isinstance(item, dict)]
    if not kinds or len(kinds) < len(content) or not all(kind in known for kind in kinds):
        return None
    parts: list[Any] = []
    blocks: list[Any] = [*ToolMessage(content, tool_call_id="").content_blocks]
    for number, block in enumerate(blocks, 1):
        media_type = block.get("mime_type", "application/octet-stream")
        if isinstance(block.get("text"), str):
            parts.append(data_of(block["text"]))
        elif isinstance(block.get("base64"), str):
            parts.append(store_file(block["base64"], media_type, ctx, number=number))
        elif block["type"] == "non_standard":
            parts.append(block["value"])
        elif "url" in block or "file_id" in block:
            parts.append(dict(block))
        else:
            return None
    return parts
