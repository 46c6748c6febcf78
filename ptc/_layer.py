"""Kernel layers of the sandbox, as they were probed on this machine."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Layer"]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the jail, as the zygote probed it."""

    name: str
    on: bool
    required: bool
    how: str
    """How it was verified."""
    detail: str
