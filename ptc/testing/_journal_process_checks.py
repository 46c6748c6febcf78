"""The promises of a journal that need other processes: kills, frozen holders, clocks.

The checks find out when a lease expires by trying. Open the store with a lease of about a second if
it has such an option; each check waits a minute for it.
"""

from __future__ import annotations

import signal
from random import Random
from typing import Final

import anyio
import anyio.to_thread

from ..errors import BusyRunError
from ..journal import Journal, Lease, Tick
from ._journal_checks import OpenJournal, opened, require
from ._journal_child import StoreProcess, open_process, sample_run

__all__ = ["JOURNAL_PROCESS_CHECKS"]

_EXPIRY_SECONDS: Final = 60.0
_KILLS: Final = 5


async def _acquire_expired(journal: Journal, run_id: str) -> Lease:
    """Acquire a run as soon as the lease of its holder has expired."""
    with anyio.move_on_after(_EXPIRY_SECONDS):
        while True:
            try:
                return await journal.acquire(run_id)
            except BusyRunError:
                await anyio.sleep(0.05)
    msg = f"the lease of a holder that is dead or frozen expires within {_EXPIRY_SECONDS:.0f} s"
    raise AssertionError(msg)


async def _numbers(journal: Journal, run_id: str) -> list[float]:
    require(await journal.find(run_id) is not None, "a run that a barrier confirmed is there")
    return [delivery.elapsed for delivery in (await journal.load(run_id)).deliveries]


async def _written_until_killed(child: StoreProcess, pause: float) -> int:
    """Let a process append entries, kill it, and return the number that a barrier confirmed."""
    await child.send("flood r1")
    confirmed = int(await child.read())
    await anyio.sleep(pause)
    await child.kill()
    try:
        while True:
            confirmed = int(await child.read())
    except (anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError):
        return confirmed


async def killed_holder_loses_nothing_confirmed(open_store: OpenJournal) -> None:
    """Kill a process that writes: all that a barrier confirmed is there, without a gap."""
    random = Random(7)  # noqa: S311  # moments of kills
    async with open_process(open_store) as child:
        require(await child.do("start r1") == "done", "a run is started")
        confirmed = await _written_until_killed(child, 0.05)
    total = 0
    for _ in range(_KILLS):
        async with opened(open_store) as journal:
            numbers = await _numbers(journal, "r1")
            written = len(numbers) - total
            require(written >= confirmed, "all that a barrier confirmed survives a kill")
            expected = [float(number) for number in range(written)]
            require(numbers[total:] == expected, "entries of a killed process have no gap")
            total = len(numbers)
            # The next process has to acquire the run: wait here until that is possible.
            lease = await _acquire_expired(journal, "r1")
            journal.end_run(lease, "paused", b"{}", 5)
            await journal.barrier(lease)
        async with open_process(open_store) as child:
            require(await child.do("acquire r1") == "done", "a paused run is acquired")
            confirmed = await _written_until_killed(child, random.uniform(0, 0.1))


async def frozen_holder_is_fenced(open_store: OpenJournal) -> None:
    """Report to a process that was frozen that another one acquired its run, at any barrier."""
    async with opened(open_store) as journal, open_process(open_store) as child:
        require(await child.do("start r1") == "done", "a run is started")
        child.signal(signal.SIGSTOP)
        try:
            lease = await _acquire_expired(journal, "r1")
        finally:
            child.signal(signal.SIGCONT)
        promise = "a barrier after a freeze reports a lost lease"
        require(await child.do("barrier r1") == "LeaseLostError", f"{promise}, without entries")
        require(await child.do("append r1") == "LeaseLostError", promise)
        journal.append(lease, Tick(0.25))
        await journal.barrier(lease)
        require(await _numbers(journal, "r1") == [0.25], "a frozen holder writes nothing")


async def live_holder_keeps_its_lease(open_store: OpenJournal) -> None:
    """Renew the leases of a live process for as long as it holds them, also when it is idle."""
    async with opened(open_store) as journal, open_process(open_store) as child:
        require(await child.do("start r1") == "done", "a run is started")
        lease = journal.start_run(sample_run("r2"))
        await journal.barrier(lease)
        for _ in range(60):
            try:
                await journal.acquire("r1")
            except BusyRunError:
                await anyio.sleep(0.05)
            else:
                raise AssertionError("a live process keeps its lease")
        require(await child.do("acquire r2") == "BusyRunError", "so does this one")


async def clock_of_a_process_expires_nothing(open_store: OpenJournal) -> None:
    """Use the clock of the store, or none, for leases: machines differ by hours."""
    for ahead in (7_200.0, -7_200.0):
        run_id = "ahead" if ahead > 0 else "behind"
        async with (
            opened(open_store) as journal,
            open_process(open_store, clock_ahead=ahead) as child,
        ):
            lease = journal.start_run(sample_run(run_id))
            await journal.barrier(lease)
            promise = f"a process whose clock is {run_id} "
            said = await child.do(f"acquire {run_id}")
            require(said == "BusyRunError", f"{promise} takes no lease of a live one")
            journal.release(lease)
            await journal.barrier(lease)
            require(await child.do(f"acquire {run_id}") == "done", f"{promise} takes a free run")
            try:
                await journal.acquire(run_id)
            except BusyRunError:
                continue
            raise AssertionError(f"{promise} keeps its lease")


async def one_of_two_processes_acquires(open_store: OpenJournal) -> None:
    """Give each of several runs to exactly one of two processes that acquire it at once."""
    names = [f"r{number}" for number in range(20)]
    async with opened(open_store) as journal:
        for name in names:
            lease = journal.start_run(sample_run(name))
            journal.end_run(lease, "paused", b"{}", 5)
            await journal.barrier(lease)
    async with open_process(open_store) as first, open_process(open_store) as second:
        for name in names:
            for child in (first, second):
                await child.send(f"acquire {name}")
            said = sorted([await first.read(), await second.read()])
            require(said == ["BusyRunError", "done"], "one of two processes acquires a run")


JOURNAL_PROCESS_CHECKS: Final = (
    clock_of_a_process_expires_nothing,
    frozen_holder_is_fenced,
    killed_holder_loses_nothing_confirmed,
    live_holder_keeps_its_lease,
    one_of_two_processes_acquires,
)
"""The checks. Each is an async function of an `OpenJournal` that can be pickled, such as a
`functools.partial` of a class, since other processes call it. It raises `AssertionError`."""
