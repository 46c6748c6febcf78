"""Decide how a recorded run is continued: by replay of its messages, or as a new revision.

A replay sends the worker the recorded messages, so the script does what it did before. That makes
sense if something outside of the messages stopped the run: its host or worker, the clock, or a
limit that is higher now. A script that failed by itself would fail again. A new revision starts
from the beginning, with the recorded calls matched by key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._calls._rows import read_error
from .._records._limits import Limits
from .._records._result import RunWarning
from ..errors import EndedRunError
from ..journal._continuable import require_replayable
from ..journal._journal import CallRow, RunRecord, RunRow
from ._program_row import load_result

__all__ = ["describe_stop", "has_lifted_error", "require_other_end"]


def has_lifted_error(recorded: RunRecord, limits: Limits) -> bool:
    """Return True if a recorded call failed by a limit that is higher in `limits`.

    The script received that failure, and its later messages may depend on it. So they cannot be
    replayed: the script has to make the call again.
    """
    return any(
        _is_lifted(error.details, row.tool, limits)
        for row in recorded.calls
        if (error := read_error(row)) is not None and not _had_effect(row)
    )


def _had_effect(row: CallRow) -> bool:
    # It is not repeated, whatever the limits are.
    return row.side_effect and row.end is not None and row.end.status == "succeeded"


def _is_lifted(details: Any, tool: str, limits: Limits) -> bool:
    if not isinstance(details, Mapping):
        return False
    name, most = details.get("limit"), details.get("most")
    if not isinstance(name, str) or not isinstance(most, int):
        return False
    now = getattr(limits, name, None)
    if isinstance(now, Mapping):
        now = now.get(tool, most + 1)
    return isinstance(now, int) and now > most


def describe_stop(row: RunRow) -> RunWarning | None:
    """Return a warning about the end of a run that is resumed; None if it had none.

    The result of the resumed run replaces the recorded one.
    """
    if row.status not in ("crashed", "timed_out", "limit_exceeded"):
        return None
    result = load_result(row)
    error = result.error if result is not None else None
    reason = f": {error.message}" if error is not None else ""
    return RunWarning("resumed", f"the run was stopped before ({row.status}){reason}")


def require_other_end(row: RunRow, limits: Limits) -> None:
    """Raise `EndedRunError` if a replay of the run would end as the run did."""
    require_replayable(row.run_id, row.status, row.rolled_back_ms)
    result = load_result(row)
    breach = result.error.breach if result is not None and result.error is not None else None
    if row.status != "limit_exceeded" or breach is None:
        return
    now = getattr(limits, breach.limit, None)
    if isinstance(now, int) and now <= breach.most:
        msg = (
            f"run {row.run_id!r} exceeded {breach.limit}={breach.most:,} and would exceed it "
            f"again; resume it with limits={{'{breach.limit}': ...}} "
            f"(`--set limits.{breach.limit}=N`) above that, or pass a corrected script as source= "
            "(`--script FILE`)"
        )
        raise EndedRunError(msg)
