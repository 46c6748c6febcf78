"""Derive JSON Schemas from functions and types, and validate arguments and values against them.

pydantic reads type hints; jsonschema-rs validates raw schemas. Both produce the same errors: one
sentence for each argument, with the nearest name for an unknown one.
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ForwardRef, Protocol, TypeGuard

from .._core import _json
from .._core._arguments import nearest
from .._core._pydantic import pydantic
from ..errors import ToolError, UsageError
from ._function import describe_function
from ._plain_hints import has_plain_default, is_plain_hint
from ._shape import publish_schema, strip_titles

if TYPE_CHECKING:
    import jsonschema_rs

__all__ = [
    "Arguments",
    "SignatureSchema",
    "Validator",
    "ValueCheck",
    "arguments_mapping",
    "compile_schema",
    "make_adapter",
    "model_validator",
    "plain_data",
    "raw_validator",
    "registry",
    "result_reader",
    "result_schema",
    "value_check",
    "value_reader",
]

Arguments = Any
"""Arguments of a tool's function: keywords as a dict, or one dict or model instance."""
Validator = Callable[[Mapping[str, Any]], Arguments]
"""Converts a caller's arguments to those of the function, or raises `ToolError`. It does not modify
the dict."""
ValueCheck = Callable[[Any], list[str]]
"""Returns a sentence for each violation of JSON data; none if it conforms."""


class SignatureSchema:
    """Schema and validator of a function's parameters, without the context parameter.

    They are derived at once if that can fail, or else when they are first needed.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        hints: Mapping[str, Any],
        context_parameter: str | None,
        hidden: Collection[str] = (),
    ) -> None:
        """Read the parameters.

        Args:
            name: Name of the tool.
            function: The tool's function.
            hints: Its resolved type hints.
            context_parameter: Parameter that receives the context.
            hidden: Parameters with values that errors must not quote.

        Raises:
            UsageError: If a parameter has no type hint, or one without a JSON Schema.
        """
        self._name = name
        self._function = function
        self._hints = hints
        self._hidden = hidden
        bound = _partial_keywords(function)
        self._parameters = [
            parameter
            for parameter in inspect.signature(function).parameters.values()
            if parameter.name != context_parameter and parameter.name not in bound
        ]
        for parameter in self._parameters:
            self._check(parameter)
        if not all(map(self._is_plain, self._parameters)):
            _ = self._derived

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters, in order."""
        return tuple(parameter.name for parameter in self._parameters)

    def published(self) -> dict[str, Any]:
        """Return the JSON Schema of the parameters."""
        return self._derived[0]

    def validate(self, arguments: Mapping[str, Any]) -> Arguments:
        """Convert the arguments of a caller to keywords of the function.

        Raises:
            ToolError: ``invalid_arguments``.
        """
        return self._derived[1](arguments)

    def _check(self, parameter: inspect.Parameter) -> None:
        name = parameter.name
        problem = ""
        if parameter.kind is parameter.POSITIONAL_ONLY:
            problem = f"parameter `{name}` is positional-only; remove `/`"
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            problem = f"parameter `*{name}` has no schema; declare each parameter by name"
        elif name not in self._hints:
            problem = f"parameter `{name}` has no type hint; add one"
        if problem:
            msg = f"tool {self._name!r}: {problem}"
            raise UsageError(msg)

    def _is_plain(self, parameter: inspect.Parameter) -> bool:
        default = parameter.default
        return is_plain_hint(self._hints[parameter.name]) and (
            default is parameter.empty or has_plain_default(default)
        )

    @functools.cached_property
    def _derived(self) -> tuple[dict[str, Any], Validator]:
        _, docs = describe_function(self._function)
        fields: dict[str, Any] = {}
        names: dict[str, str] = {}
        for parameter in self._parameters:
            default = ... if parameter.default is parameter.empty else parameter.default
            text = docs.get(parameter.name)
            # Only if the docstring has a text: None would hide the text of an `Annotated` hint.
            options: dict[str, Any] = {"description": text} if text else {}
            field = parameter.name
            if field.startswith("_") or hasattr(pydantic.BaseModel, field):
                # The name of a method of the model, or one that pydantic does not allow.
                field, options["alias"] = f"parameter_{len(fields)}", parameter.name
            names[parameter.name] = field
            fields[field] = (self._hints[parameter.name], pydantic.Field(default, **options))
        config = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=False)
        try:
            model = pydantic.create_model(self._name, __config__=config, **fields)
            schema = model.model_json_schema()
        except (pydantic.PydanticSchemaGenerationError, pydantic.PydanticUserError) as error:
            first = str(error).splitlines()[0]
            msg = f"tool {self._name!r}: a parameter has no JSON Schema: {first}"
            raise UsageError(msg) from None
        return (
            publish_schema(self._name, schema, from_hints=True),
            _keyword_validator(self._name, model, names, self._hidden),
        )


