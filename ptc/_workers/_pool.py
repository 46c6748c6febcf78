"""Pool of workers that are forked in advance, used once and replaced in the background."""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import sys
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio

from .._core._reactor import Reactor, current_reactor
from .._wire._protocol import Kind, State
from ..errors import SessionClosedError, SetupError
from ._expected import ExpectedWorkers
from ._process import ProcessWorker
from ._restore import OFF, mode_of
from ._shared_zygote import ZygoteShare, share_zygote
from ._waiters import Waiters
from ._worker import Exit
from ._zygote import Hello

__all__ = ["PROCESS_ENGINE", "Pool"]

_log = logging.getLogger("ptc")

PROCESS_ENGINE = "process (CPython {}.{})".format(*sys.version_info)
_FAILED_FORKS = 3
"""Consecutive forks that may fail before waiting runs get an error."""
_STARTS = 3
"""Zygotes that may die while one run waits for its worker."""
_DIED = (
    f"the process that forks the workers died {_STARTS} times without forking one; check the log "
    "of the out-of-memory killer and the limits of the container"
)
_MAX_BARREN = 2
"""Consecutive zygotes that may die without a worker before the next start is delayed."""
_BACKOFF_SECONDS = 0.05
_MAX_BACKOFF_SECONDS = 1.0
_FORK_SECONDS = 20.0
_CLOSED = "the session was closed"
_LATE = (
    f"no worker was forked in {_FORK_SECONDS:.0f} s: the process that forks them does not "
    "respond; check whether it is stopped, or the machine is out of memory"
)
_CLOSE_SECONDS = 5.0
_REFILL_SECONDS = 0.002
_RETURN_SECONDS = 0.05
"""Time after which a worker in use that can be restored is replaced: most are back before."""
_RESTORE_SECONDS = 2.0
"""Time for a worker to be restored after its result; a hostile one may never get there."""


