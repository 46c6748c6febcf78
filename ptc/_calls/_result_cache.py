"""Cached results of calls, shared by equal calls that run at once."""

from __future__ import annotations

import copy
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio

from .._tools._tool import Tool
from .._tools._tool_result import ToolResult
from ._call import OpenCall
from ._deadlock import Waits

__all__ = ["Kept", "ResultCache"]

_MOST_ENTRIES = 4_096


@dataclass(frozen=True, slots=True)
class Kept:
    """A result of a call, and which tools it may have come from."""

    result: ToolResult
    reach: tuple[Tool, ...] | None
    """Tools that the call might call; None: it called none."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Kept:
        # Tools are compared by identity, and nobody can change them.
        return Kept(copy.deepcopy(self.result, memo), self.reach)


class ResultCache:
    """Results by digest. Values are copied in and out: who changes one changes only his own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, Any]] = OrderedDict()
        self._flights: dict[str, _Flight] = {}

    async def get(
        self,
        digest: str,
        ttl_ms: int | None,
        make: Callable[[], Awaitable[Any]],
        *,
        call: OpenCall | None = None,
        waits: Waits | None = None,
        fits: Callable[[Any], bool] = lambda value: True,
    ) -> tuple[Any, bool]:
        """The value, and True if it was here already or made by a call under way.

        Of several callers at once one makes it; if that one fails or is cancelled, the next does.

        Args:
            digest: The value's name.
            ttl_ms: How long it is kept.
            make: Makes it.
            call: Who asks.
            waits: Who waits for what: a caller who would wait for himself makes the value, too.
            fits: True if a value that is here is one for this caller; else he makes his own.
        """
        while True:
            kept = self._kept.get(digest)
            if kept is not None and self._clock() < kept[0] and fits(kept[1]):
                self._kept.move_to_end(digest)
                return copy.deepcopy(kept[1]), True
            flight = self._flights.get(digest)
            if flight is None:
                return await self._make(digest, ttl_ms, make, call), False
            if call is None or waits is None:
                await flight.landed.wait()
            elif waits.in_vain(call, flight):
                return await make(), False
            else:
                with waits.waiting(call, flight):
                    await flight.landed.wait()
            if flight.safe and fits(flight.value):
                return copy.deepcopy(flight.value), True

    async def _make(
        self,
        digest: str,
        ttl_ms: int | None,
        make: Callable[[], Awaitable[Any]],
        call: OpenCall | None,
    ) -> Any:
        flight = self._flights[digest] = _Flight(() if call is None else (call,))
        try:
            value = await make()
            try:
                flight.value, flight.safe = copy.deepcopy(value), True
            except Exception:  # noqa: BLE001  # what it is made of says how it is copied
                # The call was made and its value is good: it serves its own caller alone.
                return value
        finally:
            del self._flights[digest]
            flight.landed.set()
        self.keep(digest, ttl_ms, flight.value)
        return value

    def is_maker(self, digest: str, call: OpenCall) -> bool:
        """True if `call` makes the value that all who want it now get."""
        flight = self._flights.get(digest)
        return flight is not None and any(holder is call for holder in flight.holders)

    def keep(self, digest: str, ttl_ms: float | None, value: Any) -> None:
        """Keep a value for a time; None: as long as there is room."""
        if ttl_ms is not None and ttl_ms <= 0:
            return
        until = float("inf") if ttl_ms is None else self._clock() + ttl_ms / 1000
        self._kept[digest] = (until, value)
        self._kept.move_to_end(digest)
        while len(self._kept) > _MOST_ENTRIES:
            self._kept.popitem(last=False)


class _Flight:
    """A call under way that others wait for."""

    __slots__ = ("holders", "landed", "safe", "value")

    def __init__(self, holders: tuple[OpenCall, ...]) -> None:
        self.holders = holders
        self.landed = anyio.Event()
        self.safe = False
        self.value: Any = None