def _partial_keywords(function: Callable[..., Any]) -> set[str]:
    """Return keywords that a `functools.partial` binds: callers neither see nor change them."""
    bound: set[str] = set()
    while isinstance(function, functools.partial):
        bound.update(function.keywords)
        function = function.func
    return bound


def _keyword_validator(
    name: str, model: type[pydantic.BaseModel], fields: Mapping[str, str], hidden: Collection[str]
) -> Validator:
    names = tuple(fields)
    renamed = tuple((key, field) for key, field in fields.items() if key != field)
    validate = model.__pydantic_validator__.validate_python

    def check(arguments: Mapping[str, Any]) -> Arguments:
        try:
            valid = validate(arguments)
        except pydantic.ValidationError as error:
            sentences = [_argument_error(e, names, hidden) for e in error.errors()]
            raise _invalid_arguments(name, sentences) from None
        # Of a model that nobody else has: a copy would take 0.3 us.
        values: Arguments = valid.__dict__
        for key, field in renamed:
            values[key] = values.pop(field)
        return values

    return check


def model_validator(name: str, model: type[pydantic.BaseModel]) -> tuple[dict[str, Any], Validator]:
    """Return schema and validator of a pydantic model; the function receives an instance.

    Unknown fields are rejected, even if the model's config allows extra fields.

    Raises:
        UsageError: If `model` is not a model, or a field has no JSON Schema.
    """
    if not (isinstance(model, type) and issubclass(model, pydantic.BaseModel)):
        msg = (
            f"tool {name!r}: parameters must be a JSON Schema or a pydantic model, "
            f"not {model!r:.80}"
        )
        raise UsageError(msg)
    if issubclass(model, pydantic.RootModel):
        msg = (
            f"tool {name!r}: {model.__name__} has no fields; use a model with a field for each "
            "argument"
        )
        raise UsageError(msg)
    try:
        schema = model.model_json_schema()
    except (pydantic.PydanticSchemaGenerationError, pydantic.PydanticUserError) as error:
        first = str(error).splitlines()[0]
        msg = f"tool {name!r}: a field has no JSON Schema: {first}"
        raise UsageError(msg) from None
    known = frozenset(schema.get("properties", {}))
    accepted = known | model.model_fields.keys()

    def check(arguments: Mapping[str, Any]) -> pydantic.BaseModel:
        unknown = [key for key in arguments if key not in accepted]
        sentences = [_unknown_argument(u, known) for u in unknown]
        try:
            valid: pydantic.BaseModel | None = model.model_validate(dict(arguments))
        except pydantic.ValidationError as error:
            valid, sentences = None, [_argument_error(e, tuple(known)) for e in error.errors()]
        if valid is None or sentences:
            raise _invalid_arguments(name, sentences)
        return valid

    # `check` rejects extra keys even if the model's config allows them.
    return publish_schema(name, {**schema, "additionalProperties": False}, from_hints=True), check


def _argument_error(error: Any, names: tuple[str, ...], hidden: Collection[str] = ()) -> str:
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "missing":
        return f"`{where}` is required"
    if error["type"] == "extra_forbidden":
        return _unknown_argument(where, names)
    if error["loc"] and error["loc"][0] in hidden:
        return f"`{where}`: {error['msg']}"
    value = repr(error["input"])
    return f"`{where}`: {error['msg']}, got {value[:80] + '...' if len(value) > 80 else value}"