class Pool:
    """Workers of a session and its share of a zygote.

    `size` workers are kept ready, divided among the sessions that share the zygote.

    A run with the pool's own memory limit gets a ready worker. For another limit a worker is forked
    on demand, which takes about a millisecond more.
    """

    def __init__(
        self,
        *,
        isolation: str,
        size: int,
        memory_bytes: int,
        cpu_ms: int,
        packages: Sequence[str] = (),
        reuse_workers: bool = False,
    ) -> None:
        self._isolation = isolation
        self._restore = OFF if packages else mode_of(reuse_workers)
        self._packages = packages
        self._size = size
        self._memory_bytes = memory_bytes
        # Enforced by the kernel should the host hang: the maximum of any run.
        self._cpu_seconds = math.ceil(cpu_ms / 1000) + 1
        self._reactor: Reactor | None = None
        self._zygote: ZygoteShare | None = None
        self._hello: Hello | None = None
        self._starting = anyio.Lock()
        self._last = 0
        self._workers: dict[int, ProcessWorker] = {}
        self._ready: deque[ProcessWorker] = deque()
        self._unrehearsed: list[ProcessWorker] = []
        self._pending_forks = 0
        self._waiting = Waiters[ProcessWorker]()
        self._failed = 0
        self._faults: dict[int, str] = {}
        self._unready: set[int] = set()
        self._lent = ExpectedWorkers(_RETURN_SECONDS, lambda _: self._refill())
        self._returning = ExpectedWorkers(
            _RESTORE_SECONDS, lambda number: self._workers[number].hang_up()
        )
        """Workers that the restorer was asked for."""
        self._barren = 0
        self._logged = set[str]()
        self._closing = False
        self._closed = anyio.Event()
        self._empty: anyio.Event | None = None

    @property
    def reactor(self) -> Reactor:
        """Callbacks of the event loop."""
        assert self._reactor is not None  # noqa: S101  # set by `spawn`, before any use
        return self._reactor

    @property
    def ready(self) -> int:
        """Number of workers that wait for a run."""
        return len(self._ready)

    @property
    def is_warm(self) -> bool:
        """True if there is a zygote, and its jail was verified."""
        return self._hello is not None

    @property
    def name(self) -> str:
        """Name of the engine: processes of the Python that executes the host."""
        return PROCESS_ENGINE

    @property
    def target(self) -> int:
        """Number of workers to keep ready: its part of `size`, which the shares divide."""
        return self._size if self._zygote is None else self._zygote.part(self._size)

    @property
    def live(self) -> int:
        """Number of worker processes that have not been reaped."""
        return len(self._workers)

    def spawn(self) -> None:
        """Start the zygote without waiting for it."""
        self._reactor = current_reactor()
        zygote = share_zygote(self._isolation, self._reactor, self._packages, self._restore)
        zygote.on_forked = self._on_forked
        zygote.on_exited = self._on_exited
        zygote.on_gone = self._on_zygote_gone
        zygote.on_ready = self._on_announced
        self._zygote = zygote

    def start(self) -> None:
        """Start the zygote if there was none before; an error is left to `hello`."""
        if self._zygote is None and not self._closing and not self._barren:
            with contextlib.suppress(SetupError):
                self.spawn()

    async def hello(self) -> Hello:
        """Wait for the zygote; start it (again) if there is none.

        Raises:
            SetupError: If a required layer of the jail is missing or the process cannot start.
            SessionClosedError: If the pool was closed.
        """
        async with self._starting:
            for _ in range(_STARTS):
                if self._hello is not None:
                    break
                await self._back_off()
                self._check_open()
                if self._zygote is None:
                    self.spawn()
                zygote = self._zygote
                assert zygote is not None  # noqa: S101  # spawned above
                try:
                    hello = await zygote.hello()
                except SetupError:
                    self._check_open()
                    self._barren += 1
                    if self._zygote is zygote:
                        zygote.close()
                        self._zygote = None
                    if zygote.was_killed:
                        continue  # No script has started.
                    raise
                # It may have sent hello and died before this task ran.
                if self._zygote is zygote:
                    self._hello = hello
                    self._log_weaknesses(hello)
                    self._refill()
            if self._hello is None:
                raise SetupError(_DIED)
            return self._hello

    def _log_weaknesses(self, hello: Hello) -> None:
        for text in hello.weaknesses(self._isolation):
            if text not in self._logged:
                self._logged.add(text)
                _log.warning("%s", text)

    async def _back_off(self) -> None:
        """Delay the start of a zygote if the last ones died without a worker."""
        if self._barren > _MAX_BARREN:
            seconds = min(
                _BACKOFF_SECONDS * 2 ** (self._barren - _MAX_BARREN), _MAX_BACKOFF_SECONDS
            )
            with anyio.move_on_after(seconds):
                await self._closed.wait()

    def _check_open(self) -> None:
        if self._closing:
            raise SessionClosedError(_CLOSED)

    async def acquire(self, memory_bytes: int) -> ProcessWorker:
        """Return a worker for one run; requests are served in order.

        Raises:
            SetupError: If no worker can be forked.
            SessionClosedError: If the pool was closed.
        """
        for _ in range(_STARTS):
            if self._hello is None:
                await self.hello()
            self._check_open()
            if memory_bytes == self._memory_bytes and self._ready and not self._waiting:
                worker = self._ready.popleft()
                if not self._lend(worker):
                    # A fork takes a core for a millisecond: let this run start first.
                    self.reactor.call_later(_REFILL_SECONDS, self._refill)
                return worker
            request = partial(self._request, memory_bytes)
            found = await self._waiting.wait(memory_bytes, request, _FORK_SECONDS, _LATE)
            if found is not None:
                return found
            # The zygote died. A script that has not started is not affected.
        raise SetupError(_DIED)

    def _lend(self, worker: ProcessWorker) -> bool:
        """Expect a worker that a run gets back, if it can be restored."""
        if self._restores and worker.memory_bytes == self._memory_bytes:
            self._lent.add(worker.id, self.reactor)
            return True
        return False

    def _request(self, memory_bytes: int) -> None:
        """Have a worker forked for a run that waits."""
        if memory_bytes == self._memory_bytes:
            self._refill()
        else:
            self._fork(memory_bytes)

    async def close(self) -> None:
        """Kill every worker and the zygote, and wait until they have exited."""
        self._closing = True
        self._closed.set()
        try:
            if self._hello is None and self._zygote is not None:
                self._zygote.close()
            self._waiting.close(_CLOSED)
            for worker in list(self._workers.values()):
                worker.hang_up()
            if self._any_forked and self._zygote is not None and self._zygote.alive:
                self._empty = anyio.Event()
                with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                    await self._empty.wait()
        finally:
            # Also if the wait was cancelled: the workers die with their zygote.
            if self._zygote is not None:
                self._zygote.close()
                self._zygote = None
            self._discard_workers()

    # --- requests to the zygote and its reports ---------------------------------------------

    def _refill(self) -> None:
        """Request as many workers as are missing."""
        if self._closing or self._zygote is None or not self._zygote.alive:
            return
        expected = len(self._ready) + len(self._returning) + len(self._lent)
        missing = self.target + self._waiting.count(self._memory_bytes) - expected
        while self._pending_forks < min(missing, 2 * self._size):
            if not self._fork(self._memory_bytes):
                return
            self._pending_forks += 1

    def _fork(self, memory_bytes: int) -> bool:
        zygote = self._zygote
        assert zygote is not None  # noqa: S101  # callers have checked
        self._last += 1
        number = self._last
        try:
            sock = zygote.fork(number, memory_bytes, self._cpu_seconds)
        except (SetupError, OSError) as error:
            # If it died, no fork has failed: `_on_zygote_gone` has notified the waiting runs.
            if self._zygote is zygote:
                self._fork_failed(memory_bytes, str(error))
            return False
        worker = ProcessWorker(number, sock, self.reactor, memory_bytes)
        self._workers[number] = worker
        self._expect_ready(worker)
        if zygote.restores:
            worker.give_back = lambda: self._take_back(worker)
        return True

    def _expect_ready(self, worker: ProcessWorker) -> None:
        """Handle the first frame of a worker that is new, or as new."""
        worker.on_frame = lambda kind, _message, _size: self._on_own_ready(worker, kind)
        worker.on_fault = lambda error: self._on_first_fault(worker, error)
        self._unready.add(worker.id)

    def _take_back(self, worker: ProcessWorker) -> bool:
        """Have a worker restored after its run; return False if it has to be replaced.

        Its run keeps its callbacks until then: a violation after the result is one of that run.
        """
        self._lent.remove(worker.id)
        own = worker.memory_bytes == self._memory_bytes
        if self._closing or self._zygote is None or not own or not worker.killable:
            return False
        coming = len(self._ready) + len(self._returning)
        if coming >= 2 * self.target + self._waiting.count(self._memory_bytes):
            return False
        if not self._zygote.restore(worker.id):
            return False
        self._returning.add(worker.id, self.reactor)
        return True

    def _on_announced(self, number: int) -> None:
        """Handle the restorer's report that a worker is new, or as new."""
        worker = self._workers.get(number)
        if worker is None:
            return
        if self._returning.remove(number):
            if self._closing or not worker.has_ended:
                worker.hang_up()
                self.reactor.call_later(0, self._refill)
                return
            if worker.memory_bytes == self._memory_bytes:
                self._pending_forks += 1
            self._expect_ready(worker)
        elif number not in self._unready:
            return
        worker.announce()
        self._on_first_frame(worker, Kind.READY)

    def _on_own_ready(self, worker: ProcessWorker, kind: Kind) -> None:
        """Handle the first frame of a worker; one that the restorer traces sends none."""
        worker.give_back = None
        self._on_first_frame(worker, kind)

    def _on_first_frame(self, worker: ProcessWorker, kind: Kind) -> None:
        if kind is not Kind.READY:  # pragma: no cover  # the table allows nothing else here
            return
        # A worker that cannot be killed yet gets no script: `_on_forked` offers it.
        if worker.killable:
            self._offer(worker)

    def _offer(self, worker: ProcessWorker) -> None:
        self._unready.discard(worker.id)
        self._failed = self._barren = 0
        if worker.memory_bytes == self._memory_bytes:
            self._pending_forks -= 1
        if self._waiting.offer(worker):
            self._lend(worker)
            self._refill()
            return
        if worker.memory_bytes == self._memory_bytes:
            self._ready.append(worker)
            self._unrehearsed.append(worker)
            if not self._pending_forks:
                self._rehearse()
        else:
            worker.hang_up()

    def _rehearse(self) -> None:
        """Have new workers take their copy-on-write faults while no run waits for a worker.

        Only when the pool is full: while runs arrive faster than forks, rehearsing one worker
        delays another run.
        """
        for worker in self._unrehearsed:
            if worker.state is State.IDLE and not worker.eof and not self._restores:
                worker.send((Kind.REHEARSE, b"[]"))
        self._unrehearsed.clear()

    @property
    def _restores(self) -> bool:
        return self._zygote is not None and self._zygote.restores

    def _on_first_fault(self, worker: ProcessWorker, error: Exception) -> None:
        # Its exit follows, which counts as a failed fork.
        self._faults[worker.id] = f"a new worker violated the protocol: {error}"

    def _on_forked(self, number: int, pidfd: int | None) -> None:
        worker = self._workers.get(number)
        if pidfd is None:
            self._faults[number] = f"{os.strerror(errno.EMFILE)} in this process"
            if self._zygote is not None:
                self._zygote.kill(number)
            if worker is not None:
                worker.hang_up()
            return
        if worker is None:
            os.close(pidfd)
            return
        worker.set_pidfd(pidfd)
        if worker.eof or self._closing:
            worker.hang_up()
        elif worker.state is State.IDLE:
            self._offer(worker)

    def _on_exited(self, number: int, how: Exit) -> None:
        worker = self._workers.pop(number, None)
        fault = self._faults.pop(number, how.why)
        self._lent.remove(number)
        if worker is None:
            return
        if how.stopped_by_kernel and worker.state in {State.FORKED, State.IDLE}:
            _log.error("violation: a worker without a run was %s", how.words)
        if worker in self._ready:
            self._ready.remove(worker)
            worker.hang_up()
            self.reactor.call_later(0, self._refill)
        elif self._returning.remove(number):
            worker.hang_up()
            self.reactor.call_later(0, self._refill)
        elif number in self._unready:
            self._unready.discard(number)
            worker.hang_up()
            if worker.memory_bytes == self._memory_bytes:
                self._pending_forks -= 1
            reason = fault or f"a worker exited before it was ready ({how.words})"
            self._fork_failed(worker.memory_bytes, reason)
        elif self._restores:
            self.reactor.call_later(0, self._refill)  # it will not come back
        worker.record_exit(how)
        if self._empty is not None and not self._any_forked:
            self._empty.set()

    @property
    def _any_forked(self) -> bool:
        """True if a worker may be alive. One that was only requested dies with its zygote."""
        return any(worker.killable for worker in self._workers.values())

    def _fork_failed(self, memory_bytes: int, reason: str) -> None:
        self._failed += 1
        if self._closing:
            return
        if self._failed < _FAILED_FORKS:
            if memory_bytes == self._memory_bytes:
                self.reactor.call_later(0.01, self._refill)
                return
            self.reactor.call_later(0.01, lambda: self._retry(memory_bytes))
            return
        self._failed = 0
        self._waiting.fail(
            memory_bytes,
            f"no worker can be forked: {reason}; close open files, use fewer workers, or raise "
            "the limit (ulimit -n, ulimit -u, pids.max)",
        )

    def _retry(self, memory_bytes: int) -> None:
        if not self._closing and self._zygote is not None and self._zygote.alive:
            self._fork(memory_bytes)

    def _on_zygote_gone(self) -> None:
        """Handle the death of the zygote and its workers. The next `acquire` starts another."""
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None
        if self._hello is not None:
            self._barren += 1
        self._hello = None
        self._failed = 0
        self._discard_workers("the process that forked it died")
        self._waiting.wake()

    def _discard_workers(self, why: str = "") -> None:
        for kept in (self._ready, self._unrehearsed, self._faults, self._unready):
            kept.clear()
        self._returning.clear()
        self._lent.clear()
        self._pending_forks = 0
        workers, self._workers = self._workers, {}
        for worker in workers.values():
            worker.hang_up()
        for worker in workers.values():
            worker.wait()
            worker.record_exit(Exit(signal=9, status=0, why=why))
        if self._empty is not None:
            self._empty.set()

    @property
    def reuse_problem(self) -> str:
        """Reason why workers are not reused although that was requested; empty if they are."""
        return "there are no workers" if self._hello is None else self._hello.no_restorer

    def describe(self) -> dict[str, Any]:
        """Return how many workers are ready, coming and alive, for diagnostics."""
        coming = self._pending_forks + len(self._returning)
        return {"ready": self.ready, "coming": coming, "live": self.live}
