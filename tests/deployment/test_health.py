"""The health endpoint of a worker answers probes, and no client can stop it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from ptc import JournalError, SetupError
from ptc._queue import _health
from ptc._queue._health import HealthServer, WorkerState
from ptc.journal._sample import QueueSample, TenantSample

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

HEALTHY = WorkerState(
    slots=16,
    running=3,
    is_draining=False,
    has_zygote=True,
    lease_seconds=15,
    attempt_age=1,
    lease_age=1,
    outcomes={"completed": 7, "failed": 1},
)
QUEUE = QueueSample((TenantSample('a"b\n', 5, 2, 1.5), TenantSample("", 0, 1, 0)), 4, 2)


class Worker:
    """State of a worker that a test changes, and the server that shows it."""

    def __init__(self) -> None:
        self.state = HEALTHY
        self.samples = 0
        self.blocked: asyncio.Event | None = None
        self.fails = False
        self.server = HealthServer(lambda: self.state, self.sample, port=0)

    async def sample(self) -> QueueSample:
        self.samples += 1
        if self.blocked is not None:
            await self.blocked.wait()
        if self.fails:
            raise JournalError("gone")
        return QUEUE

    async def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        return await exchange(self.server.port, f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n")


async def exchange(port: int, request: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode())
    answer = (await asyncio.wait_for(reader.read(), 10)).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), body


@asynccontextmanager
async def serving() -> AsyncIterator[Worker]:
    worker = Worker()
    async with worker.server:
        yield worker


@contextmanager
def short_times(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_health, "EXCHANGE_SECONDS", 0.3)
    monkeypatch.setattr(_health, "QUERY_SECONDS", 0.1)
    yield


async def test_healthy_worker_is_live_and_ready() -> None:
    async with serving() as worker:
        assert await worker.get("/live") == (200, "ok\n")
        assert await worker.get("/ready") == (200, "ok\n")
        assert await worker.get("/ready", "HEAD") == (200, "")


@pytest.mark.parametrize(
    ("change", "live", "ready"),
    [
        ({"is_draining": True}, 200, 503),
        ({"has_zygote": False}, 200, 503),
        ({"lease_age": 16}, 200, 503),
        ({"lease_age": 100, "attempt_age": 91}, 503, 503),
    ],
)
async def test_probe_fails_for_its_own_reasons(
    change: dict[str, Any], live: int, ready: int
) -> None:
    async with serving() as worker:
        worker.state = replace(HEALTHY, **change)
        assert (await worker.get("/live"))[0] == live
        assert (await worker.get("/ready"))[0] == ready


async def test_metrics_have_the_queue_and_the_worker() -> None:
    async with serving() as worker:
        _, text = await worker.get("/metrics")
    assert 'ptc_queue_runs{tenant="a\\"b\\n",state="queued"} 5\n' in text
    assert 'ptc_queue_oldest_seconds{tenant="a\\"b\\n"} 1.5\n' in text
    assert 'ptc_worker_runs_total{outcome="completed"} 7\n' in text
    assert "ptc_worker_slots 16\n" in text
    assert "ptc_unknown_outcomes 4\n" in text
    assert "ptc_store_up 1\n" in text


async def test_metrics_of_an_unreachable_store_have_no_numbers_of_the_queue() -> None:
    async with serving() as worker:
        worker.fails = True
        _, text = await worker.get("/metrics")
    assert "ptc_store_up 0\n" in text
    assert "ptc_queue_runs" not in text
    assert "ptc_worker_running 3\n" in text


async def test_tenants_beyond_the_limit_are_added_up() -> None:
    tenants = [TenantSample(f"t{n}", 1, 0, n) for n in range(150)]
    text = _health.render_metrics(HEALTHY, QueueSample(tenants, 0, 0))
    assert text.count('state="queued"') == _health.TENANTS + 1
    assert 'ptc_queue_runs{tenant="(others)",state="queued"} 50\n' in text


async def test_many_requests_share_one_query() -> None:
    async with serving() as worker:
        await asyncio.gather(*(worker.get("/metrics") for _ in range(20)))
        await worker.get("/metrics")
        assert worker.samples == 1


async def test_store_that_hangs_does_not_hang_the_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    with short_times(monkeypatch):
        async with serving() as worker:
            worker.blocked = asyncio.Event()
            assert "ptc_store_up 0\n" in (await worker.get("/metrics"))[1]
            assert (await worker.get("/live"))[0] == 200


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("POST /live HTTP/1.1\r\n\r\n", 405),
        ("GET /secrets HTTP/1.1\r\n\r\n", 404),
        ("GET /live?x=1 HTTP/1.1\r\n\r\n", 200),
        ("GET /../live HTTP/1.1\r\n\r\n", 404),
        ("\x16\x03\x01\r\n\r\n", 400),
        ("GET /live SPDY/3\r\n\r\n", 400),
        ("GET /live HTTP/1.1\r\nX: " + "a" * 20_000 + "\r\n\r\n", 431),
    ],
)
async def test_odd_request_has_an_answer(request_text: str, status: int) -> None:
    async with serving() as worker:
        assert (await exchange(worker.server.port, request_text))[0] == status


async def test_hostile_clients_cannot_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with short_times(monkeypatch):
        async with serving() as worker:
            # They send half a request, nothing, or read nothing.
            idle = [
                await asyncio.open_connection("127.0.0.1", worker.server.port) for _ in range(50)
            ]
            for number, (_, writer) in enumerate(idle):
                if number % 2:
                    writer.write(b"GET /live HTTP/1.1\r\nX: ")
            for reader, _ in idle:
                # Each is closed, the ones over the limit at once.
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await asyncio.wait_for(reader.readexactly(1), 10)
            assert (await worker.get("/live"))[0] == 200
            for _, writer in idle:
                writer.close()


async def test_port_in_use_is_an_error_that_names_the_option() -> None:
    async with serving() as worker:
        port = worker.server.port
        with pytest.raises(SetupError, match=f"127.0.0.1:{port}.*--health-port"):
            async with HealthServer(lambda: HEALTHY, worker.sample, port=port):
                pass
