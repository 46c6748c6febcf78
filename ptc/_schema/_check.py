"""JSON Schema of a function's parameters and result, and the check of arguments against it.

pydantic reads type hints; jsonschema-rs checks raw schemas. Both give the same errors: one
sentence an argument, with the nearest name for an unknown one.
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ForwardRef, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from .. import _json
from .._arguments import nearest
from ..errors import ToolError, UsageError
from ._shape import published, untitled

if TYPE_CHECKING:
    import jsonschema_rs

__all__ = [
    "Arguments",
    "Validator",
    "ValueCheck",
    "adapted",
    "compiled",
    "describe_function",
    "hints_of",
    "model_validator",
    "names_fields",
    "plain_data",
    "raw_validator",
    "registry",
    "result_reader",
    "result_schema",
    "signature_validator",
    "value_check",
]

Arguments = Any
"""What a tool's function gets: keywords as a dict, or one dict or model instance."""
Validator = Callable[[Mapping[str, Any]], Arguments]
"""Takes what a caller sent, gives what the function gets, or raises `ToolError`."""
ValueCheck = Callable[[Any], list[str]]
"""Takes JSON data, gives a sentence for each way in which it does not conform."""


def describe_function(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """A docstring as the description and the text for each parameter (Google's ``Args:``)."""
    text = inspect.getdoc(function) or ""
    head, *sections = re.split(r"(?m)^(Args|Returns|Raises|Example|Examples|Yields):\s*$", text)
    named = dict(zip(sections[::2], sections[1::2], strict=False))
    docs: dict[str, str] = {}
    for match in re.finditer(
        r"(?ms)^ {4}(\w+)(?: \([^)]*\))?: (.*?)(?=^ {4}\w|\Z)", named.get("Args", "")
    ):
        docs[match[1]] = " ".join(match[2].split())
    return head.strip(), docs


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Resolved type hints, with ``Annotated`` kept.

    Names are looked up where the function was written and, for tools made inside a function, in
    the locals of whoever is making the tool.

    Raises:
        UsageError: If a name in a hint cannot be found.
    """
    target = _hinted(function)
    if target is None:
        return {}
    try:
        return get_type_hints(target, localns=_local_names(), include_extras=True)
    except NameError as error:
        name = getattr(function, "__name__", repr(function))
        msg = f"tool {name!r}: type hint cannot be resolved: {error}"
        raise UsageError(msg) from None


def _hinted(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """The plain function whose hints describe `function`; None where there is none."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isfunction(function) or inspect.ismethod(function):
        return function
    call = getattr(type(function), "__call__", None)  # noqa: B004  # wanted for its hints
    return call if inspect.isfunction(call) else None


def _local_names() -> dict[str, Any]:
    """Locals of the nearest caller outside this package."""
    frame = inspect.currentframe()
    own = __name__.partition(".")[0]
    while frame is not None and str(frame.f_globals.get("__package__")).partition(".")[0] == own:
        frame = frame.f_back
    return dict(frame.f_locals) if frame is not None else {}


def signature_validator(
    name: str,
    function: Callable[..., Any],
    context_parameter: str | None,
    hidden: Collection[str] = (),
) -> tuple[dict[str, Any], Validator]:
    """Schema and validator of `function`'s parameters, the context parameter left out.

    Args:
        name: Of the tool.
        function: Its function.
        context_parameter: Parameter that is no argument.
        hidden: Parameters whose values no error quotes.

    Raises:
        UsageError: If a parameter has no type hint, or one that has no JSON Schema.
    """
    _, docs = describe_function(function)
    hints = hints_of(function)
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    bound = _bound_keywords(function)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == context_parameter or parameter.name in bound:
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            msg = f"tool {name!r}: parameter `{parameter.name}` has no name to callers; remove `/`"
            raise UsageError(msg)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            msg = f"tool {name!r}: parameter `*{parameter.name}` has no schema; name each one"
            raise UsageError(msg)
        if parameter.name not in hints:
            msg = f"tool {name!r}: parameter `{parameter.name}` needs a type hint"
            raise UsageError(msg)
        default = ... if parameter.default is parameter.empty else parameter.default
        text = docs.get(parameter.name)
        # Only where the docstring has a text: a None would hide that of an `Annotated` hint.
        said: dict[str, Any] = {"description": text} if text else {}
        field = parameter.name
        if field.startswith("_") or hasattr(BaseModel, field):
            # A name that is a method of the model, or that a model may not have.
            field, said["alias"] = f"parameter_{len(fields)}", parameter.name
        names[parameter.name] = field
        fields[field] = (hints[parameter.name], Field(default, **said))
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    try:
        model = create_model(name, __config__=config, **fields)
        schema = model.model_json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        first = str(error).splitlines()[0]
        msg = f"tool {name!r}: a parameter has no JSON Schema: {first}"
        raise UsageError(msg) from None
    return published(name, schema, from_hints=True), _keyword_validator(name, model, names, hidden)


def _bound_keywords(function: Callable[..., Any]) -> set[str]:
    """Keywords that a `functools.partial` gives: no caller sees or changes them."""
    bound: set[str] = set()
    while isinstance(function, functools.partial):
        bound.update(function.keywords)
        function = function.func
    return bound


def _keyword_validator(
    name: str, model: type[BaseModel], fields: Mapping[str, str], hidden: Collection[str]
) -> Validator:
    names = tuple(fields)
    pairs = tuple(fields.items())
    validate = model.__pydantic_validator__.validate_python

    def check(arguments: Mapping[str, Any]) -> Arguments:
        try:
            valid = validate(arguments)
        except ValidationError as error:
            sentences = [_sentence(e, names, hidden) for e in error.errors()]
            raise _invalid(name, sentences) from None
        return {key: getattr(valid, field) for key, field in pairs}

    return check


def model_validator(name: str, model: type[BaseModel]) -> tuple[dict[str, Any], Validator]:
    """Schema and validator of a pydantic model: the function gets an instance.

    Fields that the model does not have are refused, whatever its own config says of extra ones.

    Raises:
        UsageError: If it is no model, or a field has no JSON Schema.
    """
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        msg = f"tool {name!r}: parameters is a JSON Schema or a pydantic model, not {model!r:.80}"
        raise UsageError(msg)
    if issubclass(model, RootModel):
        msg = f"tool {name!r}: {model.__name__} has no fields; arguments are named, one field each"
        raise UsageError(msg)
    try:
        schema = model.model_json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        first = str(error).splitlines()[0]
        msg = f"tool {name!r}: a field has no JSON Schema: {first}"
        raise UsageError(msg) from None
    known = frozenset(schema.get("properties", {}))
    accepted = known | model.model_fields.keys()

    def check(arguments: Mapping[str, Any]) -> BaseModel:
        unknown = [key for key in arguments if key not in accepted]
        sentences = [_unknown(u, known) for u in unknown]
        try:
            valid = model.model_validate(dict(arguments))
        except ValidationError as error:
            sentences = [_sentence(e, tuple(known)) for e in error.errors()]
        if sentences:
            raise _invalid(name, sentences)
        return valid

    # As `check` has it, whatever the model's config says of other keys.
    return published(name, {**schema, "additionalProperties": False}, from_hints=True), check


def _sentence(error: Any, names: tuple[str, ...], hidden: Collection[str] = ()) -> str:
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "missing":
        return f"`{where}` is required"
    if error["type"] == "extra_forbidden":
        return _unknown(where, names)
    if error["loc"] and error["loc"][0] in hidden:
        return f"`{where}`: {error['msg']}"
    given = repr(error["input"])
    return f"`{where}`: {error['msg']}, got {given[:80] + '...' if len(given) > 80 else given}"


def _unknown(argument: str, names: Collection[str]) -> str:
    near = nearest(argument, names)
    if not near:
        near = f" (there are {', '.join(f'`{n}`' for n in names)})" if names else " (it takes none)"
    return f"unknown argument `{argument}`{near}"


def _invalid(name: str, sentences: list[str]) -> ToolError:
    message = f"{name}: {'; '.join(sentences[:8])}"
    return ToolError(message, code="invalid_arguments", tool=name)


def raw_validator(name: str, schema: Mapping[str, Any]) -> Validator:
    """Validator for a raw JSON Schema (the draft its ``$schema`` names; formats asserted).

    Defaults of top-level properties are filled in.

    Raises:
        UsageError: If `schema` is no JSON Schema of an object.
    """
    if schema.get("type") != "object":
        msg = f'tool {name!r}: parameters must be a JSON Schema with "type": "object"'
        raise UsageError(msg)
    validator = compiled(schema, f"tool {name!r}: parameters")
    names = tuple(schema.get("properties", {}))
    defaults = {
        key: sub["default"]
        for key, sub in schema.get("properties", {}).items()
        if isinstance(sub, Mapping) and "default" in sub
    }

    def check(arguments: Mapping[str, Any]) -> Arguments:
        plain = {**copy.deepcopy(defaults), **arguments} if defaults else dict(arguments)
        errors = list(validator.iter_errors(plain))
        if errors:
            sentences = []
            for error in errors:
                where = ".".join(str(part) for part in error.instance_path)
                sentences.append(f"`{where}`: {error.message}" if where else error.message)
            unknown = [key for key in plain if key not in names]
            sentences += [_unknown(u, names) for u in unknown]
            raise _invalid(name, sentences)
        return plain

    return check


def registry(schema: Any, resources: Mapping[str, Any]) -> jsonschema_rs.Registry | None:
    """The documents that references in `schema` may name; None if there are none.

    A document that names no draft of its own is read by the draft of `schema`.
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


def compiled(
    schema: Any, what: str, *, formats: bool = True, resources: Mapping[str, Any] | None = None
) -> jsonschema_rs.Validator:
    """The validator of a JSON Schema: the draft its ``$schema`` names, no network.

    Args:
        schema: A dict or bool.
        what: The word errors call the schema by.
        formats: Whether ``format`` is asserted.
        resources: Documents that references may name, by address.

    Raises:
        UsageError: If it is no JSON Schema, or refers to what is not in it or in `resources`.
    """
    import jsonschema_rs

    try:
        # Without `offline` a reference in a schema would be fetched: a request of ours to
        # wherever the author of the schema, perhaps a model, wants one.
        return jsonschema_rs.validator_for(
            schema if isinstance(schema, bool) else dict(schema),
            validate_formats=formats,
            registry=registry(schema, resources or {}),
            offline=True,
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        msg = f"{what} is not a valid JSON Schema: {str(error.args[0]).splitlines()[0]}"
        raise UsageError(msg) from None


def result_schema(function: Callable[..., Any]) -> dict[str, Any] | None:
    """JSON Schema of what `function` returns by its type hint; None where it says nothing."""
    hint = hints_of(function).get("return")
    if hint is None or hint is Any:
        return None
    try:
        schema = TypeAdapter(hint).json_schema(mode="serialization")
    except (PydanticSchemaGenerationError, PydanticUserError):
        return None
    plain: dict[str, Any] = untitled(schema)
    return plain


def result_reader(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return a function that turns the JSON data of a result into what `function` returned.

    Without a return type that pydantic knows, or for data that it refuses, that is the data.
    """
    hint = hints_of(function).get("return")
    if hint is None or hint is Any:
        return plain_data

    @functools.cache
    def adapter() -> TypeAdapter[Any]:
        return TypeAdapter(hint)

    def read(data: Any) -> Any:
        try:
            return adapter().validate_json(_json.dumps(data))
        except Exception:  # noqa: BLE001  # validators are their author's code
            return data

    return read


def plain_data(data: Any) -> Any:
    """Return JSON data as it is."""
    return data


def names_fields(schema: Any) -> bool:
    """True if the schema, or a part of it, describes an object with named fields."""
    if isinstance(schema, Mapping):
        return "properties" in schema or any(map(names_fields, schema.values()))
    return isinstance(schema, list | tuple) and any(map(names_fields, schema))


def adapted(kind: Any, what: str) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    """What pydantic makes of a type, and its JSON Schema; `what` names the argument.

    Text is no type: pydantic would evaluate it as Python, and a schema may come from anywhere.

    Raises:
        UsageError: If `kind` is no type that pydantic knows.
    """
    if isinstance(kind, str | bytes | ForwardRef):
        reason = "text is never evaluated; json.loads(...) makes a schema of it"
    else:
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(kind)
            return adapter, adapter.json_schema()
        except Exception as error:  # noqa: BLE001  # pydantic takes whatever it is given apart
            reason = next(iter(str(error).splitlines()), type(error).__name__)
    msg = f"{what} is a JSON Schema or a type, and {kind!r:.80} is neither: {reason}"
    raise UsageError(msg)


def value_check(schema: Any, what: str = "result") -> ValueCheck:
    """A check of JSON data against a JSON Schema, a pydantic model or any type pydantic knows.

    Args:
        schema: A dict is a JSON Schema (the draft its ``$schema`` names; formats asserted), all
            else a type.
        what: The word sentences call the value by.

    Raises:
        UsageError: If `schema` is neither.
    """
    if isinstance(schema, Mapping):
        return _schema_check(schema, what)
    adapter, _ = adapted(schema, "output_schema")

    def check(value: Any) -> list[str]:
        try:
            adapter.validate_json(_json.dumps(value))
        except ValidationError as error:
            return [f"{_path(what, e['loc'])}: {e['msg']}" for e in error.errors()]
        return []

    return check


def _schema_check(schema: Mapping[str, Any], what: str) -> ValueCheck:
    validator = compiled(schema, "output_schema")

    def check(value: Any) -> list[str]:
        errors = validator.iter_errors(value)
        return [f"{_path(what, tuple(e.instance_path))}: {e.message}" for e in errors]

    return check


def _path(what: str, parts: Iterable[Any]) -> str:
    return what + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in parts)


def plain_arguments(arguments: Any) -> Mapping[str, Any]:
    """Validated arguments as a mapping: they may be an instance of a model."""
    return arguments if isinstance(arguments, Mapping) else dict(arguments)
