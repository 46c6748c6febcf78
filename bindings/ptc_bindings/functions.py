"""Plain Python callables as tools, and tools as plain Python callables.

Most agent frameworks take a function with type hints and a docstring as a tool. So these three are
a binding to all of them: `toolset` brings an application's callables in, `as_functions` gives the
tools of a session out one by one, `program_function` gives out the one that runs scripts.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Literal, TypeAlias, get_type_hints

import ptc
from ptc._arguments import nearest

from ._allowed import allow_list

__all__ = ["as_functions", "program_function", "toolset"]

AsyncFunction: TypeAlias = Callable[..., Awaitable[Any]]


def toolset(
    name: str, *functions: Callable[..., Any], side_effects: Collection[str] = ()
) -> ptc.Toolset:
    """Callables as tools: functions, methods of an object, objects with ``__call__``, partials.

    Type hints give the schema, the docstring the description and (``Args:``) the parameters'. What
    a `functools.partial` has bound stays bound: a caller neither sees nor changes it, so a key or
    a tenant may be bound that way.

    Args:
        name: Name of the set in messages.
        functions: The callables. An object is called by its class's name in snake_case.
        side_effects: Names of the tools that change anything outside the run; those need to be
            allowed by name.

    Raises:
        UsageError: If a callable has no name, no docstring or a parameter without a type hint; if
            two have the same name; if `side_effects` has a name that is none of them.
    """
    if isinstance(side_effects, str):
        msg = f"side_effects is a collection of names, not the string {side_effects!r}"
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
    """The tools of an open session as async functions, for a framework that takes functions.

    Each has the tool's name, description, parameters and type hints, gives the tool's value and
    raises `ToolError` if the tool fails.

    Args:
        session: Runs the calls.
        names: Tools to give. None: all without a side effect.

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
) -> Callable[..., Awaitable[dict[str, Any]]]:
    """One async function ``program(source, inputs=None)`` that runs scripts in `session`.

    Its docstring tells a model the rules of a script and the signatures of the tools. It gives a
    dict with ``status`` and ``value``, or ``error`` with line, excerpt and hint; what goes wrong
    is in there and never raised, so a framework cannot hide it.

    Args:
        session: Runs the scripts; open while the function is in use.
        allowed_tools: Names of the tools a script may call. None: all without a side effect.
        limits: Limits of each script. None: the session's.

    Raises:
        UsageError: If a name is unknown.
    """
    from ptc._policy_modules import MODULES
    from ptc._tools._instructions import describe_program

    from ._outcome import outcome, outcome_of_error

    allowed = allow_list(session, allowed_tools)
    tools = session.select_tools(allowed)
    effective = limits or session.limits

    async def program(source: str, inputs: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            result = await session.program(
                source=source, inputs=inputs, allowed_tools=allowed, limits=effective
            )
        except ptc.PtcError as error:
            return outcome_of_error(error)
        return outcome(result)

    rules = describe_program(list(tools.values()), effective, list(MODULES))
    arguments = {"source": "The script.", "inputs": "JSON data for the script."}
    head = "Run a Python script that calls many tools and gives one result."
    program.__doc__ = _docstring(f"{head}\n\n{rules}", arguments)
    # Text in `__annotations__` is looked up in this module by frameworks that find it nowhere else.
    program.__annotations__ = get_type_hints(program)
    return program


# --- in -----------------------------------------------------------------------------------------


def _as_function(target: Callable[..., Any]) -> Callable[..., Any]:
    """`target` as a function with a name, a docstring, a signature and resolved type hints."""
    inner = target
    bound: set[str] = set()
    while isinstance(inner, functools.partial):
        bound |= set(inner.keywords)
        inner = inner.func
    if not callable(inner) or isinstance(inner, type):
        msg = f"{inner!r} is no function, method or object that can be called"
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
    # inspect shows what a partial binds by keyword as a default: a caller would see and change it.
    kept = [p for key, p in signature.parameters.items() if key not in bound]
    function = _wrapper(target, code)
    function.__name__ = function.__qualname__ = name
    # Not getdoc for an object: a __call__ without a docstring inherits "Call self as a function."
    own = code.__doc__ or type(inner).__doc__ if is_object else inspect.getdoc(inner)
    function.__doc__ = inspect.cleandoc(own) if own else None
    function.__module__ = getattr(code, "__module__", __name__)
    shown = {p.name for p in kept} | {"return"}
    function.__annotations__ = {key: hint for key, hint in hints.items() if key in shown}
    function.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]  # inspect.signature reads it
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


