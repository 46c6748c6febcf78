"""Limits of a session's runs: the defaults, and the ceiling for requests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from types import NoneType
from typing import Any

from .._core._arguments import nearest, require
from .._records._limits import CEILING, Limits
from .._records._limits_data import limits_from_data
from .._records._result import RunWarning
from ..errors import UsageError

__all__ = ["LimitPolicy", "clamp_limits"]


@lru_cache(maxsize=64)
def clamp_limits(limits: Limits, ceiling: Limits) -> Limits:
    """Return limits, lowered to a ceiling; most runs of a session have the same ones."""
    return limits.clamp(ceiling)


class LimitPolicy:
    """Default limits of a run, and the ceiling of requested limits."""

    def __init__(
        self, limits: Limits | None, ceiling: Limits | None, tools: Collection[str]
    ) -> None:
        """Check the limits against the ceiling; `check_tools` checks the tools that they name.

        Raises:
            UsageError: If a limit is above the ceiling.
        """
        self._tools = tools
        for name, value in (("limits", limits), ("ceiling", ceiling)):
            require(name, value, (Limits, NoneType), "a ptc.Limits(...)")
        requested = limits or Limits()
        self.ceiling: Limits = ceiling if ceiling is not None else CEILING.raise_to(requested)
        if over := requested.over(self.ceiling):
            msg = f"limits are above the ceiling: {', '.join(over)}"
            raise UsageError(msg)
        self.limits: Limits = requested.clamp(self.ceiling)
        self._named = {"ceiling": self.ceiling, "limits": requested}

    def check_tools(self) -> None:
        """Raise `UsageError` if a limit names a tool that the session lacks."""
        for label, limits in self._named.items():
            self._require_tools(label, limits)

    def apply(
        self, requested: Limits | Mapping[str, Any] | None, defaults: Limits | None = None
    ) -> tuple[Limits, tuple[RunWarning, ...]]:
        """Return the limits of a run, and a warning for each one that was clamped.

        Args:
            requested: Limits that the caller requests; None: the defaults. Plain data has the
                defaults for the limits that it leaves out.
            defaults: Defaults. None: those of the session.

        Raises:
            UsageError: If a limit is unknown or invalid, or names an unknown tool.
        """
        if requested is None and defaults is None:
            return self.limits, ()
        if requested is None or isinstance(requested, Mapping):
            requested = limits_from_data(requested or {}, defaults or self.limits)
        require("limits", requested, Limits, "a ptc.Limits(...) or a dict of limits")
        self._require_tools("limits", requested)
        over = requested.over(self.ceiling)
        # The ceiling also bounds tools that the run does not name.
        named = self.ceiling.max_calls_by_tool
        applied = requested.clamp(self.ceiling) if over or named else requested
        return applied, tuple(
            RunWarning(
                "limit_clamped",
                f"limits.{name}={_format(requested, name)} is above the session's ceiling and was "
                f"clamped to {_format(applied, name)}",
            )
            for name in over
        )

    def _require_tools(self, label: str, limits: Limits) -> None:
        for name in limits.max_calls_by_tool:
            if name not in self._tools:
                near = nearest(name, self._tools)
                msg = (
                    f"{label}: Limits.max_calls_by_tool names {name!r}, which is not a tool of the "
                    f"session{near}"
                )
                raise UsageError(msg)


def _format(limits: Limits, name: str) -> str:
    value = getattr(limits, name)
    return f"{value:,}" if isinstance(value, int) else repr(value)
