"""Rollback of a run: undo its effects, newest first, and record each step.

Rule 1: a revert starts only after its record is durable, and one that succeeded is never called
    again.
    tests/core/runs/test_rollback.py::test_interrupted_rollback_resumes_at_the_interrupted_step
    tests/core/runs/test_rollback.py::test_rollback_interrupted_at_any_step_can_be_resumed
Rule 2: no effect is undone before every newer effect that can be undone.
    tests/core/runs/test_rollback.py::test_failed_revert_stops_the_reverts_of_older_calls
Rule 3: a run that is rolled back is never resumed.
    tests/core/runs/test_rollback.py::test_rolled_back_run_cannot_be_resumed_or_approved
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio

from .._calls._execute import run_function
from .._core import _json
from .._core._arguments import describe_error
from .._core._clock import now_ms
from .._core._redact import SENT
from .._dataclass import dataclass
from .._tools._environment import Environment
from .._tools._revert import Effect
from .._tools._tool import Tool
from ..errors import ToolError, UsageError
from ..journal._journal import CallRow, Journal, RevertRow, RevertStatus, RunRecord
from ..journal._lease import Lease
from ._revisions import load_earlier, with_earlier_effects

__all__ = ["Reverted", "Rollback", "RollbackStatus", "load_effects", "plan_rollback", "roll_back"]

_MESSAGE_CHARS = 2_000

RollbackStatus: TypeAlias = Literal[
    "reverted", "failed", "waiting", "skipped", "no_revert", "unknown"
]
"""``reverted``: undone. ``failed``: its revert failed. ``waiting``: not tried yet. ``skipped``: by
request. ``no_revert``: its tool has no revert. ``unknown``: it is not known whether the call had
its effect, so it is not undone."""


@dataclass(frozen=True, slots=True)
class Reverted:
    """State of one effect of a run that is rolled back."""

    call: str
    """``3``, or ``3.1`` for the first call that the tool of call 3 made; ``1:3`` for call 3 of
    revision 1 of the script, if no later one repeated it."""
    tool: str
    status: RollbackStatus
    error: str | None = None
    """Reason of the failure."""
    attempt: int = 0
    """Number of times its revert was called."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """State of the effects of a run, newest first, which is the order of undoing."""

    run_id: str
    steps: tuple[Reverted, ...]
    dry_run: bool = False
    """True: nothing was undone; effects that are ``waiting`` would be tried."""

    @property
    def ok(self) -> bool:
        """True if nothing failed and nothing waits: every effect that can be undone is undone."""
        return all(step.status not in ("failed", "waiting") for step in self.steps)

    @property
    def left(self) -> tuple[Reverted, ...]:
        """Effects that are not undone and may persist."""
        return tuple(step for step in self.steps if step.status != "reverted")


@dataclass(slots=True)
class _Step:
    """An effect, the tool that can undo it, and the state of the undo."""

    row: CallRow
    tool: Tool | None
    report: Reverted
    arguments: bytes
    value: Any = None
    lost: str | None = None


def plan_rollback(
    recorded: RunRecord, tools: Mapping[str, Tool], skip: Collection[str] = ()
) -> Rollback:
    """List the steps of a rollback without taking them.

    Raises:
        UsageError: As `roll_back`.
    """
    steps = _steps(recorded, tools, skip)
    return Rollback(recorded.run.run_id, tuple(step.report for step in steps), dry_run=True)


async def roll_back(
    journal: Journal,
    run_id: str,
    tools: Mapping[str, Tool],
    *,
    root: Path,
    environment: Environment,
    skip: Collection[str] = (),
    before_step: Callable[[], object] = lambda: None,
) -> Rollback:
    """Undo the effects of a run.

    Args:
        journal: Journal that holds the run.
        run_id: The run. From now on it cannot be resumed.
        tools: Tools by name, which must include those of the run's effects.
        root: Folder the tools are confined to.
        environment: Values that the tools declare, and their redactor.
        skip: Calls to skip, because their effects were dealt with otherwise.
        before_step: Called before each step; raises to prevent it.

    Raises:
        UsageError: If a tool is missing, or `skip` names a call that has no effect.
        JournalError: If there is no such run, a process executes it, or it cannot be written.
    """
    # Report errors before anything changes.
    _steps(await load_effects(journal, run_id), tools, skip)
    lease = await journal.acquire_for_rollback(run_id, now_ms())
    try:
        steps = _steps(await load_effects(journal, run_id), tools, skip)
        for step in steps:
            if step.report.status == "skipped":
                journal.append(lease, _row(step.report, "skipped"))
            elif step.report.status in ("waiting", "failed") and step.tool is not None:
                before_step()
                await _undo(journal, lease, step, step.tool, root, environment)
                if step.report.status == "failed":
                    break
        await journal.barrier(lease)
    finally:
        journal.release(lease)
    return Rollback(run_id, tuple(step.report for step in steps))


async def load_effects(journal: Journal, run_id: str) -> RunRecord:
    """Load the record of a run, with the effects that only earlier revisions of it made.

    Raises:
        UsageError: If it is the record of an earlier revision.
        JournalError: If it is missing or damaged.
    """
    current, dot, _ = run_id.partition(".")
    if dot:
        msg = f"{run_id!r} is an earlier revision of run {current!r}; roll back {current!r}"
        raise UsageError(msg)
    recorded = await journal.load(run_id)
    return with_earlier_effects(recorded, await load_earlier(journal, recorded.run))


async def _undo(
    journal: Journal,
    lease: Lease,
    step: _Step,
    tool: Tool,
    root: Path,
    environment: Environment,
) -> None:
    """Undo one effect and record the outcome."""
    report = replace(step.report, status="waiting", error=None, attempt=step.report.attempt + 1)
    step.report = report
    journal.append(lease, _row(report, "started"))
    await journal.barrier(lease)
    row = step.row
    effect = Effect(
        root=root,
        run_id=lease.run_id,
        call=row.path,
        tool=row.tool,
        arguments=_json.loads(step.arguments),
        value=step.value,
        lost=step.lost,
        idempotency_key=row.key,
        revert_key=_json.sha256_of(["revert", row.key]),
        attempt=report.attempt,
        env=environment.values.get(tool.name),
    )
    why = await _call_revert(tool, effect)
    if why is None:
        step.report = replace(report, status="reverted")
        journal.append(lease, _row(step.report, "reverted"))
    else:
        error = _json.plain_text(environment.redactor.error_text(why), _MESSAGE_CHARS)
        step.report = replace(report, status="failed", error=error)
        journal.append(lease, _row(step.report, "failed"))


async def _call_revert(tool: Tool, effect: Effect) -> str | None:
    """Call a tool's revert. Return the reason of its failure, or None."""
    revert = tool.revert
    assert revert is not None  # noqa: S101  # only such effects are undone
    is_async = inspect.iscoroutinefunction(revert) or inspect.iscoroutinefunction(
        getattr(revert, "__call__", None)  # noqa: B004  # an object whose call is async
    )
    seconds = None if tool.timeout_ms is None else tool.timeout_ms / 1000
    try:
        with anyio.move_on_after(seconds) as scope:
            await run_function(partial(revert, effect), _RevertCall(), is_async=is_async)
            return None
    except ToolError as error:
        return error.message
    except Exception as error:  # noqa: BLE001  # any error of the tool is reported
        SENT.failed(error)
        return describe_error(error)
    assert scope.cancelled_caught  # noqa: S101  # nothing else leaves the block without a value
    return f"it took longer than {tool.timeout_ms:,} ms, the timeout_ms of {tool.name}"


