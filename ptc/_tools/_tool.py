"""What a tool is: its definition, and a call of it.

A tool is a frozen description of one function. It knows nothing of sessions, limits or scripts;
behaviour around calls lives in `_dispatch`.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import (
    Annotated,
    Any,
    Concatenate,
    Generic,
    Protocol,
    TypeAlias,
    TypedDict,
    Union,
    Unpack,
    cast,
    get_args,
    get_origin,
    overload,
)

from pydantic import BaseModel
from typing_extensions import ParamSpec, TypeVar

from .._arguments import caller_frame, nearest
from .._schema._check import (
    Validator,
    describe_function,
    has_named_fields,
    model_validator,
    plain_data,
    raw_validator,
    resolve_hints,
    result_reader,
    result_schema,
    signature_validator,
)
from .._schema._shape import publish_schema
from ..errors import UsageError
from ._approval import ApprovalGate, ApprovalPrompt
from ._cache import Cache, CacheKey
from ._context import ToolContext, current_tool_context
from ._retry import Retry
from ._revert import RevertFunction
from ._tool_result import Render

__all__ = [
    "Tool",
    "ToolCall",
    "ToolMetadata",
    "ToolOptions",
    "checked_name",
    "define_tool",
    "get_tool_metadata",
    "tool",
]

ToolFunction: TypeAlias = Callable[..., Any] | Callable[..., Awaitable[Any]]

P = ParamSpec("P", default=...)
"""Parameters of a tool's function, without its `ToolContext`."""
R_co = TypeVar("R_co", covariant=True, default=Any)
"""Return type of a tool's function: an awaitable if the function is async."""
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A request to run a tool, not yet validated."""

    name: str
    """Tool's name."""
    arguments: Mapping[str, Any]
    """As the caller sent them."""
    seq: int
    """Number of the call in its run or session, from 1; of a call that a tool makes, 0: such calls
    are numbered when they have been told apart."""
    run_id: str | None = None
    """Run of the script that asks; None for a direct call."""
    line: int | None = None
    """Line of the script that made the call, as the worker says. A claim, used for display only."""
    key: str | None = None
    """Idempotency key that the caller of a direct call gave; None: the host makes one."""


class ToolOptions(TypedDict, total=False):
    """How calls of a tool are treated: the options of `tool` and `define_tool`."""

    side_effect: bool
    """True if it changes anything outside the run. Default: False."""
    idempotent: bool
    """True if doing it twice is as good as once. Default: `not side_effect`."""
    uses_key: bool
    """True if the function hands `ToolContext.idempotency_key` on to a service that tells a
    repeated request by it: then a call may be tried again although it is not idempotent."""
    needs_approval: ApprovalGate
    """True, or a function of the validated arguments, async or not: the call waits for a decision.
    A function that raises means yes. Default: False."""
    approval_prompt: ApprovalPrompt
    """What the one who decides is told, or a function of the validated arguments."""
    approval_defaults: Mapping[str, Any]
    """What the tool's author proposes for the decision's form; JSON-able."""
    max_executions_per_run: int
    """Times that a run may have it done; calls that fail and results from the cache do not count.
    The direct calls of a session count as one run. 0: never. Default: as the run's limits allow."""
    cache: bool | CacheKey | Cache
    """True: a result serves the same call for the rest of the run. A function: of the validated
    arguments, gives what makes two calls the same. Not with a side effect."""
    retry: Retry
    """When a failed call is tried again, and when the tool is left alone."""
    timeout_ms: int
    """Time one try may take. More is a `ToolError` with code ``timeout``."""
    env: type[BaseModel]
    """Values the tool needs and no caller may see, as the fields of a model. They come from the
    session, and the function finds them in `ToolContext.env`."""
    unrecorded: Iterable[str]
    """Parameters whose values are too large or too private for a record of the call: it has their
    size and SHA-256 only."""
    revert: RevertFunction
    """Undoes a call that had its effect, told of it by an `Effect`, when its run is rolled back. It
    is called until it has returned once, each time with the same `Effect.revert_key`: one that
    finds that there is nothing to undo any more returns. Async, or plain: then it runs in a thread.
    Only with a side effect. Default: the calls are listed as not undone."""
    tags: Iterable[str]
    """Words to select tools by."""
    result_schema: Mapping[str, Any] | None
    """JSON Schema of the value. Default: from the return type hint, if it says anything."""
    render: Render | None
    """Value -> text for a model. Default: strings as they are, others as JSON."""


