"""Strict JSON Schemas of OpenAI, made from any schema of a tool, and arguments read back.

OpenAI's strict mode takes a subset of JSON Schema: the root is an object, each object has all its
properties in ``required`` and no others, and only the keywords below are known. An optional
property becomes one that may be null, and a null that the tool would not accept is dropped again.
A constraint that the subset lacks, such as ``uniqueItems``, is left to the validation of the tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["relaxed", "strict_schema", "without_nulls"]

_SCALARS = ("type", "enum", "const", "multipleOf", "minimum", "maximum", "exclusiveMinimum")
_KEPT = frozenset({*_SCALARS, "exclusiveMaximum", "minItems", "maxItems", "description"})
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_UNIONS = ("anyOf", "oneOf")
_INEXPRESSIBLE = ("prefixItems", "patternProperties", "$dynamicRef", "$id", "$anchor")
"""Without these, a schema would accept other structures, not only other values."""
_MOST_PROPERTIES = 5_000
_MOST_ENUM_VALUES = 1_000
_MOST_NAME_CHARS = 120_000
_MOST_LEVELS = 10
_NULL = {"type": "null"}


class _NotStrictError(Exception):
    """The schema has a part that strict mode cannot express."""


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema in OpenAI's strict form; None if it has no such form.

    A free-form object, a list of anything and a tuple have none.
    """
    try:
        return _Conversion(schema).root()
    except (_NotStrictError, RecursionError):
        return None


def without_nulls(value: Any, schema: Mapping[str, Any]) -> Any:
    """Drop nulls that stand for omitted optional properties.

    Args:
        value: Arguments that follow `strict_schema` of the schema.
        schema: The tool's own schema.
    """
    return _drop(value, schema, schema)


def relaxed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a strict schema of others in which a property with a default is optional again."""
    properties = schema.get("properties") or {}
    needed = [
        name for name in schema.get("required", ()) if "default" not in properties.get(name, ())
    ]
    return {**schema, "required": needed}


class _Conversion:
    """One schema and the size of its strict form."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self.properties = 0
        self.enum_values = 0
        self.name_chars = 0

    def root(self) -> dict[str, Any]:
        schema = self.schema
        if schema.get("type") != "object" or any(key in schema for key in _UNIONS):
            raise _NotStrictError
        made = self.convert(schema, 1)
        for key in ("$defs", "definitions"):
            if key in schema:
                self.name_chars += sum(len(name) for name in schema[key])
                made[key] = {name: self.convert(item, 1) for name, item in schema[key].items()}
        if (
            self.properties > _MOST_PROPERTIES
            or self.enum_values > _MOST_ENUM_VALUES
            or self.name_chars > _MOST_NAME_CHARS
        ):
            raise _NotStrictError
        return made

    def convert(self, schema: Any, level: int) -> dict[str, Any]:
        schema = _merge_single(schema)
        if not isinstance(schema, Mapping) or any(key in schema for key in _INEXPRESSIBLE):
            raise _NotStrictError
        if level > _MOST_LEVELS or "allOf" in schema:
            raise _NotStrictError
        if "$ref" in schema:
            return self.reference(schema["$ref"])
        made = {key: value for key, value in schema.items() if key in _KEPT}
        for value in (*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())):
            self.enum_values += 1
            self.name_chars += len(value) if isinstance(value, str) else 0
        for key in _UNIONS:
            if key in schema:
                # Not `oneOf`: a value that fits two options is left to the tool.
                made["anyOf"] = [self.convert(item, level) for item in schema[key]]
        self.add_text_rules(schema, made)
        kinds = schema.get("type")
        kinds = [kinds] if isinstance(kinds, str) else kinds or []
        if "object" in kinds:
            self.add_properties(schema, made, level)
        if "array" in kinds:
            made["items"] = self.convert(schema.get("items"), level)
        if not any(key in made for key in ("type", "enum", "const", "anyOf")):
            raise _NotStrictError  # anything
        return made

    @staticmethod
    def add_text_rules(schema: Mapping[str, Any], made: dict[str, Any]) -> None:
        if schema.get("format") in _FORMATS:
            made["format"] = schema["format"]
        # Look-around is refused.
        if "pattern" in schema and "(?" not in schema["pattern"]:
            made["pattern"] = schema["pattern"]

    def reference(self, target: Any) -> dict[str, Any]:
        # A reference may have no neighbours; the description of its target remains.
        if _target({"$ref": target}, self.schema) is None:
            raise _NotStrictError
        return {"$ref": target}

    def add_properties(self, schema: Mapping[str, Any], made: dict[str, Any], level: int) -> None:
        properties = schema.get("properties")
        closed = schema.get("additionalProperties", False) is False
        # An object without properties is a free-form one, unless it says that it has none.
        stated = "additionalProperties" in schema or schema is self.schema
        if not closed or (not properties and not stated):
            raise _NotStrictError
        required = schema.get("required", ())
        made["properties"] = {}
        for name, item in (properties or {}).items():
            self.properties += 1
            self.name_chars += len(name)
            inner = self.convert(item, level + 1)
            if name not in required and not _allows_null(item, self.schema):
                inner = _nullable(inner, item)
            made["properties"][name] = inner
        made["required"] = list(made["properties"])
        made["additionalProperties"] = False


