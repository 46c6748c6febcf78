"""Which calls wait for what other calls hold, so that none waits for itself by way of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from ._call import OpenCall

__all__ = ["Held", "Waits"]


class Held(Protocol):
    """Something that calls wait for until one of those who hold it lets go."""

    @property
    def holders(self) -> Sequence[OpenCall]: ...  # calls that have it now


class Waits:
    """The waiting calls of a session.

    Two tools that call each other, each with a result or a place that the other wants, would wait
    for ever. Who asks before he waits learns that, and does not wait.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[OpenCall, Held]] = []

    @contextmanager
    def waiting(self, call: OpenCall, held: Held) -> Iterator[None]:
        """Note that `call` waits for `held` meanwhile."""
        entry = (call, held)
        self._waiting.append(entry)
        try:
            yield
        finally:
            self._waiting.remove(entry)

    def in_vain(self, call: OpenCall, held: Held) -> bool:
        """True if nobody who has `held` can let go before `call`, or one above it, has ended."""
        return self._stuck({id(call), *map(id, call.above())}, held, [])

    def _stuck(self, own: set[int], held: Held, looked: list[Held]) -> bool:
        if any(held is other for other in looked):
            return False
        further = [*looked, held]
        return bool(held.holders) and all(
            id(holder) in own
            or any(
                self._stuck(own, wanted, further)
                for waiter, wanted in self._waiting
                if waiter is holder or any(above is holder for above in waiter.above())
            )
            for holder in held.holders
        )