_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, eq=False)
class Tool(Generic[P, R_co]):
    """A function that scripts, applications and models may call. Create one with `tool`.

    Calling a tool calls its function, without validation, limits or records: ``price("tea")``
    tests the function of ``@tool def price``. ``session.call(price, "tea")`` makes a tool call.

    Raises:
        UsageError: If an option has a value that means nothing.
    """

    name: str
    """What callers call it: ``name``, or ``namespace.name`` for ``ctx.namespace.name(...)``."""
    description: str
    """What it does, for a model. Never blank."""
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments: a flat object."""
    function: ToolFunction
    """Runs the call. A plain function runs in a worker thread."""
    validate: Validator
    """Arguments as sent -> as the function gets them, or `ToolError` ``invalid_arguments``."""
    result_schema: Mapping[str, Any] | None = None
    """JSON Schema of the value, where the type hint of the function tells it."""
    side_effect: bool = False
    """True if it changes anything outside the run."""
    idempotent: bool = True
    """True if doing it twice is as good as once: such a call may be made again by itself."""
    uses_key: bool = False
    """True if it hands its idempotency key on."""
    needs_approval: ApprovalGate = False
    """Whether a call waits for a decision."""
    approval_prompt: ApprovalPrompt = ""
    """What the one who decides is told."""
    approval_defaults: Mapping[str, Any] = field(default_factory=dict)
    """What is proposed for the decision's form."""
    max_executions_per_run: int | None = None
    """Times a run may have it done; None: no limit of its own."""
    cache: Cache | None = None
    """How its results are kept; None: not at all."""
    retry: Retry | None = None
    """When it is tried again; None: never."""
    timeout_ms: int | None = None
    """Time one try may take; None: the run's."""
    env: type[BaseModel] | None = None
    """Values it needs; None: none."""
    env_values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Values that its toolset gives; the session's come after them."""
    unrecorded: frozenset[str] = frozenset()
    """Parameters of which a record has size and digest only."""
    revert: RevertFunction | None = None
    """Undoes a call; None: nothing does."""
    tags: frozenset[str] = frozenset()
    """Words to select it by."""
    render: Render | None = None
    """Value -> text for a model; None: JSON."""
    revive: Callable[[Any], Any] = field(default=plain_data, repr=False)
    """Recorded JSON data of a value -> the value, for a tool that called this one."""
    context_parameter: str | None = None
    """Parameter that gets the `ToolContext`; None if the function takes none."""
    spread: bool = True
    """True: arguments are keywords of the function; False: one dict or model."""
    is_async: bool = field(init=False)
    """True if the function is a coroutine function and runs in the event loop."""
    returns_records: bool = field(init=False)
    """True if the value has objects with named fields: a script may read ``row.field``."""

    def __post_init__(self) -> None:
        function = self.function
        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  # an object whose call is async
        )
        object.__setattr__(self, "is_async", is_async)
        object.__setattr__(self, "returns_records", has_named_fields(self.result_schema))
        self._check_options()

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
        place = list(parameters).index(name)
        if place > len(args) or parameters[name].kind is inspect.Parameter.KEYWORD_ONLY:
            return args, {**named, name: context}
        return (*args[:place], context, *args[place:]), named

    def _check_options(self) -> None:
        for name in ("side_effect", "idempotent", "uses_key"):
            if not isinstance(getattr(self, name), bool):
                self._refuse(name, "True or False")
        if not (isinstance(self.needs_approval, bool) or callable(self.needs_approval)):
            self._refuse("needs_approval", "True, False or a function of the arguments")
        if not (isinstance(self.approval_prompt, str) or callable(self.approval_prompt)):
            self._refuse("approval_prompt", "text or a function of the arguments")
        if not callable(self.function):
            self._refuse("function", "callable")
        if not (self.render is None or callable(self.render)):
            self._refuse("render", "a function of the value")
        if not (self.revert is None or callable(self.revert)):
            self._refuse("revert", "a function of an Effect")
        if not isinstance(self.approval_defaults, Mapping):
            self._refuse("approval_defaults", "a mapping")
        if not isinstance(self.result_schema, Mapping | None):
            self._refuse("result_schema", "a JSON Schema")
        if not isinstance(self.retry, Retry | None):
            self._refuse("retry", "a Retry")
        self._check_number("max_executions_per_run", 0, 1_000_000)
        self._check_number("timeout_ms", 1, _DAY_MS)
        if self.cache is not None and self.side_effect:
            msg = f"tool {self.name!r}: a tool with a side effect cannot be cached; leave out cache"
            raise UsageError(msg)
        if self.revert is not None and not self.side_effect:
            msg = f"tool {self.name!r}: revert is for a tool with a side effect: side_effect=True"
            raise UsageError(msg)
        if self.env is not None and not (
            isinstance(self.env, type) and issubclass(self.env, BaseModel)
        ):
            self._refuse("env", "a pydantic model class")
        for parameter in self.unrecorded:
            if parameter not in self.parameter_names:
                near = nearest(parameter, self.parameter_names)
                msg = f"tool {self.name!r}: unrecorded: there is no parameter {parameter!r}{near}"
                raise UsageError(msg)
        if self.retry is not None and self.retry.max_retries and not self.repeatable:
            msg = (
                f"tool {self.name!r}: a tool that must not be repeated cannot be retried; say "
                "idempotent=True, or uses_key=True if it hands its idempotency key on"
            )
            raise UsageError(msg)

    def _check_number(self, name: str, least: int, most: int) -> None:
        value = getattr(self, name)
        if value is not None and (type(value) is not int or not least <= value <= most):
            self._refuse(name, f"an integer from {least:,} to {most:,}")

    def _refuse(self, option: str, wanted: str) -> None:
        msg = f"tool {self.name!r}: {option} must be {wanted}, not {getattr(self, option)!r:.80}"
        raise UsageError(msg)

    @property
    def repeatable(self) -> bool:
        """True if a call whose end is not known, or that failed, may be made again by itself."""
        return self.idempotent or self.uses_key

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the parameters in order, required ones and the others."""
        return tuple(self.parameters.get("properties", {}))

    @property
    def definition(self) -> dict[str, Any]:
        """What a model is given: ``{"name", "description", "parameters"}``."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }


