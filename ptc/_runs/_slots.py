"""Turns of concurrent runs, which cannot deadlock behind one another.

A run whose tool runs another script lends that script its own turn if no other is free: it waits
for it anyway. So nested runs always proceed, and a session executes at most as many outermost runs
as it allows, each with one nested run at a time on its turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import field

import anyio

from .._dataclass import dataclass

__all__ = ["RunSlots"]


@dataclass(slots=True, eq=False)
class _Slot:
    """The turn of a run that is executing."""

    owner: RunSlots
    lender: _Slot | None
    """Run whose turn it uses; None: it has one of its own."""
    is_lent: bool = False


@dataclass(slots=True, eq=False)
class _Waiter:
    lender: _Slot | None
    ready: anyio.Event = field(default_factory=anyio.Event)
    slot: _Slot | None = None


class RunSlots:
    """Turns of the runs of a session, given in the order of the requests."""

    def __init__(self, most: int) -> None:
        """Allow `most` runs at once, not counting those that others wait for."""
        self._free = most
        self._waiting: deque[_Waiter] = deque()

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for a turn, and hold it during the block."""
        current = _current.get()
        lender = current if current is not None and current.owner is self else None
        slot = self._try(lender) or await self._wait(lender)
        token = _current.set(slot)
        try:
            yield
        finally:
            _current.reset(token)
            self._release(slot)

    def _try(self, lender: _Slot | None) -> _Slot | None:
        if self._free:
            self._free -= 1
            return _Slot(self, None)
        if lender is not None and not lender.is_lent:
            lender.is_lent = True
            return _Slot(self, lender)
        return None

    async def _wait(self, lender: _Slot | None) -> _Slot:
        waiter = _Waiter(lender)
        self._waiting.append(waiter)
        try:
            await waiter.ready.wait()
        except BaseException:
            if waiter.slot is not None:
                self._release(waiter.slot)
            else:
                self._waiting.remove(waiter)
            raise
        assert waiter.slot is not None  # noqa: S101  # set before the event
        return waiter.slot

    def _release(self, slot: _Slot) -> None:
        if slot.lender is not None:
            slot.lender.is_lent = False
        else:
            self._free += 1
        for waiter in self._waiting:
            found = self._try(waiter.lender)
            if found is not None:
                self._waiting.remove(waiter)
                waiter.slot = found
                waiter.ready.set()
                return


_current: ContextVar[_Slot | None] = ContextVar("ptc_run_slot", default=None)
"""Turn of the run whose tool is executing."""
