"""Cancel a coroutine at its n-th await, on asyncio and on trio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
import sniffio

__all__ = ["MODES", "Mode", "Outcome", "alive_tasks", "cancel_at"]

Mode = Literal["task", "task-late", "scope"]
MODES: dict[str, tuple[Mode, ...]] = {
    # A task that is cancelled while it waits; one that is cancelled when what it waited for has
    # just come, so that it is lost unless somebody takes care of it; and anyio's own way.
    "asyncio": ("task", "task-late", "scope"),
    "trio": ("scope",),
}


@dataclass
class Outcome:
    """End of a coroutine that was to be cancelled at one of its awaits."""

    steps: int = 0
    """Awaits that gave up control to the event loop."""
    reached: bool = False
    """False: it ended before the await at which it was to be cancelled."""
    value: Any = None
    error: BaseException | None = field(default=None)


class _Stepped:
    """An awaitable that drives `work` and calls `at` with what it yields at its n-th await."""

    def __init__(
        self, work: Coroutine[Any, Any, Any], n: int, at: Callable[[Any], None], out: Outcome
    ) -> None:
        self._work, self._n, self._at, self._out = work, n, at, out

    def __await__(self) -> Generator[Any, Any, Any]:
        resume: Callable[[Any], Any] = self._work.send
        given: Any = None
        while True:
            try:
                waited = resume(given)
            except StopIteration as end:
                return end.value
            self._out.steps += 1
            if self._out.steps == self._n:
                self._out.reached = True
                self._at(waited)
            try:
                given = yield waited
            except BaseException as error:  # noqa: BLE001  # thrown in: it is for the coroutine
                resume, given = self._work.throw, error
            else:
                resume = self._work.send


async def cancel_at(n: int, mode: Mode, work: Callable[[], Awaitable[Any]]) -> Outcome:
    """Do `work` in a task of its own and cancel it at its n-th await."""
    out = Outcome()

    async def plain() -> Any:
        return await work()

    if mode == "scope":
        with anyio.CancelScope() as scope:
            stepped = _Stepped(plain(), n, lambda _waited: scope.cancel(), out)
            try:
                out.value = await stepped
            except Exception as error:  # noqa: BLE001  # the test judges it
                out.error = error
        return out
    task: asyncio.Task[Any]

    def at(waited: Any) -> None:
        if mode == "task-late" and waited is not None:
            waited.add_done_callback(lambda _future: task.cancel())
        else:
            asyncio.get_running_loop().call_soon(task.cancel)

    async def drive() -> Any:
        return await _Stepped(plain(), n, at, out)

    task = asyncio.get_running_loop().create_task(drive())
    await asyncio.wait([task])
    if task.cancelled():
        return out
    out.error = task.exception()
    out.value = None if out.error is not None else task.result()
    return out


def alive_tasks() -> int:
    """Tasks of the event loop, its own included."""
    if sniffio.current_async_library() == "trio":
        import trio

        return trio.lowlevel.current_statistics().tasks_living
    return len(asyncio.all_tasks())
