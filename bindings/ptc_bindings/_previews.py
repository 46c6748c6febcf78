"""Size of results for a model, and how it gets the rest: one policy for all bindings.

Rule 1: the text that names `get_tool_response` and the tool itself are offered together.
    tests/bindings/test_previews.py::test_note_and_tool_are_offered_together
Rule 2: the result of `get_tool_response` is never replaced by a preview: it is bounded itself.
    tests/bindings/test_previews.py::test_recalled_part_fits_and_is_no_preview
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import ptc
from ptc._records._preview import RECALL, Reader

__all__ = ["PREVIEW_CHARS", "RECALL", "Previews", "is_recall", "plan_previews"]

PREVIEW_CHARS = 16_000
"""Default of the bindings: about 4,000 tokens."""
_LEAST_CHARS = 1_000
_MOST_CHARS = 1_000_000
_SIZE_ARGUMENT = "max_chars"


@dataclass(frozen=True, slots=True)
class Previews:
    """Policy of one binding."""

    limits: ptc.Limits
    """Limits of its runs: the value of a script is truncated to `max_output_bytes`."""
    chars: int
    """Characters of the text of a direct call that need no preview."""
    reader: Reader
    """How the model gets the rest."""

    @property
    def offers_tool(self) -> bool:
        """True if the model can call `get_tool_response`."""
        return self.reader == "tool"

    def bound(self, tool: ptc.Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments of a direct call, within the size that the model can read."""
        if not is_recall(tool):
            return arguments
        wanted = arguments.get(_SIZE_ARGUMENT)
        if wanted is None or (type(wanted) is int and wanted > self.chars):
            return {**arguments, _SIZE_ARGUMENT: self.chars}
        return arguments


def is_recall(tool: ptc.Tool) -> bool:
    """True for `get_tool_response`, whose results are bounded by an argument."""
    return tool.name == RECALL and _SIZE_ARGUMENT in tool.parameters.get("properties", {})


def plan_previews(
    tools: Mapping[str, ptc.Tool],
    limits: ptc.Limits,
    preview_chars: int | None,
    direct: Collection[str],
) -> Previews:
    """Decide on previews.

    Args:
        tools: Allowed tools.
        limits: Limits of runs as the application set them.
        preview_chars: Option of the binding. None: previews of values over `max_output_bytes` only.
        direct: Names of the tools that the model can call one by one.

    Raises:
        UsageError: If `preview_chars` is out of range.
    """
    known = tools.get(RECALL)
    usable = known is not None and is_recall(known)
    if preview_chars is None:
        offered = RECALL in direct
        chars = limits.max_output_bytes
    else:
        if type(preview_chars) is not int or not _LEAST_CHARS <= preview_chars <= _MOST_CHARS:
            msg = (
                f"preview_chars must be an integer from {_LEAST_CHARS:,} to {_MOST_CHARS:,}, or "
                f"None, not {preview_chars!r:.80}"
            )
            raise ptc.UsageError(msg)
        offered = True
        chars = min(preview_chars, limits.max_output_bytes)
        limits = replace(limits, max_output_bytes=chars)
    reader: Reader = ("tool" if offered else "script") if usable else "address"
    return Previews(limits, chars, reader)
