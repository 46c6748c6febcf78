"""Runs for the workers of a queue: their submission, and their execution by a worker."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, TypedDict

from .._calls._recorder import RunRecorder
from .._calls._subscribers import EventSink
from .._core._arguments import nearest, require_range
from .._core._clock import now_ms
from .._records._result import Failure, RunResult
from .._tools._tool import Tool
from ..errors import BusyRunError, EndedRunError, UsageError
from ..journal._queue import Claim, QueuedJournal, RunQueue, Submission
from ._history import History
from ._program import Program, ProgramOptions, reject_unsendable
from ._program_row import require_inputs, row_of
from ._programs import ProgramBuilder
from ._runner import ProgramRunner
from ._runs import Executor

__all__ = ["QueuedRuns", "SubmitOptions"]

_TENANT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,63}")
_MOST_DELAY_MS: Final = 366 * 86_400_000
PRIORITIES: Final = range(-10, 11)


class SubmitOptions(ProgramOptions, total=False):
    """Arguments of `Session.submit`."""

    tenant: str
    priority: int
    delay_ms: int
    at: datetime | None


class TenantOptions(TypedDict, total=False):
    """Limits of `Session.set_tenant`."""

    max_running: int | None
    rate_per_second: float | None
    burst: int
    max_queued: int | None


class QueuedRuns:
    """Submits runs of a session to the queue of its journal, and executes runs of that queue."""

    def __init__(
        self,
        programs: ProgramBuilder,
        runner: ProgramRunner,
        history: History,
        executor: Executor,
        tools: Mapping[str, Tool],
    ) -> None:
        self._executor = executor
        self._programs = programs
        self._runner = runner
        self._history = history
        self._tools = tools
        self._digests: dict[str, str] = {}

    async def queue(self) -> RunQueue:
        """Return the queue of the journal. Raises `UsageError` if it has none."""
        journal = await self._history.open()
        if isinstance(journal, QueuedJournal):
            return journal.queue
        msg = (
            "this journal has no queue. Runs are submitted to a PostgreSQL journal: "
            "journal='postgresql://user@host/database'"
        )
        raise UsageError(msg)

    # --- submitting ---------------------------------------------------------------------------

    async def submit(self, requests: Sequence[SubmitOptions]) -> list[str]:
        """Submit runs, as `Session.submit_many`."""
        queue = await self.queue()
        pairs = [self._submission(dict(request)) for request in requests]
        if not pairs:
            return []
        known = await queue.submit([submission for _, submission in pairs])
        if known:
            programs = {program.run_id: program for program, _ in pairs}
            for run_id in known:
                await self._require_same(programs[run_id])
        return [program.run_id for program, _ in pairs]

    def _submission(self, request: dict[str, Any]) -> tuple[Program, Submission]:
        tenant = validate_tenant(request.pop("tenant", ""))
        priority = request.pop("priority", 0)
        if not isinstance(priority, int) or priority not in PRIORITIES:
            msg = f"priority must be an integer from -10 to 10, not {priority!r:.80}"
            raise UsageError(msg)
        delay_ms = delay_of(request.pop("delay_ms", 0), request.pop("at", None))
        if request.pop("env", None) is not None:
            msg = "a submitted run has no env=: values for tools are settings of the workers"
            raise UsageError(msg)
        allowed = request.get("allowed_tools")
        program = self._programs.from_request(**request)
        early = reject_unsendable(program)
        if early is not None:
            raise UsageError(early.error.message if early.error is not None else early.status)
        self._require_recordable(program, rules=allowed is not None and program.has_rules)
        program = replace(program, trace=self._runner.current_context())
        row = replace(row_of(program), status="queued", tenant=tenant)
        digests = self._digests_of(program.tools)
        return program, Submission(row, digests, priority, delay_ms)

    def _require_recordable(self, program: Program, *, rules: bool) -> None:
        if rules:
            msg = (
                "allowed_tools has rules, which cannot be sent to a worker: name the tools, and "
                "put the rules into the configuration of the workers (`allow`)"
            )
            raise UsageError(msg)
        if program.schema is not None and not isinstance(program.schema, Mapping):
            msg = "output_schema is a type, which cannot be sent to a worker: pass its JSON Schema"
            raise UsageError(msg)

    def _digests_of(self, tools: Mapping[str, Tool]) -> dict[str, str]:
        for name in tools.keys() - self._digests.keys():
            self._digests[name] = tools[name].digest
        return {name: self._digests[name] for name in tools}

    async def _require_same(self, program: Program) -> None:
        """Raise `UsageError` if the run with this id has another script or inputs."""
        found = await self._history.run(program.run_id)
        if not await self._programs.is_requested(found, program):
            msg = f"run_id {program.run_id!r} is used by a run with another script or inputs"
            raise UsageError(msg)

    # --- working ----------------------------------------------------------------------------

    @property
    def digests(self) -> Mapping[str, str]:
        """Digest of each tool of the session."""
        return self._digests_of(self._tools)

    async def execute(self, claim: Claim, on_event: EventSink | None = None) -> RunResult:
        """Execute a run that this session took from the queue, under the lease of `claim`.

        Raises:
            UsageError: If this session cannot execute it.
            DamagedRunError: If its record is damaged.
            JournalError: If the store cannot be reached.
        """
        run, lease = claim.run, claim.lease
        assert run is not None  # noqa: S101  # there is a lease
        assert lease is not None  # noqa: S101  # the caller checks that
        opened = False

        async def open_record(_engine: str) -> RunRecorder:
            nonlocal opened
            opened = True
            is_new = run.status == "queued"
            return await self._history.leased_record(program, lease, is_new=is_new)

        try:
            if run.status == "queued":  # The record of another is checked when it is loaded.
                require_inputs(run)
            program = self._programs.from_row(run)
            return await self._runner.execute_recorded(program, open_record, on_event)
        finally:
            if not opened:
                self._history.journal.release(lease)

    def interrupt(self, run_id: str) -> None:
        """Stop a run that is executed here, so that another worker continues it."""
        run = self._executor.find_active(run_id)
        if run is not None:
            run.interrupt(Failure(code="interrupted", message="the worker stopped"))

    # --- cancelling ---------------------------------------------------------------------------

    def stop(self, run_id: str) -> bool:
        """Cancel a run that is executed here; False if it is not."""
        run = self._executor.find_active(run_id)
        if run is not None:
            run.stop("cancelled", Failure(code="cancelled", message="the run was cancelled"))
        return run is not None

    async def cancel(self, run_id: str) -> bool:
        """Cancel a run, as `Session.cancel`."""
        if self.stop(run_id):
            return False
        row = await self._history.run(run_id)
        if row.status not in ("queued", "running", "paused"):
            raise EndedRunError(f"run {run_id!r} has ended: {row.status}")
        journal = await self._history.open()
        queue = journal.queue if isinstance(journal, QueuedJournal) else None
        try:
            lease = await journal.acquire(run_id)
        except BusyRunError:
            if queue is None or not await queue.request_cancel(run_id):
                raise
            return False
        result = RunResult(
            run_id=run_id,
            status="cancelled",
            error=Failure(code="cancelled", message=f"the run was cancelled while {row.status}"),
        )
        journal.end_run(lease, "cancelled", result.to_json(), now_ms())
        await journal.barrier(lease)
        if queue is not None:
            await queue.remove(run_id)
        return True


def validate_tenant(name: object) -> str:
    """Return the name of a tenant. Raises `UsageError` if it is not valid."""
    if not isinstance(name, str) or (name and not _TENANT.fullmatch(name)):
        msg = f"tenant must be 1-64 letters, digits and _.:@-, not {name!r:.80}"
        raise UsageError(msg)
    return name


def validate_limits(limits: TenantOptions) -> dict[str, Any]:
    """Return limits of a tenant. Raises `UsageError` if one is wrong."""
    for name, value in limits.items():
        if name not in TenantOptions.__annotations__:
            msg = (
                f"{name!r} is not a limit of a tenant{nearest(name, TenantOptions.__annotations__)}"
            )
            raise UsageError(msg)
        if value is None and name != "burst":
            continue
        if name == "rate_per_second":
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
                msg = f"rate_per_second must be above 0 and below 1,000,000, not {value!r:.80}"
                raise UsageError(msg)
        else:
            require_range(name, value, 1_000_000)  # type: ignore[arg-type]  # it checks the type
    return dict(limits)


def delay_of(delay_ms: Any, at: object) -> int:
    """Return the time until a run may start, in milliseconds. Raises `UsageError`."""
    if at is None:
        if delay_ms != 0:
            require_range("delay_ms", delay_ms, _MOST_DELAY_MS)
        return int(delay_ms)
    if delay_ms:
        msg = "pass delay_ms= or at=, not both"
        raise UsageError(msg)
    if not isinstance(at, datetime) or at.tzinfo is None:
        msg = f"at must be a datetime with a time zone, not {at!r:.80}"
        raise UsageError(msg)
    seconds = (at - datetime.now(UTC)).total_seconds()
    if seconds * 1000 > _MOST_DELAY_MS:
        msg = f"at={at.isoformat()} is more than a year away"
        raise UsageError(msg)
    return max(0, round(seconds * 1000))


def dead_result(run_id: str, message: str, hint: str) -> RunResult:
    """Return the result of a run that workers start no more."""
    failure = Failure(code="dead", message=message, hint=hint)
    return RunResult(run_id=run_id, status="dead", error=failure)
