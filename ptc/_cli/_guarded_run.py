"""One run of a command: progress, signals, questions about its calls, and its report.

Rule 1: Ctrl-C stops the run cleanly: the session is closed, and no process is left.
    tests/cli/test_terminal.py::test_ctrl_c_interrupts_the_run_and_leaves_no_process
Rule 2: whenever the run can be continued, the command that does so is printed.
    tests/cli/test_approvals.py::test_pause_and_ctrl_c_print_the_command_that_continues_the_run
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .._dataclass import dataclass
from ._status import INTERRUPTED, TERMINATED, status_of

if TYPE_CHECKING:
    import anyio

    from .._records._result import RunEvent, RunResult
    from .._session._session import Session
    from .._tools._allow import AllowList
    from ..errors import PtcError
    from ._ask import ApprovalDialog
    from ._run_page import RunPage
    from ._terminal import Stream

__all__ = ["GuardedRun", "RunReport", "Start", "Write", "run_to_end"]

_ELSEWHERE_SECONDS = 60.0
"""Time to wait for the end of a run that somebody else has resumed."""
_POLL_SECONDS = 0.2

Start = Callable[[Callable[["RunEvent"], None]], Awaitable["RunResult"]]
"""Starts or resumes the run; it receives the subscriber of events."""
Write = Callable[["RunResult | None", "signal.Signals | None"], None]
"""Prints the result of the run, and the signal that stopped it."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """How the result of a run is printed."""

    filename: str
    """Name of the script in messages."""
    source: str
    """Text of the script."""
    as_json: bool
    """True: the whole result."""
    verbose: bool
    """True: the table of calls, off a terminal as well."""


def run_to_end(
    session: Session,
    start: Start,
    report: RunReport,
    *,
    by: str | None,
    allowed: AllowList | None,
    page: RunPage | None = None,
) -> int:
    """Run a script, print its result and return the exit status.

    Args:
        session: The session, not yet opened.
        start: Starts or resumes the run.
        report: How the result is printed.
        by: Name of the person at the terminal, who is asked about calls; None: ask nobody.
        allowed: Allow-list to resume the run with after a decision. None: the recorded one.
        page: Shows the run in a browser, until a signal arrives. None: there is no page.
    """
    import anyio

    from ._ask import ApprovalDialog, can_ask
    from ._next_step import report_correction, report_next_step, report_save
    from ._report import format_call_count
    from ._run import print_result
    from ._terminal import standard_error

    errors = standard_error()
    dialog = None
    if by is not None and page is None and can_ask():
        dialog = ApprovalDialog(session, errors, by)

    def write(result: RunResult | None, number: signal.Signals | None) -> None:
        if result is not None:
            print_result(result, report.filename, as_json=report.as_json, verbose=report.verbose)
            shows_calls = not report.as_json and (errors.is_terminal or report.verbose)
            if shows_calls and session.history.is_durable:
                report_save(errors, result, report.source)
            if session.history.is_durable and not report.as_json:
                report_correction(errors, result)
        if number is not None and (result is None or not report.as_json):
            after = f" after {format_call_count(len(result.calls))}" if result is not None else ""
            errors.line(f"interrupted{after}")
        if result is None or not (result.status == "paused" or (number and not result.ok)):
            return
        if session.history.is_durable:
            report_next_step(errors, result.run_id, result.pending)
        else:
            errors.line("the run was recorded in memory only, so it cannot be resumed")

    guarded = GuardedRun(session, errors, dialog, quiet=report.as_json, page=page)
    result = anyio.run(guarded.execute, start, allowed, write)
    if guarded.signal is not None:
        return TERMINATED if guarded.signal == signal.SIGTERM else INTERRUPTED
    assert result is not None  # noqa: S101  # only a signal leaves none
    return status_of(result)


class GuardedRun:
    """One run of one session that stops cleanly on a signal."""

    def __init__(
        self,
        session: Session,
        stream: Stream,
        dialog: ApprovalDialog | None,
        *,
        quiet: bool,
        page: RunPage | None = None,
    ) -> None:
        """Prepare the run.

        Args:
            session: The session, not yet opened.
            stream: Shows progress and questions.
            dialog: Asks about calls that require approval. None: the run pauses for them.
            quiet: True: show no progress.
            page: Shows the run in a browser. None: there is no page.
        """
        self._page = page
        self._session = session
        self._stream = stream
        self._dialog = dialog
        self._quiet = quiet
        self._began = False
        self._output = _Output()
        self._scope: anyio.CancelScope | None = None
        self.signal: signal.Signals | None = None
        """Signal that stopped the run, or None."""

    async def execute(
        self, start: Start, allowed: AllowList | None, write: Write
    ) -> RunResult | None:
        """Run the program; return None if a signal arrived before the script started."""
        async with self._session, self._page or nullcontext():
            result, failure = await self._execute(start, allowed)
            if failure is None:
                # Before the session is closed, which may wait for notifications of its webhook.
                write(result, self.signal)
                if self._page is not None and self.signal is None:
                    await self._page.stay()
        if failure is not None:
            raise failure
        return result

    async def _execute(
        self, start: Start, allowed: AllowList | None
    ) -> tuple[RunResult | None, PtcError | None]:
        import anyio

        from ..errors import PtcError, SessionClosedError

        result: RunResult | None = None
        # Raised outside the group, which would wrap it.
        failure: PtcError | None = None
        async with anyio.create_task_group() as group:
            self._scope = anyio.CancelScope()
            group.start_soon(self._watch)
            # Let the watcher install its handler before the run starts.
            await anyio.lowlevel.checkpoint()
            try:
                with self._scope:
                    result = await self._run(start)
                    while result.status == "paused" and await self._ask(result):
                        result = await self._resume(result, allowed)
            except SessionClosedError as error:
                # The signal arrived during the start.
                failure = error if self.signal is None else None
            except PtcError as error:
                failure = error
            finally:
                group.cancel_scope.cancel()
        return result, failure

    async def _run(self, start: Start) -> RunResult:
        """Start or resume the run, with a display of its progress."""
        import anyio

        from ._progress import Progress

        progress = Progress(self._stream, quiet=self._quiet)

        self._output.restart()

        def on_event(event: RunEvent) -> None:
            self._began = self._began or event.kind == "started"
            if (new := self._output.unseen(event)) is not None:
                progress.on_event(new)

        outcome: RunResult | Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(progress.follow)
            try:
                outcome = await _outcome_of(start(on_event))
            finally:
                progress.close()
                group.cancel_scope.cancel()
        if isinstance(outcome, Exception):
            raise outcome
        assert outcome is not None  # noqa: S101  # a cancelled group does not get here
        return outcome

    async def _ask(self, result: RunResult) -> bool:
        """Ask about the pending calls; True if the run can be resumed now."""
        if self._dialog is None or self.signal is not None:
            return False
        return await self._dialog.ask(result)

    async def _resume(self, paused: RunResult, allowed: AllowList | None) -> RunResult:
        """Resume a run, or return its result if somebody else has resumed it meanwhile."""
        import anyio

        from .._runs._program_row import load_result
        from ..errors import JournalError

        async def start(on_event: Any) -> RunResult:
            return await self._session.resume(
                paused.run_id, allowed_tools=allowed, on_event=on_event
            )

        deadline = anyio.current_time() + _ELSEWHERE_SECONDS
        while True:
            try:
                return await self._run(start)
            except JournalError:
                row = await self._session.history.run(paused.run_id)
                executing = row.status == "running" and anyio.current_time() < deadline
                result = load_result(row)
                if row.rolled_back_ms is not None or not (executing or result):
                    raise
                if result is not None and not executing:
                    return result
            # Nothing runs here, so a signal cancels the wait instead of closing the session.
            self._began = False
            await anyio.sleep(_POLL_SECONDS)

    async def _watch(self) -> None:
        """Close the session at the first signal. A second one reaches Python's own handler."""
        from .._core._signals import receive_signals
        from ._signals import stop_signals

        handled = stop_signals()
        if not handled:
            return
        with receive_signals(*handled) as signals:
            async for number in signals:
                leaves_question = self._dialog is not None and number == signal.SIGINT
                if leaves_question and self._dialog is not None and self._dialog.interrupt():
                    continue
                self.signal = number
                break
        if not self._began or (self._dialog is not None and self._dialog.interrupt()):
            assert self._scope is not None  # noqa: S101  # made before this task
            self._scope.cancel()
            return
        await self._session.aclose()


class _Output:
    """Output of a script, which a resumed run repeats from its beginning."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._repeated: Counter[str] = Counter()

    def restart(self) -> None:
        """Start or resume the run."""
        self._repeated, self._seen = self._seen, Counter()

    def unseen(self, event: RunEvent) -> RunEvent | None:
        """Return the event without text that was shown before; None if nothing is left."""
        if event.kind not in ("stdout", "stderr", "log") or event.call is not None:
            return event
        skipped = max(0, self._repeated[event.kind] - self._seen[event.kind])
        self._seen[event.kind] += len(event.text)
        if not skipped:
            return event
        text = event.text[skipped:]
        return replace(event, text=text) if text else None


async def _outcome_of(run: Awaitable[RunResult]) -> RunResult | Exception:
    """Return the result or the exception of a run, so that no task group wraps the exception."""
    try:
        return await run
    except Exception as error:  # noqa: BLE001  # raised again by the caller
        return error
