"""Notifications of changed runs, sent and received with NOTIFY and LISTEN.

A notification is a hint to read the tables, never data: everybody who may connect to the database
can send one. A watcher also reads without a hint from time to time, so a lost one costs a second.

Rule 1: a process sends one notification in 50 ms at most, beside its commits and not in them: each
    commit with a NOTIFY takes a lock of the whole server.
    tests/core/journal/test_watch.py::test_many_commits_are_one_notification
Rule 2: a forged notification makes a watcher read at most, and not more often than a real one.
    tests/core/journal/test_watch.py::test_forged_notifications_are_harmless
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from concurrent.futures import CancelledError
from typing import Any, Final

import asyncpg

from ...errors import JournalError
from ._server import Server

__all__ = ["Notifications", "RunWatch"]

_PAUSE_SECONDS: Final = 0.05
"""Least time between two notifications of a process, and between two wakes of a watcher."""
_MOST_RUNS: Final = 300
"""Runs of one notification, whose payload has at most 8,000 bytes."""
_ALL: Final = "*"
_PAYLOAD: Final = re.compile(r"\d{1,18}(,\d{1,18}){0,299}", re.ASCII)


class Notifications:
    """Notifications of one journal object. All methods but `note` belong to the server's thread."""

    def __init__(self, server: Server, schema: str) -> None:
        """Send and receive nothing yet."""
        self._server = server
        self._channel = f"ptc_{schema}"[:63]
        self._changed: set[int] = set()
        self._sender: asyncio.Task[None] | None = None
        self._listens = False
        self._watches: dict[int, set[RunWatch]] = {}

    # --- sending ----------------------------------------------------------------------------

    def note(self, runs: Iterable[int]) -> None:
        """Notify the watchers of runs that were written, soon. Called in any thread."""
        self._server.call_soon(self._add, set(runs))

    def _add(self, runs: set[int]) -> None:
        self._changed |= runs
        if self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._send_soon())

    async def _send_soon(self) -> None:
        try:
            while self._changed:
                await self.flush()
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self._sender = None

    async def flush(self) -> None:
        """Send what is waiting. A failure is ignored: watchers also read without notifications."""
        runs, self._changed = self._changed, set()
        if not runs:
            return
        payload = _ALL if len(runs) > _MOST_RUNS else ",".join(map(str, runs))

        async def notify(connection: Any) -> None:
            # Without a wait for the disk: nothing is written.
            await connection.execute("SELECT pg_notify($1, $2)", self._channel, payload)

        try:
            async with self._server.connection() as connection:
                await notify(connection)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, JournalError):
            return

    # --- receiving --------------------------------------------------------------------------

    def watch(self, run: int) -> RunWatch:
        """Return a watch of a run. Called in any thread."""
        return RunWatch(self, self._server, run)

    def add_watch(self, watch: RunWatch) -> None:
        """Wake `watch` when its run changes, and listen from now on."""
        self._watches.setdefault(watch.run, set()).add(watch)
        if not self._listens:
            self._listens = True
            self._server.listen(self._channel, self._receive)

    def remove_watch(self, watch: RunWatch) -> None:
        """Wake `watch` no more."""
        watches = self._watches.get(watch.run, set())
        watches.discard(watch)
        if not watches:
            self._watches.pop(watch.run, None)

    def _receive(self, payload: str | None) -> None:
        if payload in (None, _ALL):
            runs = list(self._watches)
        elif payload is not None and _PAYLOAD.fullmatch(payload):
            runs = [int(part) for part in payload.split(",")]
        else:
            return
        for run in runs:
            for watch in self._watches.get(run, ()):
                watch.wake.set()


class RunWatch:
    """Waits for changes of one run."""

    def __init__(self, notifications: Notifications, server: Server, run: int) -> None:
        """Start to watch."""
        self.run = run
        """Number of the run."""
        self.wake: asyncio.Event = asyncio.Event()
        """Set when the run may have changed."""
        self._notifications = notifications
        self._server = server
        server.call_soon(notifications.add_watch, self)

    async def wait(self, seconds: float) -> None:
        """Return when the run may have changed since the last return, or after `seconds`.

        Raises:
            JournalError: If the journal is closed meanwhile.
        """
        try:
            await self._server.call(self._wait(seconds))
        except CancelledError:  # not that of asyncio: the thread has ended, and not this task
            raise JournalError(f"{self._server.label} is closed") from None

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self.wake.wait(), seconds)
            # Changes that come together cause one read.
            await asyncio.sleep(_PAUSE_SECONDS)
        except TimeoutError:
            return
        finally:
            self.wake.clear()

    def close(self) -> None:
        """End the watch."""
        self._server.call_soon(self._notifications.remove_watch, self)
