"""What a session's runs may spend: what they get unasked, and what they may ask for at most."""

from __future__ import annotations

from collections.abc import Collection
from types import NoneType

from .._arguments import nearest, require
from .._records._limits import CEILING, Limits
from ..errors import UsageError

__all__ = ["Allowance"]


class Allowance:
    """Limits of runs that give none, and the ceiling of those that do."""

    def __init__(
        self, limits: Limits | None, ceiling: Limits | None, tools: Collection[str]
    ) -> None:
        """Check the two against each other and the session's tools.

        Raises:
            UsageError: If a limit is above the ceiling, or one is of a tool that is not there.
        """
        self._tools = tools
        for name, given in (("limits", limits), ("ceiling", ceiling)):
            require(name, given, (Limits, NoneType), "a ptc.Limits(...)")
        asked = limits or Limits()
        self.ceiling = ceiling if ceiling is not None else CEILING.raised(asked)
        if over := asked.over(self.ceiling):
            msg = f"limits are above the ceiling: {', '.join(over)}"
            raise UsageError(msg)
        self._require_tools("ceiling", self.ceiling)
        self._require_tools("limits", asked)
        self.limits = asked.clamp(self.ceiling)

    def granted(self, asked: Limits | None) -> tuple[Limits, tuple[str, ...]]:
        """The limits of a run that asks for `asked`, and a warning for each that was clamped.

        Raises:
            UsageError: If one is of a tool that is not there.
        """
        if asked is None:
            return self.limits, ()
        require("limits", asked, Limits, "a ptc.Limits(...)")
        self._require_tools("limits", asked)
        over = asked.over(self.ceiling)
        # Tools that the ceiling names and the run does not are bounded, too.
        named = self.ceiling.max_calls_by_tool
        granted = asked.clamp(self.ceiling) if over or named else asked
        return granted, tuple(
            f"limits.{name}={_shown(asked, name)} is above the session's ceiling and was "
            f"clamped to {_shown(granted, name)}"
            for name in over
        )

    def _require_tools(self, what: str, limits: Limits) -> None:
        for name in limits.max_calls_by_tool:
            if name not in self._tools:
                near = nearest(name, self._tools)
                msg = (
                    f"{what}: Limits.max_calls_by_tool names no tool of the session: {name!r}{near}"
                )
                raise UsageError(msg)


def _shown(limits: Limits, name: str) -> str:
    value = getattr(limits, name)
    return f"{value:,}" if isinstance(value, int) else repr(value)
