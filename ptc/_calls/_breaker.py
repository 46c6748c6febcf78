"""The circuit breaker of a tool (`Retry.breaker_threshold`)."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio

from .._tools._retry import Retry
from ..errors import ToolError
from ._call import OpenCall
from ._deadlock import Waits

__all__ = ["Circuit"]


class Circuit:
    """The breaker of one tool in one session: closed, open, or trying with a single call.

    A call takes a place before it starts; what it comes to is told with `succeeded` or `failed`,
    and `leave` gives the place back if neither is known. So parallel calls cannot pass the
    threshold together.
    """

    def __init__(self, retry: Retry, clock: Callable[[], float] = time.monotonic) -> None:
        self._threshold = retry.breaker_threshold or 0
        self._cool_down = None if retry.cool_down_ms is None else retry.cool_down_ms / 1000
        self._clock = clock
        self._failures = 0
        self._under_way = 0
        self._opened: float | None = None
        self._changed = anyio.Event()
        self.holders: list[OpenCall] = []
        """Calls that have a place."""

    async def enter(
        self, tool: str, call: OpenCall | None = None, waits: Waits | None = None
    ) -> bool:
        """Take a place; waits while the outcome of calls under way decides whether there is one.

        False, and no place, if `call` would wait for itself: it is made without one.

        Raises:
            ToolError: ``circuit_open``.
        """
        while True:
            if self._opened is not None:
                self._probe_or_refuse(tool)
                break
            if self._under_way + self._failures < self._threshold:
                break
            if call is None or waits is None:
                await self._changed.wait()
            elif waits.in_vain(call, self):
                return False
            else:
                with waits.waiting(call, self):
                    await self._changed.wait()
        self._under_way += 1
        return True

    def _probe_or_refuse(self, tool: str) -> None:
        assert self._opened is not None  # noqa: S101  # only called while open
        left = None
        if self._cool_down is not None:
            left = self._opened + self._cool_down - self._clock()
            if left <= 0 and self._under_way == 0:
                return
        details: dict[str, object] = {"failures": self._failures}
        if left is not None:
            details["retry_after_ms"] = max(0, round(left * 1000))
            way_out = f"it is tried again after {max(0.0, left):.1f} s"
        else:
            way_out = "it stays closed to this session"
        msg = f"{tool} failed {self._failures} times in a row and is left alone; {way_out}"
        raise ToolError(
            msg, code="circuit_open", tool=tool, retryable=left is not None, details=details
        )

    def succeeded(self) -> None:
        """A call came to a good end."""
        self._failures, self._opened = 0, None
        self.leave()

    def failed(self) -> None:
        """A call failed for good, its retries included."""
        self._failures += 1
        if self._failures >= self._threshold:
            self._opened = self._clock()
        self.leave()

    def leave(self) -> None:
        """Give the place back without a verdict: the call was cancelled."""
        self._under_way -= 1
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
