"""Connections to a PostgreSQL server, in an event loop of their own.

asyncpg needs asyncio, and a session may run on trio or in several event loops. So one thread has
an asyncio loop with the connections, and everything else asks it.

Rule 1: a request whose connection was lost is executed before it is repeated, or never.
    tests/core/journal/test_postgres_faults.py::test_held_write_of_a_call_does_not_replace_its_outcome
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any, Final, TypeVar

import asyncpg

from ..._core._reactor import Signal
from ...errors import JournalError, UnknownRunError, UsageError
from .._writer import UnstorableError

__all__ = ["Server"]

_T = TypeVar("_T")
_CONNECTIONS: Final = 4
_RECONNECT_SECONDS: Final = 30.0
"""Time that a request waits for a server that is restarting."""
_RETRIED: Final = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # A connection that was lost in the middle of a transaction.
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.DeadlockDetectedError,
)
"""Errors after which the same request may succeed."""
_END_SECONDS: Final = 2.0
"""Time in which a process of the server ends; if it does not, the request is tried again."""
_PROCESS: Final = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid=pg_backend_pid()"
_END: Final = (
    "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a"
    " JOIN unnest($1::int[], $2::timestamptz[]) AS l(pid, started)"
    " ON a.pid=l.pid AND a.backend_start=l.started"
)


class _Connection(asyncpg.Connection):  # type: ignore[misc,type-arg,unused-ignore]  # untyped
    """A connection, with the process of the server that executes its requests."""

    process: tuple[int, datetime] | None = None
    """Number and start, since a number is used again. None: a pooler is between, which has other
    numbers and lends its processes to many."""

    def get_reset_query(self) -> str:
        """Return nothing: no request changes its session, and a reset takes another round trip."""
        return ""

    @property
    def unpooled(self) -> _Connection:
        """The connection itself: the pool's proxy of a closed one raises."""
        return self


async def _note_process(connection: Any) -> None:
    row = await connection.fetchrow(_PROCESS)
    if row is not None and row[0] == connection.get_server_pid():
        connection.process = tuple(row)


