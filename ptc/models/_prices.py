"""Prices of models: the provider's own, as the package `genai-prices` knows them, or a caller's."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Final

from .._dataclass import dataclass
from .._facts import ModelUsage

__all__ = ["Prices", "find_prices", "price_of"]

_MODELS: Final = 64
"""Models whose prices are cached."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a model; the provider's own table, or the caller's."""

    provider: str
    model: str
    fixed: tuple[float, float] | None = None
    """US dollars for a million tokens of input and of output."""
    batch: bool = False
    """True: prices of the batch API, as far as they are known, else the higher standard prices."""

    def cost(self, usage: ModelUsage) -> float:
        """Return the price of `usage` in US dollars."""
        if self.fixed is not None:
            read, write = self.fixed
            return (usage.input_tokens * read + usage.output_tokens * write) / 1_000_000
        from genai_prices import Usage, calc_price

        counted = Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens or None,
            cache_write_tokens=usage.cache_write_tokens or None,
        )
        find = partial(calc_price, counted, model_ref=self.model, provider_id=self.provider)
        found = find(price_context={"processing": "batch"}) if self.batch else find()
        return float(found.total_price)


def find_prices(
    model: str, fixed: tuple[float, float] | None, *, batch: bool = False
) -> Prices | None:
    """Return the prices of ``provider:name``; None if they are unknown."""
    provider, _, name = model.partition(":")
    if fixed is not None:
        return Prices(provider, name, fixed)
    prices = Prices(provider, name, batch=batch)
    try:
        prices.cost(ModelUsage(1, 1_000, 1_000))
    except (ImportError, LookupError, ValueError):
        return None
    return prices


def price_of(model: str, usage: ModelUsage) -> float | None:
    """Return the known price of `usage` in US dollars; None if it is unknown."""
    # Other names are those of scripted models: the package need not be imported for them.
    prices = _known_prices(model) if ":" in model else None
    return None if prices is None else prices.cost(usage)


@lru_cache(_MODELS)
def _known_prices(model: str) -> Prices | None:
    return find_prices(model, None)
