"""Feeding a worker what it was sent before, until there is no more: then the run goes on.

A script is a pure function of its messages: given the same ones in the same order it makes the same
calls. So a message is sent again as soon as what it answers has been asked for, and nothing else is
done until all of them were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .._calls._call import OpenCall
from .._calls._dispatch import Dispatch
from .._calls._recorder import DivergenceError, Track
from .._journal._journal import CallRow
from .._wire._protocol import Kind

__all__ = ["Replay"]


@dataclass(slots=True)
class Replay:
    """What a run does in place of serving calls while it repeats itself."""

    track: Track
    dispatch: Dispatch
    send: Callable[[Kind, bytes], None]
    answer: Callable[[int, float, bytes], None]
    until: str | None = None
    """Stop when the script is given the outcome of this call."""
    stopped: bool = False
    """True if it was."""
    held: list[tuple[int, OpenCall]] = field(default_factory=list)
    """Calls whose outcome the script was not given before: for when the run goes on."""
    timer: float | None = None
    """When the script wants to be told the time."""
    _asked: dict[str, tuple[int, CallRow]] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """True if the worker was sent all that it was sent before."""
        return not self.track.deliveries and not self.stopped

    def called(self, number: int, call: OpenCall) -> None:
        """The script made a call.

        Raises:
            DivergenceError: If another call is recorded in its place.
        """
        self.dispatch.admit(call)
        row = self.track.row(call)
        if row is None or row.end is None or row.end.elapsed is None:
            self.held.append((number, call))
        else:
            self.dispatch.recall(call, row)
            self._asked[call.path] = (number, row)

    def feed(self) -> None:
        """Send what can be sent."""
        deliveries = self.track.deliveries
        while deliveries and not self.stopped:
            next_one = deliveries[0]
            if next_one.path is None:
                if self.timer is None:
                    return
                self.timer = None
                self.send(Kind.TICK, b"[%r]" % next_one.elapsed)
            else:
                asked = self._asked.pop(next_one.path, None)
                if asked is None:
                    return
                number, row = asked
                assert row.end is not None  # noqa: S101  # `called` has looked
                self.answer(number, next_one.elapsed, row.end.body)
            deliveries.popleft()
            if self.until is not None and next_one.path == self.until:
                self.stopped = True
                self.send(Kind.INSPECT, b"[]")

    def refuse_end(self, how: str) -> None:
        """The script ended. Raises `DivergenceError` if it did not before."""
        if not self.track.deliveries:
            return
        path = self.track.deliveries[0].path
        what = "was told the time" if path is None else f"was given the outcome of call {path}"
        msg = f"the script {how} where it {what} before"
        raise DivergenceError(msg)
