"""Usage of models by a call, as it is recorded."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .._core import _json
from .._facts import ModelUsage

__all__ = ["decode_usage", "encode_usage"]


def encode_usage(usage: ModelUsage, cost_usd: float | None) -> bytes:
    """Return the record of tokens and of their price, which is left out if it is unknown."""
    return _json.dumps(asdict(usage) | ({} if cost_usd is None else {"cost_usd": cost_usd}))


def decode_usage(record: bytes) -> tuple[ModelUsage, float | None]:
    """Return tokens and their price, None if it was unknown."""
    data: dict[str, Any] = _json.loads(record)
    cost_usd: float | None = data.pop("cost_usd", None)
    return ModelUsage(**data), cost_usd
