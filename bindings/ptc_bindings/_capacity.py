"""Bounds on concurrent work: in total, and for each client.

Rule 1: work over a bound is refused at once, with its reason; nothing queues without a bound.
    tests/bindings/test_http.py::test_call_over_the_clients_bound_is_refused_at_once
Rule 2: a slot is held until the work ends, not until its connection does. A client that disconnects
    has not stopped its script.
    tests/bindings/test_http.py::test_disconnected_call_still_counts_against_its_client
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

__all__ = ["Capacity"]


class Capacity:
    """Slots for concurrent work, some of which a client may hold."""

    def __init__(
        self, most: int, *, owner: str = "this client", total: Capacity | None = None
    ) -> None:
        """Create free slots.

        Args:
            most: Slots held at once.
            owner: Its name in messages.
            total: Slots of all clients together, one of which is held with each of these.
        """
        self._most = most
        self._owner = owner
        self._total = total
        self._held = 0
        self._closed = False
        self._idle: anyio.Event | None = None

    @property
    def held(self) -> int:
        """Slots that are held."""
        return self._held

    @property
    def is_full(self) -> bool:
        """True if the client holds all of its slots."""
        return self._held >= self._most

    def close(self) -> None:
        """Refuse new work; work in progress continues."""
        self._closed = True

    def refusal(self, what: str) -> str:
        """Return the reason that a slot cannot be had now; empty: there is one.

        Args:
            what: Name of the work, in the plural.
        """
        total = self._total
        if self._closed or (total is not None and total._closed):
            return "the server is shutting down; connect again later"
        if self.is_full:
            return (
                f"the server is busy: {self._held} {what} of {self._owner} are in progress, which "
                "is its maximum; wait for one to finish, or try again in a second"
            )
        return total.refusal(what) if total is not None else ""

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold a slot during the block. The caller has checked `refusal`, in the same step."""
        self._take()
        try:
            yield
        finally:
            self._release()

    async def wait_idle(self) -> None:
        """Wait until no slot is held."""
        while self._held:
            self._idle = anyio.Event()
            await self._idle.wait()

    def _take(self) -> None:
        self._held += 1
        if self._total is not None:
            self._total._take()

    def _release(self) -> None:
        self._held -= 1
        if self._total is not None:
            self._total._release()
        if not self._held and self._idle is not None:
            self._idle.set()
