"""A session whose workers are ready, and a wait until its pool is full again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

from ptc import (
    Session,
)
from tests.core.pools import pool_of


@asynccontextmanager
async def ready_session(
    root: Path, *tools: Any, workers: int = 1, **options: Any
) -> AsyncIterator[Any]:
    """A session whose workers are ready."""
    session = Session(root, tools=tools, toolsets=(), workers=workers, **options)
    with anyio.fail_after(20):
        async with session:
            await session.warm_up()
            await wait_until_full(session)
            yield session


async def wait_until_full(session: Session) -> None:
    """Wait until the pool is full, which is also that nobody is left over."""
    pool = pool_of(session)
    # There may be one more than its size, whose run did not wait for it.
    while pool.ready < pool.target or pool.live != pool.ready:
        await session.warm_up()
        await anyio.sleep(0.001)
