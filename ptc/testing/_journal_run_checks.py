"""The promises of a journal on corrected scripts, attempts, failed runs and tenants."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ..errors import BusyRunError, EndedRunError, UnknownRunError, UsageError
from ..journal import CallEnd, CallRow, Journal, RunQuery, RunRow, Tick
from ._journal_checks import OpenJournal, opened, raised, require
from ._journal_child import sample_run

__all__ = ["RUN_CHECKS"]


async def _record(journal: Journal, run: RunRow, status: str, ended_ms: int, *pay: bytes) -> None:
    """Record a run that ended, with calls that have a side effect."""
    lease = journal.start_run(run)
    journal.append(lease, _call("1", "look", b"1", side_effect=False))
    for number, arguments in enumerate(pay, 2):
        journal.append(lease, _call(str(number), "pay", arguments))
    journal.end_run(lease, status, b'{"a":1}', ended_ms)
    await journal.barrier(lease)


def _call(path: str, tool: str, arguments: bytes, *, side_effect: bool = True) -> CallRow:
    end = CallEnd("succeeded", True, b"1", 200, 0.25)
    return CallRow(path, tool, arguments, f"key {path}", side_effect, 3, 1, 100, "", end)


async def revise_archives_the_record(open_store: OpenJournal) -> None:
    """Move the record of a run to its archive, and start it anew with the corrected script."""
    async with opened(open_store) as journal, opened(open_store) as other:
        old = replace(sample_run("r1"), tenant="t1", options=b'{"a":0}')
        await _record(journal, old, "failed", 5, b"1")
        fixed = replace(old, source="fixed", filename="f.py", options=b'{"a":1}')
        lease = await journal.revise(fixed)
        require(lease.epoch == 2, "each acquisition has the next epoch")
        found = await other.load("r1")
        expected = replace(fixed, status="running", revision=2, attempts=1)
        require(
            replace(found.run, size_bytes=0) == expected,
            "a revised run starts anew with the script and options",
        )
        require((found.calls, found.deliveries) == ((), ()), "a revised run has no calls yet")
        archived = await other.load("r1.1")
        state = (archived.run.source, archived.run.status, archived.run.ended_ms)
        require(state == ("pass", "failed", 5), "the archive has the old script and state")
        require(archived.run.tenant == "t1", "the archive has the tenant of its run")
        require(len(archived.calls) == 2, "the archive has the old calls")
        require([run.run_id for run in await other.runs()] == ["r1"], "no list has an archive")
        require(await other.find_ids("r", 9) == ["r1"], "no prefix finds an archive")
        await raised(EndedRunError, other.acquire("r1.1"), "an archive is never resumed")
        await raised(BusyRunError, other.revise(expected), "a run has one holder")
        journal.append(lease, Tick(0.5))
        journal.end_run(lease, "failed", b"{}", 9)
        await journal.barrier(lease)
        await raised(BusyRunError, other.revise(fixed), "a revision is continued once")
        again = await other.revise(expected)
        other.end_run(again, "completed", b"{}", 9)
        await other.barrier(again)
        require(len((await journal.load("r1.2")).deliveries) == 1, "each revision is archived")
        third = replace(expected, revision=3)
        await raised(EndedRunError, journal.revise(third), "a completed run is not revised")
        await raised(UnknownRunError, journal.revise(sample_run("r2")), "a revision needs its run")
        require(await journal.delete_ended(10) == 1, "a run is deleted with its archives")
        left = [await journal.find(each) for each in ("r1", "r1.1", "r1.2")]
        require(left == [None] * 3, "a run is deleted with its archives")


async def attempts_are_counted(open_store: OpenJournal) -> None:
    """Refuse a run that was started too often since its last pause, and change its options."""
    async with opened(open_store) as journal:
        await journal.barrier(lease := journal.start_run(sample_run("r1")))
        for attempts in (2, 3):
            journal.release(lease)
            lease = await journal.acquire("r1", max_attempts=3, engine=f"engine {attempts}")
            row = await journal.find("r1")
            require(row is not None and row.attempts == attempts, "each start is counted")
            require(row is not None and row.engine == "engine 2", "the first engine is recorded")
        journal.release(lease)
        again = journal.acquire("r1", max_attempts=3)
        await raised(EndedRunError, again, "a run that was started too often is not started")
        lease = await journal.acquire("r1", max_attempts=4, options=b'{"b":2}')
        journal.end_run(lease, "paused", b"{}", 5)
        lease = await journal.acquire("r1", max_attempts=1)
        row = await journal.find("r1")
        require(row is not None and row.attempts == 1, "a pause starts the count anew")
        require(row is not None and row.options == b'{"b":2}', "new options are stored")
        require(row is not None and row.result is None, "a resumed run has no result")
        journal.release(lease)
        await journal.barrier(lease)


async def failed_runs_are_listed(open_store: OpenJournal) -> None:
    """List the runs that stopped without completing since a time, newest first."""
    async with opened(open_store) as journal:
        statuses = ("failed", "completed", "crashed", "timed_out", "limit_exceeded", "cancelled")
        for number, status in enumerate(statuses, 1):
            await _record(journal, sample_run(f"r{number}"), status, number)
        require(await journal.failed_runs(1, 9) == ["r5", "r4", "r3", "r1"], "newest first")
        require(await journal.failed_runs(4, 9) == ["r5", "r4"], "the earliest end counts")
        require(await journal.failed_runs(1, 2) == ["r5", "r4"], "a limit is kept")
        lease = await journal.acquire_for_rollback("r5", 9)
        journal.release(lease)
        await journal.barrier(lease)
        require("r5" not in await journal.failed_runs(1, 9), "a rollback ends the warning")
        await journal.barrier(await journal.revise(sample_run("r1")))
        require("r1" not in await journal.failed_runs(1, 9), "a run that continues has not failed")
        require("r1.1" not in await journal.failed_runs(1, 9), "no list has an archive")


async def repeated_effects_are_found(open_store: OpenJournal) -> None:
    """Find calls with a side effect that failed runs made with the same arguments."""
    async with opened(open_store) as journal:
        await _record(journal, sample_run("r1"), "failed", 10, b"1", b"2")
        await _record(journal, sample_run("r2"), "failed", 20, b"2", b"3")
        await _record(journal, sample_run("r3"), "completed", 30, b"1")
        await _record(journal, sample_run("new"), "completed", 40, b"1", b"2")
        both = [("r2", "pay"), ("r1", "pay"), ("r1", "pay")]
        found = list(map(tuple, await journal.repeated_effects("new", 5, 9)))
        require(found == both, "effects with the same tool and arguments are found")
        found = list(map(tuple, await journal.repeated_effects("new", 15, 9)))
        require(found == both[:1], "the earliest end counts")
        require(len(await journal.repeated_effects("new", 5, 1)) == 1, "a limit is kept")


async def tenants_are_stored(open_store: OpenJournal) -> None:
    """Read the tenant of a run back, in each way."""
    async with opened(open_store) as journal, opened(open_store) as other:
        for name, tenant in (("r1", "t\u00e9nant 1"), ("r2", "")):
            lease = journal.start_run(replace(sample_run(name), tenant=tenant))
            journal.release(lease)
            await journal.barrier(lease)
            row = await other.find(name)
            loaded = (await other.load(name)).run
            require(row is not None and row.tenant == tenant, "a tenant is read back")
            require(loaded.tenant == tenant, "a tenant is read back with the record")
        listed = {run.run_id: run.tenant for run in await other.runs()}
        require(listed == {"r1": "t\u00e9nant 1", "r2": ""}, "a list has the tenants")
        await other.acquire("r1")
        row = await journal.find("r1")
        require(row is not None and row.tenant == "t\u00e9nant 1", "a resumed run has its tenant")


async def runs_are_filtered_in_pages(open_store: OpenJournal) -> None:
    """List the runs that match all filters, in pages that neither repeat nor miss a run."""
    async with opened(open_store) as journal, opened(open_store) as other:
        for number in range(12):
            # Four runs start at each time.
            changes: dict[str, Any] = {"tenant": f"t{number % 2}", "created_ms": number // 4}
            lease = journal.start_run(replace(sample_run(f"r{number:02}"), **changes))
            if number % 3 == 0:
                journal.append(lease, _call("1", "pay", b"{}"))
            if number % 4:
                journal.end_run(lease, ("failed", "completed", "paused")[number % 4 - 1], b"{}", 9)
            await journal.barrier(lease)
        for query, expected in (
            (RunQuery(), range(12)),
            (RunQuery(statuses=("failed",)), (1, 5, 9)),
            (RunQuery(statuses=("completed", "paused", "running")), (0, 2, 3, 4, 6, 7, 8, 10, 11)),
            (RunQuery(tool="pay"), (0, 3, 6, 9)),
            (RunQuery(tenant="t1"), (1, 3, 5, 7, 9, 11)),
            (RunQuery(tenant="t1", tool="pay", statuses=("failed", "paused")), (3, 9)),
            (RunQuery(since_ms=1), range(4, 12)),
            (RunQuery(until_ms=1), range(4)),
            (RunQuery(since_ms=1, until_ms=2, tenant="t0"), (4, 6)),
            (RunQuery(tool="other"), ()),
        ):
            names = [f"r{number:02}" for number in reversed(expected)]
            for limit in (1, 2, 5, 50):
                page = await other.runs(replace(query, limit=limit))
                found = list(page)
                while page.next_cursor is not None and len(found) <= 12:
                    require(len(page) == limit, "a page is full, unless it is the last one")
                    page = await other.runs(replace(query, limit=limit, after=page.next_cursor))
                    found += page
                listed = sorted((run.created_ms, run.run_id) for run in found)[::-1]
                require([name for _, name in listed] == names, f"pages of {limit} list {query}")
                times = [run.created_ms for run in found]
                require(times == sorted(times, reverse=True), "the newest runs are listed first")
        first = await other.runs(RunQuery(limit=5))
        await journal.barrier(journal.start_run(replace(sample_run("new"), created_ms=99)))
        rest = await other.runs(RunQuery(after=first.next_cursor))
        listed_ids = [run.run_id for run in (*first, *rest)]
        require(len(set(listed_ids)) == len(listed_ids) == 12, "a new run moves no page")
        await raised(UsageError, other.runs(RunQuery(after="x")), "a cursor is checked")


async def sizes_are_counted(open_store: OpenJournal) -> None:
    """Count the size of a record when its run ends, and list the runs that ended by their ends."""
    async with opened(open_store) as journal, opened(open_store) as other:
        for number, size in enumerate((1_000, 50_000)):
            lease = journal.start_run(sample_run(f"r{number}"))
            journal.append(lease, _call("1", "tool", b'"%s"' % (b"x" * size)))
            journal.end_run(lease, "completed", b"{}", 5 - number)
            await journal.barrier(lease)
        await journal.barrier(journal.start_run(sample_run("open")))
        ended = await other.ended_runs(9)
        require([run.ended_ms for run in ended] == [5, 4], "ended runs are listed, the last first")
        require(await other.ended_runs(9, ended[0]) == ended[1:], "the list continues after a run")
        for run, size in zip(ended, (1_000, 50_000), strict=True):
            require(size <= run.size_bytes <= 2 * size + 2_000, "the size is that of the record")
        sizes = sorted(run.size_bytes for run in await other.runs())
        require(sizes == sorted([0, *(run.size_bytes for run in ended)]), "a list has the sizes")
        last = ended[0]
        count = await journal.delete_ended(last.ended_ms, 9, before_number=last.number)
        require(count == 1, "the runs before a position are deleted")
        left = {run.run_id for run in await other.runs()}
        require(left == {"r0", "open"}, "the run at a position stays")


RUN_CHECKS: Final = (
    attempts_are_counted,
    failed_runs_are_listed,
    repeated_effects_are_found,
    revise_archives_the_record,
    runs_are_filtered_in_pages,
    sizes_are_counted,
    tenants_are_stored,
)
"""Part of `JOURNAL_CHECKS`."""
