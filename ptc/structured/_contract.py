"""The contract of a structured answer: a JSON Schema or a type, compiled once and reused.

It knows schemas and values, and nothing about models, prompts or damaged text.

Rule 1: ``$schema`` selects the draft, 2020-12 by default (test_the_draft_is_the_one_...).
Rule 2: no reference is fetched; callers pass documents in (test_a_remote_reference_is_...).
Rule 3: NaN and the infinities never conform (test_nan_and_the_infinities_are_refused).
Rule 4: a type is validated by its JSON Schema, then by pydantic (test_a_model_is_checked_by_...).
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from .._core import _json
from .._schema import _check as _schema
from ..errors import UsageError
from ._nulls import drop_nulls, fill_nulls, require_all
from ._prefixes import PrefixValidator
from ._publish import linked_schema, list_schema, object_schema, outer_schema, wrapper_key
from ._reference_depth import MAX_REFERENCE_DEPTH, reference_depth, uses_unevaluated
from ._violations import Violation, collect_violations, pointer

if TYPE_CHECKING:
    import jsonschema_rs

__all__ = ["MAX_SCHEMA_BYTES", "MAX_SCHEMA_DEPTH", "Contract"]

MAX_SCHEMA_BYTES = 2_097_152
"""Largest schema as JSON (2 MiB). Every request carries the schema; the longest of 9,557 real
schemas sent to providers has less than an eighth of this."""
MAX_SCHEMA_DEPTH = 64
"""Deepest nesting of a schema. Recursive schemas use ``$ref``, not nesting."""


_OBJECT_RULES = frozenset(
    {"additionalProperties", "dependentRequired", "required", "unevaluatedProperties"}
)
"""Rules about an object that say nothing of its values."""


class Contract:
    """A compiled JSON Schema, pydantic model or type that answers must conform to.

    Attributes:
        schema: The JSON Schema that was passed, or that of the type.
        name: Name of the answer; a model may use it as an envelope.
        resources: Documents that references may name, by URI.
    """

    __slots__ = (
        "_adapter",
        "_context",
        "_formats",
        "_linked_schema",
        "_object_schema",
        "_prefixes",
        "_source",
        "_validator",
        "name",
        "resources",
        "schema",
    )

    def __init__(
        self,
        schema: Any,
        *,
        name: str = "result",
        formats: bool = True,
        resources: Mapping[str, Any] | None = None,
        _max_bytes: int = MAX_SCHEMA_BYTES,
    ) -> None:
        """Compile `schema`.

        Args:
            schema: A JSON Schema (dict or bool), or a type.
            name: Name of the answer.
            formats: Whether to assert ``format``. For a type, pydantic validates the formats
                instead: it accepts a time without a zone, which "date-time" does not.
            resources: Documents that references may name, by URI. Nothing is ever fetched.

        Raises:
            UsageError: If `schema` is neither, too large, too deep, or has an unresolved reference.
        """
        self.name: str = name
        self._source = schema
        self.resources: Mapping[str, Any] = dict(resources or {})
        self._adapter: TypeAdapter[Any] | None = None
        self._context: Any = None
        self._object_schema: dict[str, Any] | None = None
        self._linked_schema: Any = None
        self._prefixes: PrefixValidator | None = None
        if isinstance(schema, Mapping | bool):
            self.schema: Any = schema if isinstance(schema, bool) else dict(schema)
        else:
            self._adapter, self.schema = _schema.make_adapter(schema, "schema")
        _check_size(self.schema, _max_bytes)
        self._check_references()
        self._formats = formats and self._adapter is None
        self._validator: jsonschema_rs.Validator = _schema.compile_schema(
            self.schema,
            "schema",
            formats=self._formats,
            resources=self.resources,
        )

    def _check_references(self) -> None:
        """Reject a schema that jsonschema-rs would compile with unbounded recursion."""
        if uses_unevaluated(self.schema):
            try:
                linked = self._linked()
            except Exception:  # noqa: BLE001  # a malformed schema: compiling it reports the error
                return
            if reference_depth(linked) > MAX_REFERENCE_DEPTH:
                msg = (
                    f"schema nests deeper than {MAX_REFERENCE_DEPTH} levels through its "
                    "references, and has unevaluatedProperties or unevaluatedItems; remove these"
                )
                raise UsageError(msg)

    def conforms(self, value: Any) -> bool:
        """True if `value`, plain JSON data, conforms to the contract."""
        if not _is_json(value) or not self._validator.is_valid(value):
            return False
        return not self._type_violations(value)

    def violations(self, value: Any, limit: int = 20) -> list[Violation]:
        """Return at most `limit` violations of `value`; none if it conforms.

        For a value that matches no branch of ``anyOf`` or ``oneOf``, only the best branch is
        reported: the one whose discriminator matches, or the nearest. Violations that are alike,
        such as those of many items of a list, are listed three times and counted. Those of a type
        are reported together with those of its schema.
        """
        if not _is_json(value):
            text = (
                "the value is not JSON: it contains NaN, an infinity or a lone surrogate, or nests "
                "too deep"
            )
            return [Violation("", "json", text)]
        found = collect_violations(self._validator.iter_errors(value), limit, self.schema)
        found += [v for v in self._type_violations(value) if not _is_reported(v, found)]
        return found[:limit]

    def errors(self, value: Any) -> Iterator[jsonschema_rs.ValidationError]:
        """Iterate over the errors of jsonschema-rs, with all branches, for schema-guided repair.

        There are none for text that is not Unicode, which does not conform either.
        """
        try:
            return self._validator.iter_errors(value)
        except UnicodeEncodeError:
            return iter(())

    def typed(self, value: Any) -> Any:
        """Convert `value` to the contract's type; return it unchanged for a JSON Schema.

        Raises:
            UsageError: If `value` does not conform; call `violations` first.
        """
        if not self.conforms(value):
            problems = "; ".join(str(v) for v in self.violations(value, 3))
            msg = f"value does not conform to the schema: {problems}"
            raise UsageError(msg)
        if self._adapter is None:
            return value
        return self._adapter.validate_json(json.dumps(value), context=self._context)

    def with_context(self, context: Any) -> Contract:
        """Return this contract with a context for pydantic's validators (``info.context``).

        Raises:
            UsageError: If the contract is a JSON Schema, which has no such validators.
        """
        if self._adapter is None:
            msg = "context is for the validators of a pydantic type; this schema is a JSON Schema"
            raise UsageError(msg)
        made = copy.copy(self)
        made._context = context
        return made

    def plain(self, value: Any) -> Any:
        """Convert an instance of the contract's type to JSON data; return other values unchanged.

        Raises:
            UsageError: If pydantic cannot convert it.
        """
        if self._adapter is None or _is_json(value):
            return value
        try:
            return self._adapter.dump_python(value, mode="json", by_alias=True, warnings="error")
        except (PydanticSerializationError, ValueError, TypeError) as error:
            msg = f"{value!r:.80} cannot be written as JSON: {error}"
            raise UsageError(msg) from None

    def with_nulls(self) -> Contract:
        """Return the contract of answers that have null for a missing property.

        It requires every declared property, as OpenAI's strict mode does.
        """
        return self._derive(require_all(self._linked()))

    def _derive(self, schema: Any, resources: Mapping[str, Any] | None = None) -> Contract:
        """Return the contract of another form of the schema, which may be somewhat larger."""
        return Contract(
            schema,
            name=self.name,
            formats=self._formats,
            resources=resources,
            _max_bytes=2 * MAX_SCHEMA_BYTES,
        )

    def without_nulls(self, value: Any) -> Any:
        """Remove the nulls of `with_nulls` from an answer: those that this contract refuses."""
        return drop_nulls(value, self._linked())

    def filled(self, value: Any) -> Any:
        """Return `value` with null for each declared property that it lacks."""
        return fill_nulls(value, self._linked())

    def _linked(self) -> Any:
        if self._linked_schema is None:
            self._linked_schema = linked_schema(self.schema, self.resources)
        return self._linked_schema

    def why_impossible(self) -> str | None:
        """Return the reason why no value can conform, or None if there is none or undecidable.

        Call it before paying for a model request.
        """
        import jsonschema_rs

        if reference_depth(self._linked()) > MAX_REFERENCE_DEPTH:
            return None
        try:
            registry = _schema.registry(self.schema, self.resources)
            canonical = jsonschema_rs.canonicalize(
                self.schema, offline=True, validate_formats=self._formats, registry=registry
            )
            if canonical.satisfiability() is not jsonschema_rs.canonical.Satisfiability.NO:
                return None
            found = jsonschema_rs.canonical.find_unsatisfiable(
                self.schema, offline=True, validate_formats=self._formats, registry=registry
            )
        except (ValueError, jsonschema_rs.ReferencingError):
            # Undecided does not mean impossible.
            return None
        pointers = ", ".join(path or "the root" for path in list(found)[:5]) or "the root"
        return f"no value conforms to the schema: it contradicts itself at {pointers}"

    @property
    def wrapper(self) -> str | None:
        """The key of the object that wraps the answer; None if providers accept the root."""
        return wrapper_key(self.schema)

    def object_schema(self) -> dict[str, Any]:
        """Return the schema for a provider: an object, wrapped if necessary (see `unwrap`).

        It is one document of draft 2020-12, whose references all have the form ``#/$defs/name``.
        """
        if self._object_schema is None:
            self._object_schema = object_schema(self.schema, self.resources)
        return self._object_schema

    def prefixes(self) -> PrefixValidator:
        """Return the validator of values that are still being written."""
        if self._prefixes is None:
            self._prefixes = PrefixValidator(
                self.schema, formats=self._formats, resources=self.resources
            )
        return self._prefixes

    def outer(self) -> Contract:
        """Return the contract of `object_schema`, or this contract if nothing is wrapped."""
        if self.wrapper is None:
            return self
        schema = outer_schema(self.schema, self.resources)
        return self._derive(schema, self.resources)

    def list_of(self) -> Contract:
        """Return the contract of a list of the answers of this contract."""
        if self._adapter is not None:
            return Contract(GenericAlias(list, self._source), name=self.name)
        schema = list_schema(self.schema, self.resources)
        return Contract(schema, name=self.name, formats=self._formats, resources=self.resources)

    def unwrap(self, value: Any) -> Any:
        """Return the answer inside the wrapper of `object_schema`, or `value` without a wrapper."""
        key = self.wrapper
        if key is not None and isinstance(value, dict) and list(value) == [key]:
            return value[key]
        return value

    def _type_violations(self, value: Any) -> list[Violation]:
        if self._adapter is None:
            return []
        try:
            self._adapter.validate_json(json.dumps(value), context=self._context)
        except ValidationError as error:
            return [
                Violation(pointer(e["loc"]), e["type"], e["msg"], found=repr(e["input"]))
                for e in error.errors(include_url=False)
            ]
        return []


def _is_reported(violation: Violation, found: list[Violation]) -> bool:
    """True if the schema's violations `found` include the one that pydantic reports."""
    return any(
        violation.rule in ("missing", "extra_forbidden")
        if one.rule in _OBJECT_RULES
        else f"{violation.pointer}/".startswith(f"{one.pointer}/")
        for one in found
    )


def _check_size(schema: Any, most: int) -> None:
    """Reject a schema that is not JSON, too large or too deep."""
    try:
        size = len(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        msg = f"schema cannot be written as JSON: {error}"
        raise UsageError(msg) from None
    if size > most:
        msg = (
            f"schema has {size:,} bytes, over the limit of {most:,}; share repeated parts with $ref"
        )
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
    """False for NaN, infinities, lone surrogates, other objects, and values that are too deep."""
    # Depth first: a value that contains itself soon reaches the depth limit.
    stack: list[tuple[Any, int]] = [([value], -1)]
    while stack:
        node, depth = stack.pop()
        if depth > _json.MAX_DEPTH or not _is_json_container(node):
            return False
        for child in _members(node):
            if isinstance(child, float):
                if not math.isfinite(child):
                    return False
            elif isinstance(child, str):
                if not (child.isascii() or _is_unicode(child)):
                    return False
            elif not (child is None or isinstance(child, int)):
                stack.append((child, depth + 1))
    return True


def _is_json_container(node: Any) -> bool:
    if isinstance(node, dict):
        return all(isinstance(key, str) and _is_unicode(key) for key in node)
    return isinstance(node, list)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _members(node: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return node.values() if isinstance(node, dict) else node
