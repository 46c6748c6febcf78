"""The wall clock, in the unit of the journal."""

from __future__ import annotations

import time

__all__ = ["now_ms"]


def now_ms() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
