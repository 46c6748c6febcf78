"""`queue` on the cooperative threads of `_threads`."""

from __future__ import annotations

import heapq
import queue as library
import types
from collections import deque
from typing import Any, Final

from .._classes import open_type
from .._threads import THREADS

__all__ = ["queue_members"]

_SHUT_DOWN: Final[Any] = getattr(library, "ShutDown", None)  # 3.13


@open_type
class Queue:
    """`queue.Queue`."""

    __slots__ = ("__weakref__", "is_shutdown", "maxsize", "queue", "unfinished_tasks")
    queue: Any

    def __init__(self, maxsize: int = 0) -> None:
        self.maxsize, self.unfinished_tasks, self.is_shutdown = maxsize, 0, False
        self._init()

    def __class_getitem__(cls, item: Any) -> types.GenericAlias:
        return types.GenericAlias(cls, item)

    def _init(self) -> None:
        self.queue = deque()

    def _put(self, item: Any) -> None:
        self.queue.append(item)

    def _get(self) -> Any:
        return self.queue.popleft()

    def qsize(self) -> int:
        """Return the number of items."""
        return len(self.queue)

    def empty(self) -> bool:
        """Return True if there is no item; other threads run first."""
        if not self.queue:
            THREADS.poll()
        return not self.queue

    def full(self) -> bool:
        """Return True if there is no room; other threads run first."""
        if not self._has_room():
            THREADS.poll()
        return not self._has_room()

    def _has_room(self) -> bool:
        return self.maxsize <= 0 or len(self.queue) < self.maxsize

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item; wait for room."""
        self._check_open()
        if not self._has_room() and not (
            block
            and THREADS.wait(
                lambda: self._has_room() or self.is_shutdown, _checked(timeout), "room in a Queue"
            )
        ):
            raise library.Full
        self._check_open()
        self._put(item)
        self.unfinished_tasks += 1

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Remove and return an item; wait for one."""
        if not self.queue and not (
            block
            and THREADS.wait(
                lambda: bool(self.queue) or self.is_shutdown,
                _checked(timeout),
                "an item of a Queue",
            )
        ):
            self._check_open()
            raise library.Empty
        if not self.queue:
            self._check_open()
        return self._get()

    def put_nowait(self, item: Any) -> None:
        """Add an item, or raise `Full`."""
        self.put(item, block=False)

    def get_nowait(self) -> Any:
        """Remove and return an item, or raise `Empty`."""
        return self.get(block=False)

    def task_done(self) -> None:
        """Mark an item as processed."""
        if self.unfinished_tasks <= 0:
            raise ValueError("task_done() called too many times")
        self.unfinished_tasks -= 1

    def join(self) -> None:
        """Wait until every item is processed."""
        THREADS.wait(lambda: not self.unfinished_tasks, None, "task_done() of a Queue")

    def _check_open(self) -> None:
        if self.is_shutdown:
            raise _SHUT_DOWN

    if _SHUT_DOWN is not None:

        def shutdown(self, immediate: bool = False) -> None:
            """Refuse further items, and wake the threads that wait."""
            self.is_shutdown = True
            if immediate:
                self.unfinished_tasks = max(0, self.unfinished_tasks - len(self.queue))
                self.queue.clear()


def _checked(timeout: float | None) -> float | None:
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")
    return timeout


@open_type
class LifoQueue(Queue):
    """`queue.LifoQueue`."""

    __slots__ = ()

    def _init(self) -> None:
        self.queue = []

    def _get(self) -> Any:
        return self.queue.pop()


@open_type
class PriorityQueue(Queue):
    """`queue.PriorityQueue`."""

    __slots__ = ()

    def _init(self) -> None:
        self.queue = []

    def _put(self, item: Any) -> None:
        heapq.heappush(self.queue, item)

    def _get(self) -> Any:
        return heapq.heappop(self.queue)


@open_type
class SimpleQueue(Queue):
    """`queue.SimpleQueue`."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()


def queue_members() -> dict[str, Any]:
    """Return the members of `queue`."""
    later = {} if _SHUT_DOWN is None else {"ShutDown": _SHUT_DOWN}
    return {
        **later,
        "Empty": library.Empty,
        "Full": library.Full,
        "LifoQueue": LifoQueue,
        "PriorityQueue": PriorityQueue,
        "Queue": Queue,
        "SimpleQueue": SimpleQueue,
    }
