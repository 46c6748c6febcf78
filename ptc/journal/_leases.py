"""Leases of this process, and the runs that it can no longer record."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import JournalError, LeaseLostError
from ._lease import Lease

__all__ = ["Leases"]


class Leases:
    """Leases that a journal object holds or held."""

    def __init__(self) -> None:
        self.held: dict[int, int] = {}
        """Epoch of each lease that is held, by the number of the run."""
        self._lost: set[tuple[int, int]] = set()
        self._failures: dict[tuple[int, int], JournalError] = {}
        self._released: set[tuple[int, int]] = set()

    def check(self, lease: Lease) -> None:
        """As `Journal.check`."""
        key = lease.number, lease.epoch
        if key in self._failures:
            raise self._failures[key]
        if key in self._lost:
            msg = f"another process acquired run {lease.run_id!r}: this one can no longer record it"
            raise LeaseLostError(msg)

    def is_whole(self, lease: Lease) -> bool:
        """True if no write with this lease has failed: later ones would leave a gap.

        A new run whose id was in use has the epoch of the run that has it, so the store would
        accept its later writes.
        """
        key = lease.number, lease.epoch
        return key not in self._failures and key not in self._lost

    def lose(self, lease: Lease) -> None:
        """Note that another process holds the run."""
        self._lost.add((lease.number, lease.epoch))

    def fail(self, lease: Lease, error: JournalError) -> None:
        """Note that a write with this lease failed; the first error stays."""
        self._failures.setdefault((lease.number, lease.epoch), error)

    def clear_failure(self, lease: Lease) -> None:
        """Forget the failure of an earlier run with the same id that could not be written."""
        self._failures.pop((lease.number, lease.epoch), None)
        self._lost.discard((lease.number, lease.epoch))
        self._released.discard((lease.number, lease.epoch))

    def unreleased(self) -> list[tuple[int, int]]:
        """Return number and epoch of the leases that were given up, but not in the store."""
        held = set(self.held.items())
        return [key for key in list(self._failures) if key not in held | self._released]

    def note_released(self, leases: Iterable[tuple[int, int]]) -> None:
        """Note that the store has released these leases."""
        self._released.update(leases)
