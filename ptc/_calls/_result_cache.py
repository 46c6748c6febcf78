"""Cache of results, shared by equal calls that run at the same time."""

from __future__ import annotations

import copy
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from .._dataclass import dataclass
from .._tools._tool import Tool
from .._tools._tool_result import ToolResult
from ._call import OpenCall
from ._deadlock import WaitGraph

__all__ = ["CachedResult", "ResultCache"]

_MAX_ENTRIES = 4_096


@dataclass(frozen=True, slots=True)
class CachedResult:
    """Cached result of a call, and the tools that it may depend on."""

    result: ToolResult
    reach: tuple[Tool, ...] | None
    """Tools that the call was allowed to call; None: it called none."""

    def __deepcopy__(self, memo: dict[int, Any]) -> CachedResult:
        # Tools are compared by identity and immutable.
        return CachedResult(copy.deepcopy(self.result, memo), self.reach)


class ResultCache:
    """Results by digest. Values are copied in and out, so a caller can modify only its own copy."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: OrderedDict[str, tuple[float, Any]] = OrderedDict()
        self._flights: dict[str, _Flight] = {}

    async def get(
        self,
        digest: str,
        ttl_ms: int | None,
        make: Callable[[], Awaitable[Any]],
        *,
        call: OpenCall | None = None,
        wait_graph: WaitGraph | None = None,
        fits: Callable[[Any], bool] = lambda value: True,
    ) -> tuple[Any, bool]:
        """Return the value, and True if it was cached or made by another running call.

        Of several concurrent callers, one makes it; if that one fails or is cancelled, the next
        does.

        Args:
            digest: Name of the value.
            ttl_ms: Lifetime of the value; None: that of the cache.
            make: Makes the value.
            call: The calling call.
            wait_graph: Deadlock detection: a caller that would deadlock makes the value itself.
            fits: True if this caller may use a cached value; else it makes its own.
        """
        while True:
            entry = self._entries.get(digest)
            if entry is not None and self._clock() < entry[0] and fits(entry[1]):
                self._entries.move_to_end(digest)
                return copy.deepcopy(entry[1]), True
            flight = self._flights.get(digest)
            if flight is None:
                return await self._make(digest, ttl_ms, make, call), False
            if call is None or wait_graph is None:
                await flight.landed.wait()
            elif wait_graph.would_deadlock(call, flight):
                return await make(), False
            else:
                with wait_graph.waiting(call, flight):
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
            except Exception:  # noqa: BLE001  # classes define how they are copied
                # The call was made and its value is good, but only for its own caller.
                return value
        finally:
            del self._flights[digest]
            flight.landed.set()
        self.store(digest, ttl_ms, flight.value)
        return value

    def is_maker(self, digest: str, call: OpenCall) -> bool:
        """True if `call` makes the value that concurrent callers share."""
        flight = self._flights.get(digest)
        return flight is not None and any(holder is call for holder in flight.holders)

    def store(self, digest: str, ttl_ms: float | None, value: Any) -> None:
        """Cache a value for `ttl_ms`; None: until it is evicted."""
        if ttl_ms is not None and ttl_ms <= 0:
            return
        until = float("inf") if ttl_ms is None else self._clock() + ttl_ms / 1000
        self._entries[digest] = (until, value)
        self._entries.move_to_end(digest)
        while len(self._entries) > _MAX_ENTRIES:
            self._entries.popitem(last=False)


class _Flight:
    """A running call that others wait for."""

    __slots__ = ("holders", "landed", "safe", "value")

    def __init__(self, holders: tuple[OpenCall, ...]) -> None:
        self.holders = holders
        self.landed = anyio.Event()
        self.safe = False
        self.value: Any = None
