"""A thread that can be made to end: what a tool needs that waits for a process."""

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
    """Run `body` in a thread. Cancelling calls `kill` and waits until the thread is done.

    Args:
        body: Blocks. Must come to its end soon after `kill`, with any outcome.
        kill: Called from the event loop, perhaps more than once, and after the end too.
        limiter: How many threads at once; None: as many as anyio has for all.
    """
    done = anyio.Event()
    outcome: list[_T] = []
    failure: list[BaseException] = []
    begun = threading.Event()

    def work() -> None:
        begun.set()
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
        # A cancellation that is asyncio's own goes past anyio's shield around the thread.
        kill()
        if begun.is_set():
            with anyio.CancelScope(shield=True):
                await done.wait()
    # A body that was killed fails, but the caller who cancelled is owed its cancellation.
    await checkpoint_if_cancelled()
    if failure:
        raise failure[0]
    return outcome[0]
