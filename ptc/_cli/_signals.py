"""Signals that stop a command."""

from __future__ import annotations

import signal

__all__ = ["stop_signals"]


def stop_signals() -> list[signal.Signals]:
    """Return the signals that stop this process.

    Signals that the shell made us ignore (`nohup`, a background job) stay ignored.
    """
    stopping = (signal.SIGINT, signal.SIGTERM)
    return [number for number in stopping if signal.getsignal(number) != signal.SIG_IGN]
