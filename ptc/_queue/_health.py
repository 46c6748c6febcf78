"""Health and metrics of a worker over HTTP, for the probes of an orchestrator.

* ``/live``: the event loop answers, and the heartbeat still tries. A store that cannot be reached
  does not fail it: to restart every worker would not bring the store back.
* ``/ready``: the worker takes runs: its lease is valid, its zygote is ready, it is not draining.
* ``/metrics``: the queue and this worker, in the text format of Prometheus.

Rule 1: No client can stop the server: connections, the bytes of a request and the time of an
    exchange are bounded. (tests/deployment/test_health.py::test_hostile_clients_cannot_stop_it)
Rule 2: Requests cost the store nothing but one query in `SAMPLE_SECONDS`, however many there are.
    (tests/deployment/test_health.py::test_many_requests_share_one_query)
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from http import HTTPStatus
from typing import Final, Self

from .._dataclass import dataclass
from ..errors import PtcError, SetupError
from ..journal._sample import QueueSample, TenantSample

__all__ = ["QUERY_SECONDS", "HealthServer", "WorkerState", "render_metrics"]

STALLED_SECONDS: Final = 90.0
"""Time without an attempt of a heartbeat after which the worker is not live. A request to a store
that cannot be reached takes 30 s."""
SAMPLE_SECONDS: Final = 5.0
"""Age up to which a sample of the queue answers further requests."""
EXCHANGE_SECONDS: Final = 5.0
QUERY_SECONDS: Final = 3.0
REQUEST_BYTES: Final = 8192
CONNECTIONS: Final = 32
TENANTS: Final = 100
"""Tenants with metrics of their own, those with the most runs; the others are added up."""
OTHERS: Final = "(others)"


@dataclass(frozen=True, slots=True)
class WorkerState:
    """State of a worker, without a request to the store."""

    slots: int
    running: int
    is_draining: bool
    has_zygote: bool
    """True if a script could start now, or as soon as a slot is free."""
    lease_seconds: float
    attempt_age: float
    """Seconds since the last attempt of a heartbeat ended."""
    lease_age: float
    """Seconds since the last heartbeat that the store confirmed."""
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """Runs that this worker ended, by status."""

    @property
    def is_live(self) -> bool:
        """True unless the heartbeat hangs."""
        return self.attempt_age < STALLED_SECONDS

    def why_not_ready(self) -> str:
        """Return why the worker takes no runs, or ``""`` if it does."""
        if self.is_draining:
            return "draining"
        if self.lease_age > self.lease_seconds:
            return f"the store has not confirmed the lease for {self.lease_age:.0f} s"
        return "" if self.has_zygote else "the zygote is not ready"


class HealthServer:
    """A small HTTP server in the event loop of the worker. An async context manager."""

    def __init__(
        self,
        state: Callable[[], WorkerState],
        sample: Callable[[], Awaitable[QueueSample]],
        *,
        host: str = "127.0.0.1",
        port: int,
    ) -> None:
        """Configure a server.

        Args:
            state: Returns the state of the worker.
            sample: Reads the queue; raises `PtcError` if the store cannot be reached.
            host: Address to listen on.
            port: Port; 0 for a free one.
        """
        self._state, self._sample = state, sample
        self._host, self._port = host, port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._sampling: asyncio.Task[QueueSample | None] | None = None
        self._sampled_at = float("-inf")

    @property
    def port(self) -> int:
        """Port on which it listens."""
        return self._port

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            SetupError: If the address cannot be used.
        """
        try:
            self._server = await asyncio.start_server(
                self._accept, self._host, self._port, limit=REQUEST_BYTES
            )
        except OSError as error:
            msg = (
                f"the health endpoint cannot listen on {self._host}:{self._port} "
                f"({error.strerror or error}); pass another --health-port or --health-address"
            )
            raise SetupError(msg) from None
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the server and its connections."""
        if self._server is not None:
            self._server.close()
        waiting = [*self._open, *([self._sampling] if self._sampling else [])]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # asyncio calls this in a task
        self._open.add(task)
        try:
            async with asyncio.timeout(EXCHANGE_SECONDS):
                writer.write(await self._respond(reader))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.discard(task)
            # A client that does not read its answer holds the connection otherwise.
            writer.transport.abort()

    async def _respond(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "")
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _response(HTTPStatus.BAD_REQUEST, "")
        method, path = words[0], words[1].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, "")
        status, text = await self._answer(path)
        return _response(status, text, body=method == b"GET")

    async def _answer(self, path: bytes) -> tuple[HTTPStatus, str]:
        if path == b"/metrics":
            return HTTPStatus.OK, render_metrics(self._state(), await self._recent_sample())
        if path == b"/live":
            problem = "" if self._state().is_live else "the heartbeat has stopped"
        elif path == b"/ready":
            problem = self._state().why_not_ready()
        else:
            return HTTPStatus.NOT_FOUND, "/live, /ready or /metrics\n"
        if problem:
            return HTTPStatus.SERVICE_UNAVAILABLE, problem + "\n"
        return HTTPStatus.OK, "ok\n"

    async def _recent_sample(self) -> QueueSample | None:
        """Return a sample that is at most `SAMPLE_SECONDS` old; None if the store cannot be read.

        Requests that come at the same time wait for the same query. It is not cancelled with them.
        """
        now = time.monotonic()
        if self._sampling is None or (
            self._sampling.done() and now - self._sampled_at > SAMPLE_SECONDS
        ):
            self._sampling, self._sampled_at = asyncio.create_task(self._read_queue()), now
        return await asyncio.shield(self._sampling)

    async def _read_queue(self) -> QueueSample | None:
        with contextlib.suppress(PtcError, TimeoutError):
            async with asyncio.timeout(QUERY_SECONDS):
                return await self._sample()
        return None


def _response(status: HTTPStatus, text: str, *, body: bool = True) -> bytes:
    content = (text or status.phrase + "\n").encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        f"Content-Length: {len(content)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (content if body else b"")


def render_metrics(state: WorkerState, queue: QueueSample | None) -> str:
    """Render metrics in the text format of Prometheus.

    Args:
        state: The worker.
        queue: The queue; None if the store cannot be reached: its metrics are then missing, since
            a number would be wrong.
    """
    lines: list[str] = []

    def add(name: str, kind: str, text: str, values: Mapping[str, float]) -> None:
        lines.extend((f"# HELP {name} {text}", f"# TYPE {name} {kind}"))
        lines.extend(f"{name}{labels} {value:.15g}" for labels, value in values.items())

    def one(name: str, text: str, value: float) -> None:
        add(name, "gauge", text, {"": value})

    one("ptc_worker_slots", "Runs that this worker executes at once.", state.slots)
    one("ptc_worker_running", "Runs that this worker executes now.", state.running)
    one("ptc_worker_draining", "1 if this worker takes no more runs.", state.is_draining)
    one("ptc_worker_ready", "1 if this worker takes runs.", not state.why_not_ready())
    one("ptc_worker_lease_age_seconds", "Time since the last heartbeat.", state.lease_age)
    outcomes = {f'{{outcome="{_escape(name)}"}}': n for name, n in state.outcomes.items()}
    add("ptc_worker_runs_total", "counter", "Runs that this worker ended.", outcomes)
    one("ptc_store_up", "1 if the store answers.", queue is not None)
    if queue is None:
        return "\n".join(lines) + "\n"
    tenants = _largest(queue.tenants)
    runs = {}
    for each in tenants:
        label = _escape(each.name)
        runs[f'{{tenant="{label}",state="queued"}}'] = each.queued
        runs[f'{{tenant="{label}",state="running"}}'] = each.running
    add("ptc_queue_runs", "gauge", "Runs in the queue, by tenant and state.", runs)
    ages = {f'{{tenant="{_escape(each.name)}"}}': each.oldest_seconds for each in tenants}
    add("ptc_queue_oldest_seconds", "gauge", "Age of the run that waits longest.", ages)
    one("ptc_unknown_outcomes", "Calls whose outcome must be decided.", queue.unknown_outcomes)
    one("ptc_dead_runs", "Runs that were started too often.", queue.dead)
    return "\n".join(lines) + "\n"


def _largest(tenants: Sequence[TenantSample]) -> list[TenantSample]:
    """Return at most `TENANTS` samples and the sum of the others: each label costs memory."""
    ordered = sorted(tenants, key=lambda each: (-each.queued - each.running, each.name))
    first, rest = ordered[:TENANTS], ordered[TENANTS:]
    if rest:
        queued, running = sum(each.queued for each in rest), sum(each.running for each in rest)
        oldest = max(each.oldest_seconds for each in rest)
        first.append(TenantSample(OTHERS, queued, running, oldest))
    return first


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
