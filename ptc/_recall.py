"""What a resumed run takes from its record besides outcomes: cached results, and listed calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from . import _json
from ._cache import Kept
from ._call import OpenCall
from ._journal import CallRow
from ._tool import Tool, ToolCall
from ._tool_result import ToolResult
from ._track import Track, error_of
from .errors import ToolError

__all__ = ["cached_results", "is_over_budget", "recorded_call"]


def cached_results(
    track: Track, tools: Mapping[str, Tool], is_of_run: Callable[[Tool], bool]
) -> Iterator[tuple[str, float | None, Kept]]:
    """Iterate over the results that were cached for a run: name, time left in ms, result.

    Args:
        track: The run.
        tools: The tools it may use.
        is_of_run: True if cached results of a tool are the run's.
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
        yield digest, left, Kept(result, tuple(tools.values()))


def recorded_call(row: CallRow, run_id: str | None) -> OpenCall:
    """Make a call of an earlier host's record, for the list of calls."""
    start, end = row
    call = OpenCall(ToolCall(start.tool, _json.loads(start.arguments), seq=0, run_id=run_id))
    call.path, call.side_effect, call.attempt = start.path, start.side_effect, start.attempt
    call.status = "unknown" if end is None else end.status
    if end is not None and not end.ok:
        call.error = error_of(_json.loads(end.body)[2], start.tool)
    return call


def is_over_budget(error: ToolError | None) -> bool:
    """True if a call was refused because the run may make no more."""
    details = error.details if error is not None else None
    limit = details.get("limit") if isinstance(details, dict) else None
    return limit in ("max_tool_calls", "max_calls_by_tool")
