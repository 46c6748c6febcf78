"""The session behind the page: opened when somebody runs, checks or resumes a script."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio

from .._core._arguments import describe_error
from .._runs._program_row import recorded_tools
from ..errors import PtcError, UsageError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from .._records._result import Finding, RunEvent
    from .._runs._history import History
    from .._session._session import Session

__all__ = ["Bench"]

_ELSEWHERE_SECONDS: Final = 2.5
"""Time that a waiting process or a worker of the queue has to continue a run after a decision."""
_POLL_SECONDS: Final = 0.15
_MOST_NOTES: Final = 1_000
_log = logging.getLogger("ptc")


class Bench:
    """Runs scripts for the page, and continues runs after decisions."""

    def __init__(self, session: Session | None) -> None:
        """Open nothing yet.

        Args:
            session: Runs and continues scripts. None: the page is read-only.
        """
        self._session = session
        self._group: TaskGroup | None = None
        self._lock = anyio.Lock()
        self._is_open = False
        self.notes: dict[str, str] = {}
        """By run: ``here``, ``elsewhere``, ``nobody``, ``waits``, or the reason why this process
        could not continue it."""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Keep the tasks of the page in the block, and close the session at its end."""
        async with anyio.create_task_group() as group:
            self._group = group
            try:
                yield
            finally:
                group.cancel_scope.cancel()
        if self._session is not None and self._is_open:
            with anyio.CancelScope(shield=True):
                await self._session.aclose()

    async def session(self) -> Session:
        """Return the open session. Raises `UsageError` if the page is read-only."""
        if self._session is None:
            msg = "this page is read-only (--read-only)"
            raise UsageError(msg)
        async with self._lock:
            if not self._is_open:
                await self._session.__aenter__()
                self._is_open = True
        return self._session

    # --- scripts ------------------------------------------------------------------------------

    async def tools(self) -> dict[str, Any]:
        """Return the tools of the session: stubs for an editor, and the default limits."""
        import dataclasses

        session = await self.session()
        definitions = session.tool_definitions(session.tool_names())
        return {
            "stubs": session.describe_tools(session.tool_names()),
            "tools": [
                {
                    "name": item["name"],
                    "description": str(item.get("description", ""))[:400],
                    "schema": item.get("input_schema") or item.get("parameters"),
                    "side_effect": session.select_tools([item["name"]])[item["name"]].side_effect,
                }
                for item in definitions
            ],
            "limits": dataclasses.asdict(session.limits),
        }

    async def check(self, source: str, allowed: list[str] | None) -> tuple[Finding, ...]:
        """Check a script. Raises as `Session.check`."""
        return await (await self.session()).check(source=source, allowed_tools=allowed)

    async def start(self, options: dict[str, Any]) -> str:
        """Start a script, and return the id of its run once it has been accepted.

        Raises:
            PtcError: If it was not accepted.
        """
        session = await self.session()
        run_id = uuid.uuid4().hex
        accepted = anyio.Event()
        failure: list[PtcError] = []

        def on_event(_: RunEvent) -> None:
            accepted.set()

        async def execute() -> None:
            try:
                await session.program(**options, run_id=run_id, on_event=on_event)
            except PtcError as error:
                failure.append(error)
            finally:
                accepted.set()

        self._note(run_id, "here")
        assert self._group is not None  # noqa: S101  # requests come while serving
        self._group.start_soon(execute)
        await accepted.wait()
        if failure:
            raise failure[0]
        return run_id

    # --- after a decision -----------------------------------------------------------------------

    def continue_later(self, run_id: str, history: History) -> None:
        """Continue a run here, unless another process does so within a moment."""
        self._note(run_id, "waits")
        assert self._group is not None  # noqa: S101  # requests come while serving
        self._group.start_soon(self._continue, run_id, history)

    async def _continue(self, run_id: str, history: History) -> None:
        try:
            if await self._is_continued(run_id, history):
                self._note(run_id, "elsewhere")
            elif await history.pending(run_id):
                self._note(run_id, "pending")
            elif await self._can_continue(run_id, history):
                await self.resume(run_id)
            else:
                self._note(run_id, "nobody")
        except PtcError as error:
            self._note(run_id, f"failed: {error}"[:1_000])
        except Exception as error:  # noqa: BLE001  # a task that raised would end all others of the page
            _log.exception("run %s could not be continued", run_id)
            self._note(run_id, f"failed: {describe_error(error)}"[:1_000])

    async def _is_continued(self, run_id: str, history: History) -> bool:
        before = await history.run(run_id)
        state = (before.status, before.attempts, before.ended_ms)
        if before.status != "paused":
            return True
        with anyio.move_on_after(_ELSEWHERE_SECONDS):
            while True:
                await anyio.sleep(_POLL_SECONDS)
                row = await history.run(run_id)
                if (row.status, row.attempts, row.ended_ms) != state:
                    return True
        return False

    async def _can_continue(self, run_id: str, history: History) -> bool:
        if self._session is None:
            return False
        session = await self.session()
        return set(recorded_tools(await history.run(run_id))) <= set(session.tool_names())

    async def resume(self, run_id: str) -> None:
        """Continue a run in this process, to its end or its next pause. Raises as `resume`."""
        session = await self.session()
        self._note(run_id, "here")
        await session.resume(run_id)

    def resume_soon(self, run_id: str) -> None:
        """Continue a run in this process, in the background; `notes` has a failure."""
        assert self._group is not None  # noqa: S101  # requests come while serving
        self._group.start_soon(self._guarded, self.resume, run_id)

    async def _guarded(self, function: Callable[[str], Any], run_id: str) -> None:
        try:
            await function(run_id)
        except PtcError as error:
            self._note(run_id, f"failed: {error}"[:1_000])

    def _note(self, run_id: str, note: str) -> None:
        self.notes.pop(run_id, None)
        self.notes[run_id] = note
        while len(self.notes) > _MOST_NOTES:
            del self.notes[next(iter(self.notes))]
