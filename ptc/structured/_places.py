"""Find the subschemas and property names that a schema declares for a path in a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["property_names_at", "subschemas_at"]

_ALSO = ("allOf", "anyOf", "oneOf")
MAX_SCHEMAS = 500
"""Subschemas examined for one path."""


def property_names_at(schema: Any, path: Iterable[str | int]) -> set[str]:
    """Return the names of the properties declared at `path`; empty if none are known."""
    names: set[str] = set()
    for node in subschemas_at(schema, path):
        properties = node.get("properties")
        if isinstance(properties, Mapping):
            names.update(properties)
    return names


def subschemas_at(schema: Any, path: Iterable[str | int]) -> list[Mapping[str, Any]]:
    """Return the subschemas of `schema` that apply to `path`, including every branch."""
    nodes = _expand(schema, [schema])
    for part in path:
        nodes = _expand(schema, [child for node in nodes for child in _children(node, part)])
    return nodes


def _children(node: Mapping[str, Any], part: str | int) -> list[Any]:
    if isinstance(part, str):
        properties = node.get("properties")
        if isinstance(properties, Mapping) and part in properties:
            return [properties[part]]
        return [node["additionalProperties"]] if "additionalProperties" in node else []
    listed = node.get("prefixItems", node.get("items"))
    if isinstance(listed, list):
        if part < len(listed):
            return [listed[part]]
        rest = "items" if "prefixItems" in node else "additionalItems"
        return [node[rest]] if rest in node else []
    return [node["items"]] if "items" in node else []


def _expand(root: Any, nodes: list[Any]) -> list[Mapping[str, Any]]:
    """Return `nodes` with the subschemas they reference or combine."""
    found: list[Mapping[str, Any]] = []
    waiting, seen = list(nodes), set()
    while waiting and len(found) < MAX_SCHEMAS:
        node = waiting.pop()
        if not isinstance(node, Mapping) or id(node) in seen:
            continue
        seen.add(id(node))
        found.append(node)
        for word in ("$ref", "$dynamicRef", "$recursiveRef"):
            waiting.append(_resolve(root, node.get(word)))
        for word in _ALSO:
            waiting += node[word] if isinstance(node.get(word), list) else []
        waiting += [node.get("then"), node.get("else")]
    return found


def _resolve(root: Any, reference: Any) -> Any:
    """Resolve a reference within the document; None for any other reference."""
    if reference == "#":
        return root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    node = root
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and name.isdigit() and int(name) < len(node):
            node = node[int(name)]
        elif isinstance(node, Mapping) and name in node:
            node = node[name]
        else:
            return None
    return node
