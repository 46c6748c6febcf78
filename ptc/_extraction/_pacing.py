"""Pace of the requests to one model: concurrency, rates and a backoff that all requests share.

A `Pace` belongs to one extraction, and the `Throttle` behind it to all extractions of a session
that ask the same model.

A provider that is overloaded refuses everybody. If each request waited for itself, the others would
go on, and use up its retries. So one request that is refused makes all of them wait, and fewer are
sent at a time afterwards (additive increase, multiplicative decrease, as in TCP: RFC 5681).
"""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

import anyio

from .._dataclass import dataclass
from ..errors import ModelError
from ..models._open import OpenModels

__all__ = ["Pace", "Spacing", "StoppedError", "Throttle", "Ticket", "find_throttle"]

_FIRST_LIMIT = 8
"""Requests in flight at first; the number doubles each round until the provider refuses one."""
_PROBE_AFTER_S = 1.0
_PROBE_AFTER_WAITS = 10
"""Waits of the last length that pass before more requests are tried than the provider took."""
_FIRST_DELAY_S = 0.5
_MAX_DELAY_S = 60.0
MAX_RETRY_AFTER_S = 3_600.0
"""Longest wait that a provider can ask for."""
_OVERLOADED = frozenset({429, 503, 529})
"""Statuses that concern all requests: too many requests (RFC 6585, 4), unavailable (RFC 9110,
15.6.4), and Anthropic's "overloaded"."""


class StoppedError(Exception):
    """Raised in place of a request that is not sent, because the extraction is stopping."""


@dataclass(slots=True)
class Spacing:
    """Rate limit that spaces what it admits evenly, so that no minute exceeds it."""

    per_minute: float
    _free_at: float = 0.0

    def delay(self, now: float) -> float:
        """Return the seconds until the next admission."""
        return max(0.0, self._free_at - now)

    def take(self, now: float, amount: float) -> None:
        """Admit `amount`."""
        self._free_at = max(self._free_at, now) + amount * 60 / self.per_minute

    def correct(self, difference: float) -> None:
        """Add the difference of the real amount and the estimate."""
        self._free_at += difference * 60 / self.per_minute


@dataclass(slots=True)
class Ticket:
    """Admission of one request."""

    started: float
    estimate: int
    tokens: int | None = None
    """Tokens that it really used."""


@dataclass(slots=True)
class _Round:
    """Requests that were in flight when the provider refused one of them."""

    size: int
    refused: int = 0


class Throttle:
    """State of one model: what it takes at a time, and how long it asks to wait."""

    def __init__(self, clock: Callable[[], float] = anyio.current_time) -> None:
        """Admit requests without limits of the caller.

        Args:
            clock: Seconds, from any origin.
        """
        self.clock = clock
        self.turn: anyio.Lock = anyio.Lock()
        self.changed: anyio.Event = anyio.Event()
        self.in_flight: int = 0
        self.waited_s: float = 0.0
        """Seconds that the provider asked to wait, overlaps counted once."""
        self._paces: list[Pace] = []
        self._limit = 0.0
        # Requests in flight that the provider is known to take, as far as it has refused any.
        self._plateau = math.inf
        self._round = _Round(0)
        self._probe_after_s = 0.0
        self._requests = Spacing(math.inf)
        self._tokens = Spacing(math.inf)
        self._closed_until = 0.0
        self._closed_at = -math.inf
        self._refusals = 0

    def join(self, pace: Pace) -> None:
        """Add an extraction: requests in flight add up, and the lowest rates hold for all."""
        self._paces.append(pace)
        self._limit = max(self._limit, float(min(self._most, _FIRST_LIMIT, self._plateau)))
        self._set_rates()

    def leave(self, pace: Pace) -> None:
        """Remove an extraction that has ended."""
        self._paces.remove(pace)
        self._limit = min(self._limit, float(self._most))
        self._set_rates()
        self.notify()

    @property
    def _most(self) -> int:
        return sum(pace.most for pace in self._paces)

    def _set_rates(self) -> None:
        self._requests.per_minute = min((pace.rpm for pace in self._paces), default=math.inf)
        self._tokens.per_minute = min((pace.tpm for pace in self._paces), default=math.inf)

    @property
    def limit(self) -> int:
        """Requests in flight that are admitted now."""
        return max(1, int(self._limit))

    def delay(self) -> float:
        """Return the seconds to the next admission; infinity if a request has to end first."""
        now = self.clock()
        waits = (self._requests.delay(now), self._tokens.delay(now), self._closed_until - now)
        if (delay := max(waits)) > 0:
            return delay
        return math.inf if self.in_flight >= self.limit else 0.0

    def closed_for(self) -> float:
        """Return the seconds that the provider still asks to wait."""
        return max(0.0, self._closed_until - self.clock())

    def start(self, tokens: int) -> Ticket:
        """Admit a request of about `tokens`."""
        now = self.clock()
        self._requests.take(now, 1)
        self._tokens.take(now, tokens)
        self.in_flight += 1
        return Ticket(now, tokens)

    def end(self, ticket: Ticket) -> None:
        """Record that a request has ended."""
        self.in_flight -= 1
        if ticket.tokens is not None:
            self._tokens.correct(ticket.tokens - ticket.estimate)
        self.notify()

    def succeed(self) -> None:
        """Record an answer, after which more requests may be in flight."""
        self._refusals = 0
        if self._limit < self._plateau:
            self._limit = min(self._most, self._limit + 1, self._plateau)
        elif self.clock() - self._closed_at > self._probe_after_s:
            self._limit = min(self._most, self._limit + 1 / self._limit)

    def refuse(self, error: ModelError, ticket: Ticket) -> None:
        """Record a request that the provider refused because it is overloaded."""
        now = self.clock()
        # Requests that were in flight together are refused together: that is one refusal.
        if ticket.started > self._closed_at:
            self._refusals += 1
            self._round = _Round(self.in_flight)
            self._limit = max(1.0, self._limit / 2)
            self._closed_at = now
        self._round.refused += 1
        self._plateau = max(self._limit, self._round.size - self._round.refused)
        wait = _backoff(self._refusals)
        if error.retry_after is not None:
            # In this order, a NaN gives 0.
            asked = min(max(0.0, error.retry_after), MAX_RETRY_AFTER_S)
            wait = asked if self._refusals <= 2 else max(asked, wait)
        until = now + wait
        if until > self._closed_until:
            self.waited_s += until - max(now, self._closed_until)
            self._closed_until = until
        self._probe_after_s = max(_PROBE_AFTER_S, _PROBE_AFTER_WAITS * wait)

    def notify(self) -> None:
        """Wake the requests that wait for admission."""
        self.changed.set()
        self.changed = anyio.Event()


