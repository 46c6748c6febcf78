"""The thread of a journal: hands queued writes to the store in batches.

It also calls functions that use the store on behalf of the event loop: another process may hold a
lock of a file for seconds, and only this thread waits for it.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, Protocol, TypeVar

from .._core._reactor import Signal
from ..errors import JournalError
from ._lease import Lease
from ._leases import Leases
from ._writes import ENDS, Kind, Write, size_of, stored_size

__all__ = ["BatchStore", "UnstorableError", "Writer"]

_T = TypeVar("_T")
_log = logging.getLogger("ptc")
_LINGER_SECONDS: Final = 0.05
"""Time that the writer lets writes accumulate while nobody waits for them."""
_MAX_QUEUED: Final = 20_000
"""Queued writes from which on the writer is woken at once."""
_HURRY_BYTES: Final = 8 << 20
"""The same in bytes, since arguments and results may be large."""
_BEHIND_BYTES: Final = 32 << 20
"""Queued bytes from which on callers that can wait should wait."""


class _Request(Generic[_T]):
    """A function that the thread calls, and its outcome."""

    __slots__ = ("_abandoned", "_error", "_function", "_lock", "_results", "_signal", "_undo")

    def __init__(self, function: Callable[[], _T], undo: Callable[[_T], object] | None) -> None:
        self._function = function
        self._undo = undo
        self._signal = Signal()
        self._results: list[_T] = []
        self._error: Exception | None = None
        self._abandoned = False
        self._lock = threading.Lock()

    def run(self, failure: JournalError | None) -> None:
        """Call the function, unless the writes before it failed or nobody waits for it."""
        try:
            if failure is not None:
                raise failure
            if self._abandoned:
                return
            result = self._function()
            with self._lock:
                self._results.append(result)
                abandoned = self._abandoned
            if abandoned:
                self._undo_result()
        except Exception as error:  # noqa: BLE001  # raised to the waiting task
            self._error = error
        self._signal.set()

    async def result(self) -> _T:
        """Wait for the result of the function, or raise its error."""
        try:
            await self._signal.wait()
        except BaseException:
            # On asyncio, the cancellation may come when the result is there already.
            with self._lock:
                self._abandoned = True
                has_result = bool(self._results)
            if has_result:
                self._undo_result()
            raise
        if self._error is not None:
            raise self._error
        return self._results[0]

    def _undo_result(self) -> None:
        if self._undo is not None:
            self._undo(self._results[0])


class UnstorableError(JournalError):
    """Raised if a store cannot hold a value, such as a text with a lone surrogate."""


class BatchStore(Protocol):
    """Interface of a store, for the thread."""

    label: str
    """Name of the store in errors."""
    heartbeat_seconds: float
    """Time after which `commit` is called while leases are held, to renew them."""

    def commit(
        self, batch: Sequence[Write], leases: Leases, waiting: Sequence[Lease], *, durable: bool
    ) -> None:
        """Store a batch, as a whole or not at all, and renew the leases.

        Writes whose lease is lost or not whole are dropped. The loss of their leases, and of those
        that are waiting, is noted in `leases`.

        Args:
            batch: The writes, in order; may be empty.
            leases: The leases of the writes.
            waiting: Leases whose holders wait at a barrier.
            durable: True: this and all earlier batches must survive a failure of the machine.

        Raises:
            UnstorableError: If the batch is not stored because of one of its values.
            JournalError: If the batch is not stored for another reason.
        """


class Writer:
    """Queue of writes and the thread that commits them."""

    def __init__(self, store: BatchStore, leases: Leases) -> None:
        """Start the thread."""
        self._store = store
        self._leases = leases
        self._queue: deque[Write] = deque()
        self._queued_bytes = self._written_bytes = 0
        self._sizes: dict[Lease, int] = {}
        self._barriers: deque[tuple[Lease, Signal]] = deque()
        self._requests: deque[_Request[Any]] = deque()
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._failure: JournalError | None = None
        self._closing = self._ended = False
        self._thread = threading.Thread(target=self._work, name="ptc-journal", daemon=True)
        self._thread.start()

    # --- from the event loop ----------------------------------------------------------------

    def put(self, lease: Lease, kind: Kind, values: tuple[Any, ...]) -> None:
        """Queue a write. Never waits."""
        size_bytes = size_of(values)
        self._queue.append(Write(lease, kind, values, size_bytes))
        self._queued_bytes += size_bytes
        if kind not in ENDS:
            self._sizes[lease] = self._sizes.get(lease, 0) + stored_size(kind, values, size_bytes)
        if self._ended:
            self._drop_queue()
        if not self._wake.is_set():
            self._wake.set()
        waiting_bytes = self._queued_bytes - self._written_bytes
        if len(self._queue) > _MAX_QUEUED or waiting_bytes > _HURRY_BYTES:
            self._hurry.set()

    def take_size(self, lease: Lease) -> int:
        """Return the size of the rows that were queued with a lease since the last call."""
        return self._sizes.pop(lease, 0)

    def put_from_any_thread(self, lease: Lease, kind: Kind, values: tuple[Any, ...]) -> None:
        """Queue a write that is not counted in `behind`."""
        self._queue.append(Write(lease, kind, values, 0))
        if self._ended:
            self._drop_queue()
        self._wake_now()

    @property
    def behind(self) -> bool:
        """True if over 32 MiB are queued."""
        return self._queued_bytes - self._written_bytes > _BEHIND_BYTES

    async def barrier(self, lease: Lease) -> None:
        """As `Journal.barrier`."""
        signal = Signal()
        self._barriers.append((lease, signal))
        if self._ended:
            raise self._closed_error()
        self._wake_now()
        await signal.wait()
        self._leases.check(lease)

    async def call(
        self, function: Callable[[], _T], *, undo: Callable[[_T], object] | None = None
    ) -> _T:
        """Let the thread call `function` after the writes that are queued, and return its result.

        Args:
            function: The function. It uses the connection, and holds the lock of the database.
            undo: Called with the result if this task is cancelled and the function was executed
                all the same, in this or in the writer's thread.

        Raises:
            JournalError: If the last batch could not be written, or the journal is closed.
        """
        request = _Request(function, undo)
        self._requests.append(request)
        if self._ended:
            self._fail_waiting()
        self._wake_now()
        return await request.result()

    def _wake_now(self) -> None:
        self._hurry.set()
        self._wake.set()

    def close(self) -> None:
        """Write the queue and stop the thread. Does nothing the second time."""
        self._closing = True
        self._wake_now()
        self._thread.join()

    def check_open(self) -> None:
        """Raise `JournalError` if the journal is closed."""
        if self._closing:
            raise self._closed_error()

    def _closed_error(self) -> JournalError:
        return JournalError(f"{self._store.label} is closed")

    def _fail_waiting(self) -> None:
        """Report to all that wait that the journal is closed. Any thread may call it."""
        self._drop_queue()
        with suppress(IndexError):
            while True:
                self._requests.popleft().run(self._closed_error())
        with suppress(IndexError):
            while True:
                lease, signal = self._barriers.popleft()
                self._leases.fail(lease, self._closed_error())
                signal.set()

    def _drop_queue(self) -> None:
        """Record that queued writes will never be written."""
        with suppress(IndexError):
            while True:
                lease = self._queue.popleft().lease
                self._leases.fail(lease, self._closed_error())

    # --- in the thread ----------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._loop()
        finally:
            # Even after an unexpected error, nobody waits for ever.
            self._closing = self._ended = True
            self._fail_waiting()

    def _loop(self) -> None:
        while True:
            self._wake.wait(self._store.heartbeat_seconds if self._leases.held else None)
            if not self._closing:
                self._hurry.wait(_LINGER_SECONDS)
            self._wake.clear()
            self._hurry.clear()
            self._write_queue()
            if self._closing and not self._queue:
                return

    def _write_queue(self) -> None:
        """Commit what is queued. A function of its own: nothing holds a batch afterwards."""
        # Before the batch: the writes that they wait for were queued before them.
        barriers = [self._barriers.popleft() for _ in range(len(self._barriers))]
        requests = [self._requests.popleft() for _ in range(len(self._requests))]
        batch = [self._queue.popleft() for _ in range(len(self._queue))]
        try:
            self._commit(batch, [lease for lease, _ in barriers])
            self._failure = None
        except JournalError as error:
            self._failure = error
            _log.error("runs are not recorded: %s", error)
            # Rows before a barrier may have been stored, but are not known to be durable.
            for lease in (*(write.lease for write in batch), *(lease for lease, _ in barriers)):
                self._leases.fail(lease, error)
        self._written_bytes += sum([write.size_bytes for write in batch])
        for _, signal in barriers:
            signal.set()
        for request in requests:
            request.run(self._failure)

    def _commit(self, batch: Sequence[Write], waiting: Sequence[Lease]) -> None:
        durable = bool(waiting) or self._closing
        try:
            self._store.commit(batch, self._leases, waiting, durable=durable)
        except UnstorableError:
            # A value of one run must not cost the records of the others.
            for lease in dict.fromkeys(write.lease for write in batch):
                own = [write for write in batch if write.lease == lease]
                try:
                    self._store.commit(own, self._leases, waiting, durable=durable)
                except UnstorableError as error:
                    _log.error("run %s is no longer recorded: %s", lease.run_id, error)
                    self._leases.fail(lease, error)