class Server:
    """A pool of connections, and the thread that uses them."""

    def __init__(self, url: str, schema: str, label: str) -> None:
        """Connect.

        Raises:
            JournalError: If the server cannot be reached, or refuses the user.
            UsageError: If `url` is malformed.
        """
        self.label = label
        self._url = url
        self._settings = {
            "application_name": "ptc",
            "search_path": f'"{schema}"',
            "lock_timeout": "10s",
            # Below the time above: the transaction of a host that is stopped ends first.
            "idle_in_transaction_session_timeout": "5s",
        }
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ptc-pg", daemon=True)
        self._thread.start()
        self._pool: Any = None
        self._lost: set[tuple[int, datetime]] = set()
        self._ending = asyncio.Lock()
        self._listeners: set[asyncio.Task[None]] = set()
        try:
            self.wait(self._connect())
        except BaseException:
            self._stop()
            raise

    async def _connect(self) -> None:
        try:
            self._pool = await asyncpg.create_pool(
                self._url,
                min_size=1,
                max_size=_CONNECTIONS,
                connection_class=_Connection,
                init=_note_process,
                command_timeout=_RECONNECT_SECONDS,
                # Parameters of the connection, which its reset between two uses does not change.
                server_settings=self._settings,
            )
        except (ValueError, asyncpg.exceptions.ClientConfigurationError):
            # The message of the library can quote a part of the password.
            msg = (
                "the address of the PostgreSQL server is malformed; write "
                "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, and encode a character such as / "
                "in the password as %2F. The password can also be in PGPASSWORD or ~/.pgpass"
            )
            raise UsageError(msg) from None
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            msg = f"{self.label} cannot be opened: {error}"
            raise JournalError(msg) from error

    # --- from other threads -------------------------------------------------------------------

    def wait(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run `work` in the thread of the connections, and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def call(
        self, work: Coroutine[Any, Any, _T], undo: Callable[[_T], object] | None = None
    ) -> _T:
        """As `wait`, for an event loop.

        Args:
            work: The coroutine.
            undo: Called with the result if this task is cancelled; `work` is executed to its end.
        """
        signal = Signal()
        future: Future[_T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        future.add_done_callback(lambda _: signal.set())
        try:
            await signal.wait()
        except BaseException:
            if undo is not None:
                future.add_done_callback(lambda done: undo(done.result()))
            raise
        return future.result()

    def call_soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Call `function` in the thread of the connections, soon; never if it has ended."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function, *arguments)

    def spawn(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Start `work` in the thread of the connections; it is cancelled when they are closed."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Close the connections and stop the thread."""
        self.wait(self._close())
        self._stop()

    async def _close(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        try:
            await asyncio.wait_for(self._pool.close(), 5)
        except TimeoutError:
            self._pool.terminate()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # --- in the thread of the connections -------------------------------------------------------

    async def run(self, use: Callable[[Any], Awaitable[_T]], action: str) -> _T:
        """Call `use` with a connection, and again with another one if the connection is lost.

        Args:
            use: Must be idempotent: it may have been executed when the connection was lost.
            action: ``read`` or ``written``, for errors.

        Raises:
            JournalError: If the server reports an error, or cannot be reached for half a minute.
        """
        until = time.monotonic() + _RECONNECT_SECONDS
        pause = 0.05
        while True:
            try:
                async with self.connection() as connection:
                    await self._end_lost(connection)
                    return await self._use(connection, use)
            except _RETRIED as error:
                if time.monotonic() + pause > until:
                    raise self._error(action, error) from error
            except (asyncpg.DataError, UnicodeEncodeError, OverflowError) as error:
                raise UnstorableError(str(self._error(action, error))) from error
            except (asyncpg.PostgresError, TimeoutError) as error:
                raise self._error(action, error) from error
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)

    async def _use(self, connection: Any, use: Callable[[Any], Awaitable[_T]]) -> _T:
        used = connection.unpooled
        try:
            return await use(connection)
        except BaseException as error:
            if isinstance(error, TimeoutError):
                # Its request may be executed at any time.
                used.terminate()
            if used.process is not None and used.is_closed():
                self._lost.add(used.process)
            raise

    async def _end_lost(self, connection: Any) -> None:
        """End the processes whose connections were lost, and wait until they have ended.

        The network or a process may hold a request back. Executed after its repetition and later
        requests, it would replace what these have written.
        """
        if not self._lost:
            return
        async with self._ending:
            lost = list(self._lost)
            processes = [list(column) for column in zip(*lost, strict=True)] or [[], []]
            until = time.monotonic() + _END_SECONDS
            while await connection.fetch(_END, *processes):
                if time.monotonic() > until:
                    msg = "a process of the server does not end, and may execute a lost request"
                    raise ConnectionError(msg)
                await asyncio.sleep(0.005)
            self._lost.difference_update(lost)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Borrow a connection from the pool."""
        async with self._pool.acquire(timeout=_RECONNECT_SECONDS) as connection:
            yield connection

    def listen(self, channel: str, callback: Callable[[str | None], object]) -> None:
        """Call `callback` with the payload of each notification on `channel`.

        It receives None when some may have been missed. Uses a connection of its own until the
        server is closed.
        """
        task = self._loop.create_task(self._listen(channel, callback))
        self._listeners.add(task)

    async def _listen(self, channel: str, callback: Callable[[str | None], object]) -> None:
        while True:
            try:
                connection = await asyncpg.connect(self._url, server_settings=self._settings)
                lost = asyncio.Event()
                connection.add_termination_listener(lambda *_, lost=lost: lost.set())
                try:
                    await connection.add_listener(
                        channel, lambda *message: callback(str(message[3]))
                    )
                    callback(None)
                    await lost.wait()
                finally:
                    connection.terminate()
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                pass
            callback(None)
            await asyncio.sleep(1)

    def unknown_run(self, run_id: str) -> UnknownRunError:
        """Build the error for a run that is not in the store."""
        return UnknownRunError(f"there is no run {run_id!r} in {self.label}; `ptc runs` lists them")

    def _error(self, action: str, error: BaseException) -> JournalError:
        return JournalError(
            f"{self.label} cannot be {action}: {str(error) or type(error).__name__}"
        )
