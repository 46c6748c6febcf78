"""Lease of a run: the exclusive right to write to its record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from itertools import count

from .._dataclass import dataclass

__all__ = ["Lease"]


@dataclass(frozen=True, slots=True)
class Lease:
    """The exclusive right to write to a run, until another process acquires it."""

    run_id: str
    number: int
    """Number of the run in its journal."""
    epoch: int
    """Fencing token: counts the acquisitions of the run, from 1."""
    positions: Iterator[int] = field(default_factory=lambda: count(1), compare=False, repr=False)
    """Numbers of the messages to its worker that are recorded next."""

    def __hash__(self) -> int:
        # Leases are keys of dicts for every row that is written.
        return self.number
