"""Undoing what a run did: the newest effect first, each undoing written down.

Rule 1: a revert begins only when that is durable, and one that has ended well is never called
    again.
    tests/core/runs/test_rollback.py::test_a_rollback_that_was_cut_off_goes_on_where_it_was
    tests/core/runs/test_rollback.py::test_a_rollback_that_ends_at_any_step_goes_on_from_there
Rule 2: nothing older is undone while something newer that can be undone is not.
    tests/core/runs/test_rollback.py::test_a_revert_that_fails_stops_what_is_older
Rule 3: a run that is rolled back is never gone on with.
    tests/core/runs/test_rollback.py::test_a_run_that_is_rolled_back_is_over
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio

from .. import _json
from .._arguments import words_of
from .._calls._execute import run_function
from .._journal._journal import CallRow, Journal, Lease, Recorded, RevertRow, RevertStatus
from .._redact import SENT
from .._tools._environment import Environment
from .._tools._revert import Effect
from .._tools._tool import Tool
from ..errors import ToolError, UsageError

__all__ = ["Reverted", "Rollback", "RollbackStatus", "plan_rollback", "roll_back"]

_MESSAGE_CHARS = 2_000

RollbackStatus: TypeAlias = Literal[
    "reverted", "failed", "waiting", "skipped", "no_revert", "unknown"
]
"""``reverted``: undone. ``failed``: its revert failed. ``waiting``: not tried yet. ``skipped``: as
was asked. ``no_revert``: its tool cannot. ``unknown``: nobody knows whether the call had its
effect, so nothing is done about it."""


@dataclass(frozen=True, slots=True)
class Reverted:
    """What became of one effect of a run that is rolled back."""

    call: str
    """``3``, or ``3.1`` for the first call that the tool of call 3 made."""
    tool: str
    status: RollbackStatus
    error: str | None = None
    """Why it failed."""
    attempt: int = 0
    """Times its revert was called."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """What became of the effects of a run: the newest first, as they are undone."""

    run_id: str
    steps: tuple[Reverted, ...]
    dry_run: bool = False
    """True: nothing was done; what is ``waiting`` would be tried."""

    @property
    def ok(self) -> bool:
        """True if nothing failed and nothing waits: there is no more that could be undone."""
        return all(step.status not in ("failed", "waiting") for step in self.steps)

    @property
    def left(self) -> tuple[Reverted, ...]:
        """What is not undone: it may be there still."""
        return tuple(step for step in self.steps if step.status != "reverted")


@dataclass(slots=True)
class _Step:
    """An effect, the tool that can undo it, and how far that is."""

    row: CallRow
    tool: Tool | None
    told: Reverted
    arguments: bytes
    value: Any = None
    lost: str | None = None


def plan_rollback(
    recorded: Recorded, tools: Mapping[str, Tool], skip: Collection[str] = ()
) -> Rollback:
    """What a rollback would do; nothing is done.

    Raises:
        UsageError: As `roll_back`.
    """
    steps = _steps(recorded, tools, skip)
    return Rollback(recorded.run.run_id, tuple(step.told for step in steps), dry_run=True)


async def roll_back(
    journal: Journal,
    run_id: str,
    tools: Mapping[str, Tool],
    *,
    root: Path,
    environment: Environment,
    skip: Collection[str] = (),
    go_on: Callable[[], object] = lambda: None,
) -> Rollback:
    """Undo what a run did.

    Args:
        journal: Where the run is recorded.
        run_id: The run. From now on it cannot be resumed.
        tools: By name: those with whose calls it had effects.
        root: Folder the tools are confined to.
        environment: Values the tools ask for, and what keeps them in.
        skip: Calls that are passed over: somebody has dealt with them.
        go_on: Called before each step; raises if it must not be taken.

    Raises:
        UsageError: If a tool is not there, or no effect is called as `skip` says.
        JournalError: If there is no such run, somebody drives it, or it cannot be written.
    """
    _steps(journal.load(run_id), tools, skip)  # What cannot be done is told before it is begun.
    lease = journal.discard(run_id, _now_ms())
    try:
        steps = _steps(journal.load(run_id), tools, skip)
        for step in steps:
            if step.told.status == "skipped":
                journal.append(lease, _row(step.told, "skipped"))
            elif step.told.status in ("waiting", "failed") and step.tool is not None:
                go_on()
                await _undo(journal, lease, step, step.tool, root, environment)
                if step.told.status == "failed":
                    break
        await journal.barrier(lease)
    finally:
        journal.release(lease)
    return Rollback(run_id, tuple(step.told for step in steps))


async def _undo(
    journal: Journal,
    lease: Lease,
    step: _Step,
    tool: Tool,
    root: Path,
    environment: Environment,
) -> None:
    """Undo one effect, and write down what came of it."""
    told = replace(step.told, status="waiting", error=None, attempt=step.told.attempt + 1)
    step.told = told
    journal.append(lease, _row(told, "started"))
    await journal.barrier(lease)
    start = step.row.start
    effect = Effect(
        root=root,
        run_id=lease.run_id,
        call=start.path,
        tool=start.tool,
        arguments=_json.loads(step.arguments),
        value=step.value,
        lost=step.lost,
        idempotency_key=start.key,
        revert_key=_json.sha256_of(["revert", start.key]),
        attempt=told.attempt,
        env=environment.values.get(tool.name),
    )
    why = await _called(tool, effect)
    if why is None:
        step.told = replace(told, status="reverted")
        journal.append(lease, _row(step.told, "reverted"))
    else:
        error = _json.plain_text(environment.redactor.error_text(why), _MESSAGE_CHARS)
        step.told = replace(told, status="failed", error=error)
        journal.append(lease, _row(step.told, "failed"))


async def _called(tool: Tool, effect: Effect) -> str | None:
    """Call a tool's revert; why it failed, None if it did not."""
    revert = tool.revert
    assert revert is not None  # noqa: S101  # only then is there something to undo
    is_async = inspect.iscoroutinefunction(revert) or inspect.iscoroutinefunction(
        getattr(revert, "__call__", None)  # noqa: B004  # an object whose call is async
    )
    seconds = None if tool.timeout_ms is None else tool.timeout_ms / 1000
    try:
        with anyio.move_on_after(seconds) as scope:
            await run_function(partial(revert, effect), _Waited(), is_async=is_async)
            return None
    except ToolError as error:
        return error.message
    except Exception as error:  # noqa: BLE001  # a tool's own: it becomes a line of the report
        SENT.failed(error)
        return words_of(error)
    assert scope.cancelled_caught  # noqa: S101  # nothing else leaves the block without a value
    return f"it took longer than {tool.timeout_ms:,} ms, which is what {tool.name} allows itself"


