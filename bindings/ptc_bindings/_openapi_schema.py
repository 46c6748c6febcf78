"""Schemas of OpenAPI documents as JSON Schemas of the draft 2020-12.

Named schemas stay names, in ``$defs``, so that they may be recursive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import ptc
from ptc._core import _json

from ._mcp_text import clean_text
from ._openapi_document import Document

__all__ = ["Direction", "Schemas", "UnsupportedError", "shown_schema"]

Direction: TypeAlias = Literal["request", "response"]

_MOST_DEPTH = 64
_MOST_TEXT = 1_000
_MOST_NAME = 256
_COPIED = frozenset((
    "type", "format", "enum", "const", "default", "required", "pattern", "minLength",
    "maxLength", "minimum", "maximum", "multipleOf", "minItems", "maxItems", "uniqueItems",
    "minProperties", "maxProperties", "minContains", "maxContains", "dependentRequired",
    "contentEncoding", "contentMediaType",
))  # fmt: skip
_SINGLE = frozenset((
    "items", "additionalItems", "additionalProperties", "not", "if", "then", "else", "contains",
    "propertyNames", "unevaluatedItems", "unevaluatedProperties",
))  # fmt: skip
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_TABLES = frozenset({"properties", "patternProperties", "dependentSchemas"})
_SUBSCHEMAS = _SINGLE | _LISTS | _TABLES
_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_HIDDEN = {"request": "readOnly", "response": "writeOnly"}
"""Marks of the properties that do not exist in a direction."""


class UnsupportedError(Exception):
    """A document uses a feature that tools do not have."""


class _Definition(NamedTuple):
    schema: Any
    refs: frozenset[str]
    """Names of the definitions that it refers to itself."""
    size: int
    """Bytes of JSON."""


class Schemas:
    """Converts the schemas of one document for one direction; each named one once."""

    def __init__(self, document: Document, direction: Direction) -> None:
        self._document = document
        self._hidden = _HIDDEN[direction]
        self._names: dict[str, str] = {}
        self._sources: dict[str, Any] = {}
        self._converted: dict[str, _Definition] = {}

    def with_definitions(self, node: Any, most_bytes: int) -> dict[str, Any] | bool:
        """Convert a schema, with the definitions that it needs.

        Raises:
            UsageError: If it is invalid.
            UnsupportedError: If it is too large.
        """
        refs: set[str] = set()
        schema = self.convert(node, refs)
        if isinstance(schema, bool):
            return schema
        definitions = self.definitions(refs, most_bytes)
        return {**schema, "$defs": definitions} if definitions else schema

    def definitions(self, refs: set[str], most_bytes: int) -> dict[str, Any]:
        """Return the definitions that converted schemas refer to. Raises `UnsupportedError`."""
        found: dict[str, Any] = {}
        todo = sorted(refs)
        size = 0
        while todo:
            name = todo.pop()
            if name in found:
                continue
            definition = self._definition(name)
            found[name] = definition.schema
            size += definition.size
            if size > most_bytes:
                raise UnsupportedError(f"its schema has more than {most_bytes:,} bytes")
            todo += definition.refs - found.keys()
        return {name: found[name] for name in sorted(found)}

    def _definition(self, name: str) -> _Definition:
        if name not in self._converted:
            refs: set[str] = set()
            schema = self.convert(self._sources[name], refs)
            size = len(_json.dumps(schema))
            self._converted[name] = _Definition(schema, frozenset(refs), size)
        return self._converted[name]

    def convert(self, node: Any, refs: set[str], depth: int = 0) -> Any:
        """Convert a schema; add the names of the definitions that it refers to.

        Raises:
            UsageError: If it is not a schema, too deep, or refers to another document.
        """
        if isinstance(node, bool):
            return node
        if not isinstance(node, Mapping) or depth > _MOST_DEPTH:
            msg = f"{node!r:.80} is not a schema, or has more than {_MOST_DEPTH} levels"
            raise ptc.UsageError(msg)
        if "$dynamicRef" in node:
            raise UnsupportedError("its schema has a $dynamicRef")
        found: dict[str, Any] = {}
        if "$ref" in node:
            name = self._define(node["$ref"])
            refs.add(name)
            found["$ref"] = f"#/$defs/{name}"
        for key in node:
            if key in _COPIED:
                found[key] = node[key]
            elif key in _SUBSCHEMAS:
                found[key] = self._convert_part(node, key, refs, depth + 1)
        if isinstance(text := node.get("description"), str):
            found["description"] = clean_text(text, _MOST_TEXT)
        if "required" in found:
            self._drop_hidden(node, found)
        _convert_bounds(node, found)
        return _nullable(found) if node.get("nullable") is True else found

    def _convert_part(self, node: Mapping[str, Any], key: str, refs: set[str], depth: int) -> Any:
        if key in _SINGLE:
            return self.convert(node[key], refs, depth)
        if key in _LISTS:
            rows = self._document.rows(node, key)
            return [self.convert(row, refs, depth) for row in rows]
        table = self._document.table(node, key)
        for name in table:
            if not name.isprintable() or len(name) > _MOST_NAME:
                msg = f"a schema has a name with invisible characters: {name!r:.80}"
                raise ptc.UsageError(msg)
        return {
            name: self.convert(sub, refs, depth)
            for name, sub in table.items()
            if not self.is_hidden(sub)
        }

    def _drop_hidden(self, node: Mapping[str, Any], found: dict[str, Any]) -> None:
        names = self._document.names(node, "required")
        own = self._document.table(node, "properties")
        found["required"] = [n for n in names if not self.is_hidden(own.get(n))]

    def is_hidden(self, node: Any) -> bool:
        """True for a property that does not exist in this direction."""
        while isinstance(node, Mapping):
            if node.get(self._hidden) is True:
                return True
            if "$ref" not in node:
                return False
            node = self._document.resolve(node)
        return False

    def _define(self, ref: object) -> str:
        """Return the name of the definition of a reference. It is converted when it is needed."""
        node = self._document.find(ref)
        key = str(ref)
        if key not in self._names:
            last = re.sub(r"[^A-Za-z0-9_]+", "_", str(ref).rpartition("/")[2]).strip("_")[:64]
            name, number = last or "Part", 1
            while name in self._sources:
                number += 1
                name = f"{last or 'Part'}_{number}"
            self._names[key] = name
            self._sources[name] = node
        return self._names[key]


def _convert_bounds(node: Mapping[str, Any], found: dict[str, Any]) -> None:
    """Convert exclusive bounds: numbers in 3.1, marks of the bound beside them in 3.0."""
    for exclusive, inclusive in _BOUNDS.items():
        value = node.get(exclusive)
        if value is True and inclusive in found:
            found[exclusive] = found.pop(inclusive)
        elif value is not None and not isinstance(value, bool):
            found[exclusive] = value


def _nullable(found: dict[str, Any]) -> dict[str, Any]:
    kind = found.get("type")
    if isinstance(kind, str) and not found.keys() & {"$ref", "const", *_LISTS}:
        found["type"] = [kind, "null"]
        if isinstance(found.get("enum"), list) and None not in found["enum"]:
            found["enum"] = [*found["enum"], None]
        return found
    if isinstance(kind, list) or not found.keys() - {"description"}:
        # In 3.1 the list says it; without a type, null is valid already.
        return found
    text = {"description": found.pop("description")} if "description" in found else {}
    return {**text, "anyOf": [found, {"type": "null"}]}


# --- as a model sees it -------------------------------------------------------------------------

_MOST_SHOWN = 400
_MOST_LEVELS = 6


def shown_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Inline the definitions of the parameters of a tool, for providers that follow no references.

    A recursive, deep or very large part is shown as any object. Arguments are validated against
    the schema itself.
    """
    view = _View(schema.get("$defs", {}))
    whole: dict[str, Any] = view.show({k: v for k, v in schema.items() if k != "$defs"}, 0, ())
    return whole


