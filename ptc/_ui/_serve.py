"""The server of the page: a socket, the application, and the links in the terminal."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import anyio
import uvicorn

from ..errors import SetupError, UsageError
from ._access import Access
from ._app import create_app

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from .._runs._history import History
    from .._session._session import Session
    from ..artifacts._session_artifacts import SessionArtifacts

__all__ = ["serve"]

_BACKLOG: Final = 128
_MOST_CONNECTIONS: Final = 256
_CLOSE_SECONDS: Final = 2


async def serve(
    history: History,
    artifacts: SessionArtifacts,
    *,
    session: Session | None,
    identities: Sequence[str],
    port: int,
    hosts: tuple[str, ...],
    store: str,
    on_link: Callable[[str, str], object],
    path: str = "/",
    stop: anyio.Event | None = None,
) -> None:
    """Serve the page on the loopback interface until a signal arrives, or until `stop`.

    Args:
        history: The recorded runs.
        artifacts: Their stored values.
        session: Runs and continues scripts. None: the page is read-only.
        identities: Names of the people who may sign in.
        port: Port; 0 chooses one.
        hosts: Further names of the server.
        store: Name of the journal, for people.
        on_link: Receives an identity and its link, and again each time that a link was used.
        path: Page that the links open.
        stop: Ends the server. None: a signal of the system does.

    Raises:
        SetupError: If the port is in use.
        UsageError: If a name of a host is not one.
    """
    _require_names(hosts)
    listener = _listen(port)
    number = listener.getsockname()[1]

    def announce(identity: str) -> None:
        on_link(identity, f"http://127.0.0.1:{number}{path}#token={access.issue(identity)}")

    access = Access(identities, announce)
    app = create_app(
        history,
        artifacts,
        access,
        session=session,
        # Browsers send a cookie to all ports of a host: two servers need two names.
        cookie=f"ptc_ui_{number}",
        hosts=hosts,
        store=store,
    )
    for identity in access.identities:
        announce(identity)
    try:
        if stop is None:
            await uvicorn.Server(_config(app)).serve(sockets=[listener])
            return
        server = _GuestServer(_config(app))
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listener])
            await stop.wait()
            server.should_exit = True
    finally:
        listener.close()


class _GuestServer(uvicorn.Server):
    """A server in a program that handles signals itself."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the handlers of signals as they are."""
        yield


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="on",
        log_level="error",
        access_log=False,
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=_CLOSE_SECONDS,
        h11_max_incomplete_event_size=32_768,
        ws="none",
    )


def _require_names(hosts: Sequence[str]) -> None:
    for host in hosts:
        if not host or any(char in host for char in "/@ :*"):
            msg = f"--allow-host {host!r:.80}: write a name without a scheme, a port or a wildcard"
            raise UsageError(msg)


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        msg = f"port {port} of 127.0.0.1 cannot be used: {error.strerror}; choose another --port"
        raise SetupError(msg) from None
    return listener
