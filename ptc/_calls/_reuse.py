"""Avoid repeating calls: effects of direct calls, cached results, recorded calls."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

from .._core import _json
from .._journal._journal import CallRow
from .._tools._tool import Tool, ToolCall
from .._tools._tool_result import ToolResult
from ..errors import ToolError
from ._call import OpenCall
from ._recorder import ParkedError, Track, error_of
from ._result_cache import CachedResult

__all__ = [
    "cached_results",
    "is_over_budget",
    "make_once",
    "read_call",
    "read_error",
    "track_making",
]


async def make_once(call: OpenCall, make: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
    """Make a nested call of a direct call, unless an earlier try of its caller made it.

    A run has its record for this; a direct call keeps its own list of effects.

    Raises:
        ToolError: ``unknown_outcome`` if it was made before, and its outcome is unknown.
    """
    *_, direct = call.above()
    effects, chain = direct.effects, call.chain()
    if chain in effects:
        made = effects[chain]
        if made is None:
            msg = f"{call.call.name} started before and its outcome is unknown"
            raise ToolError(msg, code="unknown_outcome")
        call.take_recorded()
        return made
    effects[chain] = None
    try:
        effects[chain] = made = await make()
    except BaseException as error:
        # A call that failed or was never executed had no effect, so a retry may make it.
        if not call.was_called or (isinstance(error, Exception) and not call.interrupted):
            del effects[chain]
        raise
    return made


@contextmanager
def track_making(track: Track | None, call: OpenCall) -> Iterator[None]:
    """Identify the making of a cached result, and note its end or suspension.

    Raises:
        ParkedError: If its making is suspended until a decision.
    """
    if track is None:
        yield
        return
    identity = track.nested.current_making(call.awaited)
    if identity is None:
        msg = f"{call.call.name}: the call that makes its cached result waits for a decision"
        raise ParkedError(msg)
    call.making = identity
    try:
        yield
    except ParkedError:
        track.nested.suspend_making(call.awaited)
        raise
    except Exception:
        track.nested.finish_making(call.awaited)
        raise
    track.nested.finish_making(call.awaited)


def cached_results(
    track: Track, tools: Mapping[str, Tool], is_of_run: Callable[[Tool], bool]
) -> Iterator[tuple[str, float | None, CachedResult]]:
    """Iterate over the results that were cached for a run: name, time left in ms, result.

    Args:
        track: The run.
        tools: Allow-list of the run.
        is_of_run: True if cached results of a tool belong to the run.
    """
    for row in track.cached_results():
        digest, _, _ = row.start.making.partition(" ")
        tool = tools.get(row.start.tool)
        if tool is None or tool.cache is None or row.end is None or not is_of_run(tool):
            continue
        left = None
        if tool.cache.ttl_ms is not None:
            left = tool.cache.ttl_ms - (time.time() * 1000 - row.end.at_ms)
        value = tool.revive(_json.loads(row.end.body)[2])
        result = ToolResult(tool.name, value=value, _render=tool.render)
        yield digest, left, CachedResult(result, tuple(tools.values()))


def read_call(row: CallRow, run_id: str | None) -> OpenCall:
    """Build a call from an earlier host's record, for the list of calls."""
    start = row.start
    call = OpenCall(ToolCall(start.tool, _json.loads(start.arguments), seq=0, run_id=run_id))
    call.restore(row, read_error(row))
    return call


def read_error(row: CallRow) -> ToolError | None:
    """Return the recorded error of a call; None if it has none."""
    start, end = row
    if end is None or end.ok:
        return None
    return error_of(_json.loads(end.body)[2], start.tool)


def is_over_budget(error: ToolError | None) -> bool:
    """True if a call was refused because the run may make no more."""
    details = error.details if error is not None else None
    limit = details.get("limit") if isinstance(details, dict) else None
    return limit in ("max_tool_calls", "max_calls_by_tool")
