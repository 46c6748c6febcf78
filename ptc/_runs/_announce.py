"""Notice of calls that a run paused for, to the application."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from .._records._result import PendingCall

__all__ = ["OnApproval", "announce"]

OnApproval: TypeAlias = Callable[[PendingCall], Awaitable[None] | None]
"""Receives a call that a run paused for."""

_log = logging.getLogger("ptc")


async def announce(on_approval: OnApproval | None, pending: Iterable[PendingCall]) -> None:
    """Pass pending calls to `on_approval`, which cannot fail their run."""
    if on_approval is None:
        return
    for call in pending:
        try:
            answer = on_approval(call)
            if inspect.isawaitable(answer):
                await answer
        except Exception:  # noqa: BLE001  # the callback is its author's code
            _log.exception("on_approval failed for call %s of run %s", call.call, call.run_id)
