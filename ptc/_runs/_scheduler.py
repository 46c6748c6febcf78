"""Scheduler of a script's calls: a few server tasks execute one call after the other.

It knows neither frames nor the use of a result. No further results are produced for a script that
does not read them: tests/core/runs/test_stream.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from .._calls._call import OpenCall
from .._calls._dispatch import Dispatch
from .._calls._recorder import SuspendedError
from .._tools._tool_result import ToolResult
from .._wire._polling import PollScore
from .._workers._worker import BUSY_POLLS, Worker
from ._turns import Turns

__all__ = ["CallScheduler"]

_BACKLOG_BYTES: Final = 4 << 20
"""Results that the script has not read yet before no further call is started for it."""
_HEAVY_BYTES: Final = 262_144
"""Memory of arguments from which a call finishes in a turn of its own: many calls may finish at
once, and the digest of 1 MB and its JSON take some milliseconds."""


class CallScheduler:
    """Executes the calls of one run, from `run` until `stop`.

    A task for each call would cost more than most calls do, and so would a cancel scope for each: a
    call that is cancelled ends its server, and another server takes its place.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        most: int,
        on_finish: Callable[[int, OpenCall, ToolResult | None], None],
    ) -> None:
        """Prepare to execute calls; nothing is started.

        Args:
            dispatch: Call pipeline.
            most: Calls that may execute at once.
            on_finish: Called with each call's number, the call and its result; None: the call was
                cancelled or suspended.
        """
        self._dispatch = dispatch
        self._most = most
        self._on_finish = on_finish
        self.suspended: dict[int, OpenCall] = {}
        """Calls that await a decision."""
        self._stopped = False
        self._woken = anyio.Event()
        self._scopes: dict[int, anyio.CancelScope] = {}
        self._cancelled: set[int] = set()
        self._waiting: deque[tuple[int, OpenCall]] = deque()
        self._idle: list[anyio.Event] = []
        self._servers = 0
        self._polling = False
        self._score = PollScore()
        self._heavy: anyio.Lock | None = None
        self._turns = Turns()

    @property
    def is_busy(self) -> bool:
        """True while other calls wait for a server, or are executed."""
        return bool(self._waiting or self._scopes)

    def add(self, number: int, call: OpenCall) -> None:
        """Queue a call for an idle server, or for a new one if the limit allows it."""
        self._waiting.append((number, call))
        if not self._polling:
            self._wake_server()

    def cancel(self, number: int) -> int:
        """Cancel a call, running or not; return the number of cancelled calls not running."""
        self.suspended.pop(number, None)
        scope = self._scopes.get(number)
        if scope is not None:
            scope.cancel()
        else:
            self._cancelled.add(number)
        return len(self._cancelled)

    def wake(self) -> None:
        """Make `wait` return."""
        self._woken.set()

    async def wait(self) -> None:
        """Wait for the first call, for `stop`, or for `wake`."""
        await self._woken.wait()
        if not self._stopped:
            self._woken = anyio.Event()

    def stop(self) -> None:
        """Start no further call, and make `run` return."""
        self._stopped = True
        self._woken.set()

    async def run(self, worker: Worker, on_exit: Callable[[], None]) -> None:
        """Execute the script's calls until `stop`, then cancel and await the remaining ones.

        Servers are started here and nowhere else: a callback of the reader runs in no task, and so
        in no event loop that anyio would recognize.

        Args:
            worker: The worker that requests the calls.
            on_exit: Called before anything is cancelled, even if the caller itself was: no further
                call starts while the running ones are cancelled.
        """
        async with anyio.create_task_group() as group:
            try:
                while not self._stopped:
                    self._woken = anyio.Event()
                    if self._waiting:
                        self._start_server(group, worker)
                        # By the next turn the first has executed all calls whose tools do not wait.
                        await anyio.lowlevel.checkpoint()
                        while self._turns.is_pausing:
                            # It has no time left, so that others would find none either.
                            await anyio.lowlevel.checkpoint()
                        for _ in range(min(len(self._waiting), self._most - self._servers)):
                            self._start_server(group, worker)
                    await self._woken.wait()
            finally:
                on_exit()
                group.cancel_scope.cancel()

    def _start_server(self, group: TaskGroup, worker: Worker) -> None:
        if self._servers < self._most:
            self._servers += 1
            group.start_soon(self._serve, worker)

    def _wake_server(self) -> None:
        if self._idle:
            self._idle.pop().set()
        elif self._servers < self._most:
            self._woken.set()

    async def _serve(self, worker: Worker) -> None:
        """Execute one call after the other; a cancelled call ends its server."""
        number, call = 0, None
        with anyio.CancelScope() as scope:
            while True:
                while (
                    self._waiting
                    and not self._stopped
                    and (self._may_run(worker) or await self._has_turn(worker))
                ):
                    number, call = self._waiting.popleft()
                    if number in self._cancelled:
                        scope.cancel()
                    self._scopes[number] = scope
                    await self._execute(number, call)
                    call = None
                    if scope.cancel_called:
                        break
                    if not self._waiting and not self._scopes and self._score.pays():
                        self._poll(worker)
                if scope.cancel_called:
                    break
                news = anyio.Event()
                self._idle.append(news)
                await news.wait()
                if not self._turns.is_pausing:
                    # Else the server that pauses wakes others after it.
                    self._wake_idle()
        self._servers -= 1
        if call is not None:
            self._on_finish(number, call, None)
        if self._waiting:
            self._wake_server()

    def _may_run(self, worker: Worker) -> bool:
        """Return True if the worker reads and the run has time."""
        return worker.backlog_bytes <= _BACKLOG_BYTES and not self._turns.is_over()

    async def _has_turn(self, worker: Worker) -> bool:
        """Wait until the worker reads and the run has time; False if this server has no call left.

        Tools that never wait would starve timers and other runs.
        """
        while worker.backlog_bytes > _BACKLOG_BYTES:
            await worker.wait_drained()
        if self._turns.is_over():
            if self._turns.is_pausing:
                return False
            await self._turns.next()
            self._wake_idle()
        # Other servers may have taken the calls meanwhile.
        return bool(self._waiting) and not self._stopped

    def _wake_idle(self) -> None:
        """Wake servers for waiting calls, since the tool of the next call may wait.

        Each wakes others: two suffice, and thousands would wake for nothing if no tool waits.
        """
        for _ in range(min(len(self._waiting) - 1, len(self._idle), 2)):
            self._wake_server()

    def _poll(self, worker: Worker) -> None:
        """Busy-poll for the next call, since the script may have nothing to do but make it."""
        if self._stopped:
            return
        self._polling = True
        self._score.note(hit=worker.busy_poll(BUSY_POLLS))
        self._polling = False
        # This server executes the first of the calls that arrived.
        for _ in range(len(self._waiting) - 1):
            self._wake_server()

    async def _execute(self, number: int, call: OpenCall) -> None:
        dispatch = self._dispatch
        dispatch.emit("tool_started", call)
        result: ToolResult | None = None
        try:
            result = await dispatch.run(call)
            if call.weight > _HEAVY_BYTES:
                # Shielded: a cancellation now must not lose the result of the tool.
                with anyio.CancelScope(shield=True):
                    self._heavy = self._heavy or anyio.Lock()
                    async with self._heavy:
                        await anyio.lowlevel.checkpoint()
        except SuspendedError:
            self.suspended[number] = call
        finally:
            del self._scopes[number]
            dispatch.emit("tool_finished", call)
            if result is None and number not in self.suspended:
                dispatch.record_cancellation(call)
        self._on_finish(number, call, result)
