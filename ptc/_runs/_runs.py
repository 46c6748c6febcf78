"""Concurrent execution of a session's runs: each waits for its turn and for a worker."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import anyio

from .._calls._budget import Budget
from .._calls._dispatch import Dispatch
from .._calls._recorder import RunRecorder
from .._calls._scope import Shared
from .._calls._timeout import CallTimeout
from .._records._result import Failure, RunEvent, RunResult
from .._tools._discovery import discovery_tools
from .._tools._environment import Environment
from .._workers._choose import Engines, require_same_engine
from .._workers._worker import WorkerGoneError
from ..artifacts._session_artifacts import SessionArtifacts
from ..errors import SessionClosedError
from ._code_cache import CodeCache
from ._history import History
from ._program import Program
from ._rollback import Rollback, load_effects, plan_rollback, roll_back
from ._run import Run, RunResources
from ._signatures import derive_schemas
from ._slots import RunSlots
from ._violation import ViolationLog

__all__ = ["Executor", "OpenRecord"]

OpenRecord: TypeAlias = Callable[[str], Awaitable[RunRecorder]]
"""Continues the record of a run on the engine of this name, and returns its recorder."""


class Executor:
    """Executes the programs of a session, several at once. Opened once, closed once."""

    def __init__(
        self,
        most: int,
        *,
        engines: Engines,
        shared: Shared,
        history: History,
        artifacts: SessionArtifacts,
    ) -> None:
        """Prepare to execute programs; nothing is started.

        Args:
            most: Concurrent runs; further ones wait in order. A run that a tool of another waits
                for is not counted if no turn is free.
            engines: Sources of the workers; closed with the executor.
            shared: State that all calls of the session share.
            history: Record of the runs.
            artifacts: Store of values over their limit.
        """
        self._most = most
        self.engines = engines
        self._shared = shared
        self._history = history
        self._artifacts = artifacts
        self.code = CodeCache()
        self.violations = ViolationLog()
        self.active: set[Run] = set()
        """Runs that have a worker."""
        self.unfinished = 0
        """Runs and rollbacks that have not returned their result."""
        self._slots: RunSlots | None = None
        self._closed = False
        self._idle: anyio.Event | None = None

    def open(self) -> None:
        """Accept programs. Called in the event loop."""
        self._slots = RunSlots(self._most)

    async def close(self) -> None:
        """End every run with status ``cancelled``, and wait until no process is left."""
        self._closed = True
        failure = Failure(code="cancelled", message="the session was closed during the run")
        for run in list(self.active):
            run.stop("cancelled", failure)
        # Even if this task is cancelled here, `Pool.close` leaves no process.
        await self.engines.close()

    async def wait_idle(self) -> None:
        """Wait until every run and rollback has returned its result."""
        if self.unfinished:
            self._idle = anyio.Event()
            await self._idle.wait()

    async def execute(
        self,
        program: Program,
        on_event: Callable[[RunEvent], None] | None = None,
        environment: Environment | None = None,
        open_record: OpenRecord | None = None,
    ) -> RunResult:
        """Run a program; a failure of the program is a status, not an exception.

        Args:
            program: The program to run.
            on_event: Called with each event.
            environment: Values for its tools. Default: those of the session.
            open_record: Continues the record of a run. None: the run is new.

        Raises:
            SetupError: If this machine cannot provide a sandboxed worker.
            SessionClosedError: If the session was closed while the program waited for its turn.
        """
        assert self._slots is not None  # noqa: S101  # set when the session was opened
        requested = time.perf_counter()
        with self._count_unfinished():
            async with self._slots.take():
                self._check_open()
                if not self.engines.is_warm:
                    self.engines.start()
                    # Meanwhile: the first schemas take about as long as the workers' process.
                    derive_schemas(program.table, program.source)
                if open_record is not None:
                    await self.engines.hello()
                if program.engine:
                    require_same_engine(program.run_id, program.engine, self.engines.current.name)
                # A run that cannot be recorded is rejected before it takes a worker.
                dispatch = await self._create_dispatch(program, environment, open_record)
                try:
                    return await self._execute_in_worker(program, dispatch, on_event, requested)
                finally:
                    if dispatch.recorder is not None:
                        dispatch.recorder.release_lease()

    async def _execute_in_worker(
        self,
        program: Program,
        dispatch: Dispatch,
        on_event: Callable[[RunEvent], None] | None,
        requested: float,
    ) -> RunResult:
        history = self._history
        is_new = dispatch.recorder is None and program.recorded
        worker = await self.engines.acquire(program.limits.max_memory_bytes)
        engine = self.engines.current
        if is_new:
            program = replace(program, engine=engine.name)
        run = Run(
            program,
            dispatch,
            RunResources(
                self.code,
                self._artifacts,
                self._shared.attachments,
                self.violations,
                engine.reactor,
            ),
            on_event=on_event,
            queued_ms=(time.perf_counter() - requested) * 1000,
            start_record=partial(history.start_record, program) if is_new else None,
            # A retry has a warning of its own, and the keys of the run before it.
            warn_of_repeated=None if program.key_run else history.effects.warn_of_repeated,
        )
        self.active.add(run)
        try:
            while True:
                try:
                    return await run.execute(worker)
                except WorkerGoneError:
                    worker = await self.engines.acquire(program.limits.max_memory_bytes)
        finally:
            self.active.discard(run)

    def find_active(self, run_id: str) -> Run | None:
        """Return the run with this id if it is executed here."""
        return next((run for run in self.active if run.run_id == run_id), None)

    async def roll_back(self, run_id: str, skip: set[str], *, dry_run: bool) -> Rollback:
        """Undo the effects of a run, as `Session.rollback`; `close` waits for the current step."""
        tools = self._shared.known
        if dry_run:
            recorded = await load_effects(await self._history.open(), run_id)
            return plan_rollback(recorded, tools, skip)
        with self._count_unfinished():
            return await roll_back(
                await self._history.open(),
                run_id,
                tools,
                root=self._shared.root,
                environment=self._shared.environment,
                skip=skip,
                before_step=self._check_open,
            )

    def _check_open(self) -> None:
        if self._closed:
            msg = "the session is closed"
            raise SessionClosedError(msg)

    @contextmanager
    def _count_unfinished(self) -> Iterator[None]:
        """Make `wait_idle` wait for the block."""
        self.unfinished += 1
        try:
            yield
        finally:
            self.unfinished -= 1
            if not self.unfinished and self._idle is not None:
                self._idle.set()

    async def _create_dispatch(
        self,
        program: Program,
        environment: Environment | None,
        open_record: OpenRecord | None,
    ) -> Dispatch:
        limits = program.limits
        # A call that may take as long as its run needs no time-out of its own.
        shorter = limits.tool_timeout_ms < limits.timeout_ms
        dispatch = Dispatch(
            program.tools,
            self._shared,
            limits=limits,
            budget=Budget(limits.max_tool_calls, limits.max_calls_by_tool),
            call_timeout=CallTimeout(limits.tool_timeout_ms) if shorter else None,
            environment=environment,
            discovery=partial(discovery_tools, program.table),
            key_run=program.key_run,
        )
        if open_record is not None:
            dispatch.resume(await open_record(self.engines.current.name))
        elif program.recorded:
            await self._history.open()
        return dispatch
