"""Asynchronous iteration over the events of a run or a call."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Self

import anyio

from .._core._background import running
from .._records._result import RunEvent

__all__ = ["stream_events"]

_OUTPUT = frozenset({"stdout", "stderr"})
_JOIN_AFTER = 256
"""Queued events from which on output is joined, because the reader is slow."""
_JOINED_CHARS = 1_024


class _Events:
    """Queue of events that the reader has not read yet."""

    def __init__(self) -> None:
        self._queue: deque[RunEvent] = deque()
        self._news = anyio.Event()
        self._finished = False

    def put(self, event: RunEvent) -> None:
        # Not bounded: the limits of the run bound its output and calls. But a million events of
        # one character each take a hundred times the memory of their text, so they are joined.
        queue = self._queue
        if len(queue) >= _JOIN_AFTER and event.kind == queue[-1].kind in _OUTPUT:
            text = (queue[-1].text or "") + (event.text or "")
            if len(text) <= _JOINED_CHARS:
                queue[-1] = replace(event, text=text)
                return
        queue.append(event)
        self._news.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        if self._finished:
            raise StopAsyncIteration
        while not self._queue:
            self._news = anyio.Event()
            await self._news.wait()
        event = self._queue.popleft()
        self._finished = event.kind == "finished"
        return event


@asynccontextmanager
async def stream_events(
    work: Callable[[Callable[[RunEvent], None]], Awaitable[RunEvent]],
) -> AsyncIterator[AsyncIterator[RunEvent]]:
    """Run `work` and iterate over its events; leaving the block early cancels it.

    Exceptions of `work` and of the block are raised unchanged, not in a group.

    Args:
        work: Receives a function that queues an event, and returns the last event.
    """
    events = _Events()

    async def run() -> None:
        events.put(await work(events.put))

    async with running(run):
        yield events
