"""``ptc run``: one script, its value on standard output, its outcome as the exit status.

Rule 1: Ctrl-C ends the run in order: the session is closed, and no process is left.
    tests/cli/test_terminal.py::test_ctrl_c_ends_the_run_in_order_and_leaves_no_process
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from ._options import (
    isolation_option,
    journal_in_root_option,
    journal_option,
    json_option,
    limit_options,
    limits_of,
    model_option,
    names_of,
    package_option,
    root_option,
    toolset_option,
    unprotect_option,
)
from ._status import EXIT_STATUS_HELP, INTERRUPTED, TERMINATED, status_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .._records._limits import Limits
    from .._records._result import RunResult
    from .._session import Session
    from ._progress import Progress

__all__ = ["command", "tell"]

_HELP = """Run SCRIPT, a file with `async def run(ctx, inputs)` or `def run(ctx, inputs)`.

SCRIPT is a path from the current folder, inside --root or not; `-` reads standard input. The value
that `run` returns goes to standard output as JSON (a string is shown as it is on a terminal). What
the script prints, warnings and errors go to standard error.

\b
Examples:
  ptc run find.py --input query=TODO --allow grep,read
  ptc run report.py --inputs data.json --root ./src --timeout-ms 5000
  ptc run find.py --json | jq .calls
  echo 'def run(ctx, inputs): return inputs["n"] * 2' | ptc run - --input n=21

