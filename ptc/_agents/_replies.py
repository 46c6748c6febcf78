"""Text of tool results for the model of a child agent. All of it is made here."""

from __future__ import annotations

from typing import Any

from .._tools._tool import Tool
from ..errors import ToolError

__all__ = ["error_text", "result_text"]

_MOST_CHARS = 50_000
"""Characters of one result. A model whose context is full cannot finish its task."""


def result_text(tool: Tool, value: Any) -> str:
    """Return the text of a tool's value, truncated if it is very long."""
    # A redacted value is plain data, and the tool renders its own type.
    text = tool.text(tool.revive(value) if isinstance(value, dict | list) else value)
    if len(text) <= _MOST_CHARS:
        return text
    note = f"\n[truncated: {len(text):,} characters; request less, or a part of it]"
    return text[:_MOST_CHARS] + note


def error_text(error: ToolError) -> str:
    """Return the text of a failed call."""
    return f"Error [{error.code}]: {error.message}"
