"""Adapter for tools of other libraries: an object with a method that runs it, or a callable.

The runner is the first of ``invoke``, ``call``, ``run``, ``func``, and the object itself if it is
callable. The name is ``name`` or ``__name__``, the description ``description`` or the docstring.
The parameters are the first of ``args_schema``, ``parameters``, ``input_schema``, ``inputSchema``
and ``schema`` that is a JSON Schema or a pydantic model. With a schema, a method receives one dict,
and ``func`` or a callable receives keywords if its signature has them. Without one, the signature
defines the schema.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Unpack

from pydantic import BaseModel

from ..errors import UsageError
from ._tool import Tool, ToolOptions, define_tool, tool

__all__ = ["tool_from"]

_METHODS = ("invoke", "call", "run", "func")
_SCHEMAS = ("args_schema", "parameters", "input_schema", "inputSchema", "schema")


def tool_from(
    thing: Any,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | type[BaseModel] | None = None,
    **options: Unpack[ToolOptions],
) -> Tool:
    """Make a `Tool` from a tool of another library.

    That is an object with ``invoke``, ``call``, ``run`` or ``func``, or any callable.

    Args:
        thing: The tool. A `Tool` is returned unchanged.
        name: Default: its own.
        description: Default: its own.
        parameters: JSON Schema or pydantic model. Default: its own, or its signature.
        **options: See `ToolOptions`. Side effects are not detected: pass ``side_effect=``.

    Raises:
        UsageError: If it has no runner, or as for `tool`.
    """
    if isinstance(thing, Tool):
        return thing
    found = _find_runner(thing)
    if found is None:
        msg = f"{thing!r:.80} is not a tool: it has no {', '.join(_METHODS)} and is not callable"
        raise UsageError(msg)
    kind, run = found
    own_name = name or getattr(thing, "name", None) or getattr(thing, "__name__", None)
    own_description = description or getattr(thing, "description", None)
    schema = _find_schema(thing) if parameters is None else parameters
    if not isinstance(own_name, str):
        msg = f"{thing!r:.80} has no name; pass tool_from(..., name=...)"
        raise UsageError(msg)
    if schema is None:
        text = own_description if isinstance(own_description, str) else None
        return tool(name=own_name, description=text or inspect.getdoc(thing), **options)(run)
    text = own_description if isinstance(own_description, str) else inspect.getdoc(thing)
    plain = _schema_dict(own_name, schema)
    spread = kind in ("func", "itself") and _takes_keywords(run, plain)
    return define_tool(own_name, text or "", plain, _adapt(run, spread), **options)


def _find_runner(thing: Any) -> tuple[str, Callable[..., Any]] | None:
    if isinstance(thing, type):
        return None
    for kind in _METHODS:
        method = getattr(thing, kind, None)
        if callable(method):
            return kind, method
    return ("itself", thing) if callable(thing) else None


def _find_schema(thing: Any) -> Any:
    for name in _SCHEMAS:
        found = getattr(thing, name, None)
        if isinstance(found, Mapping) or (isinstance(found, type) and issubclass(found, BaseModel)):
            return found
    return None


def _schema_dict(name: str, schema: Any) -> dict[str, Any]:
    if isinstance(schema, Mapping):
        return dict(schema)
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
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
