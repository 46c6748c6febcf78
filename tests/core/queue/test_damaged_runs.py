"""A damaged run in the queue is buried, and stops no other run."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.to_thread
import pytest

from ptc import Session
from tests.core.postgres import execute_sql

from .conftest import Fleet, result_of, until

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

DOUBLE = "def run(ctx, inputs): return inputs['n'] * 2"
DAMAGES = {
    "row": "options='nonsense'",
    "number": "seed=-1",
    "source": r"source='\xff'",
    "options": "options='{}'",
    "limits": """options=replace(convert_from(options, 'UTF8'), '"timeout_ms":', '"timeout_ms":"x')
        ::bytea""",
    "inputs": "inputs='nonsense'",
}
"""Assignments to the row of a run. The first three cannot be read when the run is taken."""


async def _submit_damaged(fleet: Fleet, session: Session) -> list[str]:
    ids = []
    for name, change in DAMAGES.items():
        ids.append(await session.submit(source=DOUBLE, inputs={"n": 1}, run_id=name))
        statement = f"UPDATE ptc.runs SET {change} WHERE run_id='{name}'"  # noqa: S608  # ours
        await anyio.to_thread.run_sync(execute_sql, fleet.url, statement)
    return ids


async def _ends(fleet: Fleet) -> dict[str, tuple[str, str]]:
    """Return status and error of each run that has ended."""
    asyncpg = pytest.importorskip("asyncpg")
    connection = await asyncpg.connect(fleet.url, server_settings={"search_path": "ptc"})
    try:
        rows = await connection.fetch(
            "SELECT run_id, status, convert_from(result, 'UTF8')::json -> 'error' ->> 'message'"
            " FROM runs WHERE result IS NOT NULL"
        )
    finally:
        await connection.close()
    return {row[0]: (row[1], row[2]) for row in rows}


async def test_damaged_runs_are_buried_alone(fleet: Fleet) -> None:
    async with fleet.session() as session:
        damaged = await _submit_damaged(fleet, session)
        job: Any = {"source": DOUBLE, "inputs": {"n": 2}}
        whole = await session.submit_many([job] * 4)
        worker = fleet.start("--slots", "4")
        results = [await result_of(session, run_id) for run_id in whole]
        assert [result.value for result in results] == [4] * 4
        await until(lambda: _have_ended(fleet, damaged))
        ends = await _ends(fleet)
        assert {name: ends[name][0] for name in damaged} == dict.fromkeys(damaged, "dead")
        for name in damaged:
            assert "damaged" in ends[name][1]
        await until(lambda: _is_empty(session))
        assert worker.poll() is None


async def _is_empty(session: Session) -> bool:
    (tenant,) = (await session.queue_status()).tenants
    return tenant.queued == tenant.running == 0


async def _have_ended(fleet: Fleet, ids: list[str]) -> bool:
    return (await _ends(fleet)).keys() >= set(ids)
