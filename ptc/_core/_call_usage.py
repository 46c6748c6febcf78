"""The tool call to which the use of a model is charged."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from .._facts import ModelUsage

__all__ = ["usage_of_call"]

usage_of_call: ContextVar[Callable[[ModelUsage, float | None], None] | None] = ContextVar(
    "ptc_usage_of_call", default=None
)
"""Receives the usage of the tool call under way, without that of the calls it makes, and its price
in US dollars, None if that is unknown."""
