"""Find the subschemas and property names that a schema declares for a path in a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["Place", "property_names_at", "subschemas_at"]

_ALSO = ("allOf", "anyOf", "oneOf")
MAX_SCHEMAS = 500
"""Subschemas examined for one path."""
MAX_BRANCH_DEPTH = 8
"""Alternatives inside alternatives that are looked into; deeper ones refuse nothing."""


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


class Place:
    """The parts of a schema that apply to one place of a value.

    Everything a place refuses, the schema refuses: `Place` is used to give up early, never to
    accept. Every part in `must` applies; of each group in `may`, at least one place applies.
    """

    __slots__ = ("_depth", "_may", "_members", "_must", "_root")

    def __init__(self, root: Any, parts: list[Any], depth: int = 0) -> None:
        self._root = root
        self._depth = depth
        self._must: list[Mapping[str, Any]] = []
        self._may: list[list[Place]] | None = None
        self._members: dict[str | int, Place | None] = {}
        waiting, seen = list(parts), set()
        while waiting and len(self._must) < MAX_SCHEMAS:
            part = waiting.pop()
            if not isinstance(part, Mapping) or id(part) in seen:
                continue
            seen.add(id(part))
            reference = part.get("$ref")
            if reference is not None:
                # Older drafts ignore what stands beside a reference.
                waiting.append(_resolve(root, reference))
                continue
            self._must.append(part)
            waiting += part["allOf"] if isinstance(part.get("allOf"), list) else []

    def _groups(self) -> list[list[Place]]:
        if self._may is None:
            self._may = [
                [Place(self._root, [branch], self._depth + 1) for branch in part[word]]
                for part in self._must
                for word in ("anyOf", "oneOf")
                if self._depth < MAX_BRANCH_DEPTH
                and isinstance(part.get(word), list)
                and part[word]
            ]
        return self._may

    def declared(self) -> frozenset[str]:
        """Return the names of the properties declared here, in any branch."""
        names = {n for part in self._must for n in part.get("properties") or ()}
        return frozenset(names).union(*(p.declared() for group in self._groups() for p in group))

    def member(self, name: str) -> Place | None:
        """Return the place of the property `name`; None if it is forbidden."""
        if name not in self._members:
            self._members[name] = self._member(name)
        return self._members[name]

    def _member(self, name: str) -> Place | None:
        parts: list[Any] = []
        for part in self._must:
            own = _own_members(part, name)
            if own is None:
                return None
            parts += own
        return self._with_branches(parts, [[p.member(name) for p in g] for g in self._groups()])

    def item(self, index: int) -> Place | None:
        """Return the place of the item `index`; None if it is forbidden."""
        index = min(index, 1_000)
        if index not in self._members:
            parts = [child for part in self._must for child in _children(part, index)]
            self._members[index] = (
                None
                if False in parts
                else self._with_branches(
                    parts, [[p.item(index) for p in group] for group in self._groups()]
                )
            )
        return self._members[index]

    def _with_branches(self, parts: list[Any], groups: list[list[Place | None]]) -> Place | None:
        if False in [part for part in parts if isinstance(part, bool)]:
            return None
        place = Place(self._root, parts)
        for group in groups:
            left = [branch for branch in group if branch is not None]
            if not left:
                return None
            place._groups().append(left)
        return place

    def takes(self, kind: str) -> bool:
        """True if a value of the JSON type `kind` may stand here."""
        for part in self._must:
            types = part.get("type")
            if types is not None and kind not in ([types] if isinstance(types, str) else types):
                return False
        return all(any(p.takes(kind) for p in group) for group in self._groups())

    def admits(self, value: Any) -> bool:
        """True if the whole `value` may stand here, as far as its own keys and type show."""
        for part in self._must:
            if not _admits(part, value):
                return False
        return all(any(p.admits(value) for p in group) for group in self._groups())


def _own_members(part: Mapping[str, Any], name: str) -> list[Any] | None:
    """Return the subschemas of `part` for the property `name`; None if it is forbidden."""
    properties = part.get("properties")
    if isinstance(properties, Mapping) and name in properties:
        return [properties[name]]
    patterns = part.get("patternProperties")
    if patterns:
        return []
    rest = part.get("additionalProperties")
    if rest is False:
        return None
    return [rest] if isinstance(rest, Mapping) else []


_TYPES: dict[type, tuple[str, ...]] = {
    dict: ("object",),
    list: ("array",),
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number", "integer"),
    type(None): ("null",),
}


def _admits(part: Mapping[str, Any], value: Any) -> bool:
    types = part.get("type")
    if types is not None:
        allowed = [types] if isinstance(types, str) else types
        if not any(kind in allowed for kind in _TYPES[type(value)]):
            return False
    if isinstance(value, dict):
        required = part.get("required")
        if isinstance(required, list) and not all(name in value for name in required):
            return False
    options = part.get("enum")
    if isinstance(options, list) and not any(option == value for option in options):
        return False
    return "const" not in part or bool(part["const"] == value)
