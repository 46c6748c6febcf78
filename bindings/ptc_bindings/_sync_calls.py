"""Calls of a session from the threads of a framework that has no event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

import ptc

__all__ = ["AnySession", "SyncCalls"]

AnySession: TypeAlias = ptc.Session | ptc.BlockingSession
_T = TypeVar("_T")


class SyncCalls:
    """Runs coroutines of one session, and waits for them in the thread of the caller."""

    def __init__(self, session: AnySession) -> None:
        """Remember the event loop of an open session.

        Raises:
            UsageError: If a `Session` is passed outside of an event loop of asyncio.
        """
        self._blocking = session if isinstance(session, ptc.BlockingSession) else None
        self._loop: asyncio.AbstractEventLoop | None = None
        if isinstance(session, ptc.BlockingSession):
            self.session = session._session
            return
        self.session = session
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            msg = "as_tools needs a BlockingSession, or a Session in a running asyncio event loop"
            raise ptc.UsageError(msg) from None

    def wait(self, function: Callable[[], Awaitable[_T]]) -> _T:
        """Run an async function in the session's event loop, and return its result.

        Raises:
            UsageError: If this is the thread of that event loop, which would wait for ever.
        """
        if self._blocking is not None:
            return self._blocking._wait(function)
        assert self._loop is not None  # noqa: S101  # set without a blocking session
        with contextlib.suppress(RuntimeError):
            if asyncio.get_running_loop() is self._loop:
                msg = (
                    "the agent runs in the thread of the session's event loop, so a tool of the "
                    "session would wait for ever: use `await asyncio.to_thread(agent.run, ...)`, "
                    "or a BlockingSession"
                )
                raise ptc.UsageError(msg)
        future = asyncio.run_coroutine_threadsafe(_awaited(function), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


async def _awaited(function: Callable[[], Awaitable[_T]]) -> _T:
    return await function()
