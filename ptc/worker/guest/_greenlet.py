"""Stand-in for greenlet in a guest, which has one stack: a function runs to its end at once.

`ptc.worker._threads` starts a thread of a script on the stack of one that waits, and continues no
thread below another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["ONE_STACK", "getcurrent", "greenlet"]

ONE_STACK: Final = True


def getcurrent() -> greenlet:
    """Return a greenlet that cannot be switched to: that of the caller."""
    return greenlet(None, None)


class greenlet:  # the library's name
    """A function that runs on the stack of the code that switches to it."""

    def __init__(self, run: Callable[[], None] | None, _parent: greenlet | None) -> None:
        self._run = run

    def switch(self) -> None:
        """Call the function."""
        if self._run is None:
            raise RuntimeError("a stack below another one cannot continue")
        run, self._run = self._run, None
        run()
