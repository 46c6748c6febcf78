"""Journal of direct calls: each is recorded as the run of a script that makes the same call.

Such a run is listed, shown, decided, resumed and rolled back like any other.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence

from .._calls._call import OpenCall
from .._calls._recorder import RunRecorder
from .._calls._rows import encode_arguments
from .._core import _json
from .._records._limits import Limits
from .._records._result import Failure, RunResult, Status
from .._tools._table import ToolTable
from .._tools._tool_result import ToolResult
from ..errors import JournalError
from ..journal._journal import RunRow
from ._announce import OnApproval, announce
from ._history import History
from ._program import Program

__all__ = ["DirectJournal", "is_direct_call", "is_direct_source"]

_SOURCE = "def run(ctx, inputs):\n    return ctx.call(inputs['tool'], inputs['arguments'])\n"
_log = logging.getLogger("ptc")


def is_direct_call(row: RunRow) -> bool:
    """Return True if a recorded run is a direct call of a tool."""
    return is_direct_source(row.source)


def is_direct_source(source: str) -> bool:
    """Return True if a recorded script is that of a direct call."""
    return source == _SOURCE


class DirectJournal:
    """Records the direct calls of a session."""

    def __init__(
        self, history: History, limits: Limits, on_approval: OnApproval | None = None
    ) -> None:
        """Record calls in `history`; `on_approval` receives those that await a decision."""
        self._history = history
        self._limits = limits
        self._on_approval = on_approval

    def start(self, call: OpenCall, tools: ToolTable, *, has_rules: bool) -> RunRecorder:
        """Create the record of an admitted call. Raises `JournalError` on failure."""
        assert call.call.run_id is not None  # noqa: S101  # set for a call that is recorded
        # As recorded: without secrets and unrecorded content. A call that lacks them cannot be
        # resumed: the script would make another call, which is a divergence.
        name, arguments = _json.dumps(call.call.name), encode_arguments(call)
        program = Program(
            run_id=call.call.run_id,
            source=_SOURCE,
            filename="direct call",
            inputs_json=b'{"tool":%b,"arguments":%b}' % (name, arguments),
            table=tools,
            limits=self._limits,
            seed=random.getrandbits(48),
            has_rules=has_rules,
        )
        return self._history.start_record(program)

    async def finish(
        self, recorder: RunRecorder, result: ToolResult | None, calls: Sequence[OpenCall]
    ) -> None:
        """Record the end of a call. Its effect stands even if that fails, which is logged."""
        pending = recorder.pending_calls()
        run = RunResult(
            run_id=calls[0].call.run_id or "",
            status=_status(result, paused=bool(pending)),
            value=None if result is None else _json.data_of(result.value),
            error=_failure(result),
            calls=tuple(call.record() for call in calls),
            limits=self._limits,
            pending=pending,
            warnings=tuple(recorder.warnings),
        )
        try:
            await recorder.end_run(run.status, run.to_json())
        except JournalError as error:
            _log.error("the end of direct call %s was not recorded: %s", calls[0].id, error)
        finally:
            recorder.release_lease()
        self._history.notify_pending(pending)
        await announce(self._on_approval, pending)


def _status(result: ToolResult | None, *, paused: bool) -> Status:
    if result is None:
        return "paused" if paused else "cancelled"
    return "completed" if result.ok else "failed"


def _failure(result: ToolResult | None) -> Failure | None:
    if result is None or result.error is None:
        return None
    error = result.error
    return Failure(
        code="tool_error", message=_json.plain_text(error.message, 4_000), tool=result.tool
    )
