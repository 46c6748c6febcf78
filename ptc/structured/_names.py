"""Compare names regardless of style: ``firstName``, ``first_name`` and ``First Name`` are equal.

Styles differ in case and in separators between words, never in letters, digits or signs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from ._keywords import map_subschemas

__all__ = ["collect_property_names", "normalize"]


def normalize(name: str) -> str:
    """Return the form that all styles of a name share.

    Only separators between words are removed: ``A-`` and ``A`` stay distinct, as do ``1-5`` and
    ``15``.
    """
    text = unicodedata.normalize("NFC", name).strip().casefold()
    parts: list[str] = []
    for part in re.split(r"[\s_-]+", text):
        if parts and part and parts[-1] and parts[-1][-1].isdigit() and part[0].isdigit():
            parts.append("_")
        parts.append(part)
    if not parts[0] or not parts[-1]:
        # A leading or trailing separator is a sign.
        return text
    return "".join(parts)


def collect_property_names(schema: Any) -> frozenset[str]:
    """Return every property name that `schema` declares at any depth."""
    names: set[str] = set()

    def look(node: dict[str, Any]) -> dict[str, Any]:
        for word in ("properties", "required"):
            part = node.get(word)
            if isinstance(part, Mapping | list):
                names.update(name for name in part if isinstance(name, str))
        return node

    map_subschemas(schema, look)
    return frozenset(names)
