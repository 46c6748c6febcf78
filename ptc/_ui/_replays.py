"""Time travel: the variables of a script when it received the result of a call."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import anyio

from ..testing._recording import Recording

if TYPE_CHECKING:
    from .._runs._history import History

__all__ = ["Replays"]

_STORED: Final = 64
_AT_ONCE: Final = 1


class Replays:
    """Replays of recorded runs, each in a jailed worker, a bounded number of them at once."""

    def __init__(self, history: History) -> None:
        """Replay runs of a journal."""
        self._history = history
        self._slots = anyio.Semaphore(_AT_ONCE)
        self._stored: OrderedDict[tuple[str, int, str], dict[str, Any]] = OrderedDict()

    async def at(self, run_id: str, call: str) -> dict[str, Any]:
        """Return the script's variables when it received the result of a call.

        Raises:
            UsageError: If it received no result of such a call.
            SetupError: If this machine can start no worker.
        """
        async with self._slots:
            recording = await Recording.of(self._history, run_id)
            key = (run_id, recording.recorded.run.revision, call)
            if key not in self._stored:
                result = await recording.replay(until=call)
                self._stored[key] = {
                    "status": result.status,
                    "frames": [dataclasses.asdict(frame) for frame in result.frames],
                    "stdout": result.stdout[-8_192:],
                    "error": None if result.error is None else result.error.message,
                }
                while len(self._stored) > _STORED:
                    self._stored.popitem(last=False)
            return self._stored[key]
