"""The calls of a script on their way through the host: a few servers take one after the other.

It knows neither frames nor what becomes of a result. A script that takes no results gets no more
of them made: tests/core/runs/test_stream.py.
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
from .._calls._recorder import ParkedError
from .._tools._tool_result import ToolResult
from .._workers._process import BUSY_POLLS, Worker

__all__ = ["Serving"]

_BACKLOG_BYTES: Final = 4 << 20
"""Results that wait for the script to take them before another call is begun for it."""
_CALLS_IN_A_ROW: Final = 32
"""Calls that one server serves before it lets the event loop have its turn."""
_CALLS_A_TURN: Final = 512
"""Calls that all servers together serve in one turn of the event loop, if no tool waits."""
_HEAVY_BYTES: Final = 262_144
"""Memory of arguments from which the end of a call has a turn of its own: many calls may end at
once, and the digest of 1 MB and the JSON it is made of take some milliseconds."""
_MISSES: Final = 3
"""Looks in a row that find nothing before a run is not looked at any more: its script computes."""


class Serving:
    """Serves the calls of one run, from `run` until `stop`.

    A task for each call would cost more than most calls do, and so would a scope for each: a call
    that is withdrawn takes its server along, and another takes its place.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        most: int,
        served: Callable[[int, OpenCall, ToolResult | None], None],
    ) -> None:
        """Serve nothing yet.

        Args:
            dispatch: The way of a call.
            most: Calls that may be under way at once.
            served: Given each call's number and result; None: it was withdrawn, or is parked.
        """
        self._dispatch = dispatch
        self._most = most
        self._served = served
        self.parked: set[int] = set()
        """Calls that wait for a decision."""
        self._stopped = False
        self._woken = anyio.Event()
        self._scopes: dict[int, anyio.CancelScope] = {}
        self._withdrawn: set[int] = set()
        self._waiting: deque[tuple[int, OpenCall]] = deque()
        self._idle: list[anyio.Event] = []
        self._servers = 0
        self._looking = False
        self._missed = 0
        self._heavy = anyio.Lock()

    def add(self, number: int, call: OpenCall) -> None:
        """Have a call served: by a server that is idle, or by a new one if one may be."""
        self._waiting.append((number, call))
        if not self._looking:
            self._call_server()

    def withdraw(self, number: int) -> int:
        """End a call, or let it not begin; gives how many were withdrawn that are not under way."""
        self.parked.discard(number)
        scope = self._scopes.get(number)
        if scope is not None:
            scope.cancel()
        else:
            self._withdrawn.add(number)
        return len(self._withdrawn)

    def wake(self) -> None:
        """Wake who waits in `wait`."""
        self._woken.set()

    async def wait(self) -> None:
        """Wait for the first call, for the end, or for `wake`."""
        await self._woken.wait()
        self._woken = anyio.Event()

    def stop(self) -> None:
        """Begin no further call, and end `run`."""
        self._stopped = True
        self._woken.set()

    async def run(self, worker: Worker, ended: Callable[[], None]) -> None:
        """Serve the script's calls until the end, then cancel and await what is left.

        Servers are started here and nowhere else: a callback of the reader is in no task, and so
        in no event loop that anyio would know.

        Args:
            worker: Where the calls come from.
            ended: Called before anything is cancelled, also where it is the caller who was: no
                other call begins while those under way are ended.
        """
        async with anyio.create_task_group() as group:
            try:
                while not self._stopped:
                    self._woken = anyio.Event()
                    if self._waiting:
                        self._start(group, worker)
                        # By the next turn the first has done all calls whose tools do not wait.
                        await anyio.lowlevel.checkpoint()
                        for _ in range(min(len(self._waiting), self._most - self._servers)):
                            self._start(group, worker)
                    await self._woken.wait()
            finally:
                ended()
                group.cancel_scope.cancel()

    def _start(self, group: TaskGroup, worker: Worker) -> None:
        if self._servers < self._most:
            self._servers += 1
            group.start_soon(self._server, worker)

    def _call_server(self) -> None:
        if self._idle:
            self._idle.pop().set()
        elif self._servers < self._most:
            self._woken.set()

    async def _server(self, worker: Worker) -> None:
        """Serve calls one after the other; of one that is withdrawn, the server ends with it."""
        served = 0
        number, call = 0, None
        with anyio.CancelScope() as scope:
            while True:
                while self._waiting and not self._stopped and not scope.cancel_called:
                    if worker.backlog_bytes > _BACKLOG_BYTES:
                        await worker.wait_drained()
                        continue
                    number, call = self._waiting.popleft()
                    if number in self._withdrawn:
                        scope.cancel()
                    self._scopes[number] = scope
                    await self._serve(number, call)
                    call = None
                    served += 1
                    if served >= min(_CALLS_IN_A_ROW, _CALLS_A_TURN // self._servers):
                        # Tools that never wait would keep timers and other runs from theirs.
                        await anyio.lowlevel.checkpoint()
                        served = 0
                    if not self._waiting and not self._scopes and self._missed < _MISSES:
                        self._look(worker)
                if scope.cancel_called:
                    break
                news = anyio.Event()
                self._idle.append(news)
                await news.wait()
        self._servers -= 1
        if call is not None:
            self._served(number, call, None)
        if self._waiting:
            self._call_server()

    def _look(self, worker: Worker) -> None:
        """Wait a moment for the next call, where the script had nothing to do but make it."""
        if self._stopped:
            return
        self._looking = True
        self._missed = 0 if worker.busy_poll(BUSY_POLLS) else self._missed + 1
        self._looking = False
        # The first call is ours.
        for _ in range(len(self._waiting) - 1):
            self._call_server()

    async def _serve(self, number: int, call: OpenCall) -> None:
        dispatch = self._dispatch
        dispatch.tell("tool_started", call)
        result: ToolResult | None = None
        try:
            result = await dispatch.run(call)
            if call.weight > _HEAVY_BYTES:
                # What the tool did is not to be lost for a cancellation now.
                with anyio.CancelScope(shield=True):
                    async with self._heavy:
                        await anyio.lowlevel.checkpoint()
        except ParkedError:
            self.parked.add(number)
        finally:
            del self._scopes[number]
            dispatch.tell("tool_finished", call)
            if result is None and number not in self.parked:
                dispatch.cut_off(call)
        self._served(number, call, result)
