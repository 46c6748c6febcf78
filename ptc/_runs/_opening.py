"""First frames of a run: the script, its inputs, tools and limits."""

from __future__ import annotations

from .._core import _json
from .._wire._protocol import Kind
from ._code_cache import CachedCode
from ._program import Program, encode_limits

__all__ = ["opening_frames"]


def opening_frames(
    program: Program, signatures: bytes, cached: CachedCode | None
) -> tuple[tuple[Kind, bytes], tuple[Kind, bytes]]:
    """Return the START frame, and the script as compiled code or as source.

    Args:
        program: The program to execute.
        signatures: Signatures of its tools, by which the source is checked.
        cached: Its compiled code, if that is cached; it has been checked before.
    """
    tools = {name: tool.parameter_names for name, tool in program.tools.items()}
    start = b'{"inputs":%b,"tools":%b,"limits":%b,"epoch":%.6f,"seed":%d,"non_finite":"%b"}' % (
        program.inputs_json,
        _json.dumps(tools),
        encode_limits(program.limits),
        program.clock,
        program.seed,
        program.non_finite.encode(),
    )
    if cached is not None:
        return (Kind.START, start), (Kind.CODE, cached.code)
    # A run that is resumed has passed the check, or was recorded before there was one.
    then = b'"report"' if program.only_check else b'"warn"' if program.resumed else b'"refuse"'
    start = b'%b,"check":%b,"then":%b}' % (start[:-1], signatures, then)
    return (Kind.START, start), (Kind.SOURCE, program.source.encode())
