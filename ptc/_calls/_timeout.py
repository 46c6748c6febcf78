"""Time-out of calls, at the cost of one timer for all of them.

A direct call of a short tool takes about 15 us, and a timer of its own would take 7 more: it is
created, sorted into the event loop's queue and cancelled, although hardly any call lasts until it.
The calls of one caller have the same time-out, so they expire in the order in which they start.
"""

from __future__ import annotations

import asyncio

import anyio

__all__ = ["CallTimeout"]


class CallTimeout:
    """Cancels scopes that are open for longer than a time-out. It belongs to one event loop."""

    def __init__(self, timeout_ms: int) -> None:
        """Create it for calls that take at most `timeout_ms`."""
        self.timeout_ms = timeout_ms
        self._seconds = timeout_ms / 1000
        self._open: dict[anyio.CancelScope, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scope_type = anyio.CancelScope

    def start(self) -> anyio.CancelScope:
        """Return a scope to be entered now; pass it to `stop` when it has been left."""
        loop = self._loop
        if loop is None:
            try:
                self._loop = loop = asyncio.get_running_loop()
            except RuntimeError:  # trio
                return anyio.CancelScope(deadline=anyio.current_time() + self._seconds)
        scope = self._scope_type()
        # The class for asyncio: `anyio.CancelScope` would look it up for each call, in 1.4 us.
        self._scope_type = type(scope)
        self._open[scope] = deadline = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._expire, loop)
        return scope

    def stop(self, scope: anyio.CancelScope) -> None:
        """Forget a scope."""
        self._open.pop(scope, None)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        for scope, deadline in list(self._open.items()):
            if deadline > loop.time():
                self._timer = loop.call_at(deadline, self._expire, loop)
                return
            del self._open[scope]
            scope.cancel()
