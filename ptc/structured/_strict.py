"""Strict JSON parser: rejects NaN, numbers that overflow to infinity, and conflicting keys."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from .._core import _json
from ._reading import json_equal

__all__ = ["StrictJsonError", "loads"]


class StrictJsonError(ValueError):
    """The text is not exactly one JSON value."""


def loads(text: str) -> Any:
    """Parse one JSON value.

    Raises:
        StrictJsonError: If `text` is not JSON, has a key with two values, or exceeds the depth
            limit of `_json`.
    """
    try:
        value = json.loads(
            text,
            parse_constant=_reject_constant,
            parse_float=_parse_float,
            object_pairs_hook=_unique_members,
        )
        if text.count("[") + text.count("{") > _json.MAX_DEPTH:
            _check_depth(value)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise StrictJsonError(str(error)) from None
    return value


def _reject_constant(word: str) -> NoReturn:
    raise StrictJsonError(word)


def _parse_float(source: str) -> float:
    value = float(source)
    if not math.isfinite(value):
        raise StrictJsonError(source)
    return value


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs) and not all(json_equal(members[key], item) for key, item in pairs):
        msg = "a key has two values"
        raise StrictJsonError(msg)
    return members


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > _json.MAX_DEPTH:
            msg = "the value nests too deep"
            raise StrictJsonError(msg)
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
