"""The state of a tool on which a saved program relies, and the changes of it.

Words for people and models (descriptions, titles, examples) are no part of it: a program that runs
does not read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from .._core import _json
from .._dataclass import dataclass
from .._tools._tool import Tool

if TYPE_CHECKING:
    from pydantic import ConfigDict

__all__ = ["PinnedTool", "describe_changes", "pin"]

_WORDS: Final = frozenset({"title", "description", "examples", "$comment"})
_DATA: Final = frozenset({"const", "default", "enum"})
"""Keywords with data, in which the keys have no meaning of a schema."""
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Keywords with schemas by name, which may be that of another keyword."""
_DIGEST_CHARS: Final = 16


@dataclass(frozen=True, slots=True)
class PinnedTool:
    """Schema and flags of a tool when a program was saved."""

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid", "strict": True}

    side_effect: bool
    idempotent: bool
    uses_key: bool
    approval: Literal["always", "by_arguments", "never"]
    """Calls that require approval."""
    parameters: dict[str, str]
    """Digest of the schema of each parameter."""
    required: list[str]
    """Parameters without a default."""
    result: str | None
    """Digest of the schema of the value; None: it has none."""


def pin(tool: Tool) -> PinnedTool:
    """Return the state of a tool."""
    gate = tool.needs_approval
    schema = tool.result_schema
    return PinnedTool(
        side_effect=tool.side_effect,
        idempotent=tool.idempotent,
        uses_key=tool.uses_key,
        approval="by_arguments" if callable(gate) else "always" if gate else "never",
        parameters={
            name: _digest(sub) for name, sub in tool.parameters.get("properties", {}).items()
        },
        required=sorted(tool.parameters.get("required", ())),
        result=None if schema is None else _digest(schema),
    )


def describe_changes(pinned: PinnedTool, now: PinnedTool) -> list[str]:
    """Describe each difference between two states of a tool; none if they are equal."""
    changes = [
        f"{name} was {getattr(pinned, name)!r} and is {getattr(now, name)!r}"
        for name in ("side_effect", "idempotent", "uses_key", "approval")
        if getattr(pinned, name) != getattr(now, name)
    ]
    for name in sorted({*pinned.parameters, *now.parameters}):
        if name not in now.parameters:
            changes.append(f"parameter `{name}` was removed")
        elif name not in pinned.parameters:
            changes.append(f"parameter `{name}` is new")
        elif pinned.parameters[name] != now.parameters[name]:
            changes.append(f"the schema of parameter `{name}` changed")
        elif (name in pinned.required) != (name in now.required):
            state = "required" if name in now.required else "optional"
            changes.append(f"parameter `{name}` is now {state}")
    if pinned.result != now.result:
        changes.append("the schema of its value changed")
    return changes


def _digest(schema: Any) -> str:
    return _json.sha256_of(_meaning(schema))[:_DIGEST_CHARS]


def _meaning(node: Any) -> Any:
    """Copy a schema without its words."""
    if isinstance(node, list):
        return [_meaning(item) for item in node]
    if not isinstance(node, Mapping):
        return node
    plain: dict[str, Any] = {}
    for key, value in node.items():
        if key in _DATA:
            plain[key] = value
        elif key in _NAMED and isinstance(value, Mapping):
            plain[key] = {name: _meaning(sub) for name, sub in value.items()}
        elif key not in _WORDS:
            plain[key] = _meaning(value)
    return plain
