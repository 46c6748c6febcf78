"""Warnings of effects that a new run may repeat."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping

from .._core._clock import now_ms
from .._records._result import RunWarning
from .._tools._tool import Tool
from ..errors import JournalError
from ..journal._journal import Journal
from ._revisions import load_earlier, with_earlier_effects

__all__ = ["EffectWarnings"]

_MAX_EFFECTS_SHOWN = 5
_RECENT_MS = 15 * 60_000
"""Age up to which a run that repeats effects of a failed one has a warning."""
_FAILED_SECONDS = 1.0
_MAX_FAILED_RUNS = 20
"""Newest failed runs that are compared."""


class EffectWarnings:
    """Finds the effects of earlier runs that a run repeats."""

    def __init__(
        self, open_journal: Callable[[], Awaitable[Journal]], tools: Mapping[str, Tool]
    ) -> None:
        """Look effects up in the journal that `open_journal` returns."""
        self._open = open_journal
        self._tools = tools
        self._none_failed_until = 0.0

    async def warning_of(self, run_id: str) -> RunWarning | None:
        """Describe the side effects of a run for a new run of its script; None if it had none."""
        journal = await self._open()
        recorded = await journal.load(run_id)
        earlier = await load_earlier(journal, recorded.run)
        recorded = with_earlier_effects(recorded, earlier)
        undone = {row.path for row in recorded.reverts if row.status == "reverted"}
        effects = [
            row
            for row in recorded.calls
            if row.side_effect
            and row.path not in undone
            and (row.end is None or row.end.status != "not_started")
        ]
        if not effects:
            return None
        lines = [
            f"An earlier run ({run_id}) made the following calls with side effects, or may have. "
            "Do not repeat them blindly: check the current state, or continue from it."
        ]
        for row in effects[:_MAX_EFFECTS_SHOWN]:
            status = row.end.status if row.end is not None else "unknown"
            lines.append(f"- {row.tool} (call {row.path}, {status})")
        if len(effects) > _MAX_EFFECTS_SHOWN:
            lines.append(f"- ...and {len(effects) - _MAX_EFFECTS_SHOWN} more")
        return RunWarning("earlier_effects", "\n".join(lines))

    async def warn_of_repeated(self, run_id: str) -> RunWarning | None:
        """Warn of effects of a run that an earlier one made, which failed a short time ago.

        Effects of idempotent tools may be repeated. If no run failed, that is not looked up again
        for `_FAILED_SECONDS`.
        """
        if time.monotonic() < self._none_failed_until:
            return None
        try:
            journal = await self._open()
            since = now_ms() - _RECENT_MS
            if not await journal.failed_runs(since, 1):
                self._none_failed_until = time.monotonic() + _FAILED_SECONDS
                return None
            found = [
                (failed, tool)
                for failed, tool in await journal.repeated_effects(run_id, since, _MAX_FAILED_RUNS)
                if tool not in self._tools or not self._tools[tool].idempotent
            ]
        except JournalError:
            # The record of the run itself reports that.
            return None
        if not found:
            return None
        failed, _ = found[0]
        repeated = [tool for each, tool in found if each == failed]
        shown = ", ".join(dict.fromkeys(repeated[:_MAX_EFFECTS_SHOWN]))
        message = (
            f"calls with side effects that run {failed} had made before it failed were made again "
            f"with the same arguments: {shown}. To continue a failed run without repeating its "
            f"effects, resume it with the corrected script as source: resume({failed!r}, "
            "source=...)"
        )
        return RunWarning("earlier_effects", message)

    def note_failed(self) -> None:
        """Note that a run of this session failed."""
        self._none_failed_until = 0.0
