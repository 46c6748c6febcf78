"""FastMCP: its tools, and an agent that is a client of its server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import ptc

from ..contract import PICTURE, Observed, Peer, World


class Tested(Peer):
    name = "FastMCP"
    distribution = "fastmcp"
    extra = "fastmcp"
    own_approvals: ClassVar = True

    def tools(self, world: World) -> Mapping[str, Any]:
        from fastmcp.exceptions import ToolError
        from fastmcp.tools import Tool
        from fastmcp.utilities.types import Image

        def fail(reason: str) -> str:
            """Fail."""
            raise ToolError(reason)

        def picture() -> Any:
            """Return a picture."""
            return Image(data=PICTURE, format="png")

        functions = [world.add, world.echo, world.big, world.send, world.wait, fail, picture]
        return {function.__name__: Tool.from_function(function) for function in functions}

    async def ask(
        self,
        session: ptc.Session,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        allowed_tools: list[str],
        direct: bool = False,
        decision: Literal["approve", "reject"] = "approve",
        limits: ptc.Limits | None = None,
    ) -> Observed:
        from fastmcp import Client, FastMCP
        from fastmcp.client.elicitation import ElicitResult

        from ptc_bindings.fastmcp import as_tools

        server = FastMCP("agent")
        for item in as_tools(session, allowed_tools=allowed_tools, direct=direct, limits=limits):
            server.add_tool(item)

        async def decide(*_: Any) -> ElicitResult[Any]:
            if decision == "approve":
                return ElicitResult(action="accept", content={})
            return ElicitResult(action="decline")

        async with Client(server, elicitation_handler=decide) as client:
            result = await client.call_tool(tool, dict(arguments), raise_on_error=False)
        texts = [part.text for part in result.content if part.type == "text"]
        links = [part.name for part in result.content if part.type == "resource_link"]
        images = [part for part in result.content if part.type == "image"]
        return Observed("\n".join(texts + links), result.is_error, len(images))
