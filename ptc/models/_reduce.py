"""Reduce a schema to the part of JSON Schema that a `Dialect` accepts.

Rule 1: a reduced schema accepts every value that the original accepts, with two exceptions: keys
that an object does not declare, and other values where properties, items or limits are declared
without a type. Answers are validated by the original schema.
Rule 2: a keyword that is left out is noted in the ``description``, for the model to read. What can
neither be expressed nor left out raises an error, and the mode is not used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ._dialects import ARRAY, LENGTHS, LIMITS, OBJECT, TEXT, Dialect

__all__ = ["UnpublishableError", "reduce_schema", "target_of"]

_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("properties", "required", "additionalProperties"), "object"),
    **dict.fromkeys(("items", "prefixItems", "minItems", "maxItems", "uniqueItems"), "array"),
    **dict.fromkeys(("pattern", "format", "minLength", "maxLength"), "string"),
    **dict.fromkeys(LIMITS - {"pattern"}, "number"),
}
"""Types that keywords of a schema without a type imply."""
_SCALAR_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}
_NOTED = (*sorted(LIMITS), "enum", "format", "maxItems", "maxLength", "maxProperties", "minItems")
_NOTED += ("minLength", "minProperties", "uniqueItems")
_REPEATED = frozenset({"maxItems", "maxLength", "minItems", "minLength"})
_MAX_NOTE_CHARS = 200
_MAX_MERGES = 1_000
_MAX_MERGE_DEPTH = 16
"""Schemas that are merged with the keywords beside them, over the whole schema and nested."""
_LOOKAROUND = re.compile(r"\(\?<?[=!]")


class UnpublishableError(ValueError):
    """The schema has a part that the dialect can neither express nor leave out."""


class _ImpossibleError(UnpublishableError):
    def __init__(self) -> None:
        super().__init__("a part that no value matches")


def reduce_schema(schema: Mapping[str, Any], dialect: Dialect) -> dict[str, Any]:
    """Return the part of `schema` that `dialect` accepts.

    Raises:
        UnpublishableError: If it has a part that can neither be expressed nor left out.
    """
    return dict(schema) if dialect.keywords is None else _Reducer(schema, dialect).reduce()


class _Reducer:
    def __init__(self, schema: Mapping[str, Any], dialect: Dialect) -> None:
        self._schema = schema
        self._dialect = dialect
        self._keywords = dialect.keywords or frozenset()
        self._definitions = schema.get("$defs", {})
        self._merges = 0
        self._depth = 0
        self._queue: list[str] = []

    def reduce(self) -> dict[str, Any]:
        root = self._reduce({w: v for w, v in self._schema.items() if w != "$defs"})
        definitions: dict[str, Any] = {}
        while self._queue:
            name = self._queue.pop(0)
            if name not in definitions:
                definitions[name] = self._reduce(self._definitions[name])
        self._check_recursion(definitions)
        return {**root, "$defs": definitions} if definitions else root

    def _reduce(self, node: Any) -> dict[str, Any]:
        """Reduce one subschema."""
        if node is False:
            raise _ImpossibleError
        node = {} if node is True else self._flatten(node)
        if (name := target_of(node)) is not None:
            self._queue.append(name)
            notes = {} if self._dialect.refs_alone else {w: node[w] for w in TEXT & node.keys()}
            return {"$ref": node["$ref"], **notes}
        self._depth += 1
        try:
            return self._reduce_union(node) if "anyOf" in node else self._reduce_typed(node)
        finally:
            self._depth -= 1

    def _reduce_typed(self, node: dict[str, Any]) -> dict[str, Any]:
        types = self._types(node)
        if len(types) > 1 and not self._dialect.type_lists and "enum" not in node:
            text = {word: node[word] for word in TEXT & node.keys()}
            branches = [_of_type(node, one) for one in types]
            return {**text, "anyOf": [self._reduce(branch) for branch in branches]}
        return self._reduce_plain(node, types)

    # -- references, allOf, anyOf --------------------------------------------------------------

    def _flatten(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """Merge ``allOf``, and a reference with the keywords beside it, into one schema."""
        node = dict(node)
        if "oneOf" in node:
            branches = node.pop("oneOf")
            node.setdefault("anyOf", branches)
        alone = node.keys() <= {"$ref"} | TEXT
        if "allOf" not in node and ("$ref" not in node or alone):
            return node
        self._merges += 1
        if self._merges > _MAX_MERGES or self._depth > _MAX_MERGE_DEPTH:
            # A definition that contains itself with other keywords would unroll forever.
            parts = [part for part in (node, *node.get("allOf", ())) if _is_reference(part)]
            if parts:
                return {"$ref": parts[0]["$ref"]}
        return self._flatten(self._merge([node], set()))

    def _merge(self, parts: list[Any], seen: set[str]) -> dict[str, Any]:
        """Return one schema that accepts whatever all `parts` accept.

        Args:
            parts: The schemas.
            seen: Definitions that are merged already. A second time, they would add nothing: 40
                definitions that each combine the next one with itself are 2**40 schemas.
        """
        merged: dict[str, Any] = {}
        for part in parts:
            if part is False:
                raise _ImpossibleError
            if part is True:
                continue
            own = {w: v for w, v in part.items() if w not in ("$ref", "allOf")}
            nested = [part, *part.get("allOf", ())][1:]
            name = target_of(part)
            if name is not None and name not in seen:
                nested.insert(0, self._definitions[name])
                seen.add(name)
            deeper = self._merge(nested, seen) if nested else {}
            for source in (own, deeper):
                for word, value in source.items():
                    merged[word] = _both(word, merged[word], value) if word in merged else value
        return merged

    def _reduce_union(self, node: dict[str, Any]) -> dict[str, Any]:
        text = {word: node[word] for word in TEXT & node.keys()}
        beside = {w: v for w, v in node.items() if w != "anyOf" and w not in text}
        # Conditions that the union takes part in are checked where they are left out.
        self._check_dropped(beside)
        branches = node["anyOf"]
        if not beside.keys() & (_TYPES.keys() | {"type", "enum", "const"}):
            if any(branch in (True, {}) for branch in branches):
                return self._reduce(text)
            return {**text, "anyOf": self._possible(branches)}
        self._merges += len(branches)
        shaped = [branch is not True and _has_shape(branch) for branch in branches]
        if not any(shaped) or self._merges > _MAX_MERGES:
            # Branches that only demand, such as {"required": [...]}, or too many of them.
            if any(shaped):
                self._check_dropped({"then": {"properties": {}}})
            return self._reduce({**text, **beside})
        return {**text, "anyOf": self._possible([{"allOf": [beside, one]} for one in branches])}

    def _possible(self, branches: list[Any]) -> list[dict[str, Any]]:
        """Reduce the branches that a value can match."""
        found: list[dict[str, Any]] = []
        for branch in branches:
            try:
                found.append(self._reduce(branch))
            except _ImpossibleError:
                continue
        if not found:
            raise _ImpossibleError
        return found

    def _check_dropped(self, node: dict[str, Any]) -> None:
        """Reject conditions that declare properties, if objects must be closed."""
        if self._dialect.closed and any(
            isinstance(part, Mapping) and part.keys() & {"properties", "allOf", "$ref", "anyOf"}
            for part in (
                *(node.get(word) for word in ("then", "else")),
                *node.get("dependentSchemas", {}).values(),
            )
        ):
            msg = "properties that depend on conditions"
            raise UnpublishableError(msg)

    # -- a schema without references -----------------------------------------------------------

    def _types(self, node: dict[str, Any]) -> list[str]:
        named = node.get("type")
        if named is not None:
            return [named] if isinstance(named, str) else list(named)
        values = node.get("enum", [node["const"]] if "const" in node else None)
        if values is not None:
            return list(dict.fromkeys(_type_of(value) for value in values))
        return list(dict.fromkeys(_TYPES[word] for word in node if word in _TYPES))

    def _reduce_plain(self, node: dict[str, Any], types: list[str]) -> dict[str, Any]:
        if not types and self._dialect.typed:
            msg = "a value of any type"
            raise UnpublishableError(msg)
        self._check_dropped(node)
        kept, most = node, self._dialect.most_repetitions
        if most is not None:
            kept = {w: v for w, v in node.items() if w not in _REPEATED or v <= most}
        reduced: dict[str, Any] = {word: node[word] for word in TEXT & node.keys()}
        if types and (self._dialect.typed or "type" in node):
            reduced["type"] = types[0] if len(types) == 1 else types
        reduced |= self._reduce_values(kept)
        if "object" in types and "enum" not in reduced:
            reduced |= self._reduce_object(node)
        if "array" in types and "enum" not in reduced:
            reduced |= self._reduce_array(kept)
        notes = [
            note
            for word in _NOTED
            if word in node and word not in reduced
            if len(note := f"{word}: {json.dumps(node[word])}") <= _MAX_NOTE_CHARS
        ]
        if notes:
            text = [reduced["description"]] if reduced.get("description") else []
            reduced["description"] = " ".join([*text, f"({', '.join(notes)})"])
        return reduced

    def _reduce_values(self, node: dict[str, Any]) -> dict[str, Any]:
        """Return ``enum``, ``const`` and the limits, as far as they are accepted."""
        reduced: dict[str, Any] = {}
        values = node.get("enum")
        if values is None and "const" in node:
            values = [node["const"]]
        plain = (
            (str, int, float) if "const" not in self._keywords else (str, int, float, type(None))
        )
        if values is not None and all(isinstance(value, plain) for value in values):
            reduced["enum"] = values
        for word in self._keywords & node.keys() & _TYPES.keys():
            value = node[word]
            accepted = {
                "format": value in self._dialect.formats if word == "format" else True,
                "pattern": word != "pattern" or self._accepts_pattern(value),
            }.get(word, word not in OBJECT | ARRAY)
            if accepted:
                reduced[word] = value
        return reduced

    def _accepts_pattern(self, pattern: str) -> bool:
        anchored = pattern.startswith("^") and pattern.endswith("$") and "|" not in pattern
        return not _LOOKAROUND.search(pattern) and (anchored or not self._dialect.anchored_patterns)

    def _reduce_object(self, node: dict[str, Any]) -> dict[str, Any]:
        properties = {n: sub for n, sub in node.get("properties", {}).items() if sub is not False}
        more = node.get("additionalProperties", node.get("unevaluatedProperties"))
        free = more not in (None, False) or "patternProperties" in node
        free = free or (not properties and more is None)
        required = [name for name in node.get("required", ()) if name in properties]
        if self._dialect.closed and (free or len(required) < len(node.get("required", ()))):
            msg = "objects with arbitrary keys"
            raise UnpublishableError(msg)
        if self._dialect.all_required and len(required) < len(properties):
            msg = "optional properties"
            raise UnpublishableError(msg)
        reduced: dict[str, Any] = {}
        if properties:
            reduced["properties"] = dict(self._reduce_properties(properties, required))
        if required:
            reduced["required"] = required
        if self._dialect.closed:
            reduced["additionalProperties"] = False
        elif isinstance(more, Mapping) and "patternProperties" not in node:
            reduced["additionalProperties"] = self._reduce(more)
        elif free or more is not None:
            # Explicitly: grammars close an object that does not say it.
            reduced["additionalProperties"] = free
        return reduced

    def _reduce_properties(
        self, properties: dict[str, Any], required: list[str]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, part in properties.items():
            try:
                yield name, self._reduce(part)
            except _ImpossibleError:
                if name in required:
                    raise

    def _reduce_array(self, node: dict[str, Any]) -> dict[str, Any]:
        reduced: dict[str, Any] = {
            word: node[word] for word in LENGTHS & node.keys() & self._keywords
        }
        most = self._dialect.most_min_items
        if most is not None and reduced.get("minItems", 0) > most:
            reduced["minItems"] = most
        items, first = (
            node.get("items", node.get("unevaluatedItems", True)),
            node.get("prefixItems"),
        )
        if first and "prefixItems" in self._keywords:
            reduced["prefixItems"] = [self._reduce(item) for item in first]
        elif first:
            union = [*first, *([items] if items is not False else [])]
            items = True if True in union or {} in union else {"anyOf": union}
        if items is False:
            reduced["maxItems"] = min(len(first or ()), reduced.get("maxItems", len(first or ())))
        elif items not in (True, {}) or self._dialect.typed:
            reduced["items"] = self._reduce(items)
        return {w: v for w, v in reduced.items() if w in self._keywords}

    # -- recursion -----------------------------------------------------------------------------

    def _check_recursion(self, definitions: dict[str, Any]) -> None:
        """Reject a definition that contains itself, if the dialect does."""
        if self._dialect.recursive and not self._dialect.recursive_if_optional:
            return
        edges = {name: set(self._edges(part)) for name, part in definitions.items()}
        while done := [name for name, targets in edges.items() if not targets & edges.keys()]:
            for name in done:
                del edges[name]
        if edges:
            msg = f"recursive schemas ({min(edges)})"
            raise UnpublishableError(msg)

    def _edges(self, node: dict[str, Any]) -> Iterator[str]:
        """Yield the definitions that `node` contains."""
        if (name := target_of(node)) is not None:
            yield name
        optional = self._dialect.recursive_if_optional
        for key, part in node.get("properties", {}).items():
            if not optional or key in node.get("required", ()):
                yield from self._edges(part)
        inner = [*node.get("anyOf", ()), *node.get("prefixItems", ())]
        inner += [node[w] for w in ("items", "additionalProperties") if w in node]
        for part in inner:
            if isinstance(part, Mapping):
                yield from self._edges(dict(part))


def target_of(node: Mapping[str, Any]) -> str | None:
    reference = node.get("$ref")
    return reference.removeprefix("#/$defs/") if isinstance(reference, str) else None


def _is_reference(node: Any) -> bool:
    return isinstance(node, Mapping) and "$ref" in node


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    return _SCALAR_TYPES.get(type(value), "array" if isinstance(value, list) else "object")


def _of_type(node: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the keywords of `node` that concern values of type `kind`, without its text."""
    numbers = ("number", "integer")
    return {
        **{
            word: value
            for word, value in node.items()
            if word not in TEXT
            and (word not in _TYPES or _TYPES[word] == kind or {_TYPES[word], kind} == {*numbers})
        },
        "type": kind,
    }


