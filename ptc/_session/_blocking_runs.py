"""Recorded runs of a `BlockingSession`: decisions about their calls, resumption, and rollback."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal, TypeVar, overload

from .._records._artifacts import ArtifactStore
from .._records._result import PendingCall, RunEvent, RunResult
from .._runs._history import History
from .._runs._rollback import Rollback
from .._tools._allow import AllowList
from .._tools._untrusted import UntrustedMode
from ._session import Session

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
        """As `Session.history`; it works in the caller's thread."""
        return self._session.history

    @property
    def artifacts(self) -> ArtifactStore:
        """As `Session.artifacts`."""
        return self._session.artifacts

    def untrusted_in(self, called: Iterable[str]) -> UntrustedMode | None:
        """As `Session.untrusted_in`."""
        return self._session.untrusted_in(called)

    def pending(self, run_id: str | None = None) -> tuple[PendingCall, ...]:
        """As `Session.pending`."""
        return self._session.pending(run_id)

    @overload
    def resume(
        self,
        run_id: str,
        *,
        allowed_tools: AllowList | None = None,
        output_schema: type[_T],
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
        until: str | None = None,
        on_event: Callable[[RunEvent], None] | None = None,
    ) -> RunResult: ...
    def resume(
        self,
        run_id: str,
        *,
        allowed_tools: AllowList | None = None,
        output_schema: Any = None,
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
        decided = self.history.approve(run_id, call, by=by, arguments=arguments, comment=comment)
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
        decided = self.history.reject(run_id, call, by=by, comment=comment)
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
