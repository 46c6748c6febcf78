"""Modes that models rejected, remembered so that no request is wasted on them again."""

from __future__ import annotations

import hashlib
import json

from ._model import Mode, ModelRequest

__all__ = ["Refusals"]

MAX_REFUSALS = 1_000
"""Rejected requests that are remembered; the oldest are forgotten first."""


class Refusals:
    """Rejections by the models of one session.

    A rejection concerns one model, mode, schema and settings: any of them may be the cause.
    """

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, Mode, bytes], str] = {}

    def add(self, request: ModelRequest, reason: str, model: str) -> None:
        """Remember that `model` rejected `request`."""
        if len(self._reasons) >= MAX_REFUSALS:
            del self._reasons[next(iter(self._reasons))]
        self._reasons[model, request.mode, _digest(request)] = reason

    def find(self, request: ModelRequest, model: str) -> str | None:
        """Return the reason for which `model` rejected such a request, or None."""
        if not self._reasons:
            return None
        return self._reasons.get((model, request.mode, _digest(request)))


def _digest(request: ModelRequest) -> bytes:
    text = json.dumps([request.name, request.schema, request.settings], default=repr)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
