"""Text for attributes: redacted, valid Unicode, and of bounded length."""

from __future__ import annotations

from typing import Any, Final

from .._core import _json
from .._core._redact import safe_text

__all__ = ["LONG", "SHORT", "content", "encode", "name"]

SHORT: Final = 128
"""Characters of a name that a script may have chosen."""
LONG: Final = 8_192
"""Characters of a content that was opted in."""
_MOST: Final = 262_144
"""Characters of a text that is searched for secrets; of a longer one, only the size is exported."""


def name(text: object) -> str:
    """Return a name for an attribute."""
    return _json.plain_text(str(text), SHORT)


def content(text: str) -> str:
    """Return content for an attribute, without secrets."""
    # Redacted before it is truncated, since half a secret would not be found.
    if len(text) > _MOST:
        return f"({len(text):,} characters)"
    return _json.plain_text(safe_text(text), LONG)


def encode(value: Any) -> str:
    """Return JSON data as content."""
    return content(_json.dumps_unchecked(value).decode())
