"""smolagents: its tools for scripts; ptc's tools for its agents.

::

    with BlockingSession(tools=[WebSearchTool()]) as session:
        agent = ToolCallingAgent(tools=as_tools(session), model=...)
        agent.run("...")

Agents of smolagents have no event loop and run in a thread: pass a `BlockingSession`, or run the
agent of a `Session` with ``await asyncio.to_thread(agent.run, ...)``.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any

import anyio.to_thread

import ptc
from ptc import ToolContext

from ._export import ExportedTool, Exports
from ._foreign import foreign_tool, plain_value, store_file
from ._reply import Preview, Reply
from ._session_calls import AnySession, SessionCalls

__all__ = ["as_tools", "tools_from"]

_FILES = ("image", "audio")
"""Types of smolagents that are no data."""
_PLAIN = frozenset({"string", "boolean", "integer", "number", "array", "object", "null"})
_COMBINED = ("$ref", "anyOf", "oneOf", "allOf", "not")


# --- in -----------------------------------------------------------------------------------------


def tools_from(thing: Any) -> ptc.Tool | None:
    """Convert a `Tool`. It runs in a thread, so a call cannot be cancelled once it has started.

    Raises:
        UsageError: If an argument is an image or audio.
    """
    from smolagents import Tool  # pyright: ignore[reportAttributeAccessIssue]  # not this module

    if not isinstance(thing, Tool):
        return None
    for name, spec in thing.inputs.items():
        if any(kind in _FILES for kind in _kinds(spec)):
            msg = (
                f"the smolagents tool {thing.name!r:.80} takes {spec['type']} in {name!r:.80}, "
                "which a script cannot pass: wrap it in a function that takes a path"
            )
            raise ptc.UsageError(msg)
    schema = {
        "properties": {name: _plain_schema(spec) for name, spec in thing.inputs.items()},
        "required": [name for name, spec in thing.inputs.items() if not spec.get("nullable")],
        "additionalProperties": False,
    }

    async def run(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        return _read_result(await anyio.to_thread.run_sync(lambda: thing(**arguments)), ctx)

    return foreign_tool(
        thing.name, thing.description, schema, run, result_schema=thing.output_schema
    )


def _kinds(spec: Mapping[str, Any]) -> list[str]:
    kind = spec.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind)


def _plain_schema(spec: Any) -> Any:
    """Convert a schema of smolagents, which has ``any`` and ``nullable``, to JSON Schema."""
    if isinstance(spec, list):
        return [_plain_schema(item) for item in spec]
    if not isinstance(spec, Mapping):
        return spec
    plain = {key: _plain_schema(item) for key, item in spec.items() if key != "nullable"}
    kinds = _kinds(spec)
    if not all(kind in _PLAIN for kind in kinds):
        plain.pop("type")
    elif kinds and spec.get("nullable") is True:
        plain["type"] = [*kinds, "null"]
    return plain


def _read_result(result: Any, ctx: ToolContext) -> Any:
    from PIL import Image
    from smolagents.agent_types import AgentType

    if isinstance(result, AgentType):
        result = result.to_raw()
    if isinstance(result, Image.Image):
        data = io.BytesIO()
        result.save(data, format="PNG")
        return store_file(data.getvalue(), "image/png", ctx)
    return plain_value(result, ctx)


# --- out ----------------------------------------------------------------------------------------


def as_tools(
    session: AnySession,
    *,
    allowed_tools: Iterable[str | ptc.Allow] | None = None,
    direct: Collection[str] | bool = False,
    program: bool = True,
    limits: ptc.Limits | None = None,
    preview_chars: int | None = None,
) -> list[Any]:
    """Return tools (`smolagents.Tool`) for a `ToolCallingAgent` or a `CodeAgent`.

    A failure raises `ToolError`, whose text the agent reads. smolagents has no approvals: the
    result of a paused run says so, and the application decides and resumes it.

    Args:
        session: Makes the calls; must be open while the tools are in use.
        allowed_tools: Tools that scripts and direct calls may use. None: the session's default.
        direct: Tools that are also offered one by one: their names, or True for all allowed.
        program: True: offer scripts.
        limits: Limits of each run. None: the session's.
        preview_chars: Characters of a result that the model reads whole; `get_tool_response`, if
            allowed, reads the rest. None: previews only over ``limits.max_output_bytes``, since the
            code of a `CodeAgent` reads whole values.

    Raises:
        UsageError: If a name is unknown, or a direct tool is not allowed; if a `Session` is passed
            outside of its event loop.
    """
    calls = SessionCalls(session, plain=True)
    exports = Exports(
        calls.session,
        allowed_tools=allowed_tools,
        direct=direct,
        program=program,
        limits=limits,
        preview_chars=preview_chars,
    )
    return [_as_tool(exports, calls, item) for item in exports]


def _as_tool(exports: Exports, calls: SessionCalls, item: ExportedTool) -> Any:
    from smolagents import Tool  # pyright: ignore[reportAttributeAccessIssue]  # not this module

    required = item.parameters.get("required", ())
    properties = item.parameters.get("properties", {})

    class ExportedToSmolagents(Tool):  # type: ignore[misc]  # Any for mypy
        """A tool of a session of ptc."""

        name = item.name
        description = item.description
        inputs: dict[str, Any] = {  # noqa: RUF012  # as the base class has it
            name: _input(schema, name in required) for name, schema in properties.items()
        }
        output_type = "any"
        skip_forward_signature_validation = True

        def forward(self, *values: Any, **named: Any) -> Any:
            arguments = {**dict(zip(properties, values, strict=False)), **named}
            given = {
                name: value
                for name, value in arguments.items()
                if value is not None or name in required
            }
            return _value(calls.wait(partial(exports.call, item.name, given)))

    return ExportedToSmolagents()


def _input(schema: Any, required: bool) -> dict[str, Any]:
    """Convert the schema of a parameter; smolagents knows only plain types."""
    text = json.dumps(schema)
    kinds = _kinds(schema) if isinstance(schema, Mapping) else []
    plain = all(kind in _PLAIN for kind in kinds) and not any(f'"{k}"' in text for k in _COMBINED)
    description = schema.get("description", "") if isinstance(schema, Mapping) else ""
    if kinds and plain:
        found = {**schema, "description": description}
    else:
        found = {"type": "any", "description": f"{description} JSON Schema: {text}".strip()}
    return found if required else {**found, "nullable": True}


def _value(reply: Reply) -> Any:
    """Return the data of a reply, which an agent shows to its model or uses in its code."""
    if reply.is_error:
        raise ptc.ToolError(reply.text, code=reply.code)
    return reply.text if isinstance(reply.data, Preview) else reply.data
