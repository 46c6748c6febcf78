"""Retries and circuit breaker of a tool (`Retry`)."""

from __future__ import annotations

import inspect
import logging
import random
from collections.abc import Callable
from dataclasses import field

from .._dataclass import dataclass
from ..errors import ToolError, UsageError
from ._approval import ApprovalNeededError

__all__ = ["Retry"]

_log = logging.getLogger("ptc")

_MAX_RETRIES = 100
_MAX_MS = 3_600_000
"""An hour: a call that waits longer between attempts needs a queue, not a retry."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Retries of failed calls with exponential backoff, and a circuit breaker.

    A tool with a side effect that is not idempotent is never retried, unless it declares with
    ``uses_key=True`` that it passes `ToolContext.idempotency_key` on.
    """

    max_retries: int = 0
    """Attempts after the first: a call makes at most ``1 + max_retries``."""
    backoff_ms: int = 250
    """Wait before the first retry; each further wait is twice as long. 0: no wait."""
    max_backoff_ms: int = 30_000
    """Longest wait between two attempts."""
    jitter: float = 0.0
    """Random share of the wait, 0 to 1, so that clients do not retry in step."""
    should_retry: Callable[[Exception], bool] | Callable[[Exception, int], bool] | None = None
    """Predicate of the error, and optionally of the number of the failed attempt, from 1. Called
    after every failure, including the last. If it raises, the call is not retried. None: retry a
    `ToolError` that is `retryable`, and every other exception."""
    breaker_threshold: int | None = None
    """Consecutive failed calls that open the breaker: further calls fail with code
    ``circuit_open``. Retries of one call count once. None: no breaker. While the breaker is closed,
    at most this many calls of the tool run at once, so that parallel calls cannot exceed the
    threshold; others wait."""
    cool_down_ms: int | None = None
    """Time after which an open breaker lets a single call through as a probe. None: it stays open
    for the rest of the session."""
    _takes_attempt: bool = field(default=True, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _require_int("max_retries", self.max_retries, 0, _MAX_RETRIES)
        _require_int("backoff_ms", self.backoff_ms, 0, _MAX_MS)
        _require_int("max_backoff_ms", self.max_backoff_ms, 0, _MAX_MS)
        if self.breaker_threshold is not None:
            _require_int("breaker_threshold", self.breaker_threshold, 1, 1_000_000)
        if self.cool_down_ms is not None:
            _require_int("cool_down_ms", self.cool_down_ms, 0, 24 * _MAX_MS)
            if self.breaker_threshold is None:
                msg = "Retry.cool_down_ms has no effect without breaker_threshold; pass both"
                raise UsageError(msg)
        if not isinstance(self.jitter, int | float) or not 0 <= self.jitter <= 1:
            msg = f"Retry.jitter must be a number from 0 to 1, not {self.jitter!r}"
            raise UsageError(msg)
        if self.should_retry is not None and (
            not callable(self.should_retry) or inspect.iscoroutinefunction(self.should_retry)
        ):
            msg = f"Retry.should_retry must be a plain function, not {self.should_retry!r:.80}"
            raise UsageError(msg)
        object.__setattr__(self, "_takes_attempt", _takes_attempt(self.should_retry))

    def wait_ms(self, retry: int) -> float:
        """Return the milliseconds to wait before retry number `retry`, from 1."""
        # Shifted by at most 100: max_retries is bounded.
        wait = float(min(self.backoff_ms << (retry - 1), self.max_backoff_ms))
        return wait * (1 - self.jitter * random.random())  # noqa: S311  # spreads load, no secret

    def wants(self, error: Exception, attempt: int) -> bool:
        """True if a call that failed with `error` at attempt number `attempt` may be retried."""
        if isinstance(error, ApprovalNeededError):
            return False  # the call has not failed
        if self.should_retry is not None:
            try:
                predicate: Callable[..., bool] = self.should_retry
                arguments = (error, attempt) if self._takes_attempt else (error,)
                return predicate(*arguments) is True
            except Exception as own:  # noqa: BLE001  # the tool's own error is reported
                # Without its traceback, which shows the tool's error and maybe a secret in it.
                _log.error("should_retry failed: %s", type(own).__name__)
                return False
        return error.retryable if isinstance(error, ToolError) else True


def _takes_attempt(predicate: Callable[..., bool] | None) -> bool:
    """True if a predicate takes the attempt beside the error. Raises `UsageError` for others."""
    try:
        parameters = inspect.signature(predicate) if predicate is not None else None
    except (TypeError, ValueError):  # written in C: it has no signature
        return True
    if parameters is None:
        return True
    for arguments in ((None, 1), (None,)):
        try:
            parameters.bind(*arguments)
        except TypeError:
            continue
        return len(arguments) > 1
    msg = (
        "Retry.should_retry must take the error, and optionally the number of the attempt; its "
        f"signature is {parameters}"
    )
    raise UsageError(msg)


def _require_int(name: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        msg = f"Retry.{name} must be an integer from {least:,} to {most:,}, not {value!r}"
        raise UsageError(msg)
