"""The same session for people without an event loop: one thread runs it, calls block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from inspect import isawaitable
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any, Self, Unpack

from anyio import CancelScope
from anyio.from_thread import BlockingPortal, start_blocking_portal

from ._layer import Layer
from ._records._result import RunEvent, RunResult
from ._runs._history import History
from ._runs._program import ProgramOptions
from ._runs._rollback import Rollback
from ._runs._violation import Violation
from ._session import Session
from ._tools._allow import AllowList
from ._tools._tool_result import ToolResult
from .errors import SessionClosedError

__all__ = ["BlockingSession"]


class BlockingSession:
    """`Session` with plain methods; a context manager. Takes what `Session` takes.

    ::

        with BlockingSession(root=".") as session:
            text = session.read(path="README.md")
            result = session.program(path="find.py", allowed_tools=["grep"])
    """

    def __init__(self, root: str | Path = ".", **options: Any) -> None:
        """As `Session`; raises the same `UsageError`, and `TypeError` on an unknown option."""
        self._session = Session(root, **options)
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            stack.enter_context(self._portal.wrap_async_context_manager(self._session))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._portal = None
        # With what has happened: an interrupted call that is still there is cancelled then.
        self._stack.__exit__(exc_type, exc, traceback)

    def program(
        self,
        *,
        on_event: Callable[[RunEvent], None] | None = None,
        **options: Unpack[ProgramOptions],
    ) -> RunResult:
        """As `Session.program`. `on_event` is called in the session's thread."""
        call = partial(self._session.program, **options, on_event=on_event)
        result: RunResult = self._call(call)
        return result

    def tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        allowed_tools: AllowList | None = None,
    ) -> ToolResult:
        """As `Session.tool`."""
        call = partial(
            self._session.tool,
            name,
            arguments,
            idempotency_key=idempotency_key,
            allowed_tools=allowed_tools,
        )
        result: ToolResult = self._call(call)
        return result

    @property
    def history(self) -> History:
        """As `Session.history`: what it does it does in the caller's thread."""
        return self._session.history

    def resume(self, run_id: str, **options: Any) -> RunResult:
        """As `Session.resume`."""
        result: RunResult = self._call(partial(self._session.resume, run_id, **options))
        return result

    def retry(self, run_id: str, **options: Any) -> RunResult:
        """As `Session.retry`."""
        result: RunResult = self._call(partial(self._session.retry, run_id, **options))
        return result

    def rollback(self, run_id: str, *, skip: Iterable[str] = (), dry_run: bool = False) -> Rollback:
        """As `Session.rollback`."""
        call = partial(self._session.rollback, run_id, skip=skip, dry_run=dry_run)
        result: Rollback = self._call(call)
        return result

    def warm_up(self) -> tuple[Layer, ...]:
        """As `Session.warm_up`."""
        layers: tuple[Layer, ...] = self._call(self._session.warm_up)
        return layers

    @property
    def violations(self) -> tuple[Violation, ...]:
        """As `Session.violations`."""
        return self._session.violations

    def tool_names(self) -> list[str]:
        """As `Session.tool_names`."""
        return self._session.tool_names()

    def tool_definitions(self, names: AllowList | None = None) -> list[dict[str, Any]]:
        """As `Session.tool_definitions`."""
        return self._session.tool_definitions(names)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self._session, name)
        return lambda *args, **arguments: self._call(partial(method, *args, **arguments))

    def _call(self, function: Callable[[], Any]) -> Any:
        """Call in the session's thread and wait.

        Who is interrupted while it waits, by Ctrl-C, gets that only when what was asked for has
        been cancelled and has ended: no script goes on behind the back of its caller.
        """
        portal, call = self._open(), _Call(function)
        try:
            return portal.start_task_soon(call.run).result()
        except BaseException:
            # Also while the task was being handed over: then there is no future to cancel.
            if portal.call(call.give_up):
                call.ended.wait()
            raise

    def _open(self) -> BlockingPortal:
        if self._portal is None:
            msg = "the session is not open: use `with BlockingSession(...) as session:`"
            raise SessionClosedError(msg)
        return self._portal


class _Call:
    """One call of the session's thread, which can be given up from outside at any time."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._scope: CancelScope | None = None
        self._given_up = False
        self.ended = Event()

    async def run(self) -> Any:
        """Make the call."""
        if self._given_up:
            return None
        self._scope = CancelScope()
        try:
            with self._scope:
                given = self._function()
                return await given if isawaitable(given) else given
        finally:
            self.ended.set()

    def give_up(self) -> bool:
        """Cancel it, whether it has begun or not; True if its end has to be waited for."""
        self._given_up = True
        if self._scope is None or self.ended.is_set():
            return False
        self._scope.cancel()
        return True
