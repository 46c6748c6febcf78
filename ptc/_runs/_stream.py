"""Events of a run or a call as they happen, for `async for`."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Self

import anyio

from .._records._result import RunEvent

__all__ = ["streamed"]

_OUTPUT = frozenset({"stdout", "stderr"})
_JOIN_AFTER = 256
"""Events that wait for a slow reader before output is joined."""
_JOINED_CHARS = 1_024


class _Events:
    """Events that have happened and were not yet taken."""

    def __init__(self) -> None:
        self._waiting: deque[RunEvent] = deque()
        self._news = anyio.Event()
        self._ended = False

    def put(self, event: RunEvent) -> None:
        # Not bounded here: what a run may print, emit and call is. But a million events of one
        # character each take a hundred times the memory of their text.
        waiting = self._waiting
        if len(waiting) >= _JOIN_AFTER and event.kind == waiting[-1].kind in _OUTPUT:
            text = (waiting[-1].text or "") + (event.text or "")
            if len(text) <= _JOINED_CHARS:
                waiting[-1] = replace(event, text=text)
                return
        waiting.append(event)
        self._news.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        if self._ended:
            raise StopAsyncIteration
        while not self._waiting:
            self._news = anyio.Event()
            await self._news.wait()
        event = self._waiting.popleft()
        self._ended = event.kind == "finished"
        return event


@asynccontextmanager
async def streamed(
    work: Callable[[Callable[[RunEvent], None]], Awaitable[RunEvent]],
) -> AsyncIterator[AsyncIterator[RunEvent]]:
    """Do `work`, which tells its events and gives the last; leaving the block early cancels it.

    What `work` raises, and what the block raises, is raised as it is.
    """
    events = _Events()

    async def run() -> None:
        events.put(await work(events.put))

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            yield events
            group.cancel_scope.cancel()
    except BaseExceptionGroup as raised:
        if len(raised.exceptions) != 1:
            raise
        raise raised.exceptions[0] from None
