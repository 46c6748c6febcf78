"""The runs of a session: each waits for its turn and for a worker, and is driven to its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import anyio

from .._arguments import require_function
from .._calls._budget import Budget
from .._calls._dispatch import Dispatch
from .._calls._scope import Shared
from .._records._artifacts import ArtifactStore
from .._records._result import Failure, RunEvent, RunResult
from .._tools._discovery import discovery_tools
from .._tools._environment import Environment
from .._workers._pool import Pool
from .._workers._process import WorkerGoneError
from ..errors import SessionClosedError
from ._code_cache import CodeCache
from ._history import History
from ._program import Program
from ._rollback import Rollback, plan_rollback, roll_back
from ._run import Run
from ._violation import ViolationLog

__all__ = ["Runs"]


class Runs:
    """Executes programs, a number of them at once. Opened once, closed once."""

    def __init__(
        self,
        most: int,
        *,
        pool: Pool,
        shared: Shared,
        history: History,
        artifacts: ArtifactStore,
    ) -> None:
        """Execute nothing yet.

        Args:
            most: Runs at once; further ones wait in order.
            pool: Where the workers come from; it is closed with the runs.
            shared: What all calls of the session share.
            history: Where runs are recorded.
            artifacts: Where values go that are over their limit.
        """
        self._most = most
        self._pool = pool
        self._shared = shared
        self._history = history
        self._artifacts = artifacts
        self.code = CodeCache()
        self.violations = ViolationLog()
        self.active: set[Run] = set()
        """Those that have a worker."""
        self.asked = 0
        """Those that have not given their result."""
        self._slots: anyio.Semaphore | None = None
        self._closed = False
        self._idle: anyio.Event | None = None

    def open(self) -> None:
        """Begin: called in the event loop."""
        self._slots = anyio.Semaphore(self._most, fast_acquire=True)

    async def close(self) -> None:
        """End every run with status ``cancelled``, and wait until no process is left."""
        self._closed = True
        failure = Failure(code="cancelled", message="the session was closed during the run")
        for run in list(self.active):
            run.stop("cancelled", failure)
        # A task of asyncio can be cancelled here all the same: `close` leaves no process.
        await self._pool.close()

    async def ended(self) -> None:
        """Wait until every run has given its result."""
        if self.asked:
            self._idle = anyio.Event()
            await self._idle.wait()

    async def execute(
        self,
        program: Program,
        on_event: Callable[[RunEvent], None] | None = None,
        environment: Environment | None = None,
        *,
        again: bool = False,
    ) -> RunResult:
        """Run a program; what goes wrong in it is a status, not an exception.

        Args:
            program: What to run.
            on_event: Called as things happen.
            environment: Values for its tools. Default: the session's.
            again: True: go on with what is recorded of it.

        Raises:
            SetupError: If no jailed worker can be had on this machine.
            SessionClosedError: If the session was closed before its turn came.
        """
        assert self._slots is not None  # noqa: S101  # set when the session was opened
        require_function("on_event", on_event)
        asked = time.perf_counter()
        with self.counted():
            async with self._slots:
                self._check_open()
                # Whatever cannot be recorded is refused before it has a worker.
                dispatch = self._dispatch(program, environment, again)
                try:
                    return await self._drive(program, dispatch, on_event, asked)
                finally:
                    if dispatch.track is not None:
                        dispatch.track.release()

    async def _drive(
        self,
        program: Program,
        dispatch: Dispatch,
        on_event: Callable[[RunEvent], None] | None,
        asked: float,
    ) -> RunResult:
        new = dispatch.track is None and not program.only_check
        worker = await self._pool.acquire(program.limits.max_memory_bytes)
        run = Run(
            program,
            dispatch,
            cache=self.code,
            violations=self.violations,
            artifacts=self._artifacts,
            reactor=self._pool.reactor,
            on_event=on_event,
            queued_ms=(time.perf_counter() - asked) * 1000,
            follow=partial(self._history.follow, program, again=False) if new else None,
        )
        self.active.add(run)
        try:
            while True:
                try:
                    return await run.execute(worker)
                except WorkerGoneError:
                    worker = await self._pool.acquire(program.limits.max_memory_bytes)
        finally:
            self.active.discard(run)

    async def roll_back(self, run_id: str, skip: set[str], *, dry_run: bool) -> Rollback:
        """Undo what a run did, as `Session.rollback`; closing waits for the step under way."""
        tools = self._shared.known
        if dry_run:
            return plan_rollback(self._history.recorded(run_id), tools, skip)
        with self.counted():
            return await roll_back(
                self._history.journal,
                run_id,
                tools,
                root=self._shared.root,
                environment=self._shared.environment,
                skip=skip,
                go_on=self._check_open,
            )

    def _check_open(self) -> None:
        if self._closed:
            msg = "the session is closed"
            raise SessionClosedError(msg)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Something that `ended` waits for."""
        self.asked += 1
        try:
            yield
        finally:
            self.asked -= 1
            if not self.asked and self._idle is not None:
                self._idle.set()

    def _dispatch(self, program: Program, environment: Environment | None, again: bool) -> Dispatch:
        limits = program.limits
        # A call that may take as long as its run needs no clock of its own.
        shorter = limits.tool_timeout_ms < limits.timeout_ms
        dispatch = Dispatch(
            program.tools,
            self._shared,
            max_result_bytes=limits.max_tool_result_bytes,
            budget=Budget(limits.max_tool_calls, limits.max_calls_by_tool),
            call_timeout_ms=limits.tool_timeout_ms if shorter else None,
            environment=environment,
            discovery=partial(discovery_tools, program.tools),
        )
        if again:
            dispatch.resume(self._history.follow(program, again=True))
        elif not program.only_check:
            self._history.open()
        return dispatch
