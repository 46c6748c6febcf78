"""Waiting for runs that another process may execute, on this machine or another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol, runtime_checkable

import anyio

from .._records._result import RunResult
from ..errors import EndedRunError, UnknownRunError, WaitTimeoutError
from ..journal._journal import Journal, RunRow
from ._program_row import load_result

__all__ = ["UNFINISHED", "Watch", "wait_for_result", "watch_run"]

UNFINISHED: Final = ("queued", "running")
"""Statuses of a run that a process executes, or will."""
_FIRST_SECONDS: Final = 0.05
_POLL_SECONDS: Final = 1.0
"""Longest time between two reads of a run that is watched."""


class Watch(Protocol):
    """Interface of a watch of one run."""

    async def wait(self, seconds: float) -> None:
        """Return when the run may have changed since the last return, or after `seconds`."""

    def close(self) -> None:
        """End the watch."""


@runtime_checkable
class Watchable(Protocol):
    """Interface of a journal that reports changes of runs, beside `Journal`."""

    def watch(self, run_id: str) -> Watch:
        """Start to watch a run."""
        ...


class _Poll:
    """Watch of a journal that reports nothing: the time between two reads grows to a second."""

    def __init__(self) -> None:
        self._seconds = _FIRST_SECONDS

    async def wait(self, seconds: float) -> None:
        """As `Watch.wait`."""
        await anyio.sleep(min(seconds, self._seconds))
        self._seconds = min(self._seconds * 1.5, _POLL_SECONDS)

    def close(self) -> None:
        """As `Watch.close`."""


@contextmanager
def watch_run(journal: Journal, run_id: str) -> Iterator[Watch]:
    """Watch a run for the duration of the block."""
    watch: Watch = journal.watch(run_id) if isinstance(journal, Watchable) else _Poll()
    try:
        yield watch
    finally:
        watch.close()


async def wait_for_result(
    journal: Journal, run_id: str, timeout_ms: int | None, *, through_pauses: bool
) -> RunResult:
    """Wait for the end or the pause of a run; see `Session.wait`."""
    until = None if timeout_ms is None else anyio.current_time() + timeout_ms / 1000
    with watch_run(journal, run_id) as watch:
        while True:
            row = await find_run(journal, run_id)
            result = result_of(row, through_pauses=through_pauses)
            if result is not None:
                return result
            seconds = _POLL_SECONDS if until is None else until - anyio.current_time()
            if seconds <= 0:
                msg = (
                    f"run {run_id!r} is still {row.status} after {timeout_ms:,} ms; it continues. "
                    "Wait again, or with a larger timeout_ms"
                )
                raise WaitTimeoutError(msg)
            await watch.wait(min(seconds, _POLL_SECONDS))


async def find_run(journal: Journal, run_id: str) -> RunRow:
    """Return the row of a run. Raises `UnknownRunError`."""
    row = await journal.find(run_id)
    if row is None:
        msg = f"there is no run {run_id!r}; `ptc runs` lists them"
        raise UnknownRunError(msg)
    return row


def result_of(row: RunRow, *, through_pauses: bool = False) -> RunResult | None:
    """Return the result of a run that does not continue by itself; None if it does.

    Raises:
        EndedRunError: If it ended without a result.
    """
    if row.status in UNFINISHED or (row.status == "paused" and through_pauses):
        return None
    result = load_result(row)
    if result is None:
        msg = f"run {row.run_id!r} is {row.status} and has no result; `ptc show` has its record"
        raise EndedRunError(msg)
    return result
