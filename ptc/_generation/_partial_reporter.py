"""Reporter of partial answers and of finished elements while a model streams."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Protocol

from .._dataclass import dataclass
from ..models._model import Delta, Mode
from ..structured import Accepted, Contract, Partial, StreamParser
from ..structured._stream import extends
from ._question import OnPartial

__all__ = ["Collector", "Listener", "PartialReporter"]


class Collector(Protocol):
    """Receiver of the elements of an answer that is a list."""

    def start_answer(self) -> None:
        """Expect the elements of another answer."""

    def add(self, elements: list[object]) -> None:
        """Take the next elements."""

    def finish(self, elements: list[object]) -> None:
        """Take all elements of the accepted answer."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Receivers of an answer while the model streams."""

    on_partial: OnPartial | None
    """Receives the partial answers."""
    collector: Collector | None
    """Receives the finished elements of an answer that is a list."""


class PartialReporter:
    """Turns the deltas of a model into partial answers and elements for the caller."""

    def __init__(self, contract: Contract, listener: Listener, *, mode: Mode) -> None:
        """Prepare for the first request.

        Args:
            contract: Contract of the answer.
            listener: Receives the partial answers and the elements.
            mode: Mode of the requests.
        """
        step = 64 if listener.on_partial is not None else sys.maxsize
        self._parser = StreamParser(contract, wrapped=mode != "prompt", step_chars=step)
        self._on_partial = listener.on_partial
        self._collector = listener.collector
        # An element cannot be taken back: text beside the call of a tool is not the answer yet.
        self._text_counts = mode != "tool"
        self._attempt = 0
        self._in_call = False
        self._last: Partial | None = None

    def start_attempt(self) -> None:
        """Discard the text of the previous request."""
        if self._attempt:
            self._restart()
        self._attempt += 1
        self._in_call = False

    def feed_delta(self, delta: Delta) -> None:
        """Parse the next characters."""
        if delta.in_call and not self._in_call:
            # Text before the call is not the answer.
            self._in_call = True
            self._restart()
        elif self._in_call and not delta.in_call:
            return
        partial = self._parser.feed(delta.text)
        if self._collector is not None and (self._in_call or self._text_counts):
            self._collector.add(self._parser.take_elements())
        if partial is not None:
            self._report(replace(partial, attempt=self._attempt))

    def finish(self, accepted: Accepted) -> None:
        """Report the accepted answer as the final partial.

        Raises:
            ElementsChangedError: If its elements are not those that were yielded.
        """
        self._report(Partial(accepted.value, self._attempt, False, True, None, accepted.repairs))
        if self._collector is not None:
            self._collector.finish(accepted.value)

    def _restart(self) -> None:
        self._parser.restart()
        if self._collector is not None:
            self._collector.start_answer()

    def _report(self, partial: Partial) -> None:
        if self._on_partial is None:
            return
        before = self._last
        reset = before is not None and (
            before.attempt != partial.attempt or not extends(before.value, partial.value)
        )
        self._last = replace(partial, reset=reset)
        self._on_partial(self._last)