The VALUE of --input is what JSON makes of it: 3 is a number, true a boolean, [1,2] a list. What is
no JSON is a string: TODO. To pass a string that looks like JSON, quote it: --input 'id="007"'.
"""


@click.command("run", short_help="Run a script in the jail.", help=_HELP, epilog=EXIT_STATUS_HELP)
@click.argument("script", metavar="SCRIPT")
@click.option(
    "--input",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="An input of the script; repeat it for more. Goes over --inputs.",
)
@click.option("--inputs", metavar="FILE", help="JSON file with an object of inputs; - reads stdin.")
@click.option(
    "--allow",
    multiple=True,
    metavar="TOOL,...",
    help="Tools the script may call; may be repeated; '' allows none. "
    "[default: all without side effects]",
)
@root_option
@toolset_option
@limit_options
@isolation_option
@package_option
@unprotect_option
@journal_option
@journal_in_root_option
@model_option
@json_option("Print the whole result (status, value, calls, usage, error ...) as JSON.")
def command(
    *,
    script: str,
    pairs: tuple[str, ...],
    inputs: str | None,
    allow: tuple[str, ...],
    root: str,
    toolsets: tuple[str, ...],
    isolation: str,
    packages: tuple[str, ...],
    unprotected: tuple[str, ...],
    journal: str | None,
    journal_in_root: bool,
    model: str | None,
    as_json: bool,
    **limits: Any,
) -> int:
    """Run the command; the docstring for users is `_HELP`."""
    from ..errors import UsageError
    from ._inputs import merge_inputs, read_object
    from ._script import read_script

    if script == "-" and inputs == "-":
        msg = "SCRIPT and --inputs cannot both be `-`: there is one standard input"
        raise UsageError(msg)
    # All that can be wrong with the command line is found before anything is started.
    asked = limits_of(limits)
    source, filename = read_script(script)
    merged = merge_inputs(pairs, read_object(inputs, "--inputs") if inputs is not None else {})
    return _execute(
        source,
        filename,
        inputs=merged,
        allowed=names_of(allow) if allow else None,
        limits=asked,
        root=root,
        toolsets=toolsets,
        isolation=isolation,
        packages=packages,
        unprotected=unprotected,
        journal=journal,
        journal_in_root=journal_in_root,
        model=model,
        as_json=as_json,
    )


def _execute(
    source: str,
    filename: str,
    *,
    inputs: Mapping[str, Any],
    allowed: list[str] | None,
    limits: Limits,
    root: str,
    toolsets: tuple[str, ...],
    isolation: str,
    packages: tuple[str, ...],
    unprotected: tuple[str, ...],
    journal: str | None,
    journal_in_root: bool,
    model: str | None,
    as_json: bool,
) -> int:
    import anyio

    from ..errors import UsageError
    from ._options import in_words_of_options, open_session
    from ._progress import Progress
    from ._report import counted_calls
    from ._terminal import standard_error

    session = open_session(
        root=root,
        toolsets=toolsets,
        limits=limits,
        isolation=isolation,
        packages=packages,
        unprotected=unprotected,
        journal=journal,
        journal_in_root=journal_in_root,
        model=model,
    )
    errors = standard_error()
    if isolation == "process":
        errors.line(
            "warning: --isolation process: kernel layers that this machine lacks are not required; "
            "where one is missing, one bug in the language layer is your own user's rights "
            "(`ptc doctor` shows both levels)",
            "yellow",
        )
    guarded = _GuardedRun(session, Progress(errors, quiet=as_json))
    program = {"source": source, "filename": filename, "inputs": inputs, "allowed_tools": allowed}
    try:
        result = anyio.run(guarded.execute, program)
    except UsageError as error:
        raise in_words_of_options(error) from None
    if result is not None:
        tell(result, filename, as_json=as_json)
    if guarded.signal is not None:
        if result is None or not as_json:
            after = f" after {counted_calls(len(result.calls))}" if result is not None else ""
            errors.line(f"interrupted{after}")
        return TERMINATED if guarded.signal == signal.SIGTERM else INTERRUPTED
    assert result is not None  # noqa: S101  # only a signal leaves none
    return status_of(result)


def tell(result: RunResult, filename: str, *, as_json: bool) -> None:
    """The value, then what is to be said of the run."""
    from .. import _json
    from ._report import report_calls, report_outcome
    from ._terminal import standard_error, standard_output

    output, errors = standard_output(), standard_error()
    if as_json:
        output.json(_json.loads(result.to_json()))
        return
    if result.ok:
        if output.is_terminal and isinstance(result.value, str):
            output.line(result.value)
        else:
            output.json(result.value)
    if result.status != "cancelled":
        report_outcome(errors, result, filename)
    if errors.is_terminal:
        report_calls(errors, result)


class _GuardedRun:
    """One program of one session, that a signal ends in order."""

    def __init__(self, session: Session, progress: Progress) -> None:
        self._session = session
        self._progress = progress
        self.signal: signal.Signals | None = None
        """The signal that ended it; None if none did."""

    async def execute(self, program: Mapping[str, Any]) -> RunResult | None:
        """Run it; None if a signal came before the script had begun."""
        import anyio

        from ..errors import PtcError, SessionClosedError

        result: RunResult | None = None
        failure: PtcError | None = None
        async with self._session, anyio.create_task_group() as group:
            scope = anyio.CancelScope()
            group.start_soon(self._progress.follow)
            if sys.platform != "win32":
                group.start_soon(self._watch, scope)
                # So that it watches before there is something to end.
                await anyio.lowlevel.checkpoint()
            try:
                with scope:
                    result = await self._session.program(
                        **program, on_event=self._progress.on_event
                    )
            except SessionClosedError as error:
                # The signal came between two steps of the start.
                failure = error if self.signal is None else None
            except PtcError as error:
                # Raised outside the group, which would wrap it.
                failure = error
            finally:
                self._progress.close()
                group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return result

    async def _watch(self, starting: Any) -> None:
        """Close the session at the first signal. A second one finds Python's own handler."""
        import anyio

        # What a shell has told us to ignore (`nohup`, a job in the background) stays ignored.
        ends = (signal.SIGINT, signal.SIGTERM)
        heeded = [number for number in ends if signal.getsignal(number) != signal.SIG_IGN]
        if not heeded:
            return
        with anyio.open_signal_receiver(*heeded) as signals:
            async for number in signals:
                self.signal = number
                break
        if not self._progress.began:
            starting.cancel()
            return
        await self._session.aclose()
