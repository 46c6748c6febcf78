"""`queue` for one thread: a queue never blocks, since nobody could end the wait."""

from __future__ import annotations

import heapq
import queue
import types
from collections import deque
from typing import Any, Final, NoReturn

__all__ = ["BASES", "queue_members"]

_SHUTDOWN: Final = hasattr(queue, "ShutDown")  # 3.13


def _refuse_wait(action: str, fix: str) -> NoReturn:
    raise RuntimeError(f"{action} would wait for ever: a script has one thread; {fix}")


class SimpleQueue:
    """`queue.SimpleQueue`."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._items: Any = deque()

    def _append(self, item: Any) -> None:
        self._items.append(item)

    def _take(self) -> Any:
        return self._items.popleft()

    def qsize(self) -> int:
        """Return the number of items."""
        return len(self._items)

    def empty(self) -> bool:
        """Return True if there are no items."""
        return not self._items

    def put(self, item: Any, block: bool = True, timeout: Any = None) -> None:
        """Add an item."""
        self._append(item)

    def put_nowait(self, item: Any) -> None:
        """Add an item, or raise `Full`."""
        self.put(item, block=False)

    def get(self, block: bool = True, timeout: Any = None) -> Any:
        """Remove and return an item; where the library would wait for one, raise."""
        if self._items:
            return self._take()
        if block and timeout is None:
            _refuse_wait("get() of an empty queue", "use get_nowait(), or check empty() first")
        _check_timeout(block, timeout)
        raise queue.Empty

    def get_nowait(self) -> Any:
        """Remove and return an item, or raise `Empty`."""
        return self.get(block=False)

    def __class_getitem__(cls, item: Any) -> types.GenericAlias:
        return types.GenericAlias(cls, item)


def _check_timeout(block: bool, timeout: Any) -> None:
    if block and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")


class Queue(SimpleQueue):
    """`queue.Queue`."""

    def __init__(self, maxsize: int = 0) -> None:
        super().__init__()
        self.maxsize = maxsize
        self.unfinished_tasks = 0
        if _SHUTDOWN:
            self.is_shutdown = False

    def full(self) -> bool:
        """Return True if no item can be added."""
        return 0 < self.maxsize <= self.qsize()

    def put(self, item: Any, block: bool = True, timeout: Any = None) -> None:
        """Add an item; where the library would wait for space, raise."""
        self._check_open()
        if self.full():
            if block and timeout is None:
                _refuse_wait("put() to a full queue", "use put_nowait(), or check full() first")
            _check_timeout(block, timeout)
            raise queue.Full
        self.unfinished_tasks += 1
        self._append(item)

    def get(self, block: bool = True, timeout: Any = None) -> Any:
        """Remove and return an item; where the library would wait for one, raise."""
        if self.empty():
            self._check_open()
        return super().get(block, timeout)

    def task_done(self) -> None:
        """Count an item as processed."""
        if self.unfinished_tasks <= 0:
            raise ValueError("task_done() called too many times")
        self.unfinished_tasks -= 1

    def join(self) -> None:
        """Return if every item was processed; where the library would wait for that, raise."""
        if self.unfinished_tasks:
            _refuse_wait("join() with unfinished tasks", "call task_done() for each item first")

    def _check_open(self) -> None:
        if _SHUTDOWN and self.is_shutdown:
            raise queue.ShutDown  # type: ignore[attr-defined]  # 3.13, as `_SHUTDOWN` says

    if _SHUTDOWN:

        def shutdown(self, immediate: bool = False) -> None:
            """Refuse further items."""
            self.is_shutdown = True
            if immediate:
                while not self.empty():
                    self._take()
                    self.unfinished_tasks = max(0, self.unfinished_tasks - 1)


class LifoQueue(Queue):
    """`queue.LifoQueue`."""

    def _start(self) -> None:
        self._items = []

    def _take(self) -> Any:
        return self._items.pop()


class PriorityQueue(Queue):
    """`queue.PriorityQueue`."""

    def _start(self) -> None:
        self._items = []

    def _append(self, item: Any) -> None:
        heapq.heappush(self._items, item)

    def _take(self) -> Any:
        return heapq.heappop(self._items)


BASES: Final = (Queue, LifoQueue, PriorityQueue)
for _kind in (SimpleQueue, *BASES):
    _kind.__module__ = "_queue" if _kind is SimpleQueue else "queue"


def queue_members() -> dict[str, Any]:
    """Return the members of `queue` that replace those of the library."""
    return {kind.__name__: kind for kind in (SimpleQueue, *BASES)}
