"""Interface of the record of direct calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .._tools._table import ToolTable
from .._tools._tool_result import ToolResult
from ._call import OpenCall
from ._recorder import RunRecorder

__all__ = ["CallJournal"]


class CallJournal(Protocol):
    """Records each direct call as a run of its own."""

    def start(self, call: OpenCall, tools: ToolTable, *, has_rules: bool) -> RunRecorder:
        """Create the record of an admitted call.

        Args:
            call: The call. Its run id is that of the record.
            tools: Tools that it may call.
            has_rules: True if the allow-list had rules, which cannot be recorded.

        Raises:
            JournalError: If it cannot be created.
        """
        ...

    async def finish(
        self, recorder: RunRecorder, result: ToolResult | None, calls: Sequence[OpenCall]
    ) -> None:
        """Record the end of a call.

        Args:
            recorder: Its record.
            result: Its result. None: it was cancelled, or is suspended until a decision.
            calls: The call, and those that its tool made.
        """
        ...
