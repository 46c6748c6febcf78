"""Retention: the deletion of the oldest runs that have ended, by age, number and size.

Runs are deleted in small batches with pauses between them, so that neither the runs of this session
nor other processes wait for it. Runs that are paused or unfinished have not ended and stay.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import Final, Self

import anyio

from .._core._arguments import require_range
from .._core._clock import now_ms
from .._core._reactor import spawn
from .._dataclass import dataclass
from ..errors import ArtifactError, JournalError, UsageError
from ..journal._journal import Journal
from ..journal._run_lists import EndedRun

__all__ = ["DAY_MS", "Retention", "RetentionTask", "delete_old_runs"]

DAY_MS: Final = 86_400_000
_MOST_DAYS: Final = 36_500
_MOST: Final = 10**12 - 1
_EVERY_SECONDS: Final = 600.0
_DAY_SECONDS: Final = 86_400.0
_PAGE: Final = 5_000
"""Runs that one read of their sizes returns."""
_FIRST_BATCH: Final = 20
_MOST_IN_BATCH: Final = 500
_LONG_SECONDS: Final = 0.03
"""Time of a batch above which the next one is smaller: the writes of runs wait for it."""
_PAUSE_SECONDS: Final = 0.005
"""Shortest time between two batches, in which others write."""
_log = logging.getLogger("ptc")


@dataclass(frozen=True, slots=True)
class Retention:
    """Bounds of the runs that have ended; None: no bound."""

    max_age_ms: int | None = None
    max_runs: int | None = None
    max_bytes: int | None = None
    """Total of their `RunRow.size_bytes`."""

    @classmethod
    def of_session(cls, days: int | None, runs: int | None, size_bytes: int | None) -> Self:
        """Create the retention of a session from its arguments. Raises `UsageError`."""
        if days is not None:
            require_range("retention_days", days, _MOST_DAYS)
        if runs is not None:
            require_range("retention_runs", runs, _MOST)
        if size_bytes is not None:
            require_range("retention_bytes", size_bytes, _MOST)
        return cls(None if days is None else days * DAY_MS, runs, size_bytes)

    @classmethod
    def of_command(
        cls, older_than_days: float | None, max_runs: int | None, max_bytes: int | None
    ) -> Self:
        """Create the bounds of `History.forget` from its arguments. Raises `UsageError`."""
        bounds = {
            "older_than_days": older_than_days,
            "max_runs": max_runs,
            "max_bytes": max_bytes,
        }
        for name, bound in bounds.items():
            if bound is not None and not bound >= 0:
                msg = f"{name} must be 0 or more, not {bound!r}"
                raise UsageError(msg)
        if all(bound is None for bound in bounds.values()):
            msg = f"forget needs one of {', '.join(bounds)}"
            raise UsageError(msg)
        age_ms = None if older_than_days is None else int(older_than_days * DAY_MS)
        return cls(age_ms, max_runs, max_bytes)

    @property
    def is_bounded(self) -> bool:
        """True if runs expire."""
        return self != Retention()


async def delete_old_runs(
    journal: Journal,
    retention: Retention,
    *,
    share: float,
    whole: bool = False,
    on_progress: Callable[[int], object] = lambda deleted: None,
) -> int:
    """Delete the oldest runs that have ended, until the others are within the bounds.

    Args:
        journal: The journal.
        retention: The bounds.
        share: Part of the time in which runs are deleted; the rest is for others.
        whole: True: return all unused space of the store to the system.
        on_progress: Called with the number of runs that were deleted so far.

    Returns:
        The number of deleted runs.

    Raises:
        JournalError: If the journal cannot be read or written. The runs that were deleted before
            stay deleted.
    """
    position = await _first_retained(journal, retention)
    deleted = 0
    if position is not None:
        deleted = await _delete_before(journal, position, share, on_progress)
    more = bool(whole or deleted)
    while more:
        more = await journal.reclaim_space(whole=whole)
        await anyio.sleep(_PAUSE_SECONDS)
    return deleted


async def _first_retained(journal: Journal, retention: Retention) -> tuple[int, int] | None:
    """Return the end and number that all runs to be deleted precede; None: there are none.

    A position and not a number of runs: two sessions may delete at once.
    """
    oldest = None
    if retention.max_age_ms is not None:
        oldest = (now_ms() - retention.max_age_ms + 1, 0)
    if retention.max_runs is None and retention.max_bytes is None:
        return oldest
    runs = size_bytes = 0
    last: EndedRun | None = None
    while True:
        page = await journal.ended_runs(_PAGE, last)
        for last in page:
            runs += 1
            size_bytes += last.size_bytes
            if (retention.max_runs is not None and runs > retention.max_runs) or (
                retention.max_bytes is not None and size_bytes > retention.max_bytes
            ):
                return max(filter(None, (oldest, (last.ended_ms, last.number + 1))))
        if len(page) < _PAGE:
            return oldest


async def _delete_before(
    journal: Journal,
    position: tuple[int, int],
    share: float,
    on_progress: Callable[[int], object],
) -> int:
    before_ms, before_number = position
    deleted, batch = 0, _FIRST_BATCH
    while True:
        start = time.perf_counter()
        count = await journal.delete_ended(before_ms, batch, before_number=before_number)
        took = time.perf_counter() - start
        deleted += count
        if count:
            on_progress(deleted)
        if count < batch:
            return deleted
        batch = max(1, batch // 2) if took > _LONG_SECONDS else min(2 * batch, _MOST_IN_BATCH)
        await anyio.sleep(max(_PAUSE_SECONDS, took * (1 / share - 1)))


class RetentionTask:
    """Deletes expired runs in the background of a session: at its start, and again and again."""

    def __init__(
        self, open_journal: Callable[[], Awaitable[Journal]], retention: Retention
    ) -> None:
        """Create the task; `start` starts it.

        Args:
            open_journal: Returns the journal.
            retention: The bounds of runs.
        """
        self._open = open_journal
        self._retention = retention
        self.after_deletion: Callable[[Journal], Awaitable[object]] | None = None
        """Called after runs were deleted: deletes the artifacts that only they referred to."""
        self._next_artifacts = -math.inf
        self._scope: anyio.CancelScope | None = None
        self._stopped: anyio.Event | None = None
        self._passed: anyio.Event | None = None

    def start(self) -> None:
        """Start the task in the running event loop, unless no runs expire."""
        if self._retention.is_bounded and self._scope is None:
            scope, stopped = self._scope, self._stopped = anyio.CancelScope(), anyio.Event()
            passed = self._passed = anyio.Event()

            async def run() -> None:
                try:
                    with scope:
                        await self._repeat(passed)
                finally:
                    stopped.set()

            spawn(run)

    async def first_pass(self) -> None:
        """Wait until the task has deleted the runs that had expired when it started."""
        if self._passed is not None:
            await self._passed.wait()

    async def close(self) -> None:
        """Stop the task after its current batch."""
        if self._scope is not None and self._stopped is not None:
            self._scope.cancel()
            await self._stopped.wait()

    async def _delete_artifacts(self, journal: Journal) -> None:
        # It reads all records: once a day is enough.
        now = anyio.current_time()
        if self.after_deletion is not None and now >= self._next_artifacts:
            self._next_artifacts = now + _DAY_SECONDS
            await self.after_deletion(journal)

    async def _repeat(self, passed: anyio.Event) -> None:
        while True:
            try:
                journal = await self._open()
                count = await delete_old_runs(journal, self._retention, share=0.2)
                if count:
                    _log.info("%d expired runs were deleted", count)
                    await self._delete_artifacts(journal)
            except (ArtifactError, JournalError) as error:
                # Old records must not prevent new work.
                _log.warning("expired runs or their artifacts were not deleted: %s", error)
            except Exception:  # noqa: BLE001  # as above: the session works without retention
                _log.exception("expired runs were not deleted")
            passed.set()
            await anyio.sleep(_EVERY_SECONDS)
