"""Pages that show the runs of a journal, on any machine: a document says until when there are some.

A model answers in one piece unless somebody watches, so a host asks before it streams. Partial
values of its calls are recorded then, and a page of another process shows them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from .._core._clock import now_ms
from ..errors import PtcError
from ._documents import Document, Documents

__all__ = ["Viewers"]

_T = TypeVar("_T")

_NAME: Final = "ptc/viewers"
_LEASE_MS: Final = 60_000
"""Time after which a page that was killed no longer counts; far above the skew of clocks."""
_RENEW_SECONDS: Final = 20.0
_WAIT_SECONDS: Final = 1.0
_READ_SECONDS: Final = 1.0
"""Age of an answer of `are_present`: calls in a loop read the journal once a second."""


class Viewers:
    """The pages of one journal."""

    def __init__(self, documents: Callable[[], Documents]) -> None:
        """Read nothing yet.

        Args:
            documents: Returns the documents of the journal, once it is open.
        """
        self._documents = documents
        self._present = False
        self._read_at = self._written_at = -_LEASE_MS / 1_000

    async def are_present(self) -> bool:
        """Return True if a page shows runs; False if the journal cannot be read."""
        if anyio.current_time() - self._read_at > _READ_SECONDS:
            self._read_at = anyio.current_time()
            self._present = await _brief(self._read) is True
        return self._present

    def _read(self) -> bool:
        return _until_ms(self._documents().read(_NAME)) > now_ms()

    async def renew(self) -> None:
        """Record that a page shows runs, unless that was done within 20 s.

        If the journal cannot be written, only partial values of other processes are missing.
        """
        if anyio.current_time() - self._written_at > _RENEW_SECONDS:
            self._written_at = anyio.current_time()
            await _brief(self._write)

    def _write(self) -> None:
        until_ms = now_ms() + _LEASE_MS

        def later(found: Document | None) -> dict[str, int]:
            return {"until_ms": max(until_ms, _until_ms(found))}

        self._documents().change(_NAME, later)


async def _brief(work: Callable[[], _T]) -> _T | None:
    """Call `work` in a thread, and return its result; None if it fails or takes over a second.

    Another process may hold the lock of a journal for half a minute: no call and no page waits.
    """
    with anyio.move_on_after(_WAIT_SECONDS), suppress(PtcError):
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    return None


def _until_ms(found: Document | None) -> int:
    """Return the end of the last lease; 0 if it cannot be one, as from a clock that is wrong."""
    until = found.data.get("until_ms") if found and isinstance(found.data, dict) else None
    return until if type(until) is int and until <= now_ms() + 2 * _LEASE_MS else 0