@dataclass(frozen=True, slots=True)
class ToolMetadata:
    """What is to be known of a tool before it is called."""

    name: str
    side_effect: bool
    idempotent: bool
    uses_key: bool
    takes_context: bool
    """True if its function can read the idempotency key."""
    gated: bool
    """True if a call may wait for an approval."""
    has_revert: bool
    """True if its calls can be undone when their run is rolled back."""
    tags: frozenset[str]


def get_tool_metadata(thing: object) -> ToolMetadata | None:
    """What is to be known of `thing`; None if it is no `Tool`."""
    if not isinstance(thing, Tool):
        return None
    return ToolMetadata(
        name=thing.name,
        side_effect=thing.side_effect,
        idempotent=thing.idempotent,
        uses_key=thing.uses_key,
        takes_context=thing.context_parameter is not None,
        gated=thing.needs_approval is not False,
        has_revert=thing.revert is not None,
        tags=thing.tags,
    )


_NAME = re.compile(r"(?=.{1,64}\Z)[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
"""``name`` or ``namespace.name``: what a script can write as ``ctx.name``. 64 characters is what
OpenAI and Anthropic accept."""
_SNAKE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?")
_MOST_NAME_CHARS = 256

RESERVED = frozenset({"budget", "call", "describe", "emit", "log", "search_tools", "tools"})
"""Names that `ctx` has for itself."""


def checked_name(name: str) -> str:
    """`name`, if callers can call a tool by it; an odd one warns.

    Raises:
        UsageError: If it is no text, or `ctx` has it for itself.
    """
    usable = isinstance(name, str) and name.isprintable()
    if not usable or not 1 <= len(name) <= _MOST_NAME_CHARS:
        msg = f"tool name {name!r:.80}: use 1-64 letters, digits and _, not starting with a digit"
        raise UsageError(msg)
    if name.partition(".")[0] in RESERVED:
        msg = f"tool name {name!r} is taken by ctx itself; reserved: {', '.join(sorted(RESERVED))}"
        raise UsageError(msg)
    if not _NAME.fullmatch(name) or re.search(r"(^|\.)_", name):
        _warn(f"tool name {name!r} is odd: a script can reach it with ctx.call({name!r}) only")
    elif not _SNAKE.fullmatch(name):
        _warn(f"tool name {name!r} is not snake_case")
    return name


def _checked(name: str, description: str) -> tuple[str, str]:
    if not isinstance(description, str) or not description.strip():
        msg = f"tool {name!r} needs a description: a docstring, or description=..."
        raise UsageError(msg)
    return checked_name(name), description.strip()


def _warn(message: str) -> None:
    """Warn at the line outside this package that defines the tool."""
    warnings.warn(message, UserWarning, stacklevel=_frames_to_the_caller())


def _frames_to_the_caller() -> int:
    return caller_frame()[1] - 1


def _own_name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", None)
    if name is None:
        msg = f"{function!r} has no name of its own; give tool(name=...)"
        raise UsageError(msg)
    return str(name)


def _context_parameter(function: Callable[..., Any]) -> str | None:
    found = [name for name, hint in resolve_hints(function).items() if _is_context(hint)]
    return found[0] if found else None


def _is_context(hint: Any) -> bool:
    """True for `ToolContext`, also with a note (`Annotated`) or with None beside it."""
    if get_origin(hint) is Annotated:
        return _is_context(get_args(hint)[0])
    others = [part for part in get_args(hint) if part is not type(None)]
    return hint is ToolContext or (len(others) == 1 and _is_union(hint) and _is_context(others[0]))


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def _options(name: str, options: ToolOptions) -> dict[str, Any]:
    """The options as fields of `Tool`. Raises `UsageError` for one that there is not."""
    for option in options:
        if option not in ToolOptions.__annotations__:
            known = ToolOptions.__annotations__
            msg = f"tool {name!r}: there is no option {option!r}{nearest(option, known)}"
            raise UsageError(msg)
    fields: dict[str, Any] = dict(options)
    fields.setdefault("idempotent", not options.get("side_effect", False))
    cache = options.get("cache", False)
    if callable(cache):
        fields["cache"] = Cache(key=cache)
    elif not isinstance(cache, Cache):
        if not isinstance(cache, bool):
            msg = f"tool {name!r}: cache is True, a function or a Cache, not {cache!r:.80}"
            raise UsageError(msg)
        fields["cache"] = Cache() if cache else None
    words = {"tags": options.get("tags", ()), "unrecorded": options.get("unrecorded", ())}
    for option, given in words.items():
        listed = isinstance(given, Iterable) and not isinstance(given, str)
        if not listed or not all(isinstance(word, str) for word in given):
            msg = f"tool {name!r}: {option} is a list of words, not {given!r:.80}"
            raise UsageError(msg)
        fields[option] = frozenset(given)
    return fields


def _check_takes_one(name: str, function: ToolFunction, context: str | None) -> None:
    """Refuse a function that cannot be called with one dict, and a context if it wants one."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # no function, which is told of elsewhere, or one written in C
        return
    try:
        signature.bind({}, **({} if context is None else {context: None}))
    except TypeError as error:
        msg = (
            f"tool {name!r}: its function is called with the arguments in one dict or model, and "
            f"a parameter of type ToolContext if it has one: {error}"
        )
        raise UsageError(msg) from None


_warned_of_no_context: set[str] = set()


def _with_context_warning(made: Tool) -> Tool:
    """Say once per name that a tool that must not be repeated cannot know its idempotency key."""
    blind = made.side_effect and not made.idempotent and made.context_parameter is None
    if blind and made.name not in _warned_of_no_context:
        _warned_of_no_context.add(made.name)
        _warn(
            f"tool {made.name!r} has a side effect and is not idempotent: its function should take "
            "a parameter of type ToolContext and hand ctx.idempotency_key on"
        )
    return made


class _Decorator(Protocol):
    """Makes a `Tool` of a function."""

    @overload
    def __call__(self, function: Callable[Concatenate[ToolContext, P], _R], /) -> Tool[P, _R]: ...
    @overload
    def __call__(self, function: Callable[P, _R], /) -> Tool[P, _R]: ...


@overload
def tool(function: Callable[Concatenate[ToolContext, P], _R], /) -> Tool[P, _R]: ...
@overload
def tool(function: Callable[P, _R], /) -> Tool[P, _R]: ...
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
    """Make a `Tool` of a function; used as ``@tool`` or ``@tool(...)``.

    Type hints give the schema, the docstring the description and (``Args:``) the parameters'.
    A parameter of type `ToolContext` gets the context and is not part of the schema.

    Args:
        function: Async, or plain: then it runs in a thread and cannot be interrupted.
        name: Default: the function's name.
        description: Default: the docstring up to its first section.
        **options: How calls are treated, see `ToolOptions`.

    Raises:
        UsageError: If the name is unusable, the description blank, a parameter has no schema, or
            an option is unknown or means nothing.
    """

    def make(target: ToolFunction) -> Tool:
        own_name, own_description = _checked(
            _own_name(target) if name is None else name,
            describe_function(target)[0] if description is None else description,
        )
        context = _context_parameter(target)
        fields = _options(own_name, options)
        parameters, validate = signature_validator(own_name, target, context, fields["unrecorded"])
        fields.setdefault("result_schema", result_schema(target))
        return _with_context_warning(
            Tool(
                name=own_name,
                description=own_description,
                parameters=parameters,
                function=target,
                validate=validate,
                revive=result_reader(target),
                context_parameter=context,
                **fields,
            )
        )

    return make if function is None else make(function)


def define_tool(
    name: str,
    description: str,
    parameters: Mapping[str, Any] | type[BaseModel],
    function: ToolFunction,
    **options: Unpack[ToolOptions],
) -> Tool:
    """Make a `Tool` from a JSON Schema or a pydantic model of its arguments.

    The function gets the arguments as one dict, or as one instance of the model. It may take a
    second parameter of type `ToolContext`.

    Raises:
        UsageError: If `parameters` is no JSON Schema of an object, or as for `tool`.
    """
    own_name, own_description = _checked(name, description)
    context = _context_parameter(function)
    _check_takes_one(own_name, function, context)
    if isinstance(parameters, Mapping):
        validate = raw_validator(own_name, parameters)
        schema = publish_schema(own_name, parameters, from_hints=False)
    else:
        schema, validate = model_validator(own_name, parameters)
    return _with_context_warning(
        Tool(
            name=own_name,
            description=own_description,
            parameters=schema,
            function=function,
            validate=validate,
            context_parameter=context,
            spread=False,
            **_options(own_name, options),
        )
    )
