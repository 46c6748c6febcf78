"""Tools of Anthropic's SDK as tools of a session. Imports the SDK: import it in functions only.

Rule 1: every exception of a tool raises `ToolError`; the content of Anthropic's `ToolError` is its
    text.
    tests/frameworks/test_anthropic.py::test_failures_are_tool_errors
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from anthropic.lib.tools import BetaAsyncFunctionTool, BetaFunctionTool
from anthropic.lib.tools import ToolError as SdkToolError
from pydantic import ValidationError

import ptc
from ptc import ToolContext
from ptc._tools._foreign import declared_effects

from ._foreign import ForeignCall, data_of, foreign_tool, invalid_arguments, store_file
from ._mcp_specs import identifier

__all__ = ["convert_tool"]


def convert_tool(thing: Any) -> ptc.Tool:
    """Convert a tool that `beta_tool` or `beta_async_tool` made.

    Raises:
        UsageError: If it is anything else.
    """
    if not isinstance(thing, BetaFunctionTool | BetaAsyncFunctionTool):
        msg = (
            f"{type(thing).__name__} of anthropic is not a tool that a script can call: pass a "
            "tool made by beta_tool or beta_async_tool, or a function. Claude alone knows the "
            "arguments of built-in tools and toolsets"
        )
        raise ptc.UsageError(msg)
    tool = thing
    side_effect, idempotent = declared_effects(tool, {})
    return foreign_tool(
        identifier(tool.name),
        tool.description,
        tool.input_schema,
        _run_async(tool) if isinstance(tool, BetaAsyncFunctionTool) else _run_in_thread(tool),
        side_effect=side_effect,
        idempotent=idempotent,
        tags=("anthropic",),
    )


def _run_async(tool: BetaAsyncFunctionTool[Any]) -> ForeignCall:
    async def run(arguments: dict[str, Any], ctx: ToolContext) -> ptc.ToolResult:
        with _failures():
            found = await tool.call(arguments)
        return ptc.ToolResult.success(_data(found, ctx))

    return run


def _run_in_thread(tool: BetaFunctionTool[Any]) -> ForeignCall:
    def run(arguments: dict[str, Any], ctx: ToolContext) -> ptc.ToolResult:
        with _failures():
            found = tool.call(arguments)
        return ptc.ToolResult.success(_data(found, ctx))

    return run


@contextmanager
def _failures() -> Iterator[None]:
    """Raise `ToolError` for the failures that the SDK has a type for."""
    try:
        yield
    except SdkToolError as error:
        raise ptc.ToolError(str(error)) from error
    except ValueError as error:
        if isinstance(error.__cause__, ValidationError):
            raise invalid_arguments(error.__cause__) from None
        raise


def _data(content: Any, ctx: ToolContext) -> Any:
    """Convert a result to data: text, or a list of blocks. A single block is not in a list."""
    if content is None or isinstance(content, str):
        return content if content is None else data_of(content)
    blocks = [_block(block, number, ctx) for number, block in enumerate(content, 1)]
    return blocks[0] if len(blocks) == 1 else blocks


def _block(block: Mapping[str, Any], number: int, ctx: ToolContext) -> Any:
    if block["type"] == "text":
        return data_of(block["text"])
    source = block.get("source")
    if isinstance(source, Mapping):
        if source.get("type") == "base64":
            return store_file(source["data"], source["media_type"], ctx, number=number)
        if source.get("type") == "text":
            return source["data"]
    return dict(block)
