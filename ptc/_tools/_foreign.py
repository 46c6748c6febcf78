"""Tools of other libraries: of a framework with an adapter (`_adapters`), or by general rules.

A thing without an adapter is an object with a method that runs it, or a callable.

The runner is the first of ``invoke``, ``call``, ``run``, ``func``, and the object itself if it is
callable. The name is ``name`` or ``__name__``, the description ``description`` or the docstring.
The parameters are the first of ``args_schema``, ``parameters``, ``input_schema``, ``inputSchema``
and ``schema`` that is a JSON Schema or a pydantic model. With a schema, a method receives one dict,
and ``func`` or a callable receives keywords if its signature has them. Without one, the signature
defines the schema.

Rule 1: a tool of another library that does not declare its effects is assumed to have a side
    effect and not to be repeatable, so that scripts may call it only if it is allowed by name.
    tests/core/tools/test_foreign.py::test_undeclared_foreign_tool_is_not_allowed_by_default
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from .._core._pydantic import pydantic
from ..errors import UsageError
from ._adapters import adapt, adapted_packages
from ._names import validate_name
from ._options import fields_from
from ._tool import Tool, ToolOptions, renamed, tool, tool_from_schema, tool_from_signature

__all__ = ["declared_effects", "tool_from"]

_METHODS = ("invoke", "call", "run", "func")
_SCHEMAS = ("args_schema", "parameters", "input_schema", "inputSchema", "schema")


def tool_from(
    thing: Any,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | type[pydantic.BaseModel] | None = None,
    **options: Unpack[ToolOptions],
) -> Tool:
    """Make a `Tool` from a tool of another library.

    That is a tool of a framework with an adapter, an object with ``invoke``, ``call``, ``run`` or
    ``func``, or any callable.

    An object declares its effects in attributes ``side_effect`` and ``idempotent``, or in MCP's
    ``annotations``. One that does not is assumed to have a side effect and not to be repeatable:
    pass ``side_effect=False`` if it only reads. A plain function has the defaults of `tool`.

    Args:
        thing: The tool; a `Tool` gets the other arguments.
        name: Default: its own.
        description: Default: its own.
        parameters: JSON Schema or pydantic model. Default: its own, or its signature.
        **options: See `ToolOptions`.

    Raises:
        UsageError: If it has no runner, or as for `tool`.
    """
    if isinstance(thing, Tool) and parameters is not None:
        msg = f"tool {thing.name!r} has its own parameters; bind some with Toolset.with_defaults"
        raise UsageError(msg)
    adapted = thing if isinstance(thing, Tool) else None
    if adapted is None and parameters is None:
        adapted = adapt(thing)
    if adapted is not None:
        return _override(thing, adapted, name, description, options)
    found = _find_runner(thing)
    if found is None:
        raise UsageError(_explain(thing))
    kind, run = found
    own_name = name or getattr(thing, "name", None) or getattr(thing, "__name__", None)
    own_description = description or getattr(thing, "description", None)
    schema = _find_schema(thing) if parameters is None else parameters
    if not isinstance(own_name, str):
        msg = f"{thing!r:.80} has no name; pass tool_from(..., name=...)"
        raise UsageError(msg)
    text = own_description if isinstance(own_description, str) else inspect.getdoc(thing)
    if schema is None and _is_function(thing):
        return tool(name=own_name, description=text, **options)(run)
    declared: ToolOptions = options
    if not _is_function(thing):
        side_effect, idempotent = declared_effects(thing, options)
        declared = {"side_effect": side_effect, "idempotent": idempotent, **options}
    if schema is None:
        return tool_from_signature(run, own_name, text, declared)
    plain = _schema_dict(own_name, schema)
    spread = kind in ("func", "itself") and _takes_keywords(run, plain)
    return tool_from_schema(own_name, text or "", plain, _adapt(run, spread), declared)


def _override(
    thing: Any, adapted: Any, name: str | None, description: str | None, options: ToolOptions
) -> Tool:
    """Apply the arguments of `tool_from` to a tool: of ptc, or that an adapter made."""
    if not isinstance(adapted, Tool):
        kind = type(thing).__name__
        msg = f"{kind} {thing!r:.80} has several tools: pass it itself in Session(tools=[...])"
        raise UsageError(msg)
    if name is None and description is None and not options:
        return adapted
    fields = fields_from(name or adapted.name, options)
    chosen = {key: value for key, value in fields.items() if key in options}
    if options.get("side_effect") is False:
        chosen["idempotent"] = fields["idempotent"]
    named = adapted if name is None else renamed(adapted, validate_name(name))
    return replace(named, description=description or named.description, **chosen)


def _explain(thing: Any) -> str:
    kind = f"the class {thing.__qualname__}" if isinstance(thing, type) else f"{thing!r:.80}"
    instance = "; pass an instance of it" if isinstance(thing, type) else ""
    return (
        f"{kind} is not a tool: it has no {', '.join(_METHODS)} and is not callable{instance}. A "
        "tool is a function with type hints and a docstring, a Tool, a Toolset, MCPServers, or a "
        f"tool of {', '.join(adapted_packages()) or 'a framework with an adapter'}"
    )


def _find_runner(thing: Any) -> tuple[str, Callable[..., Any]] | None:
    if isinstance(thing, type):
        return None
    if not isinstance(thing, partial):  # its `func` lacks the bound arguments
        for kind in _METHODS:
            method = getattr(thing, kind, None)
            if callable(method):
                return kind, method
    return ("itself", thing) if callable(thing) else None


def _find_schema(thing: Any) -> Any:
    for name in _SCHEMAS:
        found = getattr(thing, name, None)
        if isinstance(found, Mapping) or (
            isinstance(found, type) and issubclass(found, pydantic.BaseModel)
        ):
            return found
    return None


def _is_function(thing: Any) -> bool:
    """True for code of the application, which has the defaults of `tool`."""
    while isinstance(thing, partial):
        thing = thing.func
    return inspect.isroutine(thing) and not any(callable(getattr(thing, m, None)) for m in _METHODS)


def declared_effects(thing: Any, options: ToolOptions) -> tuple[bool, bool]:
    """Return the effects that a tool of another library declares, or else the worst ones.

    LangChain's adapter of MCP puts the annotations into ``metadata``.

    Returns:
        Whether it has a side effect, and whether its calls may be repeated.
    """
    sources = [getattr(thing, "annotations", None), getattr(thing, "metadata", None)]
    effect = options.get("side_effect", getattr(thing, "side_effect", None))
    if not isinstance(effect, bool):
        reads = any(_has_hint(source, _READ_ONLY) for source in sources)
        effect = not reads or any(_has_hint(source, _DESTRUCTIVE) for source in sources)
    repeatable = getattr(thing, "idempotent", None)
    if not isinstance(repeatable, bool):
        repeatable = not effect or any(_has_hint(source, _IDEMPOTENT) for source in sources)
    return effect, repeatable


_READ_ONLY = ("readOnlyHint", "read_only_hint")
_DESTRUCTIVE = ("destructiveHint", "destructive_hint")
_IDEMPOTENT = ("idempotentHint", "idempotent_hint")


def _has_hint(source: Any, names: tuple[str, ...]) -> bool:
    # Exactly True: a mock, or text such as "false", declares nothing.
    if isinstance(source, Mapping):
        return any(source.get(name) is True for name in names)
    return any(getattr(source, name, None) is True for name in names)


def _schema_dict(name: str, schema: Any) -> dict[str, Any]:
    if isinstance(schema, Mapping):
        return dict(schema)
    if not (isinstance(schema, type) and issubclass(schema, pydantic.BaseModel)):
        kind = "a JSON Schema or a pydantic model"
        msg = f"tool {name!r}: parameters must be {kind}, not {schema!r:.80}"
        raise UsageError(msg)
    return {**schema.model_json_schema(), "additionalProperties": False}


def _takes_keywords(run: Callable[..., Any], schema: Mapping[str, Any]) -> bool:
    """True if `run` has a parameter for every property, so it takes keywords, not one dict."""
    try:
        parameters = inspect.signature(run).parameters
    except (TypeError, ValueError):
        return False
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return True
    names = schema.get("properties", {})
    return bool(names) and all(name in parameters for name in names)


def _adapt(run: Callable[..., Any], spread: bool) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(run):

        async def call(arguments: dict[str, Any]) -> Any:
            return await (run(**arguments) if spread else run(arguments))

        return call

    def call_in_thread(arguments: dict[str, Any]) -> Any:
        return run(**arguments) if spread else run(arguments)

    return call_in_thread