class _View:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._left = _MOST_SHOWN

    def show(self, node: Any, level: int, names: tuple[str, ...]) -> Any:
        """Copy a schema, `level` objects deep, inside the definitions `names`."""
        self._left -= 1
        if not isinstance(node, Mapping):
            return node
        if "$ref" in node:
            return self._follow(node, level, names)
        if "properties" in node or node.get("type") == "object":
            level += 1
        if self._left < 0 or level > _MOST_LEVELS:
            return {key: node[key] for key in ("type", "description") if key in node}
        return {key: self._part(key, value, level, names) for key, value in node.items()}

    def _follow(self, node: Mapping[str, Any], level: int, names: tuple[str, ...]) -> Any:
        name = node["$ref"].removeprefix("#/$defs/")
        beside = {key: value for key, value in node.items() if key != "$ref"}
        if name in names or self._left < 0:
            return {"description": f"A {name}.", **beside}
        inner = self.show(self._definitions[name], level, (*names, name))
        return {**inner, **self.show(beside, level, names)} if isinstance(inner, dict) else inner

    def _part(self, key: str, value: Any, level: int, names: tuple[str, ...]) -> Any:
        if key in _SINGLE:
            return self.show(value, level, names)
        if key in _LISTS:
            return [self.show(item, level, names) for item in value]
        if key in _TABLES:
            return {name: self.show(item, level, names) for name, item in value.items()}
        return value
