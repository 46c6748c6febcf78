"""A tool whose calls take a chosen time."""

from __future__ import annotations

import anyio

from ptc import tool

__all__ = ["after"]


@tool
async def after(ms: int) -> int:
    """Answer after some milliseconds."""
    await anyio.sleep(ms / 1000)
    return ms