def _unknown_argument(argument: str, names: Collection[str]) -> str:
    near = nearest(argument, names)
    if not near:
        near = f" (there are {', '.join(f'`{n}`' for n in names)})" if names else " (it takes none)"
    return f"unknown argument `{argument}`{near}"


def _invalid_arguments(name: str, sentences: list[str]) -> ToolError:
    message = f"{name}: {'; '.join(sentences[:8])}"
    return ToolError(message, code="invalid_arguments", tool=name)


def raw_validator(name: str, schema: Mapping[str, Any]) -> Validator:
    """Return the validator of a raw JSON Schema (draft by ``$schema``; formats asserted).

    It fills in the defaults of top-level properties.

    Raises:
        UsageError: If `schema` is not a JSON Schema of an object.
    """
    if schema.get("type") != "object":
        msg = f'tool {name!r}: parameters must be a JSON Schema with "type": "object"'
        raise UsageError(msg)
    validator = compile_schema(schema, f"tool {name!r}: parameters")
    names = tuple(schema.get("properties", {}))
    defaults = {
        key: sub["default"]
        for key, sub in schema.get("properties", {}).items()
        if isinstance(sub, Mapping) and "default" in sub
    }

    def check(arguments: Mapping[str, Any]) -> Arguments:
        plain = {**copy.deepcopy(defaults), **arguments} if defaults else dict(arguments)
        try:
            errors = list(validator.iter_errors(plain))
        except UnicodeEncodeError:
            text = "an argument has a lone surrogate, which is not valid Unicode"
            raise _invalid_arguments(name, [text]) from None
        if errors:
            sentences = []
            for error in errors:
                where = ".".join(str(part) for part in error.instance_path)
                sentences.append(f"`{where}`: {error.message}" if where else error.message)
            unknown = [key for key in plain if key not in names]
            sentences += [_unknown_argument(u, names) for u in unknown]
            raise _invalid_arguments(name, sentences)
        return plain

    return check


def registry(schema: Any, resources: Mapping[str, Any]) -> jsonschema_rs.Registry | None:
    """Return the documents that references in `schema` may name; None if there are none.

    A document without ``$schema`` uses the draft of `schema`.
    """
    import jsonschema_rs

    if not resources:
        return None
    draft = "2020-12"
    if isinstance(schema, Mapping) and isinstance(schema.get("$schema"), str):
        named = re.search(r"draft[-/]?(0[467]|2019-09|2020-12)", schema["$schema"])
        draft = named[1] if named else draft
    number = getattr(jsonschema_rs, f"Draft{draft.lstrip('0').replace('-', '')}")
    return jsonschema_rs.Registry(list(resources.items()), draft=number)


