"""Anthropic's SDK: its tools for a session, and a session's tools for Claude.

::

    async with Session(tools=[my_beta_tool]) as session:
        runner = client.beta.messages.tool_runner(tools=as_tools(session), ...)

`as_tools` is for the tool runner, `ToolUses` for a loop of your own, and `run_hosted` for Claude's
own code, which Anthropic executes and whose calls arrive here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import ptc

from ._anthropic_hosted import HostedRun, run_hosted
from ._anthropic_replies import ToolUses, content_of
from ._export import Direct, ExportedTool, Exports
from ._previews import PREVIEW_CHARS

if TYPE_CHECKING:
    from anthropic.lib.tools import BetaAsyncFunctionTool

__all__ = ["HostedRun", "ToolUses", "as_tools", "run_hosted", "tools_from"]


def tools_from(thing: Any) -> ptc.Tool:
    """Convert a tool that `beta_tool` or `beta_async_tool` made, for ``Session(tools=[...])``.

    A sync one runs in a thread. The session closes nothing: if the tool is a context manager, end
    it yourself.

    Raises:
        UsageError: If it is anything else.
    """
    from ._anthropic_tools import convert_tool

    return convert_tool(thing)


def as_tools(
    session: ptc.Session,
    *,
    allowed_tools: Iterable[str | ptc.Allow] | None = None,
    direct: Direct = False,
    program: bool = True,
    limits: ptc.Limits | None = None,
    preview_chars: int | None = PREVIEW_CHARS,
) -> list[BetaAsyncFunctionTool[Any]]:
    """Return tools for ``AsyncAnthropic().beta.messages.tool_runner(tools=...)``.

    A failure is a result with ``is_error``. A call that requires approval pauses its run, and the
    result says so: decide with ``session.approve(run_id, by=..., resume=True)``.

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
    return [_runner_tool(exports, item) for item in exports]


def _runner_tool(exports: Exports, item: ExportedTool) -> BetaAsyncFunctionTool[Any]:
    from anthropic.lib.tools import ToolError, beta_async_tool

    async def call(**arguments: Any) -> Any:
        reply = await exports.call(item.name, arguments)
        if reply.is_error:
            raise ToolError(content_of(reply))
        return content_of(reply)

    schema: Any = dict(item.parameters)
    return beta_async_tool(call, name=item.name, description=item.description, input_schema=schema)
