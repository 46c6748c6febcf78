"""Progress of a run as MCP notifications."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

import ptc

__all__ = ["Progress"]

_T = TypeVar("_T")

_PROGRESS_WAITING = 100
"""Messages queued for a slow client; beyond that, the oldest are dropped."""


class Progress:
    """Progress messages of one run: the reports of the script, or one for each finished call.

    The protocol requires numbers that increase, so a report that does not is left out. The
    SDK sends nothing unless the client requested progress.
    """

    def __init__(self, report: Callable[..., Awaitable[None]]) -> None:
        import anyio

        self._report = report
        self._waiting: deque[tuple[float, float | None, str]] = deque(maxlen=_PROGRESS_WAITING)
        self._count: float = 0
        self._script_reports = False
        self._news = anyio.Event()
        self._over = False

    def on_event(self, event: ptc.RunEvent) -> None:
        """Record an event of the run. Must not block."""
        if event.kind == "progress" and event.call is None:
            report = event.value
            self._script_reports = True
            if report["done"] > self._count:
                self._add(report["done"], report["total"], report["message"])
        elif event.kind == "tool_finished" and event.call is not None and not self._script_reports:
            self._add(self._count + 1, None, f"{event.call.tool} {event.call.status}")

    def _add(self, done: float, total: float | None, text: str) -> None:
        self._count = done
        self._waiting.append((done, total, text))
        self._news.set()

    async def report_during(self, run: Callable[[], Awaitable[_T]]) -> _T:
        """Await `run` while sending its progress; everything is sent before this returns."""
        import anyio

        async with anyio.create_task_group() as group:
            group.start_soon(self._send)
            result = await run()
            self._over = True
            self._news.set()
            return result
        raise AssertionError  # unreachable: nothing cancels this group

    async def _send(self) -> None:
        import anyio

        while True:
            await self._news.wait()
            self._news = anyio.Event()
            while self._waiting:
                done, total, text = self._waiting.popleft()
                # The client has disconnected: a cancellation will follow.
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await self._report(done, total, text)
            if self._over:
                return
