"""Readiness and timers as plain callbacks, on asyncio and on trio.

anyio offers both as coroutines, but a coroutine for each frame of each worker costs a task switch,
which is noticeable in a run of a tenth of a millisecond. Callbacks must not raise or block.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Protocol

import anyio

__all__ = ["Reactor", "Signal", "current_reactor", "running_loop", "spawn"]

Stop = Callable[[], None]


class Reactor(Protocol):
    """Interface of an event loop that the host needs."""

    def on_readable(self, sock: socket.socket, callback: Callable[[], None]) -> Stop:
        """Call `callback` whenever `sock` is readable, until the returned function is called."""
        ...

    def on_writable(self, sock: socket.socket, callback: Callable[[], None]) -> Stop:
        """Call `callback` whenever `sock` is writable, until the returned function is called."""
        ...

    def closing(self, sock: socket.socket) -> None:
        """Announce that `sock` is about to be closed; its callbacks must have been stopped."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Stop:
        """Call `callback` once, after `seconds`, unless the returned function is called first."""
        ...


class _AsyncioReactor:
    __slots__ = ("_loop",)

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def on_readable(self, sock: socket.socket, callback: Callable[[], None]) -> Stop:
        fd = sock.fileno()
        self._loop.add_reader(fd, callback)
        return lambda: self._stop(self._loop.remove_reader, fd)

    def on_writable(self, sock: socket.socket, callback: Callable[[], None]) -> Stop:
        fd = sock.fileno()
        self._loop.add_writer(fd, callback)
        return lambda: self._stop(self._loop.remove_writer, fd)

    def closing(self, sock: socket.socket) -> None:
        pass  # add_reader holds nothing once it is removed

    def _stop(self, remove: Callable[[int], Any], fd: int) -> None:
        if not self._loop.is_closed():
            remove(fd)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Stop:
        return self._loop.call_later(seconds, callback).cancel


class _TrioReactor:
    __slots__ = ()

    def on_readable(self, sock: socket.socket, callback: Callable[[], None]) -> Stop:
        import trio

        wait = trio.lowlevel.wait_readable
        return self._repeat(partial(wait, sock), callback)

    def on_writable(self, sock: socket.socket, callback: Callable[[], None]) -> Stop:
        import trio

        wait = trio.lowlevel.wait_writable
        return self._repeat(partial(wait, sock), callback)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Stop:
        import trio

        scope = trio.CancelScope()

        async def fire() -> None:
            with scope:
                await trio.sleep(seconds)
                callback()

        trio.lowlevel.spawn_system_task(fire)
        return scope.cancel

    def _repeat(self, wait: Callable[[], Awaitable[None]], callback: Callable[[], None]) -> Stop:
        import trio

        scope = trio.CancelScope()

        async def watch() -> None:
            with scope:
                # The callback may cancel this watch and close the socket.
                while not scope.cancel_called:
                    try:
                        await wait()
                    except trio.ClosedResourceError:
                        return
                    callback()

        trio.lowlevel.spawn_system_task(watch)
        return scope.cancel

    def closing(self, sock: socket.socket) -> None:
        import trio

        # trio withdraws a cancelled wait on its next turn, when the socket must still be open.
        trio.lowlevel.notify_closing(sock)


class Signal:
    """Event that any thread can set once, awaited in the event loop it was created in."""

    __slots__ = ("_call", "_event")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._call = caller_of_loop()

    def set(self) -> None:
        """Wake the waiter."""
        self._call(self._event.set)

    async def wait(self) -> None:
        """Wait until it is set."""
        await self._event.wait()


def caller_of_loop() -> Callable[[Callable[[], object]], None]:
    """Return a function that any thread can use to call a function in the running event loop.

    If the loop is closed by then, the function is not called.
    """
    call_soon: Callable[..., object]
    try:
        call_soon = asyncio.get_running_loop().call_soon_threadsafe
    except RuntimeError:
        import trio

        call_soon = trio.lowlevel.current_trio_token().run_sync_soon

    def call(function: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # trio's RunFinishedError is one
            call_soon(function)

    return call


def current_reactor() -> Reactor:
    """Return the reactor of the running event loop: of asyncio (or a compatible loop), or trio."""
    try:
        return _AsyncioReactor()
    except RuntimeError:
        return _TrioReactor()


_tasks: set[asyncio.Task[None]] = set()
"""Tasks of `spawn`: asyncio itself has only weak references to them."""


def spawn(function: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Start a task that belongs to no task group. `function` must not raise an exception."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        import trio

        trio.lowlevel.spawn_system_task(function, context=copy_context())
        return
    task = loop.create_task(function())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def running_loop() -> object:
    """Return an object that identifies the running event loop.

    `anyio.lowlevel.current_token` would take 5 us, a third of a direct call.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        import trio

        return trio.lowlevel.current_trio_token()
