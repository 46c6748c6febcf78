"""Signals of the operating system in an event loop, on every system."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import anyio

__all__ = ["receive_signals"]


@contextmanager
def receive_signals(*numbers: signal.Signals) -> Iterator[AsyncIterator[signal.Signals]]:
    """Receive signals instead of what they do by default, until the context is left.

    Args:
        numbers: The signals. On Windows, Ctrl-C is SIGINT, and nothing sends the others.
    """
    if os.name == "nt" and not _is_trio():
        # The loops of asyncio have no handlers of signals there.
        with _by_interpreter(numbers) as received:
            yield received
        return
    with anyio.open_signal_receiver(*numbers) as received:
        yield received


def _is_trio() -> bool:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False


@contextmanager
def _by_interpreter(numbers: tuple[signal.Signals, ...]) -> Iterator[AsyncIterator[signal.Signals]]:
    """As `receive_signals`, with handlers that the interpreter calls in the main thread."""
    import asyncio

    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[signal.Signals] = asyncio.Queue()

    def on_signal(number: int, _frame: object) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, signal.Signals(number))

    async def received() -> AsyncIterator[signal.Signals]:
        while True:
            yield await queue.get()

    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield received()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
