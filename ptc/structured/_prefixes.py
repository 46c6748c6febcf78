"""Decide whether an unfinished value may still become a conforming one.

From a schema this module derives another: an unfinished value conforms to it if text that follows
may make the value conform to the first. It knows nothing about text.

A value is unfinished along one path, that of the part being written. `PrefixValidator` wraps the
parts on this path in an object with the key `_MARK`, so that a schema can tell them from the
others.

Rule 1: what is finished conforms to its schema.
Rule 2: what is unfinished conforms to its schema without the rules that more text may satisfy.
        They are listed at `_open`.
Rule 3: an unfinished value is no value of an ``enum`` or ``const``, although it may read like one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from .._schema import _check as _schema
from ._linking import is_old, link
from ._violations import pointer as format_pointer

__all__ = ["PrefixValidator"]

_MARK = "\ufdd0"
"""A noncharacter of Unicode: no text has it as a key."""
_MARKED: dict[str, Any] = {"type": "object", "required": [_MARK]}
_UNMARKED = {"not": _MARKED}
_NOTHING: dict[str, Any] = {"not": {}}
_NO_VALUE = {_MARK: "no value"}
_SAME = ("type", "maxLength", "maxItems", "maxProperties", "uniqueItems", "propertyNames")
"""Rules that an unfinished value has to satisfy already."""
_INSIDE = (
    "additionalItems",
    "additionalProperties",
    "items",
    "prefixItems",
    "unevaluatedItems",
    "unevaluatedProperties",
)
"""Rules for the parts of a value."""
_GROWING = ("type", "required", "minLength", "minItems", "minProperties")
"""Rules that a value continues to satisfy, however it grows."""
_CERTAIN = frozenset({*_GROWING, "properties", "allOf", "anyOf"})
"""Rules for which it is decided when a value satisfies them for good."""
_NOTES = frozenset({"$comment", "default", "description", "examples", "title"})

_Path = tuple[str | int, ...]


class PrefixValidator:
    """Validator of values of one schema while they are written."""

    def __init__(self, schema: Any, *, formats: bool, resources: Mapping[str, Any]) -> None:
        """Compile the validator.

        Args:
            schema: A JSON Schema that compiles.
            formats: Whether to assert ``format`` for the finished parts.
            resources: Documents that its references may name, by URI.
        """
        prefixes = _Prefixes(schema, resources)
        # Linked, so that the resources are needed only for a metaschema among them.
        self._validator = _schema.compile_schema(
            prefixes.schema, "schema", formats=formats, resources=resources
        )
        self._tuple_items = prefixes.tuple_items

    def accepts(self, value: Any, path: _Path) -> bool:
        """True if `value` may become a conforming value.

        Args:
            value: Plain JSON data, a container or an unfinished text.
            path: Path to the part that is being written; it and its containers are unfinished.
        """
        return self._is_valid(_mark(value, path))

    def accepts_item(self, items: list[Any], index: int) -> bool:
        """True if the item at `index` conforms to the rules for items of the unfinished list.

        Rules about the list as a whole are not considered. The cost does not depend on `index`.
        """
        before = min(index, self._tuple_items)
        return self._is_valid([*items[:before], items[index]])

    def _is_valid(self, value: Any) -> bool:
        try:
            return self._validator.is_valid(value)
        except (UnicodeEncodeError, ValueError):
            # A lone surrogate, or nested too deep: not JSON.
            return False


def _mark(value: Any, path: _Path) -> Any:
    """Copy the containers along `path` and wrap those inside `value`."""
    if not path:
        return value
    copied = value.copy()
    copied[path[0]] = {_MARK: _mark(value[path[0]], path[1:])}
    return copied


class _Prefixes:
    """Derives the schema of the unfinished values of one schema.

    Each derived schema is a definition and names others by reference, so that the whole is a small
    multiple of the original, however this is nested.

    Attributes:
        schema: The derived schema.
        tuple_items: Number of first items that have schemas of their own, at most.
    """

    def __init__(self, schema: Any, resources: Mapping[str, Any]) -> None:
        linked = link(schema, resources)
        draft = schema.get("$schema") if isinstance(schema, Mapping) else None
        self.tuple_items = 0
        self._old = is_old(schema)
        self._originals: dict[str, Any] = {**linked.definitions, ".root": linked.root}
        self._numbers: dict[str, int] = {}
        self._derived: dict[str, Any] = {}
        self._queue: list[tuple[str, str, str, Any]] = []
        root = self._refer("open", "#/$defs/.root", linked.root)
        while self._queue:
            name, kind, pointer, node = self._queue.pop()
            self._derived[name] = _DERIVE[kind](self, pointer, node)
        self.schema: Any = {
            **({} if draft is None else {"$schema": draft}),
            "allOf": [root],
            "$defs": {**self._originals, **self._derived},
        }

    def _refer(self, kind: str, pointer: str, node: Any) -> Any:
        """Return a reference to the schema of a `kind` that is derived from `node`.

        Args:
            kind: ``open``: for an unfinished value. ``part``: for a value inside an unfinished one,
                which is finished unless it is wrapped. ``sure``: for an unfinished value that
                conforms, however it grows.
            pointer: Location of `node`.
            node: A schema.
        """
        if isinstance(node, bool) or not node:
            return node
        number = self._numbers.setdefault(pointer, len(self._numbers))
        name = f".{kind}{number}"
        if name not in self._derived:
            self._derived[name] = None
            self._queue.append((name, kind, pointer, node))
        return {"$ref": f"#/$defs/{name}"}

    def _refer_all(self, kind: str, pointer: str, nodes: Any) -> Any:
        """Return references for a dict or list of schemas, or for one."""
        if isinstance(nodes, list):
            return [self._refer(kind, f"{pointer}/{i}", node) for i, node in enumerate(nodes)]
        return {
            key: self._refer(kind, f"{pointer}{_fragment(key)}", node)
            for key, node in nodes.items()
            if not isinstance(node, list)
        }

    def _part(self, pointer: str, node: Mapping[str, Any]) -> Any:
        wrapped = {**_MARKED, "properties": {_MARK: self._refer("open", pointer, node)}}
        return {"anyOf": [wrapped, {"allOf": [_UNMARKED, {"$ref": pointer}]}]}

    def _open(self, pointer: str, node: Mapping[str, Any]) -> Any:
        """Keep the rules that an unfinished value cannot come to satisfy.

        Dropped are ``required``, ``dependentRequired``, ``minProperties``, ``minItems``,
        ``contains``, ``minLength``, ``pattern`` and ``format``. ``oneOf`` becomes ``anyOf``.
        ``not`` and ``if`` hold only where they are decided.
        """
        made: dict[str, Any] = {word: node[word] for word in _SAME if word in node}
        made |= {word: _NO_VALUE for word in ("const",) if word in node}
        made |= {word: [_NO_VALUE] for word in ("enum",) if word in node}
        for word in _INSIDE:
            if isinstance(node.get(word), list):
                made[word] = self._refer_all("part", f"{pointer}/{word}", node[word])
                self.tuple_items = max(self.tuple_items, len(node[word]))
            elif word in node:
                made[word] = self._refer("part", f"{pointer}/{word}", node[word])
        for word in ("patternProperties", "properties"):
            if word in node:
                made[word] = self._refer_all("part", f"{pointer}/{word}", node[word])
        if "contains" in node and not self._old:
            # It requires nothing, but `unevaluatedItems` does not apply to what it matches.
            contained = self._refer("part", f"{pointer}/contains", node["contains"])
            made |= {"contains": contained, "minContains": 0}
        for word in ("dependencies", "dependentSchemas"):
            if word in node:
                made[word] = self._refer_all("open", f"{pointer}/{word}", node[word])
        if rules := [*self._rules_in_place(pointer, node)]:
            made["allOf"] = rules
        return made

    def _rules_in_place(self, pointer: str, node: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the rules of the keywords that combine schemas of the value itself."""
        if isinstance(reference := node.get("$ref"), str):
            name = reference.removeprefix("#/$defs/")
            yield self._refer("open", reference, self._originals[name])
        yield from self._refer_all("open", f"{pointer}/allOf", node.get("allOf", []))
        for word in ("anyOf", "oneOf"):
            if word in node:
                yield {"anyOf": self._refer_all("open", f"{pointer}/{word}", node[word])}
        if "not" in node:
            yield {"not": self._refer("sure", f"{pointer}/not", node["not"])}
        if "if" in node:
            test, then, other = (
                self._refer("open", f"{pointer}/{word}", node.get(word, {}))
                for word in ("if", "then", "else")
            )
            undecided = {"anyOf": [{"allOf": [test, then]}, other]}
            decided = self._refer("sure", f"{pointer}/if", node["if"])
            yield {"if": decided, "then": then, "else": undecided}

    def _sure(self, pointer: str, node: Mapping[str, Any]) -> Any:
        if not node.keys() <= _CERTAIN | _NOTES:
            return _NOTHING
        made: dict[str, Any] = {word: node[word] for word in _GROWING if word in node}
        if "properties" in node:
            # A property that is missing may follow, and violate its schema.
            rules = self._refer_all("sure_part", f"{pointer}/properties", node["properties"])
            made["properties"] = rules
            made["required"] = sorted({*rules, *node.get("required", ())})
        for word in ("allOf", "anyOf"):
            if word in node:
                made[word] = self._refer_all("sure", f"{pointer}/{word}", node[word])
        return made

    def _sure_part(self, pointer: str, node: Mapping[str, Any]) -> Any:
        wrapped = {**_MARKED, "properties": {_MARK: self._refer("sure", pointer, node)}}
        return {"anyOf": [wrapped, {"allOf": [_UNMARKED, {"$ref": pointer}]}]}


_DERIVE: dict[str, Callable[[_Prefixes, str, Mapping[str, Any]], Any]] = {
    "open": _Prefixes._open,
    "part": _Prefixes._part,
    "sure": _Prefixes._sure,
    "sure_part": _Prefixes._sure_part,
}


def _fragment(key: str) -> str:
    """Format `key` as the end of a reference: a JSON Pointer in a URI (RFC 6901, section 6)."""
    return quote(format_pointer((key,)), safe="~/")
