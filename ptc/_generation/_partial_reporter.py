"""Reporter of partial answers while a model streams."""

from __future__ import annotations

from dataclasses import replace

from ..models._model import Delta
from ..structured import Accepted, Contract, Partial, StreamParser
from ..structured._stream import extends
from ._question import OnPartial

__all__ = ["PartialReporter"]


class PartialReporter:
    """Turns the deltas of a model into partial answers for the caller."""

    def __init__(self, contract: Contract, on_partial: OnPartial, *, wrapped: bool) -> None:
        self._parser = StreamParser(contract, wrapped=wrapped)
        self._on_partial = on_partial
        self._attempt = 0
        self._in_call = False
        self._last: Partial | None = None

    def start_attempt(self) -> None:
        """Discard the text of the previous request."""
        if self._attempt:
            self._parser.restart()
        self._attempt += 1
        self._in_call = False

    def feed_delta(self, delta: Delta) -> None:
        """Parse the next characters."""
        if delta.in_call and not self._in_call:
            # Text before the call is not the answer.
            self._in_call = True
            self._parser.restart()
        elif self._in_call and not delta.in_call:
            return
        partial = self._parser.feed(delta.text)
        if partial is not None:
            self._report(replace(partial, attempt=self._attempt))

    def finish(self, accepted: Accepted) -> None:
        """Report the accepted answer as the final partial."""
        self._report(Partial(accepted.value, self._attempt, False, True, None, accepted.repairs))

    def _report(self, partial: Partial) -> None:
        before = self._last
        reset = before is not None and (
            before.attempt != partial.attempt or not extends(before.value, partial.value)
        )
        self._last = replace(partial, reset=reset)
        self._on_partial(self._last)
