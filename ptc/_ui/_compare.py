"""Comparison of two runs: their calls, aligned by their logical keys.

The logical key of a call is its caller, its tool, its arguments, and its number among equal calls:
what identifies a call when a script is corrected. Calls that only one run has are then paired by
caller, tool and line, as calls with other arguments.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from .._core import _json
from ._views import call_row, run_head

if TYPE_CHECKING:
    from ..journal._journal import CallRow, RunRecord

__all__ = ["compare_records"]

_MOST_ROWS: Final = 20_000


def compare_records(left: RunRecord, right: RunRecord) -> dict[str, Any]:
    """Return both runs, and their calls in pairs, in the order of the first run."""
    ours, theirs = _keyed(left.calls), _keyed(right.calls)
    pairs: list[tuple[CallRow | None, CallRow | None]] = []
    alone: list[CallRow] = []
    for key, call in ours.items():
        other = theirs.pop(key, None)
        pairs.append((call, other))
        if other is None:
            alone.append(call)
    changed = _pair_changed(alone, list(theirs.values()))
    rows = [_row(mine, other or changed.get(mine.path)) for mine, other in pairs if mine]
    taken = {call.path for call in changed.values()}
    rows += [_row(None, call) for call in theirs.values() if call.path not in taken]
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        counts[row["state"]] += 1
    return {
        "left": {**run_head(left.run), "source": left.run.source},
        "right": {**run_head(right.run), "source": right.run.source},
        "rows": rows[:_MOST_ROWS],
        "left_out": max(0, len(rows) - _MOST_ROWS),
        "counts": counts,
        "same_source": left.run.source == right.run.source,
        "same_inputs": left.run.inputs == right.run.inputs,
    }


def _keyed(calls: tuple[CallRow, ...]) -> dict[tuple[Any, ...], CallRow]:
    """Return the calls by their logical keys."""
    keys: dict[str, tuple[Any, ...]] = {}
    counts: dict[tuple[Any, ...], int] = defaultdict(int)
    found = {}
    # The caller of a call is before it: its path is shorter.
    for call in sorted(calls, key=lambda row: [int(part) for part in row.path.split(".")]):
        caller = keys.get(call.path.rpartition(".")[0], ())
        equal = (caller, call.tool, call.arguments)
        keys[call.path] = key = (*equal, counts[equal])
        counts[equal] += 1
        found[key] = call
    return found


def _pair_changed(ours: list[CallRow], theirs: list[CallRow]) -> dict[str, CallRow]:
    """Pair calls of one caller, tool and line; return those of the other run by our paths."""
    waiting: dict[tuple[Any, ...], list[CallRow]] = defaultdict(list)
    for call in reversed(theirs):
        waiting[(call.path.rpartition(".")[0], call.tool, call.line)].append(call)
    found: dict[str, CallRow] = {}
    # Callers come first, so the caller of a call has its counterpart already.
    for call in ours:
        caller = call.path.rpartition(".")[0]
        other = found[caller].path if caller in found else caller
        candidates = waiting[(other, call.tool, call.line)]
        if candidates:
            found[call.path] = candidates.pop()
    return found


def _row(mine: CallRow | None, other: CallRow | None) -> dict[str, Any]:
    if mine is None or other is None:
        state = "left" if other is None else "right"
    elif mine.arguments != other.arguments:
        state = "arguments"
    elif _outcome(mine) != _outcome(other):
        state = "result"
    else:
        state = "same"
    return {
        "state": state,
        "left": None if mine is None else call_row(mine),
        "right": None if other is None else call_row(other),
    }


def _outcome(call: CallRow) -> Any:
    return None if call.end is None else (call.end.status, _json.loads(call.end.body))
