"""What a tool is: its definition, its call, its context and its result.

A tool is a frozen description of one function. It knows nothing of sessions, limits or scripts;
behaviour around calls lives in `_dispatch`.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, overload

from . import _json
from ._schema import (
    Validator,
    describe_function,
    hints_of,
    names_fields,
    raw_validator,
    result_schema,
    signature_validator,
)
from .errors import ToolError, UsageError

__all__ = ["Tool", "ToolCall", "ToolContext", "ToolResult", "define_tool", "tool"]

ToolFunction: TypeAlias = Callable[..., Any] | Callable[..., Awaitable[Any]]
Render: TypeAlias = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool's function is told about the call, in a parameter of this type."""

    root: Path
    """The session's root: an absolute, resolved folder."""
    tool_name: str
    """Name the tool was called by."""
    call_id: str
    """Unique in the session: ``<run id>.<seq>`` from a script, ``direct.<seq>`` otherwise."""
    run_id: str | None
    """The run whose script made the call; None for a direct call."""
    seq: int
    """Number of the call in its run, from 1, in the order the calls were made."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A request to run a tool, not yet validated."""

    name: str
    """Tool's name."""
    arguments: Mapping[str, Any]
    """As the caller sent them."""
    seq: int
    """Number of the call in its run or session, from 1."""
    run_id: str | None = None
    """Run of the script that asks; None for a direct call."""
    line: int | None = None
    """Line of the script that made the call, as the worker says. A claim, used for display only."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Outcome of a call: a value or an error, never both."""

    tool: str
    """Tool's name."""
    value: Any = None
    """What the function returned. None if it failed."""
    error: ToolError | None = None
    """Why it failed; None if it did not."""
    _render: Render | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """True if the tool succeeded."""
        return self.error is None

    @property
    def text(self) -> str:
        """What a model reads: the tool's own rendering, a string as it is, or JSON."""
        if self.error is not None:
            retry = " (retryable)" if self.error.retryable else ""
            return f"Error [{self.error.code}]{retry}: {self.error.message}"
        if self._render is not None:
            return self._render(self.value)
        if isinstance(self.value, str):
            return self.value
        return _json.dumps(self.value, what="result").decode()

    def unwrap(self) -> Any:
        """The value. Raises the `ToolError` if the call failed."""
        if self.error is not None:
            raise self.error
        return self.value


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """One function that scripts, applications and models may call. Make one with `tool`."""

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
    render: Render | None = None
    """Value -> text for a model; None: JSON."""
    context_parameter: str | None = None
    """Parameter that gets the `ToolContext`; None if the function takes none."""
    spread: bool = True
    """True: arguments are keywords of the function; False: one dict (raw schemas)."""
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
        object.__setattr__(self, "returns_records", names_fields(self.result_schema))

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


_NAME = re.compile(r"(?=.{1,64}\Z)[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
"""``name`` or ``namespace.name``: what a script can write as ``ctx.name``. 64 characters is what
OpenAI and Anthropic accept."""

RESERVED = frozenset({"call", "describe", "emit", "log", "search_tools", "tools"})
"""Names that `ctx` has for itself."""


def _checked(name: str, description: str) -> tuple[str, str]:
    if not _NAME.fullmatch(name):
        msg = (
            f"tool name {name!r}: use 1-64 letters, digits and _, not starting with a digit, with "
            "at most one dot after a namespace"
        )
        raise UsageError(msg)
    if name.partition(".")[0] in RESERVED or re.search(r"(^|\.)_", name):
        msg = f"tool name {name!r} is taken by ctx itself; reserved: {', '.join(sorted(RESERVED))}"
        raise UsageError(msg)
    if not description.strip():
        msg = f"tool {name!r} needs a description: a docstring, or description=..."
        raise UsageError(msg)
    if name != name.lower():
        warnings.warn(f"tool name {name!r} is not snake_case", UserWarning, stacklevel=4)
    return name, description.strip()


def _own_name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", None)
    if name is None:
        msg = f"{function!r} has no name of its own; give tool(name=...)"
        raise UsageError(msg)
    return str(name)


def _context_parameter(function: Callable[..., Any]) -> str | None:
    found = [name for name, hint in hints_of(function).items() if hint is ToolContext]
    return found[0] if found else None


@overload
def tool(function: ToolFunction, /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    side_effect: bool = False,
    idempotent: bool | None = None,
    render: Render | None = None,
) -> Callable[[ToolFunction], Tool]: ...
def tool(
    function: ToolFunction | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    side_effect: bool = False,
    idempotent: bool | None = None,
    render: Render | None = None,
) -> Tool | Callable[[ToolFunction], Tool]:
    """Make a `Tool` of a function; used as ``@tool`` or ``@tool(...)``.

    Type hints give the schema, the docstring the description and (``Args:``) the parameters'.
    A parameter of type `ToolContext` gets the context and is not part of the schema.

    Args:
        function: Async, or plain: then it runs in a thread and cannot be interrupted.
        name: Default: the function's name.
        description: Default: the docstring up to its first section.
        side_effect: True if it changes anything outside the run.
        idempotent: True if doing it twice is as good as once. Default: `not side_effect`.
        render: Value -> text for a model. Default: strings as they are, others as JSON.

    Raises:
        UsageError: If the name is unusable, the description blank, or a parameter has no schema.
    """

    def make(target: ToolFunction) -> Tool:
        own_name, own_description = _checked(
            _own_name(target) if name is None else name,
            describe_function(target)[0] if description is None else description,
        )
        context = _context_parameter(target)
        parameters, validate = signature_validator(own_name, target, context)
        return Tool(
            name=own_name,
            description=own_description,
            parameters=parameters,
            function=target,
            validate=validate,
            result_schema=result_schema(target),
            side_effect=side_effect,
            idempotent=not side_effect if idempotent is None else idempotent,
            render=render,
            context_parameter=context,
        )

    return make if function is None else make(function)


def define_tool(
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    function: ToolFunction,
    *,
    result_schema: Mapping[str, Any] | None = None,
    side_effect: bool = False,
    idempotent: bool | None = None,
    render: Render | None = None,
) -> Tool:
    """Make a `Tool` from a raw JSON Schema. The function gets the arguments as one dict.

    It may take a second parameter of type `ToolContext`.

    Raises:
        UsageError: If `parameters` is no JSON Schema of an object, or as for `tool`.
    """
    own_name, own_description = _checked(name, description)
    return Tool(
        name=own_name,
        description=own_description,
        parameters=dict(parameters),
        function=function,
        validate=raw_validator(own_name, parameters),
        result_schema=result_schema,
        side_effect=side_effect,
        idempotent=not side_effect if idempotent is None else idempotent,
        render=render,
        context_parameter=_context_parameter(function),
        spread=False,
    )
