"""Publish a schema to a provider: reduce it to the dialect of its API in the requested mode.

The schema comes from `Contract.object_schema`: an object, whose references are ``#/$defs/name``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .._dataclass import dataclass
from ._dialects import DIALECTS, ROWS
from ._model import Mode
from ._reduce import UnpublishableError, reduce_schema, target_of

__all__ = ["LLAMACPP", "Published", "find_lost_references", "publish"]

LLAMACPP = "llamacpp"


@dataclass(frozen=True, slots=True)
class Published:
    """A schema as a provider accepts it."""

    schema: dict[str, Any]
    strict: bool | None
    """Value of the provider's flag ``strict``; None if pydantic-ai decides."""
    as_text: bool = False
    """True if the schema is sent outside of pydantic-ai's parameters."""


def publish(system: str, mode: Mode, schema: Mapping[str, Any]) -> Published:
    """Reduce `schema` to the dialect of a provider.

    Raises:
        UnpublishableError: If the provider cannot take it in `mode`.
    """
    row = ROWS.get((system, mode), "any")
    try:
        reduced = reduce_schema(schema, DIALECTS[row])
    except UnpublishableError:
        if row != "openai_strict":
            raise
        # Without `strict`, the schema only guides the model.
        row, reduced = "any", dict(schema)
    if mode == "native" and row == "any" and _has_free_keys(schema):
        # pydantic-ai closes such objects: an answer would lose their data and still conform.
        msg = "objects with arbitrary keys"
        raise UnpublishableError(msg)
    if mode == "tool":
        # Strict mode supports only a subset of JSON Schema: most schemas are outside of it.
        return Published(reduced, strict=False)
    if system == "openai":
        return Published(reduced, strict=row == "openai_strict")
    return Published(reduced, strict=None, as_text=system == LLAMACPP)


def find_lost_references(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the references to definitions that `schema` does not contain."""
    stack: list[Any] = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            name = target_of(node)
            if name is not None and name != "#" and name not in schema.get("$defs", {}):
                yield node["$ref"]
            stack += node.values()
        elif isinstance(node, list):
            stack += node


def _has_free_keys(node: Any) -> bool:
    """True if a schema has an object with keys that it does not name."""
    if isinstance(node, list | tuple):
        return any(_has_free_keys(item) for item in node)
    if not isinstance(node, Mapping):
        return False
    if "patternProperties" in node or node.get("additionalProperties", False) is not False:
        return True
    if node.get("type") == "object" and not node.keys() & {"properties", "$ref", "allOf"}:
        return True
    return any(_has_free_keys(value) for value in node.values())
