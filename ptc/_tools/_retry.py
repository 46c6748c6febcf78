"""When a failed call is retried (`Retry`)."""

from __future__ import annotations

import inspect
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import ToolError, UsageError

__all__ = ["Retry"]

_log = logging.getLogger("ptc")

_MOST_RETRIES = 100
_MOST_MS = 3_600_000
"""An hour: a call that waits longer than this between tries wants a queue, not a retry."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a failed call is tried again, how long it waits, and when it is not tried at all.

    A tool with a side effect that is not idempotent is never retried by itself, unless it declares
    with ``uses_key=True`` that it hands `ToolContext.idempotency_key` on.
    """

    max_retries: int = 0
    """Tries after the first: a call makes at most ``1 + max_retries``."""
    backoff_ms: int = 250
    """Wait before the first retry; each further one waits twice as long. 0: no wait."""
    max_backoff_ms: int = 30_000
    """Longest wait between two tries."""
    jitter: float = 0.0
    """Share of the wait, 0 to 1, that is left to chance, so that clients do not come in step."""
    should_retry: Callable[[Exception, int], bool] | None = None
    """Given the error and the number of the try that failed, from 1; asked after every failure,
    the last included. None: yes for a `ToolError` that is `retryable` and for every exception that
    is no `ToolError`. One that raises means no."""
    breaker_threshold: int | None = None
    """Calls that fail one after the other before further ones are refused with code
    ``circuit_open``; retries of one call count once. None: no breaker. While the breaker is closed
    at most this many calls of the tool are under way at once, so that parallel ones cannot pass
    it; others wait."""
    cool_down_ms: int | None = None
    """Time after which an open breaker lets a single call through to see whether the tool works
    again. None: it stays open as long as the session."""

    def __post_init__(self) -> None:
        _whole("max_retries", self.max_retries, 0, _MOST_RETRIES)
        _whole("backoff_ms", self.backoff_ms, 0, _MOST_MS)
        _whole("max_backoff_ms", self.max_backoff_ms, 0, _MOST_MS)
        if self.breaker_threshold is not None:
            _whole("breaker_threshold", self.breaker_threshold, 1, 1_000_000)
        if self.cool_down_ms is not None:
            _whole("cool_down_ms", self.cool_down_ms, 0, 24 * _MOST_MS)
            if self.breaker_threshold is None:
                msg = "Retry.cool_down_ms means nothing without breaker_threshold"
                raise UsageError(msg)
        if not isinstance(self.jitter, int | float) or not 0 <= self.jitter <= 1:
            msg = f"Retry.jitter must be a number from 0 to 1, not {self.jitter!r}"
            raise UsageError(msg)
        if self.should_retry is not None and (
            not callable(self.should_retry) or inspect.iscoroutinefunction(self.should_retry)
        ):
            msg = f"Retry.should_retry must be a plain function, not {self.should_retry!r:.80}"
            raise UsageError(msg)

    def wait_ms(self, retry: int) -> float:
        """Milliseconds to wait before retry number `retry`, from 1."""
        # Shifted by at most 100: max_retries is bounded.
        wait = float(min(self.backoff_ms << (retry - 1), self.max_backoff_ms))
        return wait * (1 - self.jitter * random.random())  # noqa: S311  # spreads load, no secret

    def wants(self, error: Exception, attempt: int) -> bool:
        """True if the failure of try number `attempt` is one to retry."""
        if self.should_retry is not None:
            try:
                return self.should_retry(error, attempt) is True
            except Exception as own:  # noqa: BLE001  # the tool's own error is the one to tell
                # Without its traceback: that shows the tool's error, which may have a secret.
                _log.error("should_retry failed: %s", type(own).__name__)
                return False
        return error.retryable if isinstance(error, ToolError) else True


def _whole(name: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        msg = f"Retry.{name} must be an integer from {least:,} to {most:,}, not {value!r}"
        raise UsageError(msg)
