"""The circuit breaker of a tool (`Retry.breaker_threshold`)."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio

from .._tools._retry import Retry
from ..errors import ToolError
from ._call import OpenCall
from ._deadlock import WaitGraph

__all__ = ["Circuit"]


class Circuit:
    """Breaker of one tool in one session: closed, open, or half-open with a single probe.

    A call reserves a place before it starts, and releases it with `succeeded`, `failed`, or, if
    neither is known, `leave`. So parallel calls cannot exceed the threshold together.
    """

    def __init__(self, retry: Retry, clock: Callable[[], float] = time.monotonic) -> None:
        self._threshold = retry.breaker_threshold or 0
        self._cool_down = None if retry.cool_down_ms is None else retry.cool_down_ms / 1000
        self._clock = clock
        self._failures = 0
        self._running = 0
        self._opened: float | None = None
        self._changed = anyio.Event()
        self.holders: list[OpenCall] = []
        """Calls that hold a place."""

    async def enter(
        self, tool: str, call: OpenCall | None = None, wait_graph: WaitGraph | None = None
    ) -> bool:
        """Reserve a place; wait while it depends on the outcome of running calls.

        Returns:
            False, without a place, if waiting would deadlock: the call is made without one.

        Raises:
            ToolError: ``circuit_open``.
        """
        while True:
            if self._opened is not None:
                self._probe_or_refuse(tool)
                break
            if self._running + self._failures < self._threshold:
                break
            if call is None or wait_graph is None:
                await self._changed.wait()
            elif wait_graph.would_deadlock(call, self):
                return False
            else:
                with wait_graph.waiting(call, self):
                    await self._changed.wait()
        self._running += 1
        return True

    def _probe_or_refuse(self, tool: str) -> None:
        assert self._opened is not None  # noqa: S101  # only called while open
        left = None
        if self._cool_down is not None:
            left = self._opened + self._cool_down - self._clock()
            if left <= 0 and self._running == 0:
                return
        details: dict[str, object] = {"failures": self._failures}
        if left is not None:
            details["retry_after_ms"] = max(0, round(left * 1000))
            remedy = f"retry after {max(0.0, left):.1f} s"
        else:
            remedy = "it stays open for this session, so do without the tool"
        msg = f"{tool} failed {self._failures} times in a row and its breaker is open; {remedy}"
        raise ToolError(
            msg, code="circuit_open", tool=tool, retryable=left is not None, details=details
        )

    def succeeded(self) -> None:
        """Release the place of a call that succeeded."""
        self._failures, self._opened = 0, None
        self.leave()

    def failed(self) -> None:
        """Release the place of a call that failed after all its retries."""
        self._failures += 1
        if self._failures >= self._threshold:
            self._opened = self._clock()
        self.leave()

    def leave(self) -> None:
        """Release the place of a call with no known outcome, such as a cancelled one."""
        self._running -= 1
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
