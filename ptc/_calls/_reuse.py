"""Avoid repeating calls: effects of direct calls, cached results, recorded calls."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

from .._core import _json
from .._tools._tool import Tool
from .._tools._tool_result import ToolResult
from ..errors import ToolError
from ._call import OpenCall
from ._recorder import RunRecorder, SuspendedError
from ._result_cache import CachedResult

__all__ = [
    "cached_results",
    "is_over_budget",
    "make_once",
    "record_making",
]


async def make_once(call: OpenCall, make: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
    """Make a nested call of a direct call, unless an earlier try of its caller made it.

    A run has its record for this; a direct call keeps its own list of effects.

    Raises:
        ToolError: ``unknown_outcome`` if it was made before, and its outcome is unknown.
    """
    *_, direct = call.callers()
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
def record_making(recorder: RunRecorder | None, call: OpenCall) -> Iterator[None]:
    """Identify the making of a cached result, and note its end or suspension.

    Raises:
        SuspendedError: If its making is suspended until a decision.
    """
    if recorder is None:
        yield
        return
    identity = recorder.nested.current_making(call.awaited)
    if identity is None:
        msg = f"{call.call.name}: the call that makes its cached result waits for a decision"
        raise SuspendedError(msg)
    call.making = identity
    try:
        yield
    except SuspendedError:
        recorder.nested.suspend_making(call.awaited)
        raise
    except Exception:
        recorder.nested.finish_making(call.awaited)
        raise
    recorder.nested.finish_making(call.awaited)


def cached_results(
    recorder: RunRecorder, tools: Mapping[str, Tool], is_of_run: Callable[[Tool], bool]
) -> Iterator[tuple[str, float | None, CachedResult]]:
    """Iterate over the results that were cached for a run: name, time left in ms, result.

    Args:
        recorder: The run.
        tools: Allow-list of the run.
        is_of_run: True if cached results of a tool belong to the run.
    """
    for row in recorder.cached_results():
        digest, _, _ = row.making.partition(" ")
        tool = tools.get(row.tool)
        if tool is None or tool.cache is None or row.end is None or not is_of_run(tool):
            continue
        left = None
        if tool.cache.ttl_ms is not None:
            left = tool.cache.ttl_ms - (time.time() * 1000 - row.end.at_ms)
        value = tool.revive(_json.loads(row.end.body)[2])
        result = ToolResult(tool.name, value=value, _render=tool.render)
        yield digest, left, CachedResult(result, tuple(tools.values()))


def is_over_budget(error: ToolError | None) -> bool:
    """True if a call was refused because the run may make no more."""
    details = error.details if error is not None else None
    limit = details.get("limit") if isinstance(details, dict) else None
    return limit in ("max_tool_calls", "max_calls_by_tool")