class Pace:
    """Admits the requests of one extraction. Close it at the end."""

    def __init__(
        self,
        concurrency: int,
        *,
        rpm: float | None = None,
        tpm: float | None = None,
        throttle: Throttle | None = None,
    ) -> None:
        """Set the limits.

        Args:
            concurrency: Requests in flight at most.
            rpm: Requests a minute. None: no limit.
            tpm: Tokens a minute, input and output together. None: no limit.
            throttle: State of the model. None: no other extraction asks it.
        """
        self.most: int = concurrency
        self.rpm: float = math.inf if rpm is None else rpm
        self.tpm: float = math.inf if tpm is None else tpm
        self._throttle = Throttle() if throttle is None else throttle
        self._throttle.join(self)
        self._waited_before = self._throttle.waited_s
        self._turn = anyio.Lock()
        self._stop = anyio.Event()
        self.in_flight: int = 0
        self.retries: int = 0

    def close(self) -> None:
        """Leave the model to the other extractions."""
        self._throttle.leave(self)

    @property
    def waited_s(self) -> float:
        """Seconds that the provider asked to wait, overlaps counted once."""
        return self._throttle.waited_s - self._waited_before

    @property
    def waiting_s(self) -> float:
        """Seconds until a request may be sent, as the provider asked."""
        return self._throttle.closed_for()

    def stop(self) -> None:
        """Admit no further request, except for documents that have been paid for in part."""
        self._stop.set()
        self._throttle.notify()

    async def pause(self, seconds: float, *, started: bool) -> None:
        """Wait before a request is sent again.

        Raises:
            StoppedError: If the extraction is stopping and nothing has been paid for.
        """
        with anyio.move_on_after(seconds):
            if started:
                await anyio.sleep_forever()
            await self._stop.wait()
        self._check(started)

    @asynccontextmanager
    async def admit(self, tokens: int, *, started: bool) -> AsyncIterator[Ticket]:
        """Wait until a request of about `tokens` may be sent; the block sends it.

        Args:
            tokens: Estimate of input and output.
            started: True for a document with an earlier answer, which is finished after `stop`.

        Raises:
            StoppedError: If the extraction is stopping.
        """
        throttle = self._throttle
        # Fair: the first request of each extraction queues for the model.
        async with self._turn:
            while self.in_flight >= self.most:
                await self._wait(math.inf, started)
            async with throttle.turn:
                while (delay := throttle.delay()) > 0:
                    await self._wait(delay, started)
                self._check(started)
                ticket = throttle.start(tokens)
                self.in_flight += 1
        try:
            yield ticket
        finally:
            self.in_flight -= 1
            throttle.end(ticket)

    async def _wait(self, delay: float, started: bool) -> None:
        self._check(started)
        changed = self._throttle.changed
        with anyio.move_on_after(None if math.isinf(delay) else delay):
            await changed.wait()

    def succeed(self) -> None:
        """Record an answer, after which more requests may be in flight."""
        self._throttle.succeed()

    def fail(self, error: ModelError, ticket: Ticket, attempt: int) -> float:
        """Record a failed request that is to be repeated; return the seconds to wait before it.

        Args:
            error: The failure.
            ticket: Admission of the request.
            attempt: Number of failures of this request, from 1.
        """
        self.retries += 1
        if error.status not in _OVERLOADED:
            return random.uniform(0.5, 1) * _backoff(attempt)  # noqa: S311  # no secret
        self._throttle.refuse(error, ticket)
        return 0.0

    def _check(self, started: bool) -> None:
        if self._stop.is_set() and not started:
            raise StoppedError


_THROTTLES: WeakKeyDictionary[OpenModels, dict[str, Throttle]] = WeakKeyDictionary()


def find_throttle(models: OpenModels, name: str) -> Throttle:
    """Return the state of the model `name`, shared by all extractions of a session."""
    return _THROTTLES.setdefault(models, {}).setdefault(name, Throttle())


def _backoff(count: int) -> float:
    return min(_MAX_DELAY_S, _FIRST_DELAY_S * 2.0 ** min(count - 1, 16))
