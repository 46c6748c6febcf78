"""Null for a missing property: the form in which a provider wants optional properties.

OpenAI's strict mode requires every property. The relaxed schema requires them all and allows null
for the optional ones; the nulls that the original does not allow are removed from an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ._keywords import map_children

__all__ = ["drop_nulls", "fill_nulls", "require_all"]

_DROPPED = (
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "maxProperties",
    "not",
    "then",
)
"""Keywords that a null in place of a missing property could violate. The original enforces them."""
_COMBINED = ("allOf", "anyOf", "oneOf")
_MAX_NODES = 500
"""Subschemas examined for one place in a value."""


def require_all(schema: Any) -> Any:
    """Return `schema` with all properties required, the optional ones with null as a value.

    Args:
        schema: A schema of draft 2020-12, whose references have the form ``#/$defs/name``.
    """
    if not isinstance(schema, Mapping):
        return schema
    node = map_children(schema, require_all)
    dropped = [word for word in _DROPPED if node.pop(word, None) is not None]
    if dropped:
        # It counts the properties that the dropped keywords declare.
        node.pop("unevaluatedProperties", None)
    if "oneOf" in node:
        # With nulls, a value may conform to several branches.
        branches = node.pop("oneOf")
        if "anyOf" in node:
            node["allOf"] = [*node.get("allOf", []), {"anyOf": branches}]
        else:
            node["anyOf"] = branches
    properties = node.get("properties")
    if isinstance(properties, Mapping):
        needed = node.get("required", [])
        node["properties"] = {
            name: sub if name in needed else _with_null(sub) for name, sub in properties.items()
        }
        possible = [name for name, sub in properties.items() if sub is not False]
        node["required"] = [*possible, *(name for name in needed if name not in possible)]
    return node


def _with_null(schema: Any) -> Any:
    if not isinstance(schema, Mapping) or _takes_null(schema):
        return schema
    if any(isinstance(sub, Mapping) and _takes_null(sub) for sub in schema.get("anyOf", ())):
        return schema
    kind = schema.get("type")
    if kind is not None and not schema.keys() & {"enum", "const", "$ref", *_COMBINED}:
        return {**schema, "type": [*([kind] if isinstance(kind, str) else kind), "null"]}
    outer = {"description": schema["description"]} if "description" in schema else {}
    inner = {word: value for word, value in schema.items() if word != "description"}
    return {**outer, "anyOf": [inner, {"type": "null"}]}


def _takes_null(node: Mapping[str, Any]) -> bool:
    """True if `node` itself allows null, apart from the schemas that it refers to."""
    if "const" in node or "enum" in node:
        return None in node.get("enum", [node.get("const")])
    if "type" in node:
        kind = node["type"]
        return "null" in ([kind] if isinstance(kind, str) else kind)
    return not node.keys() & {"$ref", *_COMBINED}


def drop_nulls(value: Any, schema: Any) -> Any:
    """Remove the properties with null that `schema` declares and does not allow null for."""
    return _drop(value, _expand(schema, [schema]), schema)


def _drop(value: Any, nodes: list[Mapping[str, Any]], root: Any) -> Any:
    if isinstance(value, list):
        return [_drop(item, _members(root, nodes, n), root) for n, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for name, item in value.items():
        below = _members(root, nodes, name)
        if item is None and below and not any(map(_takes_null, below)):
            continue
        kept[name] = _drop(item, below, root)
    return kept


def fill_nulls(value: Any, schema: Any) -> Any:
    """Add null for each property that `schema` declares and an object of `value` lacks."""
    return _fill(value, _expand(schema, [schema]), schema)


def _fill(value: Any, nodes: list[Mapping[str, Any]], root: Any) -> Any:
    if isinstance(value, list):
        return [_fill(item, _members(root, nodes, n), root) for n, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    declared = {name: None for node in nodes for name in node.get("properties", ())}
    filled = {n: _fill(item, _members(root, nodes, n), root) for n, item in value.items()}
    return {**filled, **{name: None for name in declared if name not in filled}}


def _members(root: Any, nodes: list[Mapping[str, Any]], step: str | int) -> list[Mapping[str, Any]]:
    """Return the subschemas of a property or item of a value that `nodes` apply to."""
    return _expand(root, [child for node in nodes for child in _children(node, step)])


def _children(node: Mapping[str, Any], step: str | int) -> Iterator[Any]:
    if isinstance(step, str):
        properties = node.get("properties", {})
        yield properties.get(step, node.get("additionalProperties"))
    else:
        first = node.get("prefixItems", ())
        yield first[step] if step < len(first) else node.get("items")


def _expand(root: Any, nodes: list[Any]) -> list[Mapping[str, Any]]:
    """Return `nodes` with the subschemas that they refer to or combine."""
    found: dict[int, Mapping[str, Any]] = {}
    waiting = list(nodes)
    while waiting and len(found) < _MAX_NODES:
        node = waiting.pop()
        if not isinstance(node, Mapping) or id(node) in found:
            continue
        found[id(node)] = node
        reference = node.get("$ref")
        if isinstance(reference, str):
            name = reference.removeprefix("#/$defs/")
            waiting.append(root if reference == "#" else root.get("$defs", {}).get(name))
        for word in _COMBINED:
            waiting += node.get(word, ())
    return list(found.values())
