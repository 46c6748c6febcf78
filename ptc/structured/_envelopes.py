"""Remove the wrappers that models put around an answer.

An envelope holds the answer and nothing that could be part of it. An object that carries more, such
as a status or reasoning beside the answer, is not an envelope: removing it would drop data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._dataclass import dataclass
from ._candidates import read_whole
from ._names import normalize
from ._reading import Work

__all__ = ["GENERIC", "Shape", "unwrap_layers"]

MAX_LEVELS = 5
"""Nested envelopes."""

GENERIC = frozenset(
    normalize(name)
    for name in (
        "result", "results", "data", "output", "response", "answer", "final_answer", "final",
        "object", "json", "value", "values", "payload", "return", "input", "arguments", "args",
        "parameters", "params", "kwargs", "elements", "items", "list", "records", "rows", "content",
        "structured_output", "item", "record", "entity", "root", "body", "return_value",
    )
)  # fmt: skip
"""Keys that say nothing but "here it is", in normal form."""
_CALL_PAYLOAD = ("arguments", "parameters", "input", "args", "tool_input", "action_input", "params")
_CALL_NAME = ("name", "tool", "tool_name", "function", "function_name", "action", "recipient_name")
_CALL_REST = frozenset({"id", "type", "index", "call_id", "status", "caller"})
_SCHEMA_WORDS = frozenset(
    {"$schema", "$id", "type", "properties", "required", "title", "description",
     "additionalProperties"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """A value after some of its wrappers are removed."""

    value: Any
    path: tuple[str | int, ...] | None
    """Path in the outermost value; None if it was inside a string."""
    steps: tuple[tuple[str, str], ...]
    """Each removed wrapper: its kind in `EDITS` and a short form of it."""
    sources: Any
    """Source text of its numbers, as of a `Reading`."""


def unwrap_layers(
    value: Any,
    names: frozenset[str],
    fields: frozenset[str] = frozenset(),
    *,
    sources: Any = None,
    work: Work,
) -> Iterator[Shape]:
    """Yield `value`, then the contents of its wrappers from the outside in.

    Args:
        value: The value as read.
        names: Names of the answer, which may also be keys of a wrapper.
        fields: Normalized names of all properties. Any other key is a wrapper's if it holds an
            object of such properties.
        sources: Source text of the numbers in `value`.
        work: Counts the work of parsing strings.
    """
    shape = Shape(value, (), (), sources)
    yield shape
    for _ in range(MAX_LEVELS):
        inner = _unwrap(shape, names, fields, work)
        if inner is None:
            return
        yield inner
        shape = inner


def _unwrap(
    shape: Shape, names: frozenset[str], fields: frozenset[str], work: Work
) -> Shape | None:
    value = shape.value
    if isinstance(value, str):
        reading = read_whole(value, work) if value.lstrip()[:1] in ("{", "[", '"') else None
        if reading is None:
            return None
        steps = (*shape.steps, ("json_in_string", value))
        return Shape(reading.value, None, steps, reading.sources)
    if isinstance(value, list):
        if len(value) != 1 or not isinstance(value[0], dict | list | str):
            return None
        return _descend(shape, (0,), "single_item_unwrapped", "[...]")
    if isinstance(value, dict):
        key = _payload_key(value, names, fields)
        return None if key is None else _descend(shape, (key,), "envelope", f'{{"{key}": ...}}')
    return None


def _descend(shape: Shape, part: tuple[str | int, ...], kind: str, wrapper: str) -> Shape:
    path = None if shape.path is None else shape.path + part
    sources = shape.sources.get(part[0]) if isinstance(shape.sources, dict) else None
    return Shape(shape.value[part[0]], path, (*shape.steps, (kind, wrapper)), sources)


def _payload_key(
    value: dict[str, Any], names: frozenset[str], fields: frozenset[str]
) -> str | None:
    """Return the key of the wrapped value; None if `value` is not a wrapper."""
    if len(value) == 1:
        (key,) = value
        if normalize(key) in GENERIC or normalize(key) in names:
            return key
        inner = value[key]
        if normalize(key) not in fields and isinstance(inner, dict) and inner:
            return key if fields.issuperset(map(normalize, inner)) else None
    payloads = [key for key in _CALL_PAYLOAD if key in value]
    titles = [key for key in _CALL_NAME if isinstance(value.get(key), str)]
    if len(payloads) == 1 and len(titles) == 1:
        rest = value.keys() - {*payloads, *titles}
        return payloads[0] if rest <= _CALL_REST else None
    inner = value.get("function")
    if isinstance(inner, dict) and value.keys() - {"function"} <= _CALL_REST:
        return "function"
    calls = value.get("tool_calls")
    if isinstance(calls, list) and not any(
        value[key] for key in value.keys() - {"tool_calls", "role"}
    ):
        return "tool_calls"
    return _echoed_key(value)


def _echoed_key(value: dict[str, Any]) -> str | None:
    """Return ``properties`` if the answer was written into a copy of its schema."""
    inner = value.get("properties")
    if not isinstance(inner, dict) or value.get("type") != "object" or not inner:
        return None
    if not value.keys() <= _SCHEMA_WORDS:
        return None
    if all(isinstance(v, dict) and ("type" in v or "$ref" in v) for v in inner.values()):
        # The schema itself, not an answer inside it.
        return None
    return "properties"
