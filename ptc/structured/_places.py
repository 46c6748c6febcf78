"""Find the subschemas and property names that a schema declares for a path in a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["JSON_TYPES", "Place", "property_names_at"]

_ALSO = ("allOf", "anyOf", "oneOf")
MAX_SCHEMAS = 500
"""Subschemas examined for one path."""
MAX_CASES = 32
"""Combinations of alternatives at one place; the others refuse nothing."""
MAX_ITEMS = 100
"""Items of a list after which all have the same place."""


def property_names_at(schema: Any, path: Iterable[str | int]) -> set[str]:
    """Return the names of the properties declared at `path` in any branch; empty if unknown."""
    nodes = _expand(schema, [schema])
    for part in path:
        nodes = _expand(schema, [child for node in nodes for child in _children(node, part)])
    return {name for node in nodes for name in node.get("properties") or ()}


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

    A list of cases: in each, every part applies. What a place refuses, the schema refuses: it is
    used to give up early, never to accept.
    """

    __slots__ = ("_cases", "_children", "_known", "_root", "declared")

    def __init__(self, schema: Any) -> None:
        """Return the place of a whole value."""
        self._root = schema
        self._known: dict[frozenset[frozenset[int]], Place] = {}
        self._fill(_cases(schema, [schema]))

    def _fill(self, cases: list[Case]) -> None:
        self._cases = cases
        self._children: dict[str | int, Place | None] = {}
        self.declared = frozenset(
            name for case in cases for part in case for name in part.get("properties") or ()
        )
        """Names of the properties declared here, in any case."""

    def member(self, name: str) -> Place | None:
        """Return the place of the property `name`; None if it is forbidden."""
        if name not in self._children:
            self._children[name] = self._find(name, "object")
        return self._children[name]

    def item(self, index: int) -> Place | None:
        """Return the place of the item `index`; None if it is forbidden."""
        index = min(index, MAX_ITEMS)
        if index not in self._children:
            self._children[index] = self._find(index, "array")
        return self._children[index]

    def _find(self, part: str | int, kind: str) -> Place | None:
        found: dict[frozenset[int], Case] = {}
        for case in self._cases:
            if not _takes(case, kind):
                continue
            parts = [child for node in case for child in _own_children(node, part)]
            if not any(child is False for child in parts):
                for inner in _cases(self._root, parts):
                    found[frozenset(map(id, inner))] = inner
        if not found:
            return None
        key = frozenset(found)
        if key not in self._known:
            place = self._known[key] = Place.__new__(Place)
            place._root, place._known = self._root, self._known
            place._fill(list(found.values()))
        return self._known[key]

    def takes(self, kind: str) -> bool:
        """True if a value of the JSON type `kind` may stand here."""
        return any(_takes(case, kind) for case in self._cases)

    def admits(self, value: Any) -> bool:
        """True if the whole `value` may stand here, as far as its own keys and type show."""
        return any(all(_admits(part, value) for part in case) for case in self._cases)


Case = list[Mapping[str, Any]]


def _cases(root: Any, parts: list[Any]) -> list[Case]:
    """Return the cases in which all of `parts` apply, one for each choice of alternatives."""
    done: list[Case] = []
    waiting: list[tuple[list[Any], Case]] = [(parts, [])]
    while waiting:
        left, case = waiting.pop()
        if not left:
            done.append(case)
            continue
        part, left = left[0], left[1:]
        if not isinstance(part, Mapping) or any(part is known for known in case):
            waiting.append((left, case))
            continue
        if "$ref" in part:
            # Older drafts ignore what stands beside a reference.
            target = _resolve(root, part["$ref"])
            again = len(left) > MAX_SCHEMAS or (isinstance(target, Mapping) and "$ref" in target)
            waiting.append((left if again else [target, *left], case))
            continue
        case = [*case, part]
        left = [*left, *_listed(part, "allOf")]
        branches = _listed(part, "anyOf") or _listed(part, "oneOf")
        if not branches or len(waiting) + len(done) + len(branches) > MAX_CASES:
            branches = [True]
        waiting += [([branch, *left], case) for branch in branches if branch is not False]
    return done


def _listed(part: Mapping[str, Any], word: str) -> list[Any]:
    found = part.get(word)
    return found if isinstance(found, list) else []


def _takes(case: Case, kind: str) -> bool:
    for part in case:
        types = part.get("type")
        if types is not None and kind not in ([types] if isinstance(types, str) else types):
            return False
    return True


def _own_children(node: Mapping[str, Any], part: str | int) -> list[Any]:
    """Return the subschemas of `node` for a member or item; False forbids it."""
    if isinstance(part, str) and node.get("patternProperties"):
        properties = node.get("properties")
        return [properties[part]] if isinstance(properties, Mapping) and part in properties else []
    return _children(node, part)


JSON_TYPES: dict[type, tuple[str, ...]] = {
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
        if not any(kind in allowed for kind in JSON_TYPES[type(value)]):
            return False
    if isinstance(value, dict):
        required = part.get("required")
        if isinstance(required, list) and not all(name in value for name in required):
            return False
    options = part.get("enum")
    if isinstance(options, list) and not any(option == value for option in options):
        return False
    return "const" not in part or bool(part["const"] == value)
