"""Python types of JSON Schemas, for stubs.

A schema it cannot read becomes ``Any``, never an error: raw schemas come from others, and nothing
is assumed about them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from .._dataclass import dataclass
from ._stub_text import camel_case, is_plain_name, one_line, python_literal, quote_docstring

__all__ = [
    "Classes",
    "Schema",
    "Types",
    "has_default",
    "kinds_of",
    "list_at",
    "properties_of",
    "required_of",
]

Schema: TypeAlias = Any
"""A JSON Schema: an object or a boolean, or anything else if its author is wrong."""

_PARAMETER_CHARS = 300
_FIELD_CHARS = 100
"""Most characters of the description of a field."""
_MAX_LITERALS = 30
"""Values of an enum that are written out; a longer enum is shown as its type."""
_MAX_CLASSES = 40
"""Classes of one tool; further objects are ``dict[str, Any]``. Some published schemas are huge."""
_MAX_DEPTH = 12
"""Nesting of types; deeper ones are ``Any``."""


@dataclass(slots=True)
class Classes:
    """Classes of all tools: one for each shape, each with a unique name."""

    blocks: list[str] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)

    def find(self, shape: str) -> str | None:
        """Return the name of the class of this shape; None if it has none."""
        return self._names.get(shape)

    def claim(self, shape: str, name: str) -> str:
        """Name the class of a new shape: `name`, with a number if another shape uses it."""
        taken = set(self._names.values())
        chosen, number = name, 1
        while chosen in taken or chosen in _RESERVED:
            number += 1
            chosen = f"{name}{number}"
        self._names[shape] = chosen
        return chosen


_RESERVED = {"Any", "Literal", "NotRequired", "ToolError", "None", "True", "False"}


@dataclass(slots=True)
class Types:
    """Python types of the schemas in one document."""

    document: Schema
    prefix: str
    classes: Classes
    _made: int = 0
    _depth: int = 0
    _resolving: list[str] = field(default_factory=list)

    def of(self, schema: Schema, hint: str = "") -> str:
        """Return the type of `schema`; `hint` names the class of an unnamed object."""
        found = dict.fromkeys(self._alternatives(schema, hint))
        if "Any" in found or not found:
            return "Any"
        ordered = [item for item in found if item != "None"]
        return " | ".join([*ordered, "None"] if "None" in found else ordered)

    def _alternatives(self, schema: Schema, hint: str) -> list[str]:
        if self._depth >= _MAX_DEPTH or not isinstance(schema, Mapping):
            return ["Any"]
        self._depth += 1
        try:
            return self._branches(schema, hint)
        finally:
            self._depth -= 1

    def _branches(self, schema: Mapping[str, Any], hint: str) -> list[str]:
        if "$ref" in schema:
            return self._resolve(str(schema["$ref"]), hint)
        if "const" in schema or isinstance(schema.get("enum"), list):
            return _literal([schema["const"]] if "const" in schema else schema["enum"])
        if branches := [*list_at(schema, "anyOf"), *list_at(schema, "oneOf")]:
            return [item for branch in branches for item in self._alternatives(branch, hint)]
        parts = list_at(schema, "allOf")
        if len(parts) == 1 and "properties" not in schema:
            return self._alternatives(parts[0], hint)
        if parts:
            return [self._merge(schema, parts, hint)]
        kinds = kinds_of(schema) or [""]
        return [self._kind(kind, schema, hint) for kind in kinds]

    def _kind(self, kind: str, schema: Mapping[str, Any], hint: str) -> str:
        if kind == "array":
            return self._array(schema, hint)
        if kind == "object" or (not kind and properties_of(schema)):
            return self._object(schema, hint)
        return _SCALARS.get(kind, "Any")

    def _array(self, schema: Mapping[str, Any], hint: str) -> str:
        prefix = list_at(schema, "prefixItems")
        if prefix:
            return f"tuple[{', '.join(self.of(item, hint) for item in prefix)}]"
        item = self.of(schema.get("items"), f"{hint}_item" if hint else "item")
        return f"list[{item}]"

    def _object(self, schema: Mapping[str, Any], hint: str) -> str:
        if not properties_of(schema):
            value = schema.get("additionalProperties")
            return f"dict[str, {self.of(value, hint)}]"
        return self._class(schema, f"{self.prefix}{camel_case(hint)}")

    def _merge(self, schema: Mapping[str, Any], parts: Sequence[Schema], hint: str) -> str:
        """Merge an ``allOf`` of objects into one class."""
        properties: dict[str, Any] = {}
        required: list[Any] = []
        for part in [*map(self._target, parts), schema]:
            properties.update(properties_of(part))
            required += list_at(part, "required")
        if not properties:
            return "Any"
        merged = {"type": "object", "properties": properties, "required": required}
        return self._class(merged, f"{self.prefix}{camel_case(hint)}")

    def _resolve(self, reference: str, hint: str) -> list[str]:
        target = self._target({"$ref": reference})
        name = camel_case(reference.rpartition("/")[2])
        if name and properties_of(target) and not {"anyOf", "oneOf", "allOf"} & set(target):
            return [self._class(target, name)]
        if reference in self._resolving:
            return ["Any"]
        self._resolving.append(reference)
        try:
            return self._alternatives(target, hint)
        finally:
            self._resolving.pop()

    def _target(self, schema: Schema) -> Schema:
        """Follow a ``$ref`` into the document; return other schemas unchanged."""
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            return schema
        node: Any = self.document
        first, *steps = str(schema["$ref"]).split("/")
        if first != "#":
            return None
        for step in steps:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, Mapping) or key not in node:
                return None
            node = node[key]
        return node

    def _class(self, schema: Mapping[str, Any], name: str) -> str:
        shape = json.dumps(
            [schema, self._collect_definitions(schema)], sort_keys=True, default=_to_plain
        )
        if (known := self.classes.find(shape)) is not None:
            return known
        if self._made >= _MAX_CLASSES:
            return "dict[str, Any]"
        self._made += 1
        name = self.classes.claim(shape, name)
        required = required_of(schema)
        rows = [
            self._field(key, sub, key in required) for key, sub in properties_of(schema).items()
        ]
        if all(row.startswith("#") for row in rows):
            rows.append("...")
        text = one_line(schema.get("description"), _PARAMETER_CHARS)
        head = [
            f"class {name}:",
            *(f"    {line}" for line in (quote_docstring([text]) if text else ())),
        ]
        # Classes it refers to have been added before it.
        self.classes.blocks.append("\n".join([*head, *(f"    {row}" for row in rows)]))
        return name

    def _field(self, key: str, schema: Schema, required: bool) -> str:
        hint = self.of(schema, key)
        text = (
            one_line(schema.get("description"), _FIELD_CHARS) if isinstance(schema, Mapping) else ""
        )
        note = f"  # {text}" if text else ""
        if not is_plain_name(key):
            return f"# [{json.dumps(key)}]: {hint}{note}"
        if required:
            return f"{key}: {hint}{note}"
        if has_default(schema):
            return f"{key}: {hint} = {python_literal(schema['default'])}{note}"
        return f"{key}: NotRequired[{hint}]{note}"

    def _collect_definitions(self, schema: Schema) -> dict[str, Any]:
        """Collect the definitions that a schema refers to: equal shapes have equal definitions."""
        found: dict[str, Any] = {}
        todo = [schema]
        while todo:
            node = todo.pop()
            if isinstance(node, Mapping):
                reference = node.get("$ref")
                if isinstance(reference, str) and reference not in found:
                    found[reference] = self._target({"$ref": reference})
                    todo.append(found[reference])
                todo.extend(node.values())
            elif isinstance(node, list):
                todo.extend(node)
        return found


_SCALARS = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}


def _literal(values: Sequence[object]) -> list[str]:
    """Return ``Literal[...]`` of an enum, or the types of its values if it is long."""
    kinds = {str: "str", int: "int", bool: "bool", type(None): "None"}
    if not values or any(type(value) not in kinds for value in values):
        return ["Any"]
    named = [value for value in values if value is not None]
    if len(values) > _MAX_LITERALS:
        types = [kinds[type(value)] for value in values]
    else:
        types = [f"Literal[{', '.join(python_literal(value) for value in named)}]"] if named else []
    return types if len(named) == len(values) else [*types, "None"]


def has_default(schema: Schema) -> bool:
    return isinstance(schema, Mapping) and "default" in schema


def list_at(schema: Schema, key: str) -> list[Any]:
    value = schema.get(key) if isinstance(schema, Mapping) else None
    return value if isinstance(value, list) else []


def properties_of(schema: Schema) -> dict[str, Any]:
    value = schema.get("properties") if isinstance(schema, Mapping) else None
    return dict(value) if isinstance(value, Mapping) else {}


def required_of(schema: Schema) -> list[str]:
    return [name for name in list_at(schema, "required") if isinstance(name, str)]


def kinds_of(schema: Schema) -> list[str]:
    """Return the ``type`` of a schema as a list of names."""
    kinds = schema.get("type") if isinstance(schema, Mapping) else None
    listed = kinds if isinstance(kinds, list) else [kinds]
    return [kind for kind in listed if isinstance(kind, str)]


def _to_plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)
