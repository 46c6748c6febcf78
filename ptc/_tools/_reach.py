"""Tools that a call may call, and how often."""

from __future__ import annotations

from collections.abc import Mapping

from .._core._arguments import parts_of
from .._dataclass import dataclass
from ..errors import ToolError, UsageError
from ._allow import AllowList, select
from ._tool import Tool

__all__ = ["Reach"]


@dataclass(slots=True, eq=False)
class Reach:
    """Tools for a call and for the calls below it, with an optional limit on their number."""

    tools: Mapping[str, Tool]
    """The tools by name, with the rules of the allow-list enforced."""
    most: int | None = None
    """Calls through this reach and the ones derived from it; None: only those around it limit."""
    outer: Reach | None = None
    """The reach that this one was derived from."""
    used: int = 0
    """Calls made so far."""

    def narrow(self, allowed: AllowList, most: int | None) -> Reach:
        """Return a reach with fewer tools.

        Args:
            allowed: Names, patterns and rules; a rule applies in addition to those in force.
            most: Limit on the number of calls; None: no further limit.

        Raises:
            ToolError: ``not_allowed``, if an entry allows nothing that this reach allows.
            UsageError: If an argument has the wrong form.
        """
        entries = parts_of("allowed_tools", allowed, "a list of names of tools")
        try:
            chosen = select(entries, self.tools, {})
        except UsageError as error:
            raise ToolError(f"not allowed to the caller: {error}", code="not_allowed") from None
        return Reach(chosen, most, self)

    def reserve(self, tool: str) -> None:
        """Count a call. Raises `ToolError` ``limit_exceeded`` if none remains."""
        chain = []
        reach: Reach | None = self
        while reach is not None:
            if reach.most is not None and reach.used >= reach.most:
                msg = f"{tool}: its caller may make {reach.most:,} tool calls and has made them all"
                details: dict[str, object] = {"limit": "max_calls", "most": reach.most}
                raise ToolError(msg, code="limit_exceeded", tool=tool, details=details)
            chain.append(reach)
            reach = reach.outer
        for counted in chain:
            counted.used += 1
