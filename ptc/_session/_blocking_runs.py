"""Recorded runs of a `BlockingSession`: decisions about their calls, resumption, and rollback."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from .._calls._earlier import Reads
from .._programs._saved import SavedProgram
from .._records._limits import Limits
from .._records._result import PendingCall, RunEvent, RunResult
from .._runs._history import History
from .._runs._rollback import Rollback
from .._runs._submissions import SubmitOptions, TenantOptions
from .._tools._allow import AllowList
from .._tools._untrusted import UntrustedMode
from ..artifacts._session_artifacts import SessionArtifacts
from ._session import Session

if TYPE_CHECKING:
    from ..journal._queue import QueueStatus, TenantLimits

__all__ = ["BlockingRuns"]

_T = TypeVar("_T")


class BlockingRuns(ABC):
    """The part of `BlockingSession` for runs that are recorded, as `RunSession`."""

    _session: Session

    @abstractmethod
    def _wait(self, function: Callable[[], Awaitable[_T]]) -> _T:
        """Call in the session's thread and wait."""

    @property
    def history(self) -> History:
        """As `Session.history`. Its methods are asynchronous, and work in any event loop.

        ::

            rows = anyio.run(session.history.runs)
        """
        return self._session.history

    @property
    def artifacts(self) -> SessionArtifacts:
        """As `Session.artifacts`."""
        return self._session.artifacts

    def untrusted_in(self, called: Iterable[str]) -> UntrustedMode | None:
        """As `Session.untrusted_in`."""
        return self._session.untrusted_in(called)

    def pending(self, run_id: str | None = None) -> tuple[PendingCall, ...]:
        """As `Session.pending`."""
        return self._wait(partial(self._session.pending, run_id))

    def wait(
        self, run_id: str, timeout_ms: int | None = None, *, through_pauses: bool = False
    ) -> RunResult:
        """As `Session.wait`."""
        call = partial(self._session.wait, run_id, timeout_ms, through_pauses=through_pauses)
        return self._wait(call)

    def follow(
        self, run_id: str, after: int = 0, *, through_pauses: bool = False
    ) -> Iterator[RunEvent]:
        """As `Session.follow`, with a plain ``for``."""
        events = self._session.follow(run_id, after, through_pauses=through_pauses)
        try:
            while True:
                try:
                    event: RunEvent = self._wait(events.__anext__)
                except StopAsyncIteration:
                    return
                yield event
        finally:
            self._wait(events.aclose)

    @overload
    def resume(
        self,
        run_id: str,
        *,
        allowed_tools: AllowList | None = None,
        output_schema: type[_T],
        limits: Limits | Mapping[str, Any] | None = None,
        source: str | None = None,
        filename: str | None = None,
        reads: Reads = "reuse",
        allow_unmatched: bool = False,
        accept_changed_tools: bool = False,
        until: str | None = None,
        on_event: Callable[[RunEvent], None] | None = None,
    ) -> RunResult[_T]: ...
    @overload
    def resume(
        self,
        run_id: str,
        *,
        allowed_tools: AllowList | None = None,
        output_schema: Any = None,
        limits: Limits | Mapping[str, Any] | None = None,
        source: str | None = None,
        filename: str | None = None,
        reads: Reads = "reuse",
        allow_unmatched: bool = False,
        accept_changed_tools: bool = False,
        until: str | None = None,
        on_event: Callable[[RunEvent], None] | None = None,
    ) -> RunResult: ...
    def resume(
        self,
        run_id: str,
        *,
        allowed_tools: AllowList | None = None,
        output_schema: Any = None,
        limits: Limits | Mapping[str, Any] | None = None,
        source: str | None = None,
        filename: str | None = None,
        reads: Reads = "reuse",
        allow_unmatched: bool = False,
        accept_changed_tools: bool = False,
        until: str | None = None,
        on_event: Callable[[RunEvent], None] | None = None,
    ) -> RunResult:
        """As `Session.resume`."""
        return self._wait(
            partial(
                self._session.resume,
                run_id,
                allowed_tools=allowed_tools,
                output_schema=output_schema,
                limits=limits,
                source=source,
                filename=filename,
                reads=reads,
                allow_unmatched=allow_unmatched,
                accept_changed_tools=accept_changed_tools,
                until=until,
                on_event=on_event,
            )
        )

    @overload
    def approve(
        self,
        run_id: str,
        call: str | None = None,
        *,
        by: str,
        arguments: Mapping[str, Any] | None = None,
        comment: str = "",
        resume: Literal[False] = False,
        allowed_tools: AllowList | None = None,
    ) -> PendingCall: ...
    @overload
    def approve(
        self,
        run_id: str,
        call: str | None = None,
        *,
        by: str,
        arguments: Mapping[str, Any] | None = None,
        comment: str = "",
        resume: Literal[True],
        allowed_tools: AllowList | None = None,
    ) -> RunResult: ...
    def approve(
        self,
        run_id: str,
        call: str | None = None,
        *,
        by: str,
        arguments: Mapping[str, Any] | None = None,
        comment: str = "",
        resume: bool = False,
        allowed_tools: AllowList | None = None,
    ) -> PendingCall | RunResult:
        """As `Session.approve`."""
        approve = partial(self._session.approve, by=by, arguments=arguments, comment=comment)
        decided = self._wait(partial(approve, run_id, call))
        return self.resume(run_id, allowed_tools=allowed_tools) if resume else decided

    @overload
    def reject(
        self,
        run_id: str,
        call: str | None = None,
        *,
        by: str,
        comment: str = "",
        resume: Literal[False] = False,
        allowed_tools: AllowList | None = None,
    ) -> PendingCall: ...
    @overload
    def reject(
        self,
        run_id: str,
        call: str | None = None,
        *,
        by: str,
        comment: str = "",
        resume: Literal[True],
        allowed_tools: AllowList | None = None,
    ) -> RunResult: ...
    def reject(
        self,
        run_id: str,
        call: str | None = None,
        *,
        by: str,
        comment: str = "",
        resume: bool = False,
        allowed_tools: AllowList | None = None,
    ) -> PendingCall | RunResult:
        """As `Session.reject`."""
        reject = partial(self._session.reject, by=by, comment=comment)
        decided = self._wait(partial(reject, run_id, call))
        return self.resume(run_id, allowed_tools=allowed_tools) if resume else decided

    def retry(
        self,
        run_id: str,
        *,
        allowed_tools: AllowList | None = None,
        on_event: Callable[[RunEvent], None] | None = None,
    ) -> RunResult:
        """As `Session.retry`."""
        return self._wait(
            partial(self._session.retry, run_id, allowed_tools=allowed_tools, on_event=on_event)
        )

    def rollback(self, run_id: str, *, skip: Iterable[str] = (), dry_run: bool = False) -> Rollback:
        """As `Session.rollback`."""
        return self._wait(partial(self._session.rollback, run_id, skip=skip, dry_run=dry_run))

    def save_program(
        self,
        run_id: str,
        *,
        name: str,
        description: str | None = None,
        input_schema: Any = None,
        output_schema: Any = None,
        allowed_tools: AllowList | None = None,
    ) -> SavedProgram:
        """As `Session.save_program`."""
        return self._wait(
            partial(
                self._session.save_program,
                run_id,
                name=name,
                description=description,
                input_schema=input_schema,
                output_schema=output_schema,
                allowed_tools=allowed_tools,
            )
        )

    def saved_programs(self) -> tuple[SavedProgram, ...]:
        """As `Session.saved_programs`."""
        return self._session.saved_programs()

    def delete_program(self, name: str, version: int | None = None) -> list[int]:
        """As `Session.delete_program`."""

        async def delete() -> list[int]:
            return self._session.delete_program(name, version)

        return self._wait(delete)

    # --- runs for workers -------------------------------------------------------------------

    def submit(self, **options: Unpack[SubmitOptions]) -> str:
        """As `Session.submit`."""
        return self._wait(partial(self._session.submit, **options))

    def submit_many(self, requests: Iterable[SubmitOptions]) -> list[str]:
        """As `Session.submit_many`."""
        return self._wait(partial(self._session.submit_many, list(requests)))

    def cancel(self, run_id: str) -> bool:
        """As `Session.cancel`."""
        return self._wait(partial(self._session.cancel, run_id))

    def set_tenant(self, name: str, **limits: Unpack[TenantOptions]) -> TenantLimits:
        """As `Session.set_tenant`."""
        return self._wait(partial(self._session.set_tenant, name, **limits))

    def queue_status(self) -> QueueStatus:
        """As `Session.queue_status`."""
        return self._wait(self._session.queue_status)
