"""The part of a journal that writes to runs: the same for every store that commits batches."""

from __future__ import annotations

from ..errors import BusyRunError
from ._journal import Entry, RunRow
from ._lease import Lease
from ._leases import Leases
from ._writer import BatchStore, Writer
from ._writes import entry_write, run_number, run_values

__all__ = ["RunWrites"]


class RunWrites:
    """Queues the entries of runs for the thread of a journal, under the leases that it holds."""

    def __init__(self, store: BatchStore) -> None:
        """Start the thread, which commits to `store`."""
        self._leases = Leases()
        self._writer = Writer(store, self._leases)

    def start_run(self, run: RunRow) -> Lease:
        """As `Journal.start_run`. A caller that chose the id checks `find` first."""
        self._writer.check_open()
        lease = Lease(run.run_id, run_number(run.run_id), 1)
        if lease.number in self._leases.held:
            msg = f"run {run.run_id!r} is being executed by this session; wait for its end"
            raise BusyRunError(msg)
        self._leases.clear_failure(lease)
        self._hold(lease)
        self._writer.put(lease, "start_run", (lease.number, *run_values(run)))
        return lease

    def _hold(self, lease: Lease) -> None:
        """Note a lease that was acquired."""
        self._leases.held[lease.number] = lease.epoch

    def end_run(self, lease: Lease, status: str, result: bytes, at_ms: int) -> None:
        """As `Journal.end_run`."""
        ended_ms = None if status == "paused" else at_ms
        size_bytes = self._writer.take_size(lease) + len(result)
        self._writer.put(lease, "end_run", (status, result, ended_ms, size_bytes, lease.number))
        self._leases.held.pop(lease.number, None)

    def release(self, lease: Lease) -> None:
        """As `Journal.release`."""
        self._writer.put(lease, "release", (self._writer.take_size(lease), lease.number))
        self._leases.held.pop(lease.number, None)

    def append(self, lease: Lease, entry: Entry) -> None:
        """As `Journal.append`."""
        self._writer.put(lease, *entry_write(lease, entry))

    @property
    def behind(self) -> bool:
        """As `Journal.behind`: over 32 MiB."""
        return self._writer.behind

    async def barrier(self, lease: Lease) -> None:
        """As `Journal.barrier`."""
        await self._writer.barrier(lease)

    def check(self, lease: Lease) -> None:
        """As `Journal.check`."""
        self._leases.check(lease)
