"""Money and tokens: estimates of requests, and the budget."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from .._dataclass import dataclass
from .._facts import ModelUsage
from ..errors import UsageError
from ..models._prices import Prices
from ._pacing import StoppedError

__all__ = ["Budget", "Estimate", "require_prices", "tokens_of"]

_FIRST_OUTPUT_TOKENS = 500
"""Estimate of an answer before there is one."""
_BYTES_PER_TOKEN = 4


def tokens_of(text: str) -> int:
    """Estimate the tokens of a text."""
    return len(text.encode(errors="replace")) // _BYTES_PER_TOKEN + 1


@dataclass(frozen=True, slots=True)
class Estimate:
    """Expected tokens and price of a document."""

    tokens: int
    cost: float
    text_tokens: int
    """Tokens of the texts that it is made from."""


@dataclass(slots=True)
class Budget:
    """Sum of what was spent, and the most that may be.

    Documents in flight are reserved by an estimate that follows the real usage, repairs included,
    so that they do not exceed the budget together.
    """

    prices: Prices | None
    max_cost: float | None = None
    max_tokens: int | None = None
    spent: ModelUsage = field(default_factory=ModelUsage)
    cost: float = 0.0
    reserved: int = 0
    """Documents in flight."""
    _reserved_tokens: int = 0
    _reserved_cost: float = 0.0
    _sent: int = 0
    """Requests in flight, and the tokens of their texts."""
    _sent_text: int = 0
    _finished: int = 0
    _finished_text: int = 0
    _finished_usage: ModelUsage = field(default_factory=ModelUsage)

    def estimate(self, text_tokens: int, documents: int = 1) -> Estimate:
        """Estimate documents of about `text_tokens` together from the documents so far."""
        tokens, output = text_tokens, _FIRST_OUTPUT_TOKENS
        if self._finished:
            used = self._finished_usage
            tokens = math.ceil(tokens * used.input_tokens / self._finished_text)
            output = math.ceil(used.output_tokens / self._finished)
        output *= documents
        cost = 0.0 if self.prices is None else self.prices.cost(ModelUsage(1, tokens, output))
        return Estimate(tokens + output, cost, text_tokens)

    @property
    def answer_tokens(self) -> int:
        """Estimate of the output tokens of one request."""
        spent = self.spent
        return spent.output_tokens // spent.requests if spent.requests else _FIRST_OUTPUT_TOKENS

    def reserve(self, estimate: Estimate) -> str | None:
        """Reserve the estimate, or return the reason why the budget does not allow it."""
        tokens = self._reserved_tokens + estimate.tokens
        cost = self._reserved_cost + estimate.cost
        if (reason := self._find_excess(tokens, cost)) is not None:
            return reason
        self._reserved_tokens, self._reserved_cost = tokens, cost
        self.reserved += 1
        return None

    @contextmanager
    def request(self, text_tokens: int, *, started: bool) -> Iterator[None]:
        """Count a request as in flight while the block sends it.

        Reservations are made early, from estimates: what waits for its first request must stop
        once real usage turns out larger.

        Args:
            text_tokens: Tokens of its texts.
            started: True for a document with an earlier answer, which is finished in any case.

        Raises:
            StoppedError: If the requests in flight and this one would exceed the budget.
        """
        expected = self.estimate(self._sent_text + text_tokens, self._sent + 1)
        if not started and (reason := self._find_excess(expected.tokens, expected.cost)):
            raise StoppedError(reason)
        self._sent, self._sent_text = self._sent + 1, self._sent_text + text_tokens
        try:
            yield
        finally:
            self._sent, self._sent_text = self._sent - 1, self._sent_text - text_tokens

    def _find_excess(self, tokens: int, cost: float) -> str | None:
        """Return the reason if `tokens` and `cost` more than was spent exceed the budget."""
        used = self.spent.input_tokens + self.spent.output_tokens
        if self.max_tokens is not None and used + tokens > self.max_tokens:
            return (
                f"the budget of {self.max_tokens:,} tokens does not allow another document "
                f"({used:,} used)"
            )
        if self.max_cost is not None and self.cost + cost > self.max_cost:
            return (
                f"the budget of ${self.max_cost:g} does not allow another document "
                f"(${self.cost:.4f} spent)"
            )
        return None

    def release(self, estimate: Estimate, usage: ModelUsage) -> None:
        """Release the reservation of a document, and learn from its `usage`."""
        self.reserved -= 1
        self._reserved_tokens -= estimate.tokens
        self._reserved_cost -= estimate.cost
        if usage.requests:
            self._finished += 1
            self._finished_text += estimate.text_tokens
            self._finished_usage += usage

    def spend(self, usage: ModelUsage) -> float | None:
        """Record an answer; return its price, None if unknown."""
        self.spent += usage
        if self.prices is None:
            return None
        cost = self.prices.cost(usage)
        self.cost += cost
        return cost


def require_prices(model: str, prices: Prices | None) -> None:
    """Raise `UsageError` if a budget in money has no prices."""
    if prices is None:
        msg = (
            f"max_cost needs the prices of {model}, which are unknown; pass prices=(input, output) "
            "in US dollars for a million tokens, or limit the tokens"
        )
        raise UsageError(msg)
