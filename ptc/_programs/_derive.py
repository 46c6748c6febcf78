"""JSON Schemas derived from an example: the inputs and the value of a run.

One example shows types, not ranges, so a derived schema asks for little: inputs of the same names
and types, and a value of the same shape, in which any part may be null or missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["derive_inputs", "derive_output"]

_MOST_LEVELS: Final = 4
_MOST_NAMES: Final = 50
"""Keys of an object; one with more is taken for a table whose keys are data."""
_SAMPLE: Final = 100
"""Items of a list that are read."""


def derive_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Derive the schema of inputs: each is required, and has the type of its value.

    Lists of values of one type have items of this type. The content of objects is free, and an
    input that is null accepts everything.
    """
    return {
        "type": "object",
        "properties": {name: _input(value) for name, value in inputs.items()},
        "required": list(inputs),
        "additionalProperties": False,
    }


def _input(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    found: dict[str, Any] = {"type": _type_of(value)}
    if isinstance(value, list):
        items = {_type_of(item) for item in value}
        if items == {"integer", "number"}:
            items = {"number"}
        if len(items) == 1 and items != {"null"}:
            found["items"] = {"type": items.pop()}
    return found


def derive_output(value: Any) -> dict[str, Any] | None:
    """Derive the schema of a value; None if it is null, which shows no type."""
    if value is None:
        return None
    return _output(value, 0)


def _output(value: Any, level: int) -> dict[str, Any]:
    kind = _type_of(value)
    # A sum that was 3 may be 3.5 the next time.
    found: dict[str, Any] = {"type": "number" if kind == "integer" else kind}
    if level == _MOST_LEVELS:
        return found
    if isinstance(value, dict) and 0 < len(value) <= _MOST_NAMES:
        found["properties"] = {
            name: _optional(_output(part, level + 1))
            for name, part in value.items()
            if part is not None
        }
    if isinstance(value, list):
        shapes = [_output(item, level + 1) for item in value[:_SAMPLE] if item is not None]
        merged = _merge(shapes)
        if merged is not None:
            found["items"] = _optional(merged)
    return found


def _merge(shapes: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the schema that all items share; None if they differ in type, or there are none."""
    kinds = {str(shape["type"]) for shape in shapes}
    if len(kinds) != 1:
        return None
    merged: dict[str, Any] = {"type": kinds.pop()}
    properties: dict[str, Any] = {}
    for shape in shapes:
        for name, part in shape.get("properties", {}).items():
            known = properties.setdefault(name, part)
            if known != part:
                # Items that disagree about a part: it may be anything.
                properties[name] = {}
    if 0 < len(properties) <= _MOST_NAMES:
        merged["properties"] = properties
    return merged


def _optional(shape: dict[str, Any]) -> dict[str, Any]:
    return {**shape, "type": [shape["type"], "null"]}


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
