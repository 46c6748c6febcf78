"""The queue of a journal in PostgreSQL, without a worker."""

from __future__ import annotations

import pytest

from ptc import RunResult, Session
from ptc._session._queue_session import queued_runs_of
from ptc.errors import UsageError
from ptc.journal._queue import Claim, RunQueue

from .conftest import Fleet

pytestmark = [pytest.mark.slow, pytest.mark.anyio]


async def test_submitted_run_is_queued_with_its_entry(fleet: Fleet) -> None:
    async with fleet.session() as session:
        run_id = await session.submit(source="1", tenant="shop")
        row = await session.history.run(run_id)
        assert (row.status, row.tenant) == ("queued", "shop")
        (tenant,) = (await session.queue_status()).tenants
        assert (tenant.name, tenant.queued, tenant.running) == ("shop", 1, 0)


async def test_claim_whose_answer_was_lost_is_made_again(fleet: Fleet) -> None:
    asyncpg = pytest.importorskip("asyncpg")
    async with fleet.session() as session:
        run_id = await session.submit(source="1")
        queue = await queued_runs_of(session).queue()
        await queue.register(queued_runs_of(session).digests, 4, 5, session.engine)
        (claim,) = await queue.claim(4)
        assert claim.lease is not None
        assert await queue.claim(4) == []
        connection = await asyncpg.connect(fleet.url, server_settings={"search_path": "ptc"})
        await connection.execute("UPDATE queue_entries SET heartbeat=now() - interval '1 hour'")
        # The lease is held: the run is being executed here.
        (busy,) = await queue.claim(4)
        assert busy.lease is None
        session.history.journal.release(claim.lease)
        await connection.execute("UPDATE queue_entries SET heartbeat=now() - interval '1 hour'")
        (again,) = await queue.claim(4)
        assert again.lease is not None
        assert again.lease.epoch == claim.lease.epoch + 1
        assert again.run_id == run_id
        session.history.journal.release(again.lease)
        await queue.finish([again])
        await connection.close()
        (tenant,) = (await session.queue_status()).tenants
        assert (tenant.queued, tenant.running) == (1, 0)


async def _claim(session: Session) -> tuple[RunQueue, Claim]:
    queue = await queued_runs_of(session).queue()
    await queue.register(queued_runs_of(session).digests, 4, 5, session.engine)
    (claim,) = await queue.claim(4)
    return queue, claim


async def test_run_is_not_stolen_after_the_server_was_away(fleet: Fleet) -> None:
    asyncpg = pytest.importorskip("asyncpg")
    async with fleet.session() as session, fleet.session() as other:
        await session.submit(source="1")
        _, claim = await _claim(session)
        connection = await asyncpg.connect(fleet.url, server_settings={"search_path": "ptc"})
        # The server has just started, and the last heartbeats are older than the lease.
        await connection.execute(
            "UPDATE workers SET lease_seconds=86400, alive=now() - interval '2 days'"
        )
        await connection.execute("UPDATE queue_entries SET heartbeat=now() - interval '2 days'")
        await connection.close()
        _, stale = await _claim(other)
        assert claim.lease is not None
        assert stale.lease is None


@pytest.mark.parametrize("source", [None, "2"])
async def test_resumed_run_is_not_cancelled_by_the_request_before(
    source: str | None, fleet: Fleet
) -> None:
    async with fleet.session() as session, fleet.session() as other:
        run_id = await session.submit(source="1")
        queue, claim = await _claim(session)
        assert claim.lease is not None
        assert not await other.cancel(run_id)
        assert await queue.heartbeat([claim.job]) == [run_id]
        result = RunResult(run_id=run_id, status="cancelled").to_json()
        session.history.journal.end_run(claim.lease, "cancelled", result, 1)
        await session.history.journal.barrier(claim.lease)
        # The worker dies here: it has not given the run back.
        assert (await other.resume(run_id, source=source)).value == int(source or 1)
        assert await queue.heartbeat([claim.job]) == []


async def test_corrected_run_can_be_submitted_again(fleet: Fleet) -> None:
    async with fleet.session() as session:
        run_id = await session.submit(source="1 / 0", run_id="one")
        await session.cancel(run_id)
        assert (await session.resume(run_id, source="1 / 2")).value == 0.5
        assert await session.submit(source="1 / 0", run_id="one") == run_id
        with pytest.raises(UsageError, match="another script"):
            await session.submit(source="1 / 3", run_id="one")
