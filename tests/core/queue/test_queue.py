"""The queue of a journal in PostgreSQL, without a worker."""

from __future__ import annotations

import pytest

from ptc._session._queue_session import queued_runs_of

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
        await queue.register(queued_runs_of(session).digests, 4, 5)
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


async def test_claim_leaves_runs_whose_worker_could_not_reach_the_server(fleet: Fleet) -> None:
    asyncpg = pytest.importorskip("asyncpg")
    async with fleet.session() as session, fleet.session() as other:
        await session.submit(source="1")
        digests = queued_runs_of(session).digests
        queue, rival = [await queued_runs_of(each).queue() for each in (session, other)]
        await queue.register(digests, 4, 5)
        await rival.register(digests, 4, 5)
        (claim,) = await queue.claim(4)
        assert claim.lease is not None
        connection = await asyncpg.connect(fleet.url, server_settings={"search_path": "ptc"})
        # The last heartbeat is older than the start of the server, which is younger than a lease.
        await connection.execute("UPDATE queue_entries SET heartbeat=now() - interval '1 hour'")
        await connection.execute(
            "UPDATE workers SET alive=now() - interval '1 week', lease_seconds=3 * 86400"
        )
        (found,) = await rival.claim(4)
        assert found.lease is None
        await connection.close()
        session.history.journal.release(claim.lease)
