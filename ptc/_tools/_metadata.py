"""Properties of a tool that matter before it is called."""

from __future__ import annotations

from .._dataclass import dataclass
from ._tool import Tool

__all__ = ["ToolMetadata", "get_tool_metadata"]


@dataclass(frozen=True, slots=True)
class ToolMetadata:
    """Properties of a tool that matter before it is called."""

    name: str
    side_effect: bool
    idempotent: bool
    uses_key: bool
    takes_context: bool
    """True if its function can read the idempotency key."""
    gated: bool
    """True if a call may require approval."""
    has_revert: bool
    """True if its calls can be undone when their run is rolled back."""
    tags: frozenset[str]


def get_tool_metadata(thing: object) -> ToolMetadata | None:
    """Return the metadata of a `Tool`; None for any other object."""
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
