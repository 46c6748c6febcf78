"""Forms in which the user of an MCP client decides on a call (elicitation).

Rule 1: only a client that declares forms is asked, and only an explicit answer decides.
    tests/bindings/test_mcp_approvals.py::test_dismissed_form_leaves_the_run_paused
Rule 2: edited arguments are validated by the tool before the decision is recorded.
    tests/bindings/test_mcp_approvals.py::test_edited_arguments_are_validated_and_used
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import ptc
from ptc._core import _json
from ptc._runs._whole_arguments import are_arguments_whole

from ._outcome import truncate

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import ElicitRequestFormParams, ElicitResult

__all__ = ["Answer", "client_name", "form_of", "read_answer", "supports_forms"]

_ARGUMENTS_CHARS = 4_000
_KINDS: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a form."""

    action: Literal["approve", "reject", "later", "again"]
    """``later``: the form was dismissed. ``again``: the answer is not valid."""
    arguments: dict[str, Any] | None = None
    """Edited arguments; None: those requested."""
    comment: str = ""
    problem: str = ""
    """Reason to ask again."""


def supports_forms(ctx: ServerRequestContext[Any]) -> bool:
    """True if the client can show a form to its user."""
    capabilities = ctx.session.client_capabilities
    found = capabilities.elicitation if capabilities is not None else None
    # Before forms had a name, every elicitation was one.
    return found is not None and (found.form is not None or found.url is None)


def client_name(ctx: ServerRequestContext[Any], authenticated: str = "") -> str:
    """Return the name of the client for the record of a decision.

    Args:
        ctx: The request, with the name that the client states itself.
        authenticated: Name that the server knows by the client's token; empty: none.
    """
    params = ctx.session.client_params
    name = params.client_info.name if params is not None else ""
    shown = "".join(c if c.isprintable() else " " for c in name).strip()[:100]
    by = f"user of MCP client {shown or '(unnamed)'}"
    return f"{by}, token of {authenticated}" if authenticated else by


def form_of(call: ptc.PendingCall, tool: ptc.Tool, problem: str = "") -> ElicitRequestFormParams:
    """Build the form for a call, with its arguments as fields.

    Args:
        call: The call.
        tool: Its tool.
        problem: Reason that the previous answer was not valid.
    """
    from mcp_types import ElicitRequestFormParams

    shown = truncate(_json.dumps(call.arguments, what="arguments").decode(), _ARGUMENTS_CHARS)
    where = f"line {call.line} of the script, " if call.line else ""
    rows = [
        f"Your last answer was not valid: {problem}" if problem else "",
        f"Approve the call of {call.tool}?",
        call.prompt,
        f"Arguments: {shown}",
        f"({where}run {call.run_id}, call {call.call})",
    ]
    fields = {
        name: _field(value, _property(tool, name)) for name, value in _values(call, tool).items()
    }
    schema = {"type": "object", "properties": fields, "required": []}
    message = "\n".join(filter(None, rows))
    return ElicitRequestFormParams(message=message, requested_schema=schema)


def read_answer(call: ptc.PendingCall, tool: ptc.Tool, result: ElicitResult) -> Answer:
    """Convert the client's result to a decision, and validate edited arguments."""
    if result.action == "decline":
        return Answer("reject", comment="declined in the client")
    if result.action != "accept":
        return Answer("later")
    edited: dict[str, Any] = {}
    comments: list[str] = []
    values = _values(call, tool)
    for name, value in (result.content or {}).items():
        if name not in values or value is None:
            continue
        if name not in tool.parameter_names:
            comments.append(f"{name}: {value}")
            continue
        try:
            edited[name] = _read_field(value, values[name], _property(tool, name))
        except ValueError as error:
            return Answer("again", problem=f"{name} is not JSON: {error}")
    arguments = {**call.arguments, **edited} if edited else None
    if arguments is None or arguments == call.arguments:
        return Answer("approve", comment="; ".join(comments))
    try:
        tool.validate(arguments)
    except ptc.ToolError as error:
        return Answer("again", problem=error.message)
    return Answer("approve", arguments, "; ".join(comments))


def _values(call: ptc.PendingCall, tool: ptc.Tool) -> dict[str, Any]:
    """Return the fields of the form with their initial values."""
    proposed = call.defaults if isinstance(call.defaults, dict) else {}
    if not are_arguments_whole(call, tool):
        return {name: v for name, v in proposed.items() if name not in tool.parameter_names}
    return {**call.arguments, **proposed}


def _property(tool: ptc.Tool, name: str) -> Mapping[str, Any]:
    found = tool.parameters.get("properties", {}).get(name)
    return found if isinstance(found, Mapping) else {}


def _field(value: Any, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Build a field; the protocol allows only strings, numbers, booleans and choices."""
    kind = _kind(value, schema)
    if kind is None:
        return {"type": "string", "description": "JSON", "default": json.dumps(value)}
    row: dict[str, Any] = {"type": kind, "default": value}
    choices = schema.get("enum")
    if kind == "string" and isinstance(choices, list) and all(isinstance(c, str) for c in choices):
        row["enum"] = choices
    if isinstance(text := schema.get("description"), str):
        row["description"] = truncate(text, 300)
    return row


def _kind(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Return the type of a field; None: it has to be edited as JSON."""
    own = _KINDS.get(type(value))
    declared = schema.get("type")
    if own == "integer" and declared == "number":
        return "number"
    return own if declared in (own, None) else None


def _read_field(value: Any, initial: Any, schema: Mapping[str, Any]) -> Any:
    if _kind(initial, schema) is None and isinstance(value, str):
        return json.loads(value)
    return value
