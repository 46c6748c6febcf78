"""What requests to a model cost."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ModelUsage"]


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """What was spent, as the provider counts it."""

    requests: int = 0
    """Requests that were answered."""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    """Of the input, what the provider had kept from before."""
    cache_write_tokens: int = 0
    """Of the input, what it kept for later."""

    def __add__(self, other: ModelUsage) -> ModelUsage:
        return ModelUsage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )
