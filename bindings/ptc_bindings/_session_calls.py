"""Calls of a session from any thread or event loop, for frameworks with plain and async tools."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar

import ptc

__all__ = ["AnySession", "SessionCalls"]

AnySession: TypeAlias = ptc.Session | ptc.BlockingSession

_T = TypeVar("_T")


class SessionCalls:
    """Makes calls of a session where it is open: in its event loop, or in its thread."""

    def __init__(self, session: AnySession, *, plain: bool = False) -> None:
        """Prepare for calls.

        Args:
            session: The session. For plain calls of a `Session`, its event loop must be running
                here.
            plain: True: all calls will be plain.

        Raises:
            UsageError: If plain calls cannot work.
        """
        self._blocking = session if isinstance(session, ptc.BlockingSession) else None
        self._loop = None if self._blocking else _running_loop()
        if plain and self._blocking is None and self._loop is None:
            msg = "as_tools needs a BlockingSession, or a Session in a running asyncio event loop"
            raise ptc.UsageError(msg)
        self.session = session._session if isinstance(session, ptc.BlockingSession) else session

    async def call(self, function: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Await `function()`. Cancelling this cancels it."""
        if self._blocking is None and self._loop in (None, _running_loop()):
            return await function()
        return await asyncio.wrap_future(self._submit(function))

    def wait(self, function: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Wait for `function()` in a thread other than the session's.

        Raises:
            UsageError: If this is the thread of the session, which would wait for itself.
        """
        if self._blocking is not None:
            return self._blocking._wait(function)
        if self._loop in (None, _running_loop()):
            msg = (
                "the agent runs in the thread of the session's event loop, so a plain call would "
                "wait for ever: use the async methods of the framework, `await "
                "asyncio.to_thread(agent.run, ...)`, or a BlockingSession"
            )
            raise ptc.UsageError(msg)
        future = self._submit(function)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _submit(self, function: Callable[[], Awaitable[_T]]) -> Future[_T]:
        if self._blocking is not None:
            return self._blocking._open().submit(function)
        assert self._loop is not None  # checked by the callers  # noqa: S101
        return asyncio.run_coroutine_threadsafe(_await(function), self._loop)


async def _await(function: Callable[[], Awaitable[_T]]) -> _T:
    return await function()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
