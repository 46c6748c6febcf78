"""Probe results for the kernel layers of the sandbox."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Layer"]


@dataclass(frozen=True, slots=True)
class Layer:
    """Probe result of the zygote for one kernel layer."""

    name: str
    on: bool
    required: bool
    how: str
    """Method of verification."""
    detail: str