@dataclass(slots=True)
class _Waited:
    """What a revert in a thread is given up by; it has no context to ask."""

    cancelled: bool = False
    begun: bool = True


# --- what there is to undo --------------------------------------------------------------------


def _steps(recorded: Recorded, tools: Mapping[str, Tool], skip: Collection[str]) -> list[_Step]:
    """The effects of a run, the newest first. Raises `UsageError`."""
    known = {row.path: row for row in recorded.reverts}
    steps = [
        step
        for row in _newest_first(recorded)
        if (step := _step(recorded, row, tools, known.get(row.start.path), skip)) is not None
    ]
    run_id = recorded.run.run_id
    able = {step.row.start.path for step in steps if step.told.status != "no_revert"}
    if wrong := sorted(set(skip) - able):
        names = ", ".join(sorted(able)) or "none"
        msg = f"run {run_id!r}: skip: {', '.join(wrong)} is no effect to be undone; those: {names}"
        raise UsageError(msg)
    due = [step for step in steps if step.told.status in ("waiting", "failed")]
    gone = {step.row.start.tool for step in due if step.tool is None}
    if gone:
        msg = (
            f"run {run_id!r} had effects with tools that this session does not have: "
            f"{', '.join(sorted(gone))}; open it with them, or skip= their calls"
        )
        raise UsageError(msg)
    return steps


def _newest_first(recorded: Recorded) -> Sequence[CallRow]:
    """Calls with a side effect that began, by when they ended; what has no end comes first.

    A tool that called others ended after them: its own revert comes before theirs.
    """
    places = {d.path: n for n, d in enumerate(recorded.deliveries) if d.path is not None}
    never = len(recorded.deliveries)

    def age(row: CallRow) -> tuple[float, int, int, list[int]]:
        parts = row.start.path.split(".")
        ended = row.end.at_ms if row.end is not None else float("inf")
        return ended, places.get(parts[0], never), -len(parts), [int(part) for part in parts]

    return sorted((row for row in recorded.calls if row.start.side_effect), key=age, reverse=True)


def _step(
    recorded: Recorded,
    row: CallRow,
    tools: Mapping[str, Tool],
    known: RevertRow | None,
    skip: Collection[str],
) -> _Step | None:
    """One effect; None if the call had none."""
    start, end = row.start, row.end
    verdicts = {v.kind: v for v in recorded.verdicts if v.path == start.path}
    arguments, value, lost = start.arguments, None, None
    approved = verdicts.get("approval")
    if approved is not None and approved.action == "approve" and approved.value != b"null":
        arguments = approved.value
    status: RollbackStatus = "waiting"
    if end is not None and end.status == "succeeded":
        _, _, body = _json.loads(end.body)
        value, lost = (body, None) if end.ok else (None, str(body["message"]))
    elif end is not None and end.status != "unknown":
        return None
    else:
        settled = verdicts.get("unknown")
        if settled is not None and settled.action == "failed":
            return None
        if settled is not None and settled.action == "done":
            value = _json.loads(settled.value)
        else:
            status = "unknown"
    tool = tools.get(start.tool)
    if status == "waiting" and tool is not None and tool.revert is None:
        status = "no_revert"
    told = Reverted(start.path, start.tool, status)
    if known is not None:
        told = replace(told, error=known.error, attempt=known.attempt)
        told = replace(told, status="waiting" if known.status == "started" else known.status)
    if start.path in skip and told.status in ("waiting", "failed", "unknown"):
        told = replace(told, status="skipped")
    return _Step(row, tool, told, arguments, value, lost)


def _row(told: Reverted, status: RevertStatus) -> RevertRow:
    return RevertRow(told.call, status, told.attempt, told.error, _now_ms())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
