"""Opening and closing of a session, once each and in one event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from ..errors import SessionClosedError
from ._reactor import running_loop

__all__ = ["Lifetime"]


class Lifetime:
    """State of a session: new, open in one event loop, or closed."""

    def __init__(self) -> None:
        self._opened = False
        self._loop: object = None
        self._closed: anyio.Event | None = None

    @property
    def is_open(self) -> bool:
        """True from `open` until `close` is called."""
        return self._opened and self._closed is None

    def open(self) -> None:
        """Open the session in the running event loop.

        Raises:
            SessionClosedError: If it was opened or closed before.
        """
        if self._opened or self._closed is not None:
            msg = "a Session is opened once; make another"
            raise SessionClosedError(msg)
        self._opened = True
        self._loop = running_loop()

    def check_open(self) -> None:
        """Raise `SessionClosedError` unless the session is open in the running event loop."""
        if not self.is_open:
            word = "is not open: use `async with`" if self._closed is None else "is closed"
            msg = f"the session {word}"
            raise SessionClosedError(msg)
        if running_loop() is not self._loop:
            msg = (
                "the session belongs to the event loop it was opened in; open one in each "
                "asyncio.run(), or use a BlockingSession from any thread"
            )
            raise SessionClosedError(msg)

    async def close(self, release: Callable[[], Awaitable[None]]) -> None:
        """Close the session and release its resources; a second caller waits for the first.

        Args:
            release: Releases the resources. It is called once and not cancelled.
        """
        if self._closed is not None:
            await self._closed.wait()
            return
        self._closed = anyio.Event()
        try:
            with anyio.CancelScope(shield=True):
                await release()
        finally:
            self._closed.set()
