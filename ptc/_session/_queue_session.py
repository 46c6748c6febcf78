"""Runs of a session that workers on any machine execute: submit, cancel, limits of tenants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack

from .._runs._submissions import (
    QueuedRuns,
    SubmitOptions,
    TenantOptions,
    validate_limits,
    validate_tenant,
)
from ._program_session import ProgramSession

if TYPE_CHECKING:
    from ..journal._queue import QueueStatus, TenantLimits

__all__ = ["QueueSession", "queued_runs_of"]


class QueueSession(ProgramSession):
    """The part of `Session` that submits runs to the workers of a PostgreSQL journal."""

    _queued_runs: QueuedRuns

    async def submit(self, **options: Unpack[SubmitOptions]) -> str:
        """Submit a script, to be run by any worker (`ptc worker`) that has its tools.

        Returns at once. The run is recorded and enqueued in one transaction, so it survives a crash
        of this process. A repeated call with the same `run_id`, script and inputs changes nothing.

        Args:
            **options: Those of `program` except `env` and `on_event`; and ``tenant``, the owner of
                the run, ``priority`` from -10 to 10 (higher ones of a tenant start first),
                ``delay_ms`` or ``at``, before which it does not start. `allowed_tools` must have no
                rules, and `output_schema` must be a JSON Schema.

        Returns:
            The id of the run.

        Raises:
            QueueFullError: If too many runs wait.
            UsageError: If an argument is wrong, the journal is not in PostgreSQL, or `run_id` is
                that of another run.
        """
        (run_id,) = await self.submit_many([options])
        return run_id

    async def submit_many(self, requests: Iterable[SubmitOptions]) -> list[str]:
        """Submit several scripts in one transaction: all or none.

        Args:
            requests: The options of `submit` for each.

        Returns:
            The ids of the runs, in order.

        Raises:
            QueueFullError: As `submit`.
            UsageError: As `submit`.
        """
        self._lifetime.check_open()
        return await self._queued_runs.submit(list(requests))

    async def cancel(self, run_id: str) -> bool:
        """Cancel a run, on whatever machine it is.

        A run that is queued or paused is cancelled at once. Of one that is running, no new call
        starts after at most one heartbeat of its worker; results of calls that were made are
        recorded. A cancelled run can be resumed.

        Returns:
            True if it is cancelled. False if it is being stopped.

        Raises:
            UnknownRunError: If there is no such run.
            EndedRunError: If it has ended.
            BusyRunError: If another process executes it, and it was not submitted.
        """
        self._lifetime.check_open()
        return await self._queued_runs.cancel(run_id)

    async def set_tenant(self, name: str, **limits: Unpack[TenantOptions]) -> TenantLimits:
        """Change the limits of a tenant, for all machines, and return them.

        Args:
            name: The tenant; ``""``: runs without a tenant.
            **limits: Any of ``max_running`` (runs at once), ``rate_per_second`` (runs that start in
                a second, on average), ``burst`` (runs that may start at once after a pause) and
                ``max_queued`` (runs that may wait). None removes a limit; others stay.

        Raises:
            UsageError: If an argument is wrong, or the journal has no queue.
        """
        self._lifetime.check_open()
        queue = await self._queued_runs.queue()
        return await queue.set_tenant(validate_tenant(name), **validate_limits(limits))

    async def queue_status(self) -> QueueStatus:
        """Return the tenants with their runs and limits, the live workers, and unserved runs.

        Raises:
            UsageError: If the journal has no queue.
        """
        self._lifetime.check_open()
        return await (await self._queued_runs.queue()).status()


def queued_runs_of(session: QueueSession) -> QueuedRuns:
    """Return the submissions of a session, and the execution of submitted runs."""
    return session._queued_runs