def compile_schema(
    schema: Any, what: str, *, formats: bool = True, resources: Mapping[str, Any] | None = None
) -> jsonschema_rs.Validator:
    """Compile a JSON Schema (draft by ``$schema``) to a validator without network access.

    Args:
        schema: A dict or bool.
        what: Name of the schema in errors.
        formats: Whether to assert ``format``.
        resources: Documents that references may name, by URI.

    Raises:
        UsageError: If it is not a JSON Schema, or has a reference to a document that is not in
            `resources`.
    """
    import jsonschema_rs

    try:
        # Without `offline`, references would be fetched: a request forged by the author of the
        # schema, perhaps a model (SSRF).
        return jsonschema_rs.validator_for(
            schema if isinstance(schema, bool) else dict(schema),
            validate_formats=formats,
            registry=registry(schema, resources or {}),
            offline=True,
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        msg = f"{what} is not a valid JSON Schema: {str(error.args[0]).splitlines()[0]}"
        raise UsageError(msg) from None


def result_schema(hint: Any) -> dict[str, Any] | None:
    """Return the JSON Schema of a return type; None without a usable hint."""
    if hint is None or hint is Any:
        return None
    try:
        schema = pydantic.TypeAdapter(hint).json_schema(mode="serialization")
    except (pydantic.PydanticSchemaGenerationError, pydantic.PydanticUserError):
        return None
    plain: dict[str, Any] = strip_titles(schema)
    return plain


def result_reader(hint: Any) -> Callable[[Any], Any]:
    """Return a function that converts the JSON data of a result to a return type.

    Data is returned unchanged if pydantic does not know the type or rejects the data.
    """
    if hint is None or hint is Any:
        return plain_data

    @functools.cache
    def adapter() -> pydantic.TypeAdapter[Any]:
        return pydantic.TypeAdapter(hint)

    def read(data: Any) -> Any:
        try:
            return adapter().validate_json(_json.dumps(data))
        except Exception:  # noqa: BLE001  # validators are their author's code
            return data

    return read


def plain_data(data: Any) -> Any:
    """Return JSON data as it is."""
    return data


def make_adapter(kind: Any, what: str) -> tuple[pydantic.TypeAdapter[Any], dict[str, Any]]:
    """Return the pydantic adapter and the JSON Schema of a type; `what` names the argument.

    Text is rejected: pydantic would evaluate it as Python, and a schema may be untrusted.

    Raises:
        UsageError: If `kind` is not a type that pydantic knows.
    """
    if isinstance(kind, str | bytes | ForwardRef):
        reason = "text is never evaluated; parse a schema with json.loads(...)"
    else:
        try:
            adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(kind)
            return adapter, adapter.json_schema()
        except Exception as error:  # noqa: BLE001  # pydantic inspects arbitrary objects
            reason = next(iter(str(error).splitlines()), type(error).__name__)
    msg = f"{what} must be a JSON Schema or a type, not {kind!r:.80}: {reason}"
    raise UsageError(msg)


def value_check(schema: Any, what: str = "result") -> ValueCheck:
    """Return a check of JSON data against a JSON Schema, a pydantic model or any other type.

    Args:
        schema: A JSON Schema as a dict (draft by ``$schema``; formats asserted), a type, or a
            `Contract`.
        what: Name of the value in the sentences.

    Raises:
        UsageError: If `schema` is neither.
    """
    if isinstance(schema, Mapping):
        return _schema_check(schema, what)
    if _is_compiled(schema):
        return lambda value: [f"{what}: {violation}" for violation in schema.violations(value)]
    adapter, _ = make_adapter(schema, "output_schema")

    def check(value: Any) -> list[str]:
        try:
            adapter.validate_json(_json.dumps(value))
        except pydantic.ValidationError as error:
            return [f"{_path(what, e['loc'])}: {e['msg']}" for e in error.errors()]
        return []

    return check


class CompiledSchema(Protocol):
    """A schema that was compiled before, such as a `Contract`, which this package does not know."""

    def violations(self, value: Any) -> list[Any]: ...  # none if it conforms

    def typed(self, value: Any) -> Any: ...  # an instance of its type


def _is_compiled(schema: Any) -> TypeGuard[CompiledSchema]:
    return not isinstance(schema, type) and hasattr(schema, "violations")


def value_reader(schema: Any) -> Callable[[Any], Any] | None:
    """Return a function from JSON data to an instance of a type; None if `schema` is not a type."""
    if schema is None or isinstance(schema, Mapping):
        return None
    if _is_compiled(schema):
        return schema.typed

    def read(value: Any) -> Any:
        return make_adapter(schema, "output_schema")[0].validate_json(_json.dumps(value))

    return read


def _schema_check(schema: Mapping[str, Any], what: str) -> ValueCheck:
    validator = compile_schema(schema, "output_schema")

    def check(value: Any) -> list[str]:
        errors = validator.iter_errors(value)
        return [f"{_path(what, tuple(e.instance_path))}: {e.message}" for e in errors]

    return check


def _path(what: str, parts: Iterable[Any]) -> str:
    return what + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in parts)


def arguments_mapping(arguments: Any) -> Mapping[str, Any]:
    """Return validated arguments as a mapping; they may be an instance of a model."""
    return arguments if isinstance(arguments, Mapping) else dict(arguments)