def _has_shape(node: Mapping[str, Any]) -> bool:
    return bool(node.keys() & {"$ref", "anyOf", "const", "enum", "items", "properties", "type"})


def _both(word: str, left: Any, right: Any) -> Any:
    """Return the value of keyword `word` for a schema that combines `left` and `right`."""
    if left == right:
        return left
    match word:
        case "properties" | "patternProperties":
            shared = {n: {"allOf": [left[n], right[n]]} for n in left.keys() & right.keys()}
            return {**left, **right, **shared}
        case "required":
            return list(dict.fromkeys([*left, *right]))
        case "type":
            return _common_types(left, right)
        case "enum":
            return [value for value in left if value in right] or left
        case "minimum" | "minLength" | "minItems":
            return max(left, right)
        case "maximum" | "maxLength" | "maxItems":
            return min(left, right)
        case "additionalProperties" | "items" if isinstance(left, Mapping) and left != {}:
            return {"allOf": [left, right]} if isinstance(right, Mapping) else left
        case "additionalProperties" if left in (True, {}):
            return right
    return left


def _common_types(left: Any, right: Any) -> Any:
    ones = [left] if isinstance(left, str) else left
    others = [right] if isinstance(right, str) else right
    common = [one for one in ones if one in others or (one == "integer" and "number" in others)]
    common += [o for o in others if o == "integer" and "number" in ones and o not in common]
    if not common:
        raise _ImpossibleError
    return common[0] if len(common) == 1 else common
