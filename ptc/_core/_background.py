"""A task beside a block of code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import ParamSpec

import anyio

__all__ = ["running"]

_P = ParamSpec("_P")


@asynccontextmanager
async def running(
    function: Callable[_P, Awaitable[object]], *args: _P.args, **options: _P.kwargs
) -> AsyncIterator[None]:
    """Run `function` while the block is executed; leaving the block cancels it.

    An exception of `function` or of the block is raised unchanged, not in a group.
    """

    async def run() -> None:
        await function(*args, **options)

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            yield
            group.cancel_scope.cancel()
    except BaseExceptionGroup as raised:
        if len(raised.exceptions) != 1:
            raise
        raise raised.exceptions[0] from None
