"""Rules on the runs that can be continued, for every store."""

from __future__ import annotations

from ..errors import EndedRunError
from ._journal import REPLAYABLE, REVISABLE, RunRow
from ._writes import run_number

__all__ = ["archived_id", "archived_numbers", "require_replayable", "require_revisable"]

_AGAIN = "run its script again (`ptc run`, or `Session.retry`)"


def archived_id(run_id: str, revision: int) -> str:
    """Return the id of the archived record of a revision. No caller can choose such an id."""
    return f"{run_id}.{revision}"


def archived_numbers(run_id: str, revision: int) -> list[int]:
    """Return the numbers of the archived records of a run that is at `revision`."""
    return [run_number(archived_id(run_id, each)) for each in range(1, revision)]


def require_replayable(
    run_id: str,
    status: str,
    rolled_back_ms: int | None,
    attempts: int = 1,
    max_attempts: int | None = None,
) -> None:
    """Raise `EndedRunError` if a run cannot be resumed with its own script."""
    _require_current(run_id, rolled_back_ms)
    if status == "failed":
        msg = (
            f"run {run_id!r} has ended: failed. Its script would fail again in the same way; "
            "correct it and pass it to `resume` as source= (`--script FILE`)"
        )
        raise EndedRunError(msg)
    if status not in REPLAYABLE:
        raise EndedRunError(_ended(run_id, status))
    if max_attempts is not None and status != "paused" and attempts >= max_attempts:
        msg = (
            f"run {run_id!r} was started {attempts} times without reaching its end or a pause "
            f"(max_attempts is {max_attempts}); find out what stops it, then raise max_attempts "
            "of the session, or pass a corrected script to `resume` as source= (`--script FILE`)"
        )
        raise EndedRunError(msg)


def require_revisable(run: RunRow, status: str, rolled_back_ms: int | None) -> None:
    """Raise `EndedRunError` if a run cannot be continued by another script."""
    _require_current(run.run_id, rolled_back_ms)
    # A corrected script that was rejected has done nothing.
    if status not in REVISABLE and not (status == "rejected" and run.revision > 1):
        raise EndedRunError(_ended(run.run_id, status))


def _require_current(run_id: str, rolled_back_ms: int | None) -> None:
    current, dot, revision = run_id.partition(".")
    if dot:
        msg = f"{run_id!r} is revision {revision} of run {current!r}, which continued it; resume "
        raise EndedRunError(msg + f"{current!r}")
    if rolled_back_ms is not None:
        msg = f"run {run_id!r} was rolled back; {_AGAIN}"
        raise EndedRunError(msg)


def _ended(run_id: str, status: str) -> str:
    return f"run {run_id!r} has ended: {status}; {_AGAIN}"
