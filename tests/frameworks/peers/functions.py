"""Plain callables, which most frameworks accept: `ptc_bindings.functions`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import ptc
from ptc_bindings.functions import as_functions, program_function

from ..contract import PICTURE, Observed, Peer, World, fail_with


def fail(reason: str) -> str:
    """Fail.

    Args:
        reason: Text of the error.
    """
    return fail_with(reason)


def picture() -> ptc.ToolResult:
    """Return a picture."""
    file = ptc.Attachment("dot.png", "image/png", PICTURE)
    return ptc.ToolResult.success({"drawn": True}, attachments=[file])


class Tested(Peer):
    name = "Plain functions"
    distribution = "ptc-host"
    gaps: ClassVar = {("out", "big result"): "a function returns the value itself, of any size"}

    def tools(self, world: World) -> Mapping[str, Any]:
        plain = [world.add, world.echo, world.big, world.wait, fail, picture]
        # `tool_from` gives functions the defaults of `tool`: this one declares its effect.
        send = ptc.tool_from(world.send, side_effect=True, idempotent=True)
        return {**{function.__name__: function for function in plain}, "send": send}

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
        if not direct:
            program = program_function(session, allowed_tools=allowed_tools, limits=limits)
            outcome = await program(**arguments)
            return Observed(json.dumps(outcome, ensure_ascii=False))
        try:
            value = await as_functions(session, allowed_tools)[tool](**arguments)
        except ptc.ToolError as error:
            return Observed(f"{error} [{error.code}]", is_error=True)
        return Observed(str(value), is_error=False)
