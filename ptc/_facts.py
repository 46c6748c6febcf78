"""Plain data that errors carry. It imports nothing of ptc, so that errors need no room."""

from __future__ import annotations

from ._dataclass import dataclass

__all__ = ["Layer", "ModelUsage"]


@dataclass(frozen=True, slots=True)
class Layer:
    """Probe result of the zygote for one kernel layer."""

    name: str
    on: bool
    required: bool
    how: str
    """Method of verification."""
    detail: str


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Tokens spent, as the provider counts them."""

    requests: int = 0
    """Requests that received an answer."""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    """Input tokens that the provider read from its cache."""
    cache_write_tokens: int = 0
    """Input tokens that the provider wrote to its cache."""

    def __add__(self, other: ModelUsage) -> ModelUsage:
        return ModelUsage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )
