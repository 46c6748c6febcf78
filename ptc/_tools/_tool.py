"""Definition of a tool, and a request to call it.

A tool is a frozen description of one function. It knows nothing of sessions, limits or scripts;
`ptc._calls` executes it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from functools import partial, wraps
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    NoReturn,
    Protocol,
    TypeAlias,
    Union,
    Unpack,
    cast,
    get_args,
    get_origin,
    overload,
)

from typing_extensions import ParamSpec, TypeVar

from .._core import _json
from .._core._arguments import nearest
from .._core._deferred import Deferred, copy_with, defer_fields, peek
from .._core._pydantic import pydantic
from .._dataclass import dataclass
from .._schema._check import (
    SignatureSchema,
    Validator,
    model_validator,
    plain_data,
    raw_validator,
    result_reader,
    result_schema,
)
from .._schema._function import describe_function, resolve_hints
from .._schema._shape import publish_schema
from ..errors import ToolError, UsageError
from ._approval import ApprovalGate, ApprovalPrompt
from ._cache import Cache
from ._context import ToolContext, current_tool_context
from ._contract import describe_contract
from ._names import validate_name, warn_definition
from ._options import ToolOptions, fields_from, validate_fields
from ._retry import Retry
from ._revert import RevertFunction
from ._tool_result import Render, ToolResult
from ._untrusted import UntrustedMode

__all__ = [
    "Tool",
    "ToolCall",
    "ToolOptions",
    "define_tool",
    "renamed",
    "tool",
    "tool_from_schema",
    "tool_from_signature",
]

ToolFunction: TypeAlias = Callable[..., Any] | Callable[..., Awaitable[Any]]

P = ParamSpec("P", default=...)
"""Parameters of a tool's function, without its `ToolContext`."""
R_co = TypeVar("R_co", covariant=True, default=Any)
"""Return type of a tool's function: an awaitable if the function is async."""
_P = ParamSpec("_P")
_R = TypeVar("_R")


class ToolCall(NamedTuple):
    """A request to run a tool, not yet validated."""

    name: str
    """Tool's name."""
    arguments: Mapping[str, Any]
    """As the caller sent them."""
    seq: int
    """Number of the call in its run or session, from 1. A call that a tool makes has 0: it is
    numbered when it is identified."""
    run_id: str | None = None
    """Run of the calling script; None for a direct call."""
    line: int | None = None
    """Line of the script that made the call. Reported by the worker, so for display only."""
    key: str | None = None
    """Idempotency key passed by the caller of a direct call; None: the host computes one."""


class _DeferredSchema(Deferred[dict[str, Any]]):
    """Schema of a function's parameters, derived when it is first read; their names are known."""

    __slots__ = ("names",)

    def __init__(self, schema: SignatureSchema) -> None:
        super().__init__(schema.published)
        self.names = schema.names


@dataclass(frozen=True, slots=True, eq=False)
class Tool(Generic[P, R_co]):
    """A function that scripts, applications and models may call. Create one with `tool`.

    Calling a tool calls its function, without validation, limits or records: ``price("tea")``
    tests the function of ``@tool def price``. ``session.call(price, "tea")`` makes a tool call.

    Raises:
        UsageError: If an option has an invalid value.
    """

    name: str
    """Name for callers: ``name``, or ``namespace.name`` for ``ctx.namespace.name(...)``."""
    description: str
    """Description for a model. Never blank."""
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments: a flat object."""
    function: ToolFunction
    """Executes the call. A plain function runs in a worker thread."""
    validate: Validator
    """Converts arguments as sent to those of the function; raises `ToolError`
    ``invalid_arguments``."""
    result_schema: Mapping[str, Any] | None = None
    """JSON Schema of the value; None if the function's type hint has none."""
    side_effect: bool = False
    """True if a call changes anything outside the run."""
    idempotent: bool = True
    """True if executing a call twice has the same effect as once: the host may repeat it."""
    uses_key: bool = False
    """True if it passes its idempotency key on."""
    needs_approval: ApprovalGate = False
    """True or a predicate of the arguments: a call requires approval."""
    approval_prompt: ApprovalPrompt = ""
    """Text for the approver."""
    approval_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Proposed values for the approver's form."""
    max_executions_per_run: int | None = None
    """Most executions in one run; None: only the run's limits apply."""
    cache: Cache | None = None
    """Caching of its results; None: none."""
    retry: Retry | None = None
    """Retries and circuit breaker; None: neither."""
    timeout_ms: int | None = None
    """Time-out of one attempt; None: the run's."""
    env: type[pydantic.BaseModel] | None = None
    """Model of the values it needs; None: it needs none."""
    env_values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Values from its toolset; the session's override them."""
    unrecorded: frozenset[str] = frozenset()
    """Parameters recorded by size and digest only."""
    revert: RevertFunction | None = None
    """Undoes a call; None: its calls cannot be undone."""
    tags: frozenset[str] = frozenset()
    """Words to select it by."""
    files: tuple[Path, ...] = ()
    """Files and folders that it is made from, which no tool of the session may change."""
    render: Render | None = None
    """Formats a value as text for a model; None: JSON."""
    untrusted: UntrustedMode | None = None
    """Treatment of the text that a model reads; None: the session's."""
    revive: Callable[[Any], Any] = field(default=plain_data, repr=False)
    """Converts recorded JSON data back to the value, for a tool that called this one."""
    context_parameter: str | None = None
    """Parameter for the `ToolContext`; None if the function takes none."""
    spread: bool = True
    """True: the function takes the arguments as keywords; False: as one dict or model."""
    is_async: bool = field(init=False)
    """True if the function is a coroutine function and runs in the event loop."""

    def __post_init__(self) -> None:
        function = self.function
        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  # an object whose call is async
        )
        object.__setattr__(self, "is_async", is_async)
        validate_fields(self, self.name)
        self._check_combinations()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function with these arguments.

        A `ToolContext` that the function takes is that of the tool call under way; outside of one,
        pass your own in its place.

        Raises:
            UsageError: If the function takes a `ToolContext` and there is none.
        """
        positional, named = self._with_context(args, kwargs)
        return cast(R_co, self.function(*positional, **named))

    def _with_context(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Add the context that the function takes, unless it is among the arguments."""
        name = self.context_parameter
        if name is None or any(isinstance(argument, ToolContext) for argument in args):
            return args, kwargs
        named = dict(kwargs)
        context = named.pop(name, None) or current_tool_context()
        if context is None:
            msg = (
                f"tool {self.name!r} takes a ToolContext, and no tool call is under way: pass one "
                f"as {name}=..., or call the tool with session.call({self.name}, ...)"
            )
            raise UsageError(msg)
        parameters = inspect.signature(self.function).parameters
        position = list(parameters).index(name)
        if position > len(args) or parameters[name].kind is inspect.Parameter.KEYWORD_ONLY:
            return args, {**named, name: context}
        return (*args[:position], context, *args[position:]), named

    def _check_combinations(self) -> None:
        if self.cache is not None and self.side_effect:
            self._refuse(
                "a tool with a side effect cannot be cached; leave out cache, or pass "
                "side_effect=False"
            )
        if self.revert is not None and not self.side_effect:
            self._refuse("revert is for a tool with a side effect; pass side_effect=True")
        for parameter in self.unrecorded:
            if parameter not in self.parameter_names:
                near = nearest(parameter, self.parameter_names)
                self._refuse(f"unrecorded: unknown parameter {parameter!r}{near}")
        if self.retry is not None and self.retry.max_retries and not self.repeatable:
            self._refuse(
                "a tool that is not idempotent cannot be retried; pass idempotent=True, or "
                "uses_key=True if it passes its idempotency key on"
            )

    def _refuse(self, problem: str) -> NoReturn:
        msg = f"tool {self.name!r}: {problem}"
        raise UsageError(msg)

    def text(self, value: Any) -> str:
        """Format a value of the tool as text, also that of an untrusted tool as it is.

        The result of a call that made others is treated as a whole (`ptc._tools._untrusted`).
        """
        return ToolResult(self.name, value=value, _render=self.render).text

    @property
    def repeatable(self) -> bool:
        """True if the host may repeat a call that failed or whose outcome is unknown."""
        return self.idempotent or self.uses_key

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of all parameters, in order."""
        schema = peek(self, "parameters")
        if isinstance(schema, _DeferredSchema):
            return schema.names
        return tuple(schema.get("properties", {}))

    @property
    def digest(self) -> str:
        """SHA-256, in hex, of the name, the schemas and the flags that a recorded run relies on.

        The flags are `side_effect`, `idempotent` and `uses_key`, and whether calls may require
        approval, be undone, be cached, or leave out parameters in the record. Texts, such as a
        description, and the function itself do not count.
        """
        return _json.sha256_of(describe_contract(self))

    @property
    def definition(self) -> dict[str, Any]:
        """Definition for a model: ``{"name", "description", "parameters"}``."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }


# To derive the schemas of a function takes longer than all else about its definition.
defer_fields(Tool, "parameters", "result_schema")


def renamed(item: Tool, name: str) -> Tool:
    """Return the tool under another name, also in the messages of its validator."""
    validate = item.validate

    @wraps(validate)
    def validate_renamed(arguments: Mapping[str, Any]) -> Any:
        try:
            return validate(arguments)
        except ToolError as error:
            text = error.message.replace(f"{item.name}:", f"{name}:", 1)
            raise ToolError(text, code=error.code, tool=name, details=error.details) from None

    return copy_with(item, name=name, validate=validate_renamed)


def _validate_texts(name: str, description: str) -> tuple[str, str]:
    if not isinstance(description, str) or not description.strip():
        msg = f"tool {name!r} needs a description; write a docstring or pass description="
        raise UsageError(msg)
    return validate_name(name), description.strip()


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", None)
    if name is None:
        msg = f"{function!r} has no __name__; pass tool(name=...)"
        raise UsageError(msg)
    return str(name)


def _find_context_parameter(hints: Mapping[str, Any]) -> str | None:
    found = [name for name, hint in hints.items() if _is_context(hint)]
    return found[0] if found else None


def _is_context(hint: Any) -> bool:
    """True for `ToolContext`, also in `Annotated` or a union with None."""
    if get_origin(hint) is Annotated:
        return _is_context(get_args(hint)[0])
    others = [part for part in get_args(hint) if part is not type(None)]
    return hint is ToolContext or (len(others) == 1 and _is_union(hint) and _is_context(others[0]))


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def _check_takes_one(name: str, function: ToolFunction, context: str | None) -> None:
    """Reject a function that cannot be called with one dict, and a context if it takes one."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # not a function, which `Tool` rejects, or one written in C
        return
    try:
        signature.bind({}, **({} if context is None else {context: None}))
    except TypeError as error:
        msg = (
            f"tool {name!r}: its function must take the arguments as one dict or model, and "
            f"optionally a parameter of type ToolContext: {error}"
        )
        raise UsageError(msg) from None


_names_warned: set[str] = set()


def _warn_without_context(made: Tool) -> Tool:
    """Warn once per name that a tool that is not idempotent ignores its idempotency key."""
    blind = made.side_effect and not made.idempotent and made.context_parameter is None
    if blind and made.name not in _names_warned:
        _names_warned.add(made.name)
        warn_definition(
            f"tool {made.name!r} has a side effect and is not idempotent: its function should take "
            "a parameter of type ToolContext and pass ctx.idempotency_key on"
        )
    return made


class _Decorator(Protocol):
    """Makes a `Tool` of a function."""

    @overload
    def __call__(self, function: Callable[Concatenate[ToolContext, _P], _R], /) -> Tool[_P, _R]: ...
    @overload
    def __call__(self, function: Callable[_P, _R], /) -> Tool[_P, _R]: ...


@overload
def tool(function: Callable[Concatenate[ToolContext, _P], _R], /) -> Tool[_P, _R]: ...
@overload
def tool(function: Callable[_P, _R], /) -> Tool[_P, _R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> _Decorator: ...
def tool(
    function: ToolFunction | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Any:
    """Make a `Tool` from a function; used as ``@tool`` or ``@tool(...)``.

    The type hints define the schema. The docstring provides the description, and its ``Args:``
    section those of the parameters. A parameter of type `ToolContext` receives the context and is
    not part of the schema.

    Args:
        function: Async, or plain: then it runs in a thread and cannot be interrupted.
        name: Default: the function's name.
        description: Default: the docstring up to its first section.
        **options: See `ToolOptions`.

    Raises:
        UsageError: If the name or an option is invalid, the description is blank, or a parameter
            has no schema.
    """

    def make(target: ToolFunction) -> Tool:
        return _warn_without_context(tool_from_signature(target, name, description, options))

    return make if function is None else make(function)


def tool_from_signature(
    target: ToolFunction, name: str | None, description: str | None, options: ToolOptions
) -> Tool:
    """Make a `Tool` from a function, as `tool`, without a warning about its options."""
    own_name, own_description = _validate_texts(
        _name_of(target) if name is None else name,
        describe_function(target)[0] if description is None else description,
    )
    hints = resolve_hints(target)
    context = _find_context_parameter(hints)
    fields = fields_from(own_name, options)
    schema = SignatureSchema(own_name, target, hints, context, fields["unrecorded"])
    returns = hints.get("return")
    fields.setdefault("result_schema", Deferred(partial(result_schema, returns)))
    return Tool(
        name=own_name,
        description=own_description,
        parameters=cast("Mapping[str, Any]", _DeferredSchema(schema)),
        function=target,
        validate=schema.validate,
        revive=result_reader(returns),
        context_parameter=context,
        **fields,
    )


def define_tool(
    name: str,
    description: str,
    parameters: Mapping[str, Any] | type[pydantic.BaseModel],
    function: ToolFunction,
    **options: Unpack[ToolOptions],
) -> Tool:
    """Make a `Tool` from a JSON Schema or a pydantic model of its arguments.

    The function receives the arguments as one dict, or as one instance of the model. It may take a
    second parameter of type `ToolContext`.

    Raises:
        UsageError: If `parameters` is not a JSON Schema of an object, or as for `tool`.
    """
    return _warn_without_context(tool_from_schema(name, description, parameters, function, options))


def tool_from_schema(
    name: str,
    description: str,
    parameters: Mapping[str, Any] | type[pydantic.BaseModel],
    function: ToolFunction,
    options: ToolOptions,
) -> Tool:
    """Make a `Tool` from a schema, as `define_tool`, without a warning about its options."""
    own_name, own_description = _validate_texts(name, description)
    context = _find_context_parameter(resolve_hints(function))
    _check_takes_one(own_name, function, context)
    if isinstance(parameters, Mapping):
        validate = raw_validator(own_name, parameters)
        schema = publish_schema(own_name, parameters, from_hints=False)
    else:
        schema, validate = model_validator(own_name, parameters)
    return Tool(
        name=own_name,
        description=own_description,
        parameters=schema,
        function=function,
        validate=validate,
        context_parameter=context,
        spread=False,
        **fields_from(own_name, options),
    )
