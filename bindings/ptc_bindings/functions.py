"""Convert plain Python callables to tools, and tools to plain Python callables.

Most agent frameworks accept a function with type hints and a docstring as a tool, so this module
serves all of them: `toolset` turns an application's callables into tools, `as_functions` returns
the tools of a session as functions, and `program_function` returns one that runs scripts.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Literal, TypeAlias, cast, get_type_hints

import ptc
from ptc._core._arguments import nearest
from ptc._records._preview import Reader
from ptc._tools._untrusted import model_data

from ._allowed import allow_list
from ._previews import PREVIEW_CHARS, plan_previews

__all__ = ["as_functions", "program_function", "toolset"]

_PAUSED = (
    "A person approves or rejects the pending calls, and the application resumes the run "
    "(`session.resume`). Do not run the script again: that would repeat its calls."
)

AsyncFunction: TypeAlias = Callable[..., Awaitable[Any]]


def toolset(
    name: str, *functions: Callable[..., Any], side_effects: Collection[str] = ()
) -> ptc.Toolset:
    """Make a toolset of callables: functions, methods, objects with ``__call__``, partials.

    Type hints define the schema; the docstring has the description and, under ``Args:``, those of
    the parameters. Arguments bound by a `functools.partial` are hidden: a caller can neither see
    nor change them, so you can bind a key or a tenant.

    Args:
        name: Name of the set in messages.
        functions: The callables. The tool of an object is named after its class, in snake_case.
        side_effects: Names of the tools that change anything outside the run; a script may call
            them only if they are allowed by name.

    Raises:
        UsageError: If a callable has no name, no docstring or a parameter without a type hint; if
            two have the same name; if `side_effects` contains an unknown name.
    """
    if isinstance(side_effects, str):
        msg = f"side_effects must be a collection of names, not the string {side_effects!r}"
        raise ptc.UsageError(msg)
    plain = [_as_function(function) for function in functions]
    known = [function.__name__ for function in plain]
    for item in side_effects:
        if item not in known:
            named = ", ".join(known) or "none"
            msg = f"side_effects: there is no tool {item!r}{nearest(item, known)}; tools: {named}"
            raise ptc.UsageError(msg)
    tools = [ptc.tool(side_effect=f.__name__ in side_effects)(f) for f in plain]
    return ptc.Toolset(name, tuple(tools))


def as_functions(
    session: ptc.Session, names: Iterable[str | ptc.Allow] | None = None
) -> dict[str, AsyncFunction]:
    """Return the tools of an open session as async functions, for a framework that accepts those.

    Each function has the tool's name, description, parameters and type hints, returns the tool's
    value and raises `ToolError` if the tool fails.

    Args:
        session: Runs the calls.
        names: Tools to return. None: all without side effects.

    Raises:
        UsageError: If a name is unknown.
    """
    allowed = allow_list(session, names)
    tools = session.select_tools(allowed)
    return {name: _tool_function(session, tool, allowed) for name, tool in tools.items()}


def program_function(
    session: ptc.Session,
    *,
    allowed_tools: Iterable[str | ptc.Allow] | None = None,
    limits: ptc.Limits | None = None,
    preview_chars: int | None = PREVIEW_CHARS,
) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Return one async function ``program(source, inputs=None)`` that runs scripts in `session`.

    Its docstring gives a model the rules of a script and the signatures of the tools. It returns a
    dict with ``value``, or with ``status`` and ``error`` with line, excerpt and hint. Errors of a
    script are returned and never raised, so that a framework cannot hide them. Calls and usage are
    in ``session.history``.

    Args:
        session: Runs the scripts; must be open while the function is in use.
        allowed_tools: Names of the tools that a script may call. None: all without side effects.
        limits: Limits of each script. None: the session's limits.
        preview_chars: Characters of a value that the model reads whole; scripts read the rest with
            `get_tool_response`, if allowed. None: ``limits.max_output_bytes`` alone applies.

    Raises:
        UsageError: If a name is unknown.
    """
    from ._outcome import outcome, outcome_of_error

    allowed = allow_list(session, allowed_tools)
    previews = plan_previews(
        session.select_tools(allowed), limits or session.limits, preview_chars, ()
    )
    effective = previews.limits
    reader: Reader = "script" if previews.offers_tool else previews.reader

    async def program(source: str, inputs: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            result = await session.program(
                source=source, inputs=inputs, allowed_tools=allowed, limits=effective
            )
        except ptc.PtcError as error:
            return outcome_of_error(error)
        row = outcome(result, next_step=_PAUSED, reader=reader)
        untrusted = session.untrusted_in(call.tool for call in result.calls)
        return cast("dict[str, Any]", model_data(row, untrusted))

    rules = session.describe_tools(allowed, effective)
    arguments = {"source": "The script.", "inputs": "JSON data for the script."}
    head = "Run a Python script that calls many tools and returns one result."
    program.__doc__ = _docstring(f"{head}\n\n{rules}", arguments)
    # Resolved: some frameworks cannot look up string annotations in this module.
    program.__annotations__ = get_type_hints(program)
    return program


# --- callables to tools -------------------------------------------------------------------------


def _as_function(target: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `target` in a function with a name, docstring, signature and resolved type hints."""
    inner = target
    bound: set[str] = set()
    while isinstance(inner, functools.partial):
        bound |= set(inner.keywords)
        inner = inner.func
    if not callable(inner) or isinstance(inner, type):
        msg = f"{inner!r} is not a function, method or callable object"
        raise ptc.UsageError(msg)
    is_object = not inspect.isroutine(inner)
    code = type(inner).__call__ if is_object else inner
    name = _snake_case(type(inner).__name__) if is_object else inner.__name__
    try:
        hints = get_type_hints(code, include_extras=True)
        signature = inspect.signature(target)
    except (NameError, TypeError, ValueError) as error:
        msg = f"tool {name!r}: its signature cannot be read: {error}"
        raise ptc.UsageError(msg) from None
    # inspect shows the bound keywords of a partial as defaults: a caller could see and change them.
    visible = [p for key, p in signature.parameters.items() if key not in bound]
    function = _wrapper(target, code)
    function.__name__ = function.__qualname__ = name
    # No getdoc for an object: a __call__ without a docstring inherits "Call self as a function."
    own = code.__doc__ or type(inner).__doc__ if is_object else inspect.getdoc(inner)
    function.__doc__ = inspect.cleandoc(own) if own else None
    function.__module__ = getattr(code, "__module__", __name__)
    names = {p.name for p in visible} | {"return"}
    function.__annotations__ = {key: hint for key, hint in hints.items() if key in names}
    function.__signature__ = signature.replace(parameters=visible)  # type: ignore[attr-defined]  # inspect.signature reads it
    return function


def _wrapper(target: Callable[..., Any], code: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(code):

        async def call_async(*args: Any, **arguments: Any) -> Any:
            return await target(*args, **arguments)

        return call_async

    def call(*args: Any, **arguments: Any) -> Any:
        return target(*args, **arguments)

    return call


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


# --- tools to functions -------------------------------------------------------------------------


def _tool_function(
    session: ptc.Session, tool: ptc.Tool, allowed: list[str | ptc.Allow]
) -> AsyncFunction:
    signature, hints = _signature_of(tool)

    async def call(*args: Any, **keywords: Any) -> Any:
        arguments = _bind_names(tool.name, list(signature.parameters), args, keywords)
        if not tool.spread:
            # Frameworks pass None for an omitted argument; a raw schema rarely accepts null.
            optional = {p.name for p in signature.parameters.values() if p.default is None}
            arguments = {k: v for k, v in arguments.items() if v is not None or k not in optional}
        # Called by name, since a tool may share its name with a method of Session.
        return (await session.tool(tool.name, arguments, allowed_tools=allowed)).unwrap()

    call.__name__ = call.__qualname__ = tool.name
    texts = {n: _text_of(s) for n, s in tool.parameters.get("properties", {}).items()}
    call.__doc__ = _docstring(tool.description, {n: text for n, text in texts.items() if text})
    call.__annotations__ = hints
    call.__signature__ = signature  # type: ignore[attr-defined]  # inspect.signature reads it
    return call


def _bind_names(
    tool: str, names: list[str], args: tuple[Any, ...], keywords: dict[str, Any]
) -> dict[str, Any]:
    if len(args) > len(names):
        msg = f"{tool} takes at most {len(names)} arguments: {', '.join(names)}"
        raise TypeError(msg)
    positional = dict(zip(names, args, strict=False))
    if duplicates := positional.keys() & keywords.keys():
        msg = f"{tool} got two values for argument {min(duplicates)!r}"
        raise TypeError(msg)
    return positional | keywords


def _signature_of(tool: ptc.Tool) -> tuple[inspect.Signature, dict[str, Any]]:
    """Return signature and type hints: the function's own, or built from a raw schema."""
    if tool.spread:
        own = inspect.signature(tool.function)
        hints = get_type_hints(tool.function, include_extras=True)
        hints.pop(tool.context_parameter or "", None)
        parameters = [
            p.replace(annotation=hints.get(name, p.annotation))
            for name, p in own.parameters.items()
            if name != tool.context_parameter
        ]
        returns = hints.get("return", inspect.Signature.empty)
        return own.replace(parameters=parameters, return_annotation=returns), hints
    required = tool.parameters.get("required", ())
    hints = {}
    parameters = []
    for name, schema in tool.parameters.get("properties", {}).items():
        if not name.isidentifier():
            msg = f"tool {tool.name!r}: parameter {name!r} is not a valid Python identifier"
            raise ptc.UsageError(msg)
        hints[name] = _hint_of(schema)
        default: Any = inspect.Parameter.empty
        if name not in required:
            default = schema.get("default") if isinstance(schema, Mapping) else None
            hints[name] = hints[name] | None if default is None else hints[name]
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=hints[name]))
    return inspect.Signature(parameters, return_annotation=Any), hints | {"return": Any}


_HINTS: dict[object, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list[Any],
    "object": dict[str, Any],
}


def _hint_of(schema: object) -> Any:
    """Return the closest type hint for a raw schema; the tool itself validates the rest."""
    if not isinstance(schema, Mapping):
        return Any
    values = schema.get("enum")
    if isinstance(values, list) and values and all(isinstance(v, str | int) for v in values):
        return Literal[tuple(values)]
    if schema.get("type") == "array" and "items" in schema:
        return list[_hint_of(schema["items"])]  # type: ignore[misc]  # made at run time on purpose
    kind = schema.get("type")
    return _HINTS.get(kind, Any) if isinstance(kind, str) else Any


def _text_of(schema: object) -> str:
    text = schema.get("description") if isinstance(schema, Mapping) else None
    return " ".join(text.split()) if isinstance(text, str) else ""


def _docstring(description: str, arguments: Mapping[str, str]) -> str:
    """Build a docstring in Google style, which the frameworks parse."""
    if not arguments:
        return description
    rows = "\n".join(f"    {name}: {text}" for name, text in arguments.items())
    return f"{description}\n\nArgs:\n{rows}"
