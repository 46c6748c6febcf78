"""Runs that another process may execute: wait for their results, and follow their events."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from .._core._arguments import require_range
from .._records._result import RunEvent, RunResult
from .._runs._follow import follow_run
from .._runs._run_id import validate_run_id
from .._runs._watch import wait_for_result
from ._run_session import RunSession

__all__ = ["WatchSession"]

_MOST_MS = 366 * 86_400_000


class WatchSession(RunSession):
    """The part of `Session` that watches runs, of this process or of others."""

    async def wait(
        self, run_id: str, timeout_ms: int | None = None, *, through_pauses: bool = False
    ) -> RunResult:
        """Wait until a run ends or pauses, whichever process executes it.

        With a PostgreSQL journal the executing process sends a notification; other journals are
        read once a second. A cancelled wait, or one that timed out, does not affect the run.

        Args:
            run_id: The run.
            timeout_ms: Longest time to wait. None: any.
            through_pauses: True: also wait while it is paused, for its decisions and its end.

        Returns:
            The result, as `resume` returns it. A paused run lists the calls that await a decision.

        Raises:
            WaitTimeoutError: If the run has not ended in time; it continues.
            UnknownRunError: If there is no such run.
            JournalError: If the journal cannot be read.
        """
        self._lifetime.check_open()
        if timeout_ms is not None:
            require_range("timeout_ms", timeout_ms, _MOST_MS)
        return await wait_for_result(
            await self.history.open(),
            validate_run_id(run_id),
            timeout_ms,
            through_pauses=through_pauses,
        )

    async def follow(
        self, run_id: str, after: int = 0, *, through_pauses: bool = False
    ) -> AsyncGenerator[RunEvent, None]:
        """Iterate over the events of a run until it ends or pauses, whichever process executes it.

        The events are read from the journal: output, emitted values, progress, and starts and ends
        of calls. ``finished`` is the last one, with the `RunResult`. A slow consumer does not slow
        the run. A call without a side effect is recorded at its end, so its start comes with it.

        ::

            async for event in session.follow(run_id):
                print(event.kind, event.text)

        Args:
            run_id: The run.
            after: `RunEvent.number` of the last event that you received, to continue after it.
                Calls that are still running are announced again. 0: all events.
            through_pauses: True: continue while it is paused, until its end.

        Raises:
            UsageError: If `after` is not a number.
            UnknownRunError: If there is no such run.
            JournalError: If the journal cannot be read.
        """
        self._lifetime.check_open()
        journal = await self.history.open()
        run_id = validate_run_id(run_id)
        async for event in follow_run(journal, run_id, after, through_pauses=through_pauses):
            yield event