@dataclass(slots=True)
class _RevertCall:
    """Cancellation state of a revert in a thread; a revert has no context of its own."""

    cancelled: bool = False
    function_called: bool = True


# --- effects ----------------------------------------------------------------------------------


def _steps(recorded: RunRecord, tools: Mapping[str, Tool], skip: Collection[str]) -> list[_Step]:
    """List the effects of a run, newest first. Raises `UsageError`."""
    reverts = {row.path: row for row in recorded.reverts}
    steps = [
        step
        for row in _newest_first(recorded)
        if (step := _step(recorded, row, tools, reverts.get(row.path), skip)) is not None
    ]
    run_id = recorded.run.run_id
    undoable = {step.row.path for step in steps if step.report.status != "no_revert"}
    if wrong := sorted(set(skip) - undoable):
        names = ", ".join(sorted(undoable)) or "none"
        msg = (
            f"run {run_id!r}: skip names {', '.join(wrong)}, which has no effect that can be "
            f"undone; calls that have: {names}"
        )
        raise UsageError(msg)
    due = [step for step in steps if step.report.status in ("waiting", "failed")]
    missing = {step.row.tool for step in due if step.tool is None}
    if missing:
        msg = (
            f"run {run_id!r} had effects of tools that this session does not have: "
            f"{', '.join(sorted(missing))}; open it with them, or pass their calls as skip="
        )
        raise UsageError(msg)
    return steps


def _newest_first(recorded: RunRecord) -> Sequence[CallRow]:
    """Sort the calls with a side effect by their end, newest first; unfinished ones come first.

    A tool that called others ended after them, so it is reverted before them.
    """
    positions = {d.path: n for n, d in enumerate(recorded.deliveries) if d.path is not None}
    never = len(recorded.deliveries)

    def age(row: CallRow) -> tuple[float, int, int, list[int]]:
        parts = row.path.rpartition(":")[2].split(".")
        ended = row.end.at_ms if row.end is not None else float("inf")
        return ended, positions.get(parts[0], never), -len(parts), [int(part) for part in parts]

    return sorted((row for row in recorded.calls if row.side_effect), key=age, reverse=True)


def _step(
    recorded: RunRecord,
    row: CallRow,
    tools: Mapping[str, Tool],
    revert: RevertRow | None,
    skip: Collection[str],
) -> _Step | None:
    """Return the effect of a call; None if it had none."""
    end = row.end
    decisions = {d.kind: d for d in recorded.decisions if d.path == row.path}
    arguments, value, lost = row.arguments, None, None
    approved = decisions.get("approval")
    if approved is not None and approved.edited is not None:
        arguments = approved.edited
    status: RollbackStatus = "waiting"
    if end is not None and end.status == "succeeded":
        _, _, body = _json.loads(end.body)
        value, lost = (body, None) if end.ok else (None, str(body["message"]))
    elif end is not None and end.status != "unknown":
        return None
    else:
        decision = decisions.get("unknown")
        if decision is not None and decision.action == "failed":
            return None
        if decision is not None and decision.action == "done":
            value = _json.loads(decision.value)
        else:
            status = "unknown"
    tool = tools.get(row.tool)
    if status == "waiting" and tool is not None and tool.revert is None:
        status = "no_revert"
    report = Reverted(row.path, row.tool, status)
    if revert is not None:
        report = replace(report, error=revert.error, attempt=revert.attempt)
        report = replace(report, status="waiting" if revert.status == "started" else revert.status)
    if row.path in skip and report.status in ("waiting", "failed", "unknown"):
        report = replace(report, status="skipped")
    return _Step(row, tool, report, arguments, value, lost)


def _row(report: Reverted, status: RevertStatus) -> RevertRow:
    return RevertRow(report.call, status, report.attempt, report.error, now_ms())
