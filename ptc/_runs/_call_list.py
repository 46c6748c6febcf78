"""The calls of one script in order: as records once they have ended, which take less memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from .._calls._call import OpenCall
from .._records._result import CallRecord
from ._turns import Turns

__all__ = ["CallList"]


class CallList:
    """Calls of a script, added in the order in which it makes them.

    A call that has ended is kept as its record: a quarter of the memory, in a run that may make
    50,000 calls.
    """

    __slots__ = ("_calls", "_last_line", "last", "open")

    def __init__(self) -> None:
        self._calls: list[OpenCall | CallRecord] = []
        self.open: dict[int, OpenCall] = {}
        """Calls that have not ended, or wait for a decision, by number from 1."""
        self.last: tuple[str, int | None] | None = None
        """Tool and line of the last call; None: there is none."""
        self._last_line = 0

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: OpenCall) -> None:
        """Add the next call."""
        self._calls.append(call)
        self.open[len(self._calls)] = call
        self.last = call.call.name, call.call.line
        self._last_line = call.call.line or self._last_line

    def settle(self, call: OpenCall) -> None:
        """Replace a call that has ended, and whose outcome nothing changes, by its record."""
        self._calls[call.call.seq - 1] = call.record()
        del self.open[call.call.seq]
        if call.occurrence is not None:
            call.occurrence.forget_call()

    def running(self) -> list[OpenCall]:
        """Return the calls that have started and not ended."""
        return [call for call in self.open.values() if call.started and not call.ended]

    def last_line(self) -> int:
        """Return the line of the last call whose line is known; 0: there is none."""
        return self._last_line

    async def records(self, below: Iterable[OpenCall]) -> tuple[CallRecord, ...]:
        """Return a record of each call in order; calls that tools made follow their caller.

        Args:
            below: The calls that tools made.
        """
        nested = defaultdict[int, list[OpenCall]](list)
        for call in below:
            nested[call.position[0]].append(call)
        turns, records = Turns(), list[CallRecord]()
        for number, made in enumerate(self._calls, 1):
            if turns.is_over():
                await turns.next()
            records.append(made if isinstance(made, CallRecord) else made.record())
            for call in sorted(nested.get(number, ()), key=lambda call: call.position):
                if turns.is_over():
                    await turns.next()
                records.append(call.record())
        return tuple(records)
