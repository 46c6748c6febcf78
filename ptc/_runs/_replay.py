"""Replay of the messages that a worker was sent before, up to the point where the run resumes.

A script is a pure function of its messages: given the same ones in the same order, it makes the
same calls. So a recorded message is sent as soon as the script has made the request it answers, and
no call is executed until all messages have been sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from .._calls._call import OpenCall
from .._calls._dispatch import Dispatch
from .._calls._recorder import DivergenceError, RunRecorder
from .._dataclass import dataclass
from .._wire._protocol import Kind
from ..journal._journal import CallRow

__all__ = ["Replay"]


@dataclass(slots=True)
class Replay:
    """Answers a script from its record, in place of executing its calls."""

    recorder: RunRecorder
    dispatch: Dispatch
    send: Callable[[Kind, bytes], None]
    answer: Callable[[int, float, bytes], None]
    until: str | None = None
    """Stop after the outcome of this call was sent to the script."""
    stopped: bool = False
    """True after that."""
    held: list[tuple[int, OpenCall]] = field(default_factory=list)
    """Calls without a recorded answer, to be executed when the run resumes."""
    timer: float | None = None
    """Deadline of the script's timer, in seconds since the start."""
    _requested: dict[str, tuple[int, CallRow]] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """True if all recorded messages have been sent."""
        return not self.recorder.deliveries and not self.stopped

    def add(self, number: int, call: OpenCall) -> None:
        """Match a call that the script made with its record.

        Raises:
            DivergenceError: If another call is recorded at its position.
        """
        self.dispatch.admit(call)
        row = self.recorder.row(call)
        if row is None or row.end is None or row.end.elapsed is None:
            self.held.append((number, call))
        else:
            self.dispatch.replay(call, row)
            self._requested[call.path] = (number, row)

    def feed(self) -> None:
        """Send the recorded messages whose requests have been made, in order."""
        deliveries = self.recorder.deliveries
        while deliveries and not self.stopped:
            delivery = deliveries[0]
            if delivery.path is None:
                if self.timer is None:
                    return
                self.timer = None
                self.send(Kind.TICK, b"[%r]" % delivery.elapsed)
            else:
                request = self._requested.pop(delivery.path, None)
                if request is None:
                    return
                number, row = request
                assert row.end is not None  # noqa: S101  # `add` has checked
                self.answer(number, delivery.elapsed, row.end.body)
            deliveries.popleft()
            if self.until is not None and delivery.path == self.until:
                self.stopped = True
                self.send(Kind.INSPECT, b"[]")

    def require_end(self, how: str) -> None:
        """Check that the script may end here.

        Raises:
            DivergenceError: If more messages are recorded.
        """
        if not self.recorder.deliveries:
            return
        path = self.recorder.deliveries[0].path
        before = "waited for a timer" if path is None else f"received the outcome of call {path}"
        msg = f"the script {how} at a point where it {before} in the recorded run"
        raise DivergenceError(msg)
