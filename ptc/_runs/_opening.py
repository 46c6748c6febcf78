"""First frames of a run: the script, its inputs, tools and limits."""

from __future__ import annotations

from typing import Any

from .._core import _json
from .._tools._tool import Tool
from .._wire._protocol import Kind
from ._code_cache import CodeCache
from ._program import Program, encode_limits

__all__ = ["opening_frames"]


def opening_frames(
    program: Program, cache: CodeCache
) -> tuple[tuple[Kind, bytes], tuple[Kind, bytes]]:
    """Return the START frame, and the script as compiled code or as source."""
    tools = {name: tool.parameter_names for name, tool in program.tools.items()}
    start = b'{"inputs":%b,"tools":%b,"limits":%b,"epoch":%.6f,"seed":%d,"non_finite":"%b"}' % (
        program.inputs_json,
        _json.dumps(tools),
        encode_limits(program.limits),
        program.clock,
        program.seed,
        program.non_finite.encode(),
    )
    if program.only_check:
        signatures = {name: _signature(tool) for name, tool in program.tools.items()}
        start = start[:-1] + b',"check":%b}' % _json.dumps(signatures)
    code = None if program.only_check else cache.get(program.source)
    if code is not None:
        return (Kind.START, start), (Kind.CODE, code)
    return (Kind.START, start), (Kind.SOURCE, program.source.encode())


def _signature(tool: Tool) -> list[Any]:
    """Return the facts that `preflight` checks: parameter names, required names, if closed."""
    schema = tool.parameters
    closed = schema.get("additionalProperties") is False
    return [list(tool.parameter_names), list(schema.get("required", ())), closed]
