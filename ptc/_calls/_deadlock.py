"""Deadlock detection in the wait-for graph of calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from ._call import OpenCall

__all__ = ["Resource", "WaitGraph"]


class Resource(Protocol):
    """A resource that calls wait for until one of its holders releases it."""

    @property
    def holders(self) -> Sequence[OpenCall]: ...  # calls that hold it now


class WaitGraph:
    """Waiting calls of a session.

    Two tools that call each other, each holding a result or a place that the other needs, would
    wait for ever. A call checks `would_deadlock` before it waits.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[OpenCall, Resource]] = []

    @contextmanager
    def waiting(self, call: OpenCall, held: Resource) -> Iterator[None]:
        """Note that `call` waits for `held` in this block."""
        entry = (call, held)
        self._waiting.append(entry)
        try:
            yield
        finally:
            self._waiting.remove(entry)

    def would_deadlock(self, call: OpenCall, held: Resource) -> bool:
        """True if no holder can release `held` before `call`, or a call above it, has ended."""
        return self._is_stuck({id(call), *map(id, call.callers())}, held, [])

    def _is_stuck(self, own: set[int], held: Resource, visited: list[Resource]) -> bool:
        if any(held is other for other in visited):
            return False
        further = [*visited, held]
        return bool(held.holders) and all(
            id(holder) in own
            or any(
                self._is_stuck(own, wanted, further)
                for waiter, wanted in self._waiting
                if waiter is holder or any(above is holder for above in waiter.callers())
            )
            for holder in held.holders
        )