# --- out ----------------------------------------------------------------------------------------


def _tool_function(
    session: ptc.Session, tool: ptc.Tool, allowed: list[str | ptc.Allow]
) -> AsyncFunction:
    signature, hints = _signature_of(tool)

    async def call(*args: Any, **given: Any) -> Any:
        arguments = _named(tool.name, list(signature.parameters), args, given)
        if not tool.spread:
            # A framework says None for what a model left out; a raw schema rarely takes null.
            optional = {p.name for p in signature.parameters.values() if p.default is None}
            arguments = {k: v for k, v in arguments.items() if v is not None or k not in optional}
        # By its name and not as a method: a tool may be called as a method of Session is.
        return (await session.tool(tool.name, arguments, allowed_tools=allowed)).unwrap()

    call.__name__ = call.__qualname__ = tool.name
    texts = {n: _text_of(s) for n, s in tool.parameters.get("properties", {}).items()}
    call.__doc__ = _docstring(tool.description, {n: text for n, text in texts.items() if text})
    call.__annotations__ = hints
    call.__signature__ = signature  # type: ignore[attr-defined]  # inspect.signature reads it
    return call


def _named(
    tool: str, names: list[str], args: tuple[Any, ...], given: dict[str, Any]
) -> dict[str, Any]:
    if len(args) > len(names):
        msg = f"{tool} takes at most {len(names)} arguments: {', '.join(names)}"
        raise TypeError(msg)
    positional = dict(zip(names, args, strict=False))
    if twice := positional.keys() & given.keys():
        msg = f"{tool} got two values for argument {min(twice)!r}"
        raise TypeError(msg)
    return positional | given


def _signature_of(tool: ptc.Tool) -> tuple[inspect.Signature, dict[str, Any]]:
    """Signature and type hints: the function's own, or made from a raw schema."""
    if tool.spread:
        own = inspect.signature(tool.function)
        hints = get_type_hints(tool.function, include_extras=True)
        hints.pop(tool.context_parameter or "", None)
        kept = [
            p.replace(annotation=hints.get(name, p.annotation))
            for name, p in own.parameters.items()
            if name != tool.context_parameter
        ]
        returns = hints.get("return", inspect.Signature.empty)
        return own.replace(parameters=kept, return_annotation=returns), hints
    required = tool.parameters.get("required", ())
    hints = {}
    made = []
    for name, schema in tool.parameters.get("properties", {}).items():
        if not name.isidentifier():
            msg = f"tool {tool.name!r}: parameter {name!r} is no name that a function can have"
            raise ptc.UsageError(msg)
        hints[name] = _hint_of(schema)
        default: Any = inspect.Parameter.empty
        if name not in required:
            default = schema.get("default") if isinstance(schema, Mapping) else None
            hints[name] = hints[name] | None if default is None else hints[name]
        kind = inspect.Parameter.KEYWORD_ONLY
        made.append(inspect.Parameter(name, kind, default=default, annotation=hints[name]))
    return inspect.Signature(made, return_annotation=Any), hints | {"return": Any}


_HINTS: dict[object, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list[Any],
    "object": dict[str, Any],
}


def _hint_of(schema: object) -> Any:
    """A type hint for a raw schema, as near as a hint comes; the tool itself checks the rest."""
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
    """Google's form, which the frameworks read."""
    if not arguments:
        return description
    rows = "\n".join(f"    {name}: {text}" for name, text in arguments.items())
    return f"{description}\n\nArgs:\n{rows}"
