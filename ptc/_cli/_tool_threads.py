"""The end of a command while a tool's function still runs in a thread, which nothing interrupts.

The interpreter waits for such threads when it exits, without a word. Here, the command says so, and
Ctrl-C abandons them.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress

from .._core._threads import TOOL_THREAD
from ._status import INTERRUPTED
from ._terminal import standard_error

__all__ = ["wait_for_tools"]


def wait_for_tools(status: int) -> None:
    """Wait for the functions of tools; exit at once with `INTERRUPTED` on Ctrl-C.

    Args:
        status: Exit status of the command.
    """
    # Only these: a tool may have threads of its own that end when the interpreter exits.
    threads = [each for each in threading.enumerate() if each.name.startswith(TOOL_THREAD)]
    if not threads:
        return
    names = sorted({thread.name.removeprefix(TOOL_THREAD) for thread in threads})
    again = " again" if status == INTERRUPTED else ""
    try:
        standard_error().line(f"waiting for {', '.join(names)}; Ctrl-C{again} to abandon it")
        for thread in threads:
            while thread.name.startswith(TOOL_THREAD) and thread.is_alive():
                thread.join(_POLL_SECONDS)
    except KeyboardInterrupt:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        # `sys.exit` would wait for the threads.
        os._exit(INTERRUPTED)


_POLL_SECONDS = 0.1
"""Interval at which a thread is checked, which may be kept for other functions."""
