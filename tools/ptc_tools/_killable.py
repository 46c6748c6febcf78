"""Cancellable threads for tools that wait for a process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.lowlevel import checkpoint_if_cancelled

__all__ = ["in_killable_thread"]

_T = TypeVar("_T")


async def in_killable_thread(
    body: Callable[[], _T],
    kill: Callable[[], None],
    limiter: anyio.CapacityLimiter | None = None,
) -> _T:
    """Run `body` in a thread. Cancellation calls `kill` and waits for the thread.

    Args:
        body: A blocking function. Must return or raise soon after `kill`.
        kill: Called from the event loop, possibly several times and after the thread has ended.
        limiter: Limit of concurrent threads. Default: the one of anyio.
    """
    done = anyio.Event()
    outcome: list[_T] = []
    failure: list[BaseException] = []
    started = threading.Event()

    def work() -> None:
        started.set()
        try:
            outcome.append(body())
        except BaseException as error:  # noqa: BLE001 - raised below, outside the task group
            failure.append(error)
        finally:
            anyio.from_thread.run_sync(done.set)

    async def kill_when_cancelled() -> None:
        try:
            await done.wait()
        finally:
            kill()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(kill_when_cancelled)
            await anyio.to_thread.run_sync(work, limiter=limiter)
    finally:
        # A native cancellation of asyncio bypasses anyio's shield around the thread.
        kill()
        if started.is_set():
            with anyio.CancelScope(shield=True):
                await done.wait()
    # A killed body fails, but a cancelled caller must receive its cancellation.
    await checkpoint_if_cancelled()
    if failure:
        raise failure[0]
    return outcome[0]
