"""Effects that a run leaves behind if it does not complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from .._records._result import CallRecord, RunWarning, Status
from .._tools._tool import Tool

__all__ = ["warn_of_effects"]

_MAX_TOOLS = 5


def warn_of_effects(
    status: Status | None, calls: Sequence[CallRecord], tools: Mapping[str, Tool]
) -> list[RunWarning]:
    """Return a warning of the effects of a run that somebody will correct and run again.

    A corrected script that is started as a new run makes its calls again, with other idempotency
    keys. The author of the correction reads this warning with the error.

    Args:
        status: Status of the run; None if it was cancelled.
        calls: Its calls.
        tools: Tools that it could call.
    """
    if status in ("completed", "paused"):
        return []
    callers = {call.parent for call in calls}
    counts: Counter[str] = Counter()
    for call in calls:
        tool = tools.get(call.tool)
        path = f"{call.parent}.{call.seq}" if call.parent else str(call.seq)
        had_effect = call.status in ("succeeded", "unknown") and path not in callers
        if had_effect and tool is not None and tool.side_effect and not tool.idempotent:
            counts[call.tool] += 1
    if not counts:
        return []
    listed = [f"{name} {count}" for name, count in counts.most_common(_MAX_TOOLS)]
    more = f" and {len(counts) - _MAX_TOOLS} more tools" if len(counts) > _MAX_TOOLS else ""
    message = (
        f"calls with side effects were made and are not undone: {', '.join(listed)}{more}. A "
        "corrected script must not repeat them blindly: resume this run with the corrected script "
        "as source, which repeats none of them, or check the current state"
    )
    return [RunWarning("effects_made", message)]
