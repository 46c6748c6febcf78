"""Tool calls that a run may still make."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from ..errors import ToolError

__all__ = ["Budget"]


@dataclass(slots=True)
class Budget:
    """Tool calls a run may still make. Reserved before a call starts, so none can pass it."""

    most: int
    by_tool: Mapping[str, int] = field(default_factory=dict)
    """The same of single tools; one that is not named has `most` alone."""
    used: int = 0
    used_by_tool: defaultdict[str, int] = field(default_factory=partial(defaultdict, int))

    @property
    def left(self) -> int:
        """Calls that may still be made."""
        return self.most - self.used

    def reserve(self, tool: str) -> None:
        """Take one call. Raises `ToolError` ``limit_exceeded`` if none is left."""
        if self.used >= self.most:
            raise _spent(tool, "max_tool_calls", self.most, "tool calls")
        most = self.by_tool.get(tool)
        if most is not None:
            if self.used_by_tool[tool] >= most:
                raise _spent(tool, "max_calls_by_tool", most, f"calls of {tool}")
            self.used_by_tool[tool] += 1
        self.used += 1

    def recall(self, tool: str) -> None:
        """Take a call that was taken before, when it was made."""
        self.used = min(self.used + 1, self.most)
        if tool in self.by_tool:
            used = self.used_by_tool[tool] + 1
            self.used_by_tool[tool] = min(used, self.by_tool[tool])


def _spent(tool: str, limit: str, most: int, what: str) -> ToolError:
    msg = (
        f"{tool}: the run may make {most:,} {what} ({limit}) and has made them all; "
        f"return what the script has, or ask for a higher {limit}"
    )
    details: dict[str, object] = {"limit": limit, "most": most, "used": most}
    return ToolError(msg, code="limit_exceeded", tool=tool, details=details)
