"""Recorded runs of a session: decisions about their calls, resumption, retry and rollback."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, overload

from .._calls._earlier import Reads
from .._core._arguments import parts_of, require
from .._records._limits import Limits
from .._records._preview import RECALL
from .._records._result import PendingCall, RunEvent, RunResult
from .._runs._correction import Correction
from .._runs._history import History
from .._runs._rollback import Rollback
from .._runs._runner import ProgramRunner
from .._runs._runs import Executor
from .._tools._allow import AllowList
from .._tools._untrusted import UntrustedMode, combined_mode
from ..artifacts._session_artifacts import SessionArtifacts
from ..errors import UsageError
from ._described_session import DescribedSession

__all__ = ["RunSession"]

_T = TypeVar("_T")


class RunSession(DescribedSession):
    """The part of `Session` for runs that are recorded: decide, resume, retry, roll back."""

    history: History
    """Recorded runs: outcomes and pending decisions."""
    artifacts: SessionArtifacts
    """Stored files: values over `Limits.max_output_bytes`, and attachments of tools."""
    untrusted: UntrustedMode | None
    """Treatment of texts for a model, as configured."""
    _runner: ProgramRunner
    _runs: Executor

    def untrusted_in(self, called: Iterable[str]) -> UntrustedMode | None:
        """Return the treatment of the texts of a run, for a model that reads them.

        It is that of the session. If it has none, it is that of the untrusted tools that the script
        called: its value, output and error may contain their texts.

        Args:
            called: Names of the tools that the run called.
        """
        tools, names = self._catalog.tools, set(called)
        # A stored value that was read again may be that of any tool.
        shown = tools.values() if RECALL in names else map(tools.get, names)
        return self.untrusted or combined_mode(tool.untrusted for tool in shown if tool is not None)

    # --- decisions --------------------------------------------------------------------------

    async def pending(self, run_id: str | None = None) -> tuple[PendingCall, ...]:
        """List the calls that await a decision, the oldest request first.

        Args:
            run_id: Their run. None: all paused runs of the journal, also those of other processes.

        Raises:
            JournalError: If there is no such run.
        """
        return await self.history.pending(run_id)

    @overload
    async def approve(
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
    async def approve(
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
    async def approve(
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
        """Approve a pending call of a paused run. The decision is durable and final.

        Args:
            run_id: The run.
            call: The call, as `PendingCall.call`. None: the only pending one.
            by: Name of the approver, for the record; must not be empty.
            arguments: Edited arguments to make the call with, validated by the tool. None: the
                requested ones.
            comment: Reason, for the record.
            resume: True: resume the run now.
            allowed_tools: As for `resume`.

        Returns:
            The approved call; the result of the run if it was resumed.

        Raises:
            UsageError: If no such call is pending, it was decided before, the request expired, or
                `by` or `arguments` is not valid. No decision is recorded then.
            JournalError: If there is no such run, or it cannot be resumed.
        """
        decided = await self.history.approve(
            run_id, call, by=by, arguments=arguments, comment=comment
        )
        return await self.resume(run_id, allowed_tools=allowed_tools) if resume else decided

    @overload
    async def reject(
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
    async def reject(
        self,
        run_id: str,
        call: str | None = None,
        *,
        by: str,
        comment: str = "",
        resume: Literal[True],
        allowed_tools: AllowList | None = None,
    ) -> RunResult: ...
    async def reject(
        self,
        run_id: str,
        call: str | None = None,
        *,
        by: str,
        comment: str = "",
        resume: bool = False,
        allowed_tools: AllowList | None = None,
    ) -> PendingCall | RunResult:
        """Reject a pending call of a paused run: the script receives a `ToolError`. Final.

        Arguments, result and errors are those of `approve`.
        """
        decided = await self.history.reject(run_id, call, by=by, comment=comment)
        return await self.resume(run_id, allowed_tools=allowed_tools) if resume else decided

    # --- execution ----------------------------------------------------------------------------

    @overload
    async def resume(
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
    async def resume(
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
    async def resume(
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
        """Resume a run that was paused, interrupted or stopped, in this process or another one.

        The script is executed again with its recorded results, without calling a tool, and then
        continues. A call that still awaits a decision pauses it again.

        With `source`, a corrected script continues the run, under the same id and with the same
        idempotency keys. It starts from its beginning. A call whose effect is recorded is matched
        by tool, arguments and number among equal calls, and is not repeated. The earlier record
        stays readable as run ``ID.1``, that of the first correction as ``ID.2``.

        Args:
            run_id: The run. Its status is ``paused``, ``cancelled``, ``crashed``, ``timed_out`` or
                ``limit_exceeded``, or its host died; with `source` also ``failed``.
            allowed_tools: Required again if the run's allow-list had rules (`Allow`), or a tool was
                renamed. Default: the recorded list.
            output_schema: Required again if it was a type. Default: the recorded schema.
            limits: New limits; a dict changes some of the recorded ones. If a call of the script
                failed by a limit that is now higher, the script starts from its beginning, as with
                `source`.
            source: Corrected script; the same one to make failed calls again. None: the recorded
                one.
            filename: Name of `source` in tracebacks. Default: the recorded one.
            reads: With `source`: ``reuse`` returns the recorded results of calls without a side
                effect, until the script makes its first new effect. ``refresh`` makes them again.
            allow_unmatched: With `source`: False stops the script, with code
                ``unmatched_effects``, at a new effect or its end while it has not made all calls
                whose effects are recorded. True: it may continue; they are listed in `warnings`.
            accept_changed_tools: True: resume although the schemas or flags of tools changed that
                the run called or its script names, and record the new ones.
            until: Stop when the script receives the recorded outcome of this call, as ``"3"``: the
                result is ``paused`` and has the script's variables in `RunResult.frames`.
            on_event: As for `program`; recorded events are not repeated.

        Returns:
            The result of the whole run. Status ``failed`` with code ``divergence`` if the script
            diverges from its record.

        Raises:
            UnknownRunError: If there is no such run.
            BusyRunError: If another process executes it.
            EndedRunError: If it would end as it did before, cannot be continued, was rolled back,
                or was started too often.
            ChangedToolsError: If such a tool changed. Nothing was executed, and nothing is lost.
            UsageError: If a tool or a rule of the run is missing, or an argument is wrong.
        """
        self._lifetime.check_open()
        require("accept_changed_tools", accept_changed_tools, bool, "True or False")
        correction = None
        if source is not None:
            correction = Correction(source, filename, reads, allow_unmatched)
            if until is not None:
                msg = "until= replays the recorded script; a corrected one has no record yet"
                raise UsageError(msg)
        elif (filename, reads, allow_unmatched) != (None, "reuse", False):
            msg = "filename=, reads= and allow_unmatched= need source=, a corrected script"
            raise UsageError(msg)
        return await self._runner.resume(
            run_id,
            allowed_tools,
            output_schema,
            until,
            on_event,
            limits=limits,
            correction=correction,
            accept_changed_tools=accept_changed_tools,
        )

    async def retry(
        self,
        run_id: str,
        *,
        allowed_tools: AllowList | None = None,
        on_event: Callable[[RunEvent], None] | None = None,
    ) -> RunResult:
        """Run the script of a recorded run again, from its beginning, as a new run.

        Its calls have the idempotency keys that the earlier run's calls had, unless that run was
        rolled back: a service that deduplicates by key does not repeat an effect.

        If the earlier run had side effects, the result's `warnings` start with a list of them; show
        it to the model that requested the retry.

        Raises:
            JournalError: If there is no such run.
            UsageError: If a tool or a rule of the run is missing.
        """
        self._lifetime.check_open()
        return await self._runner.retry(run_id, allowed_tools, on_event)

    async def rollback(
        self, run_id: str, *, skip: Iterable[str] = (), dry_run: bool = False
    ) -> Rollback:
        """Undo the effects of a run with the `revert` functions of its tools, newest call first.

        Successful calls with a side effect are undone. Calls without a `revert` or with an unknown
        outcome are listed and left. Each step is recorded before it starts and after it finishes. A
        revert that fails stops the rollback, since newer effects may need older ones; a repeated
        rollback starts with it and never repeats a successful revert. From the first step on, the
        run cannot be resumed.

        Args:
            run_id: The run, with any status, if no process is executing it.
            skip: Calls to skip, as ``"3"``, because you have dealt with them. This is recorded.
            dry_run: True: change nothing, return the steps that would be taken.

        Returns:
            Each effect and its status. After a complete rollback: the recorded steps.

        Raises:
            JournalError: If the run is missing, another process executes it, or the journal cannot
                be written.
            UsageError: If the session lacks a required tool, or `skip` names an unknown effect.
            SessionClosedError: If the session is not open, or is closed before the last step.
        """
        self._lifetime.check_open()
        return await self._runs.roll_back(
            run_id, set(parts_of("skip", skip, "a list of calls")), dry_run=dry_run
        )
