"""The HTTP server: one session of tools and workers, one MCP server for each client.

uvicorn and starlette are dependencies of the MCP SDK.

Rule 1: clients share workers and the journal, and nothing that they can name: each has an MCP
    server, protocol sessions, runs and artifacts of its own.
    tests/bindings/test_http_isolation.py
Rule 2: a server that stops lets calls finish for a bounded time, then cancels them and records
    that. tests/bindings/test_http_shutdown.py
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from socket import socket
from typing import Any

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from uvicorn import Config, Server

import ptc
from ptc._core._signals import receive_signals

from ._capacity import Capacity
from ._client_scope import ClientScope
from ._http_clients import Client, Clients
from ._http_connections import KEEP_ALIVE_SECONDS, MAX_HEAD_BYTES, connection_class
from ._http_gate import MAX_BODY_BYTES, Gate, Route
from ._mcp_server import create_server
from ._previews import PREVIEW_CHARS

__all__ = ["HttpOptions", "run_http_server"]

_IDLE_SECONDS = 600.0
"""Time without a request after which a session of the protocol ends."""
_MAX_SESSIONS = 4_096
_MAX_CLIENT_SESSIONS = 256
_MIN_CLIENT_SESSIONS = 16
_MAX_REQUESTS = 1_024
_CLOSE_SECONDS = 5.0
_ANSWER_SECONDS = 2
_HANG_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """Options of the server."""

    direct_tools: bool
    ask_client: bool
    hosts: tuple[str, ...]
    """Values of the header ``Host``."""
    preview_chars: int | None = PREVIEW_CHARS
    """As for `serve`."""
    origins: tuple[str, ...] = ()
    max_concurrent_calls: int = 256
    """Calls of all clients at once."""
    grace_seconds: float = 10.0
    """Time that calls have to finish when the server stops."""


@dataclass(frozen=True, slots=True)
class _Work:
    """Work in progress of all clients."""

    calls: Capacity
    requests: Capacity


class _Uvicorn(Server):
    """uvicorn without signal handlers of its own; it reports when it listens."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.listening = anyio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to `run_http_server`."""
        yield

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        self.listening.set()


async def run_http_server(
    session: ptc.Session,
    clients: Clients,
    listener: socket,
    options: HttpOptions,
    report: Callable[[str], None],
) -> int:
    """Serve until SIGINT or SIGTERM, and return the number of the signal.

    Args:
        session: Runs the programs; opened and closed here.
        clients: The clients.
        listener: Bound socket.
        options: Further options.
        report: Receives lines for the operator.
    """
    work = _Work(
        calls=Capacity(options.max_concurrent_calls, owner="this server"),
        requests=Capacity(_MAX_REQUESTS, owner="this server"),
    )
    number = 0
    async with session, anyio.create_task_group() as group:
        async with AsyncExitStack() as managers:
            routes = {
                client.name: await _start_route(session, client, work, options, managers, count)
                for count in [sum(1 for _ in clients)]
                for client in clients
            }
            gate = Gate(clients, routes, hosts=options.hosts, origins=options.origins)
            server = _Uvicorn(_uvicorn_config(gate))
            # Before the address is reported: a signal may follow at once.
            with receive_signals(signal.SIGINT, signal.SIGTERM) as signals:
                group.start_soon(server.serve, [listener])
                group.start_soon(_warm_up, session, report)
                await server.listening.wait()
                report("ready")
                number = await anext(signals)
                _limit_shutdown(options.grace_seconds)
                # Other requests are served still: clients need them to read their results.
                work.calls.close()
                await _drain(session, work, signals, options.grace_seconds, report)
                gate.closing = True
        # The managers have ended, and with them the streams for messages of the server.
        server.should_exit = True
    return number


def _limit_shutdown(grace_seconds: float) -> None:
    """End the process even if a tool never returns. What the journal has committed is durable."""
    timer = threading.Timer(grace_seconds + _HANG_SECONDS, os._exit, [1])
    timer.daemon = True
    timer.start()


async def _drain(
    session: ptc.Session,
    work: _Work,
    signals: Any,
    seconds: float,
    report: Callable[[str], None],
) -> None:
    """Wait for the calls in progress, then cancel the rest; a second signal ends the wait."""
    calls = work.calls
    if calls.held:
        report(f"stopping: waiting up to {seconds:g} s for {calls.held} calls; repeat to cancel")
        async with anyio.create_task_group() as group:

            async def end_on_signal() -> None:
                await anext(signals)
                group.cancel_scope.cancel()

            group.start_soon(end_on_signal)
            with anyio.move_on_after(seconds):
                await calls.wait_idle()
            group.cancel_scope.cancel()
    if calls.held:
        report(f"cancelling {calls.held} calls")
    # Ends each run with status `cancelled`, records that, and lets its call answer.
    with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
        await session.aclose()
    with anyio.move_on_after(_ANSWER_SECONDS, shield=True):
        await calls.wait_idle()
        # The results are on their way to the clients.
        await work.requests.wait_idle()


async def _start_route(
    session: ptc.Session,
    client: Client,
    work: _Work,
    options: HttpOptions,
    managers: AsyncExitStack,
    clients: int,
) -> Route:
    allowed = client.allowed_tools
    server = create_server(
        session,
        allowed,
        client.limits or session.limits,
        preview_chars=options.preview_chars,
        direct_tools=options.direct_tools,
        ask_client=options.ask_client,
        scope=ClientScope(client.name),
        calls=Capacity(client.max_concurrent_calls, total=work.calls),
    )
    sessions = max(_MIN_CLIENT_SESSIONS, min(_MAX_CLIENT_SESSIONS, _MAX_SESSIONS // clients))
    # A manager for each client: the id of another client's session names nothing here.
    manager = StreamableHTTPSessionManager(
        server,
        session_idle_timeout=_IDLE_SECONDS,
        max_request_body_size=MAX_BODY_BYTES,
        max_sessions=sessions,
    )
    await managers.enter_async_context(manager.run())
    # A call may need further requests: to cancel it, or to answer its form.
    requests = Capacity(4 * client.max_concurrent_calls + 16, total=work.requests)
    return Route(manager.handle_request, requests, Capacity(sessions))


def _uvicorn_config(gate: Gate) -> Config:
    return Config(
        gate,
        http=connection_class(),
        loop="asyncio",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        # Nothing here uses the address of the client, which any client could state.
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_ANSWER_SECONDS,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )


async def _warm_up(session: ptc.Session, report: Callable[[str], None]) -> None:
    """Start the workers before the first call."""
    try:
        await session.warm_up()
    except ptc.SetupError as error:
        report(f"scripts cannot run on this machine: {error}")
    except ptc.SessionClosedError:
        return