def _nullable(made: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    description = made.pop("description", "")
    if "default" in schema and schema["default"] is not None:
        description = f"{description} Null: {schema['default']!r}.".strip()
    return {"anyOf": [made, _NULL], **({"description": description} if description else {})}


def _merge_single(schema: Any) -> Any:
    """Return the schema without an ``allOf`` of one part, as pydantic 1 writes references."""
    parts = schema.get("allOf") if isinstance(schema, Mapping) else None
    if not isinstance(parts, list) or len(parts) != 1:
        return schema
    rest = {key: value for key, value in schema.items() if key != "allOf"}
    return {**rest, **parts[0]}


def _target(schema: Any, root: Mapping[str, Any]) -> Any:
    """Follow local references; None if one leads nowhere."""
    schema = _merge_single(schema)
    for _ in range(_MOST_LEVELS):
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            return schema
        start, _, name = str(schema["$ref"]).rpartition("/")
        if start in ("#/$defs", "#/definitions"):
            schema = _merge_single(root.get(start[2:], {}).get(name))
        else:
            schema = root if (start, name) == ("", "#") else None
    return None


def _allows_null(schema: Any, root: Mapping[str, Any], depth: int = 0) -> bool:
    schema = _target(schema, root)
    if not isinstance(schema, Mapping) or depth > _MOST_LEVELS:
        return schema is True
    for key in _UNIONS:
        if key in schema:
            return any(_allows_null(item, root, depth + 1) for item in schema[key])
    if "enum" in schema or "const" in schema:
        return None in (*schema.get("enum", ()), schema.get("const", 0))
    kinds = schema.get("type", "null")
    return "null" in ([kinds] if isinstance(kinds, str) else kinds)


def _drop(value: Any, schema: Any, root: Mapping[str, Any]) -> Any:
    schema = _target(schema, root)
    if not isinstance(schema, Mapping) or not isinstance(value, dict | list):
        return value
    for key in _UNIONS:
        for option in schema.get(key, ()):
            if _fits(value, _target(option, root)):
                return _drop(value, option, root)
    if isinstance(value, list):
        return [_drop(item, schema.get("items"), root) for item in value]
    properties, required = schema.get("properties", {}), schema.get("required", ())
    return {
        name: _drop(item, properties.get(name), root)
        for name, item in value.items()
        if item is not None
        or name in required
        or name not in properties
        or _allows_null(properties[name], root)
    }


def _fits(value: dict[str, Any] | list[Any], option: Any) -> bool:
    """Return True if an option of a union can mean the value, judged by the names it has."""
    if not isinstance(option, Mapping):
        return False
    if isinstance(value, list):
        return bool(option.get("type") == "array")
    # In the strict form, each object has all its properties.
    return value.keys() == dict(option.get("properties", {})).keys()
