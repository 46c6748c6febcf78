"""The contract of a structured answer: a JSON Schema or a type, compiled once, asked often.

It knows schemas and values, nothing of models, prompts or damaged text.

Rule 1: the draft is the one ``$schema`` names, 2020-12 without one (test_the_draft_is_the_one_...).
Rule 2: no reference leaves the process; documents are handed in (test_a_remote_reference_is_...).
Rule 3: NaN and the infinities conform to nothing (test_nan_and_the_infinities_are_refused).
Rule 4: a type is checked by its JSON Schema and then by pydantic (test_a_model_is_checked_by_...).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from .. import _json
from .._schema import _check as _schema
from ..errors import UsageError
from ._violations import Violation, pointer, violations_of
from ._wrapping import needs_wrapping, wrapped

if TYPE_CHECKING:
    import jsonschema_rs

__all__ = ["MAX_SCHEMA_BYTES", "MAX_SCHEMA_DEPTH", "Contract"]

MAX_SCHEMA_BYTES = 262_144
"""Largest schema as JSON. A schema rides in every request; the longest of 9,557 real ones that
providers were asked for is below this."""
MAX_SCHEMA_DEPTH = 64
"""Deepest nesting of a schema. Recursion is written with ``$ref``, not by nesting."""


class Contract:
    """What an answer must be: any JSON Schema, pydantic model or type, and its check.

    Attributes:
        schema: The JSON Schema: the one given, or the type's.
        name: What the answer is called; a model may use it as an envelope.
    """

    __slots__ = ("_adapter", "_formats", "_resources", "_validator", "name", "schema")

    def __init__(
        self,
        schema: Any,
        *,
        name: str = "result",
        formats: bool = True,
        resources: Mapping[str, Any] | None = None,
    ) -> None:
        """Compile `schema`.

        Args:
            schema: A dict or bool is a JSON Schema, all else a type.
            name: What the answer is called.
            formats: Whether ``format`` is asserted. Of a type, pydantic judges the formats: it
                takes a time without a zone, which "date-time" does not.
            resources: Documents that references may name, by address. Nothing is ever fetched.

        Raises:
            UsageError: If `schema` is neither, too large, too deep, or refers to what is not here.
        """
        self.name: str = name
        self._resources = dict(resources or {})
        self._adapter: TypeAdapter[Any] | None = None
        if isinstance(schema, Mapping | bool):
            self.schema: Any = schema if isinstance(schema, bool) else dict(schema)
        else:
            self._adapter, self.schema = _schema.adapted(schema, "schema")
        _bound(self.schema)
        self._formats = formats and self._adapter is None
        self._validator: jsonschema_rs.Validator = _schema.compiled(
            self.schema,
            "schema",
            formats=self._formats,
            resources=self._resources,
        )

    def conforms(self, value: Any) -> bool:
        """True if `value`, plain JSON data, is what was asked for."""
        if not _is_json(value) or not self._validator.is_valid(value):
            return False
        return not self._typed_errors(value)

    def violations(self, value: Any, limit: int = 20) -> list[Violation]:
        """At most `limit` ways in which `value` does not conform; none if it does.

        Where a value fits no branch of ``anyOf`` or ``oneOf``, only the best branch is told: the
        one whose discriminator matches, or that is nearest.
        """
        if not _is_json(value):
            text = "has no JSON form (NaN, an infinity, or nested too deep)"
            return [Violation("", "json", text)]
        found = violations_of(self._validator.iter_errors(value), limit)
        return found or self._typed_errors(value)[:limit]

    def errors(self, value: Any) -> Iterator[jsonschema_rs.ValidationError]:
        """What jsonschema-rs says of `value`, branch by branch; for who mends by it."""
        return self._validator.iter_errors(value)

    def typed(self, value: Any) -> Any:
        """`value` as the type that was given (an instance of the model); as it is for a schema.

        Raises:
            UsageError: If `value` does not conform; ask `violations` first.
        """
        if not self.conforms(value):
            told = "; ".join(str(v) for v in self.violations(value, 3))
            msg = f"value does not conform to the schema: {told}"
            raise UsageError(msg)
        if self._adapter is None:
            return value
        return self._adapter.validate_json(json.dumps(value))

    def why_impossible(self) -> str | None:
        """Why no value at all can conform, where that can be told; else None.

        Asked before a model is paid. It says nothing of schemas whose answer is not decidable.
        """
        import jsonschema_rs

        try:
            registry = _schema.registry(self.schema, self._resources)
            canonical = jsonschema_rs.canonicalize(
                self.schema, offline=True, validate_formats=self._formats, registry=registry
            )
            if canonical.satisfiability() is not jsonschema_rs.canonical.Satisfiability.NO:
                return None
            places = jsonschema_rs.canonical.find_unsatisfiable(
                self.schema, offline=True, validate_formats=self._formats, registry=registry
            )
        except (ValueError, jsonschema_rs.ReferencingError):
            # Not decided is not impossible.
            return None
        told = ", ".join(place or "the root" for place in list(places)[:5]) or "the root"
        return f"no value conforms to the schema: it contradicts itself at {told}"

    @property
    def wrapper(self) -> str | None:
        """The one key of the object around an answer that is no object; None where it is one."""
        return needs_wrapping(self.schema)

    def object_schema(self) -> dict[str, Any]:
        """The schema for a provider that wants an object at the root; `unwrap` undoes it."""
        key = self.wrapper
        return dict(self.schema) if key is None else wrapped(self.schema, key)

    def outer(self) -> Contract:
        """The contract of `object_schema`; this one if it wraps nothing."""
        if self.wrapper is None:
            return self
        schema = self.object_schema()
        return Contract(schema, name=self.name, formats=self._formats, resources=self._resources)

    def unwrap(self, value: Any) -> Any:
        """The answer inside the object that `object_schema` asked for; `value` if there is none."""
        key = self.wrapper
        if key is not None and isinstance(value, dict) and list(value) == [key]:
            return value[key]
        return value

    def _typed_errors(self, value: Any) -> list[Violation]:
        if self._adapter is None:
            return []
        try:
            self._adapter.validate_json(json.dumps(value))
        except ValidationError as error:
            return [
                Violation(pointer(e["loc"]), e["type"], e["msg"], found=repr(e["input"]))
                for e in error.errors(include_url=False)
            ]
        return []


def _bound(schema: Any) -> None:
    """Refuse a schema that is no JSON, too large or too deep."""
    try:
        size = len(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        msg = f"schema has no JSON form: {error}"
        raise UsageError(msg) from None
    if size > MAX_SCHEMA_BYTES:
        msg = f"schema has {size} bytes, over the limit of {MAX_SCHEMA_BYTES}; share parts by $ref"
        raise UsageError(msg)
    level, depth = _children([schema]), 0
    while level:
        depth += 1
        if depth > MAX_SCHEMA_DEPTH:
            msg = f"schema nests deeper than {MAX_SCHEMA_DEPTH} levels; write recursion with $ref"
            raise UsageError(msg)
        level = [child for node in level for child in _children(node)]


def _children(node: Any) -> list[Any]:
    children = node.values() if isinstance(node, Mapping) else node
    return [child for child in children if isinstance(child, Mapping | list)]


def _is_json(value: Any) -> bool:
    """False for NaN, the infinities, keys that are no text, and what contains itself."""
    if value is None or isinstance(value, bool | str):
        return True
    if isinstance(value, int | float):
        return math.isfinite(value)
    stack = [(value, 0)]
    while stack:
        node, depth = stack.pop()
        if depth > _json.MAX_DEPTH:
            return False
        if isinstance(node, dict):
            if not all(isinstance(key, str) for key in node):
                return False
            children: Any = node.values()
        elif isinstance(node, list):
            children = node
        else:
            return False
        for child in children:
            if isinstance(child, float):
                if not math.isfinite(child):
                    return False
            elif not (child is None or isinstance(child, str | int)):
                stack.append((child, depth + 1))
    return True
