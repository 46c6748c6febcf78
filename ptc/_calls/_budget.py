"""Remaining tool calls of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import field
from functools import partial

from .._dataclass import dataclass
from ..errors import ToolError

__all__ = ["Budget"]


@dataclass(slots=True)
class Budget:
    """Remaining tool calls of a run. Each is reserved before it starts, so none exceeds it."""

    most: int
    by_tool: Mapping[str, int] = field(default_factory=dict)
    """Calls by tool; for other tools only `most` applies."""
    used: int = 0
    used_by_tool: defaultdict[str, int] = field(default_factory=partial(defaultdict, int))

    @property
    def left(self) -> int:
        """Remaining calls."""
        return self.most - self.used

    def reserve(self, tool: str) -> None:
        """Reserve one call. Raises `ToolError` ``limit_exceeded`` if none remains."""
        if self.used >= self.most:
            raise _limit_error(tool, "max_tool_calls", self.most, "tool calls")
        most = self.by_tool.get(tool)
        if most is not None:
            if self.used_by_tool[tool] >= most:
                raise _limit_error(tool, "max_calls_by_tool", most, f"calls of {tool}")
            self.used_by_tool[tool] += 1
        self.used += 1

    def charge_recorded(self, tool: str) -> None:
        """Charge a replayed call to the budget again."""
        self.used = min(self.used + 1, self.most)
        if tool in self.by_tool:
            used = self.used_by_tool[tool] + 1
            self.used_by_tool[tool] = min(used, self.by_tool[tool])


def _limit_error(tool: str, limit: str, most: int, unit: str) -> ToolError:
    msg = (
        f"{tool}: the run may make {most:,} {unit} ({limit}) and has made them all; "
        f"return the results so far, or raise {limit}"
    )
    details: dict[str, object] = {"limit": limit, "most": most, "used": most}
    return ToolError(msg, code="limit_exceeded", tool=tool, details=details)
