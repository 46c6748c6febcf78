"""AutoGen: its tools for scripts; ptc's tools for its agents.

::

    async with Session(tools=[FunctionTool(look_up, description="...")]) as session:
        agent = AssistantAgent("buyer", model_client=..., tools=as_tools(session))
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import ptc
from ptc import ToolContext

from ._export import ExportedTool, Exports
from ._foreign import data_of, foreign_tool, store_file
from ._previews import PREVIEW_CHARS

__all__ = ["as_tools", "tools_from"]


# --- in -----------------------------------------------------------------------------------------


def tools_from(thing: Any) -> ptc.Tool | None:
    """Convert a `BaseTool`, such as a `FunctionTool`. Cancelling a call cancels its token."""
    from autogen_core import CancellationToken
    from autogen_core.tools import BaseTool
    from pydantic import BaseModel

    if not isinstance(thing, BaseTool):
        return None
    returned = thing.return_type()
    known = isinstance(returned, type) and issubclass(returned, BaseModel)

    async def run(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        token = CancellationToken()
        try:
            return _read_result(await thing.run_json(arguments, token), ctx)
        except asyncio.CancelledError:
            token.cancel()
            raise

    return foreign_tool(
        thing.name,
        thing.description,
        dict(thing.schema.get("parameters", {})),
        run,
        result_schema=returned.model_json_schema() if known else None,
    )


def _read_result(result: Any, ctx: ToolContext) -> Any:
    from autogen_core import Image
    from pydantic import BaseModel

    if isinstance(result, Image):
        data = io.BytesIO()
        result.image.save(data, format="PNG")
        return store_file(data.getvalue(), "image/png", ctx)
    if isinstance(result, bytes):
        return store_file(result, "application/octet-stream", ctx)
    if isinstance(result, list):
        return [_read_result(item, ctx) for item in result]
    if isinstance(result, BaseModel):
        return result.model_dump(mode="json")
    return data_of(result) if isinstance(result, str) else result


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
    """Return tools (`autogen_core.tools.BaseTool`) for an `AssistantAgent` or a workbench.

    A failure raises `ToolError`, which AutoGen turns into a result with ``is_error``. AutoGen has
    no approvals: the result of a paused run says so, and the application decides and resumes it.

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
    from autogen_core import CancellationToken
    from autogen_core.tools import BaseTool, ParametersSchema, ToolSchema
    from pydantic import BaseModel, ConfigDict

    class Arguments(BaseModel):
        """Any arguments: ptc validates them."""

        model_config = ConfigDict(extra="allow")

    class ExportedToAutoGen(BaseTool[Arguments, str]):  # type: ignore[misc]  # Any for mypy
        """A tool of a session of ptc."""

        @property
        def schema(self) -> ToolSchema:
            return ToolSchema(
                name=item.name,
                description=item.description,
                parameters=ParametersSchema(**item.parameters),
                strict=False,
            )

        async def run(self, args: Arguments, cancellation_token: CancellationToken) -> str:
            return await self.run_json(args.model_dump(), cancellation_token)

        async def run_json(
            self,
            args: Mapping[str, Any],
            cancellation_token: CancellationToken,
            call_id: str | None = None,
        ) -> str:
            task = asyncio.ensure_future(exports.call(item.name, args))
            cancellation_token.link_future(task)
            reply = await task
            if reply.is_error:
                raise ptc.ToolError(reply.text, code=reply.code)
            return reply.text

    return ExportedToAutoGen(Arguments, str, item.name, item.description)
