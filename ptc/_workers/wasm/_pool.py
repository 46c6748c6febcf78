"""Guests that are started in advance, used once and replaced in the background."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import anyio
import anyio.to_thread

from ..._core._reactor import Reactor, caller_of_loop, current_reactor
from ..._facts import Layer
from ..._wire._protocol import Kind
from ...errors import SessionClosedError, SetupError
from .._waiters import Waiters
from .._worker import Exit
from .._zygote import Hello
from ._guest import Guest
from ._module import engine_name
from ._pipe import Pipe
from ._snapshot import Snapshot, load_snapshot
from ._worker import WasmWorker

__all__ = ["WasmPool"]

_CLOSED: Final = "the session was closed"
_CLOSE_SECONDS: Final = 5.0
_START_SECONDS: Final = 20.0
_LATE: Final = f"no guest was ready in {_START_SECONDS:.0f} s; the machine is overloaded"
_REFILL_SECONDS: Final = 0.002
_FAILED_STARTS: Final = 3


class WasmPool:
    """Guests of a session; an `Engine`.

    A run with the pool's own memory limit gets a ready guest. For another limit one is started on
    demand, which takes about 15 ms more.
    """

    def __init__(
        self,
        *,
        size: int,
        memory_bytes: int,
        packages: Sequence[str] = (),
        on_compile: Callable[[], None] | None = None,
    ) -> None:
        self._size = size
        self._memory_bytes = memory_bytes
        self._packages = packages
        self._on_compile = on_compile
        self._reactor: Reactor | None = None
        self._call_in_loop: Callable[[Callable[[], object]], None] | None = None
        self._snapshot: Snapshot | None = None
        self._preparing = anyio.Lock()
        self._last = 0
        self._workers: dict[int, WasmWorker] = {}
        self._ready: deque[WasmWorker] = deque()
        self._coming: dict[int, WasmWorker] = {}
        self._waiting = Waiters[WasmWorker]()
        self._failed = 0
        self._has_started = False
        self._closing = False
        self._empty: anyio.Event | None = None

    @property
    def reactor(self) -> Reactor:
        """Callbacks of the event loop."""
        assert self._reactor is not None  # noqa: S101  # set by `hello`, before any use
        return self._reactor

    @property
    def is_warm(self) -> bool:
        """True if the snapshot is loaded."""
        return self._snapshot is not None

    @property
    def name(self) -> str:
        """Name and version of the interpreter."""
        return engine_name()

    def start(self) -> None:
        """Do nothing: the snapshot is loaded when it is needed."""

    async def hello(self) -> Hello:
        """Load the snapshot, or make it; start the guests.

        Raises:
            SetupError: If the interpreter is missing, or a package cannot be imported.
            SessionClosedError: If the pool was closed.
        """
        async with self._preparing:
            self._check_open()
            if self._snapshot is None:
                self._reactor, self._call_in_loop = current_reactor(), caller_of_loop()
                load = partial(load_snapshot, self._packages, self._on_compile)
                snapshot = await anyio.to_thread.run_sync(load)
                self._check_open()
                self._snapshot = snapshot
                self._refill()
        return Hello(_LAYERS, self._snapshot.policy)

    async def acquire(self, memory_bytes: int) -> WasmWorker:
        """Return a guest for one run; requests are served in order.

        Raises:
            SetupError: If no guest can be started.
            SessionClosedError: If the pool was closed.
        """
        if self._snapshot is None:
            await self.hello()
        self._check_open()
        if memory_bytes == self._memory_bytes and self._ready and not self._waiting:
            worker = self._ready.popleft()
            # Copying a snapshot takes a core for some milliseconds: let this run start first.
            self.reactor.call_later(_REFILL_SECONDS, self._refill)
            return worker
        request = partial(self._request, memory_bytes)
        found = await self._waiting.wait(memory_bytes, request, _START_SECONDS, _LATE)
        if found is None:  # pragma: no cover  # nothing wakes them without a worker
            raise SetupError(_LATE)
        return found

    def _request(self, memory_bytes: int) -> None:
        """Have a guest started for a run that waits."""
        if memory_bytes == self._memory_bytes:
            self._refill()
        else:
            self._start(memory_bytes)

    def _check_open(self) -> None:
        if self._closing:
            raise SessionClosedError(_CLOSED)

    async def close(self) -> None:
        """Stop every guest, and wait until their threads have released their memory."""
        self._closing = True
        self._waiting.close(_CLOSED)
        for worker in list(self._workers.values()):
            worker.hang_up()
        if self._workers:
            self._empty = anyio.Event()
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await self._empty.wait()

    def describe(self) -> dict[str, Any]:
        """Return how many guests are ready, coming and alive, for diagnostics."""
        return {
            "ready": len(self._ready), "coming": len(self._coming), "live": len(self._workers)
        }  # fmt: skip

    # --- guests ---------------------------------------------------------------------------------

    def _refill(self) -> None:
        """Start as many guests as are missing."""
        if self._closing:
            return
        own = sum(w.memory_bytes == self._memory_bytes for w in self._coming.values())
        wanted = self._size + self._waiting.count(self._memory_bytes)
        if not self._has_started:
            # The first run gets a guest 40 ms earlier if no others start beside it.
            wanted = min(wanted, 1)
        for _ in range(min(wanted - len(self._ready) - own, 2 * self._size - own)):
            self._start(self._memory_bytes)

    def _start(self, memory_bytes: int) -> None:
        assert self._snapshot is not None  # noqa: S101  # callers have checked
        call_in_loop = self._call_in_loop
        assert call_in_loop is not None  # noqa: S101  # as above
        self._last += 1
        number = self._last
        pipe = Pipe(call_in_loop)
        worker = WasmWorker(number, pipe, self.reactor, memory_bytes)
        worker.on_frame = lambda kind, _message, _size: self._on_first_frame(worker, kind)
        worker.guest = Guest(
            self._snapshot,
            pipe,
            memory_bytes,
            lambda how: call_in_loop(partial(self._on_exit, worker, how)),
            lambda line: call_in_loop(partial(worker.report_place, line)),
        )
        self._workers[number] = self._coming[number] = worker
        worker.guest.start()

    def _on_first_frame(self, worker: WasmWorker, kind: Kind) -> None:
        if kind is not Kind.READY:  # pragma: no cover  # the table allows nothing else here
            return
        self._coming.pop(worker.id, None)
        self._failed = 0
        offered = self._waiting.offer(worker)
        if offered or not self._has_started:
            self._has_started = True
            # The runs that still wait need theirs now; the pool can wait until this run has begun.
            self.reactor.call_later(0 if self._waiting else _REFILL_SECONDS, self._refill)
        if offered:
            return
        if worker.memory_bytes == self._memory_bytes and not self._closing:
            self._ready.append(worker)
        else:
            worker.hang_up()

    def _on_exit(self, worker: WasmWorker, how: Exit) -> None:
        self._workers.pop(worker.id, None)
        if worker in self._ready:
            self._ready.remove(worker)
            worker.hang_up()
            self.reactor.call_later(0, self._refill)
        elif self._coming.pop(worker.id, None) is not None:
            worker.hang_up()
            self._start_failed(worker.memory_bytes, how)
        worker.record_exit(how)
        if not self._workers and self._empty is not None:
            self._empty.set()

    def _start_failed(self, memory_bytes: int, how: Exit) -> None:
        self._failed += 1
        if self._closing:
            return
        if self._failed < _FAILED_STARTS:
            self.reactor.call_later(0.01, partial(self._retry, memory_bytes))
            return
        self._failed = 0
        self._waiting.fail(
            memory_bytes,
            f"no guest can be started ({how.words}); use fewer workers, or free memory: each "
            "reserves 4 GiB of addresses",
        )

    def _retry(self, memory_bytes: int) -> None:
        if not self._closing:
            self._start(memory_bytes)


_LAYERS: Final = (
    Layer(
        "wasm",
        on=True,
        required=True,
        how="the module imports no function but those that the host defines",
        detail="no file, network, process, clock or entropy; bounded memory, killable",
    ),
)
