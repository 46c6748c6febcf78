"""Keywords of JSON Schema that hold subschemas, over all drafts, and a copy of a schema's tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["CONTAINERS", "iter_subschemas", "map_children", "map_subschemas"]

_ONE = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_LIST = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_NAMED = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
CONTAINERS = (
    _ONE
    | _LIST
    | _NAMED
    | {"const", "default", "dependentRequired", "enum", "examples", "required", "type"}
)
"""Keywords whose value may be an object or a list."""


def iter_subschemas(node: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the direct subschemas of `node`: objects and booleans, never data or names."""
    for word, value in node.items():
        if word in _LIST and isinstance(value, list):
            yield from value
        elif word in _ONE and isinstance(value, Mapping | bool):
            yield value
        elif word in _NAMED and isinstance(value, Mapping):
            # `dependencies` also maps names to lists of names.
            yield from (sub for sub in value.values() if not isinstance(sub, list))


def map_children(node: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Copy `node` with `change` applied to each of its direct subschemas."""
    copied: dict[str, Any] = {}
    for word, value in node.items():
        if word in _LIST and isinstance(value, list):
            copied[word] = [change(item) for item in value]
        elif word in _ONE and isinstance(value, Mapping | bool):
            copied[word] = change(value)
        elif word in _NAMED and isinstance(value, Mapping):
            copied[word] = {
                name: sub if isinstance(sub, list) else change(sub) for name, sub in value.items()
            }
        else:
            copied[word] = value
    return copied


def map_subschemas(node: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Copy the schema `node`, applying `change` to every subschema from the inside out."""
    if not isinstance(node, Mapping):
        return node
    return change(map_children(node, lambda child: map_subschemas(child, change)))
