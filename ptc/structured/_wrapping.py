"""Wrap a schema with a non-object root in an object, for providers that require an object.

References are rewritten, because the old root moves one level down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["map_subschemas", "wrap_schema", "wrapper_key"]

_NAMED = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_DATA = frozenset({"enum", "const", "default", "examples"})
_HOISTED = ("$defs", "definitions")


def wrapper_key(schema: Any) -> str | None:
    """Return the key that wraps answers of `schema`: ``elements``, ``value``, or None."""
    if not isinstance(schema, Mapping):
        return "value"
    if schema.get("type") == "object":
        return None
    return "elements" if schema.get("type") == "array" else "value"


def wrap_schema(schema: Any, key: str) -> dict[str, Any]:
    """Wrap `schema` as the only required property `key` of an object.

    ``$defs`` move to the new root, where providers look for them, and references into the old
    root are rewritten. A schema with an ``$id`` resolves its own references, so its parts stay.
    """
    inner = dict(schema) if isinstance(schema, Mapping) else schema
    outer: dict[str, Any] = {
        "type": "object",
        "properties": {key: inner},
        "required": [key],
        "additionalProperties": False,
    }
    if not isinstance(inner, dict):
        return outer
    if "$schema" in inner:
        outer = {"$schema": inner.pop("$schema"), **outer}
    if "$id" in inner or "id" in inner:
        return outer
    if _contains_keyword(inner, "$recursiveRef") or _contains_keyword(inner, "$dynamicRef"):
        # "#" means the dynamic root here: an `$id` of its own keeps it unchanged.
        outer["properties"][key] = {"$id": "urn:ptc:answer", **inner}
        return outer
    hoisted = {name: inner.pop(name) for name in _HOISTED if name in inner}
    outer["properties"][key] = _retarget_refs(inner, key)
    for name, part in hoisted.items():
        outer[name] = {n: _retarget_refs(sub, key) for n, sub in part.items()}
    return outer


def _retarget_refs(node: Any, key: str) -> Any:
    """Rewrite references from the old root to ``#/properties/<key>``."""

    def retarget(schema: dict[str, Any]) -> dict[str, Any]:
        target = schema.get("$ref")
        if isinstance(target, str) and (target == "#" or target.startswith("#/")):
            first = target[2:].split("/", 1)[0]
            if first not in _HOISTED:
                return {**schema, "$ref": f"#/properties/{key}{target[1:]}"}
        return schema

    return map_subschemas(node, retarget)


def map_subschemas(node: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Copy the schema `node`, applying `change` to every subschema from the inside out.

    Data (``enum``, ``const``, ``default``, ``examples``) is skipped, and the keys below
    ``properties`` are names: a property may be called ``$ref``.
    """
    if isinstance(node, list):
        return [map_subschemas(item, change) for item in node]
    if not isinstance(node, Mapping):
        return node
    copied: dict[str, Any] = {}
    for word, value in node.items():
        if word in _DATA:
            copied[word] = value
        elif word in _NAMED and isinstance(value, Mapping):
            copied[word] = {name: map_subschemas(sub, change) for name, sub in value.items()}
        else:
            copied[word] = map_subschemas(value, change)
    return change(copied)


def _contains_keyword(schema: Any, word: str) -> bool:
    found = False

    def look(node: dict[str, Any]) -> dict[str, Any]:
        nonlocal found
        found = found or word in node
        return node

    map_subschemas(schema, look)
    return found
