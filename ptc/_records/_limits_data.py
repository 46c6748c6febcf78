"""Limits as plain data, as a model or a configuration writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from .._core._arguments import nearest
from ..errors import UsageError
from ._limits import Limits

__all__ = ["limits_from_data"]

_NAMES = tuple(field.name for field in fields(Limits))


def limits_from_data(data: Mapping[str, Any], defaults: Limits) -> Limits:
    """Return `defaults` with the limits of `data`: ``{"timeout_ms": 5000}``.

    Names may be in camelCase, as ``timeoutMs``.

    Raises:
        UsageError: If a limit is unknown, is there twice, or has an invalid value.
    """
    found: dict[str, Any] = {}
    for key, value in data.items():
        name = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).lower() if isinstance(key, str) else ""
        if name not in _NAMES:
            msg = f"limits: there is no limit {key!r:.80}{nearest(name, _NAMES)}"
            raise UsageError(msg)
        if name in found:
            msg = f"limits: {name} is there twice"
            raise UsageError(msg)
        found[name] = value
    return replace(defaults, **found)
