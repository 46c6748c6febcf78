"""First frames of a run: the script, its inputs, tools and limits."""

from __future__ import annotations

from typing import TypeAlias

from .._core import _json
from .._wire._protocol import Kind
from ._code_cache import CachedCode
from ._program import Program, encode_limits

__all__ = ["opening_frames_of_code", "opening_frames_of_source"]

_Frames: TypeAlias = tuple[tuple[Kind, bytes], tuple[Kind, bytes]]


def opening_frames_of_code(program: Program, cached: CachedCode) -> _Frames:
    """Return the START frame, and the script as compiled code; it has been checked before."""
    return (Kind.START, b"%b}" % _start(program, cached.named)), (Kind.CODE, cached.code)


def opening_frames_of_source(program: Program, named: bytes, signatures: bytes) -> _Frames:
    """Return the START frame, and the script as source.

    Args:
        program: The program to execute.
        named: Parameters of the tools that the source names.
        signatures: Their signatures, by which the source is checked.
    """
    # A run that is resumed has passed the check, or was recorded before there was one.
    then = b'"report"' if program.only_check else b'"warn"' if program.resumed else b'"refuse"'
    denied = _json.dumps(program.table.denied_in(program.source))
    start = b'%b,"check":%b,"denied":%b,"then":%b}' % (
        _start(program, named), signatures, denied, then,
    )  # fmt: skip
    return (Kind.START, start), (Kind.SOURCE, program.source.encode())


def _start(program: Program, named: bytes) -> bytes:
    """Return the body of START without its end."""
    return b'{"inputs":%b,"tools":%b,"limits":%b,"epoch":%.6f,"seed":%d,"non_finite":"%b"' % (
        program.inputs_json,
        named,
        encode_limits(program.limits),
        program.clock,
        program.seed,
        program.non_finite.encode(),
    )
