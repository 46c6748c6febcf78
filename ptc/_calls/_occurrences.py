"""Numbers of equal calls of one caller, from which their keys are computed."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from .._dataclass import dataclass

if TYPE_CHECKING:
    from ._call import OpenCall

__all__ = ["Occurrence", "Occurrences"]


@dataclass(slots=True)
class Occurrence:
    """Number of a call among equal ones. It outlives the call, which may be large."""

    call: OpenCall | None
    """The call; None: it was forgotten."""
    identity: bytes | str = ""
    """Its `compact_identity`, once it was forgotten."""
    number: int = 0
    """Number among equal calls, from 1; 0: not counted yet."""

    def forget_call(self) -> None:
        """Keep only the identity of the call."""
        if self.call is not None:
            self.identity, self.call = self.call.compact_identity(), None

    def read_identity(self) -> str:
        """Return the identity of the call."""
        if self.call is not None:
            return self.call.identity() or ""
        known = self.identity
        return known if isinstance(known, str) else hashlib.sha256(known).hexdigest()


class Occurrences:
    """Numbers of equal calls of one caller: the first, the second ...

    Equal calls are counted when the first key of a tool is needed: most calls need none.
    """

    def __init__(self, key_run: str | None = None) -> None:
        """Number the calls of a caller.

        Args:
            key_run: Run to which the keys of the calls belong; None: the run that makes them.
        """
        self.key_run = key_run
        self._waiting: dict[str, list[Occurrence]] = {}
        self._counted: dict[str, Counter[str]] = {}

    def add(self, call: OpenCall) -> None:
        """Add a call. Calls are added in the order in which they are made."""
        call.occurrence = Occurrence(call)
        self._waiting.setdefault(call.call.name, []).append(call.occurrence)

    def number(self, call: OpenCall) -> int:
        """Return the number of `call` among equal calls, from 1."""
        occurrence = call.occurrence
        assert occurrence is not None  # noqa: S101  # the call was added
        if not occurrence.number:
            waiting = self._waiting[call.call.name]
            counted = self._counted.setdefault(call.call.name, Counter())
            for earlier in waiting:
                identity = earlier.read_identity()
                counted[identity] += 1
                earlier.number = counted[identity]
            waiting.clear()
        return occurrence.number
