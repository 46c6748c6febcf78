"""LlamaIndex: its tools for scripts, and the tools of a session for its agents.

Pass tools and tool specs to ``Session(tools=[...])``, and a tool that takes the ``Context`` of a
workflow through `with_injected`. `as_tools` returns tools for ``FunctionAgent``, ``ReActAgent`` and
``AgentWorkflow``; in a workflow, a call that requires approval emits an ``InputRequiredEvent``.

Rule 1: a failure is an error, also if the tool returns it as a ``ToolOutput``.
    tests/frameworks/test_llama_index.py::test_output_with_an_error_is_a_failure
Rule 2: a call is made once. (LlamaIndex's own `acall_tool` repeats a call that failed.)
    tests/frameworks/test_llama_index.py::test_failing_tool_is_called_once

LlamaIndex is imported on use: ``pip install 'ptc-host[llama-index]'``. It needs asyncio.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import anyio.to_thread

import ptc
from ptc import ToolContext
from ptc._core import _json
from ptc._tools._foreign import declared_effects

from ._foreign import data_of, foreign_tool, store_file
from ._llama_index_tools import as_tools
from ._mcp_specs import identifier

__all__ = ["as_tools", "tools_from", "with_injected"]


def tools_from(thing: Any) -> ptc.Tool | ptc.Toolset | None:
    """Convert a LlamaIndex tool or tool spec, for `Session` and `ptc.tool_from`.

    Raises:
        UsageError: If the tool takes the context of a workflow.
    """
    from llama_index.core.tools import BaseTool
    from llama_index.core.tools.tool_spec.base import BaseToolSpec

    if isinstance(thing, BaseTool):
        return _convert(thing, {})
    if isinstance(thing, BaseToolSpec):
        tools = [_convert(tool, {}) for tool in thing.to_tool_list()]
        return ptc.Toolset(identifier(type(thing).__name__), tuple(tools))
    return None


def with_injected(tool: Any, values: Mapping[str, Any]) -> ptc.Tool:
    """Convert a LlamaIndex tool that takes the ``Context`` of a workflow.

    ::

        Session(tools=[with_injected(remember, {"ctx": context})])

    Args:
        tool: The tool.
        values: The context, by the name of the parameter. No caller can see or change it.

    Raises:
        UsageError: If it is missing, or another value is passed.
    """
    return _convert(tool, values)


# --- definition -----------------------------------------------------------------------------------


def _convert(tool: Any, values: Mapping[str, Any]) -> ptc.Tool:
    metadata = tool.metadata
    name = metadata.get_name()
    injected = [tool.ctx_param_name] if getattr(tool, "requires_context", False) else []
    if list(values) != injected:
        wanted = f"{{{injected[0]!r}: context}}" if injected else "no values"
        msg = (
            f"LlamaIndex tool {name!r} takes {wanted} from a workflow, and scripts run outside of "
            f"one: pass ptc_bindings.llama_index.with_injected(tool, {wanted})"
            if injected
            else f"LlamaIndex tool {name!r} takes no context: pass the tool itself"
        )
        raise ptc.UsageError(msg)
    parameters = metadata.get_parameters_dict()
    # LlamaIndex passes on unknown arguments, which may be bound ones (`partial_params`).
    schema = {"additionalProperties": _takes_any(metadata), **parameters}
    side_effect, idempotent = declared_effects(tool, {})

    async def run(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        try:
            output = await _call(tool, {**arguments, **values})
        except Exception as error:
            if type(error).__name__ != "WaitingForEvent":
                raise
            msg = (
                "the tool waits for an event of a workflow, and a script runs outside of one; for "
                "an approval, pass tool_from(tool, needs_approval=True)"
            )
            raise ptc.ToolError(msg, code="needs_workflow") from None
        return _read(output, ctx)

    return foreign_tool(
        identifier(name),
        metadata.description,
        schema,
        run,
        side_effect=side_effect,
        idempotent=idempotent,
        tags=("llama_index",),
    )


def _takes_any(metadata: Any) -> bool:
    config = getattr(metadata.fn_schema, "model_config", {})
    return config.get("extra") == "allow"


# --- calls ----------------------------------------------------------------------------------------


async def _call(tool: Any, arguments: dict[str, Any]) -> Any:
    """Make a call. Arguments are keywords; a method that takes one value gets that."""
    from llama_index.core.tools import AsyncBaseTool

    method = tool.acall if isinstance(tool, AsyncBaseTool) else tool
    positional: tuple[Any, ...] = ()
    if len(arguments) == 1 and not _accepts(method, arguments):
        positional, arguments = tuple(arguments.values()), {}
    if isinstance(tool, AsyncBaseTool):
        return await method(*positional, **arguments)

    def call() -> Any:
        return method(*positional, **arguments)

    return await anyio.to_thread.run_sync(call, abandon_on_cancel=True)


def _accepts(method: Any, arguments: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(method).bind(**arguments)
    except TypeError:
        return False
    return True


# --- results --------------------------------------------------------------------------------------


def _read(output: Any, ctx: ToolContext) -> Any:
    """Convert a `ToolOutput` to data: the value of the function, or the text that replaces it."""
    from llama_index.core.schema import BaseNode
    from llama_index.core.tools import ToolOutput

    if not isinstance(output, ToolOutput):
        return ptc.ToolResult.success(_data(output, ctx))
    if output.is_error:
        raise ptc.ToolError(output.content or "the tool failed") from output.exception
    raw = output.raw_output
    nodes = raw if isinstance(raw, list) else [raw]
    own = str(raw) == output.content or all(isinstance(node, BaseNode) for node in nodes)
    # A callback of the tool may have replaced its text or its blocks.
    value = raw if own or not output.blocks else output.blocks
    return ptc.ToolResult.success(_data(value, ctx))


def _data(value: Any, ctx: ToolContext) -> Any:
    from llama_index.core.base.llms.types import BaseContentBlock

    if isinstance(value, str):
        return data_of(value)
    if isinstance(value, bytes):
        return store_file(value, "application/octet-stream", ctx)
    blocks = value if isinstance(value, list) else [value]
    if blocks and all(isinstance(block, BaseContentBlock) for block in blocks):
        parts = [_read_block(block, number, ctx) for number, block in enumerate(blocks, 1)]
        return parts[0] if len(parts) == 1 else parts
    try:
        return _json.loads(_json.dumps(value))
    except _json.JsonError:
        return str(value)


_MEDIA = {
    "image": ("resolve_image", "image_mimetype", "image/png"),
    "audio": ("resolve_audio", "format", "audio/wav"),
    "video": ("resolve_video", "video_mimetype", "video/mp4"),
    "document": ("resolve_document", "document_mimetype", "application/octet-stream"),
}
"""Type of a block -> its method that returns the data, field of its type, and default of that."""


def _read_block(block: Any, number: int, ctx: ToolContext) -> Any:
    kind = block.block_type
    if kind == "text":
        return data_of(block.text)
    if kind not in _MEDIA:
        return block.model_dump(mode="json")
    if block.url is not None:
        # Not fetched: the script may not reach that address.
        return {"type": kind, "url": str(block.url)}
    method, field, default = _MEDIA[kind]
    media_type = getattr(block, field) or default
    if "/" not in media_type:
        media_type = f"{kind}/{media_type}"
    return store_file(getattr(block, method)().read(), media_type, ctx, number=number)
