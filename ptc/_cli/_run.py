"""``ptc run``: run a script, print its value, and exit with the status of its outcome.

Rule 1: Ctrl-C stops the run cleanly: the session is closed, and no process is left.
    tests/cli/test_terminal.py::test_ctrl_c_interrupts_the_run_and_leaves_no_process
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
    model_option,
    package_option,
    parse_limits,
    root_option,
    split_names,
    toolset_option,
    unprotect_option,
)
from ._status import EXIT_STATUS_HELP, INTERRUPTED, TERMINATED, status_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .._records._limits import Limits
    from .._records._result import RunResult
    from .._session._session import Session
    from ._progress import Progress

__all__ = ["command", "print_result"]

_HELP = """Run SCRIPT, a file with `async def run(ctx, inputs)` or `def run(ctx, inputs)`.

SCRIPT is a path relative to the current folder, inside --root or not; `-` reads standard input.
ptc prints the return value of `run` to standard output as JSON (a terminal shows a string as plain
text). The script's own output, warnings and errors go to standard error.

\b
Examples:
  ptc run find.py --input query=TODO --allow grep,read
  ptc run report.py --inputs data.json --root ./src --timeout-ms 5000
  ptc run find.py --json | jq .calls
  echo 'def run(ctx, inputs): return inputs["n"] * 2' | ptc run - --input n=21

VALUE of --input is parsed as JSON: 3 is a number, true a boolean, [1,2] a list. A value that is not
JSON is a string: TODO. To pass a string that looks like JSON, quote it: --input 'id="007"'.
"""


@click.command("run", short_help="Run a script in the jail.", help=_HELP, epilog=EXIT_STATUS_HELP)
@click.argument("script", metavar="SCRIPT")
@click.option(
    "--input",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="An input of the script; may be repeated. Overrides --inputs.",
)
@click.option("--inputs", metavar="FILE", help="JSON file with an object of inputs; - reads stdin.")
@click.option(
    "--allow",
    multiple=True,
    metavar="TOOL,...",
    help="Tools that the script may call; may be repeated; '' allows none. "
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
    """Run the command; `_HELP` is its help text."""
    from ..errors import UsageError
    from ._inputs import merge_inputs, read_object
    from ._script import read_script

    if script == "-" and inputs == "-":
        msg = "SCRIPT and --inputs cannot both be `-`: there is one standard input"
        raise UsageError(msg)
    # Validate the whole command line before anything is started.
    requested_limits = parse_limits(limits)
    source, filename = read_script(script)
    merged = merge_inputs(pairs, read_object(inputs, "--inputs") if inputs is not None else {})
    return _execute(
        source,
        filename,
        inputs=merged,
        allowed=split_names(allow) if allow else None,
        limits=requested_limits,
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
    from ._options import open_session, with_option_names
    from ._progress import Progress
    from ._report import format_call_count
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
            "where one is missing, one bug in the language layer gives the script your user's "
            "rights (`ptc doctor` shows both levels)",
            "yellow",
        )
    guarded = _GuardedRun(session, Progress(errors, quiet=as_json))
    program = {"source": source, "filename": filename, "inputs": inputs, "allowed_tools": allowed}
    try:
        result = anyio.run(guarded.execute, program)
    except UsageError as error:
        raise with_option_names(error) from None
    if result is not None:
        print_result(result, filename, as_json=as_json)
    if guarded.signal is not None:
        if result is None or not as_json:
            after = f" after {format_call_count(len(result.calls))}" if result is not None else ""
            errors.line(f"interrupted{after}")
        return TERMINATED if guarded.signal == signal.SIGTERM else INTERRUPTED
    assert result is not None  # noqa: S101  # only a signal leaves none
    return status_of(result)


def print_result(result: RunResult, filename: str, *, as_json: bool) -> None:
    """Print the value of a run, then its report."""
    from .._core import _json
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
    """One run of one session that stops cleanly on a signal."""

    def __init__(self, session: Session, progress: Progress) -> None:
        self._session = session
        self._progress = progress
        self.signal: signal.Signals | None = None
        """Signal that stopped the run, or None."""

    async def execute(self, program: Mapping[str, Any]) -> RunResult | None:
        """Run the program; return None if a signal arrived before the script started."""
        import anyio

        from ..errors import PtcError, SessionClosedError

        result: RunResult | None = None
        failure: PtcError | None = None
        async with self._session, anyio.create_task_group() as group:
            scope = anyio.CancelScope()
            group.start_soon(self._progress.follow)
            if sys.platform != "win32":
                group.start_soon(self._watch, scope)
                # Let the watcher install its handler before the run starts.
                await anyio.lowlevel.checkpoint()
            try:
                with scope:
                    result = await self._session.program(
                        **program, on_event=self._progress.on_event
                    )
            except SessionClosedError as error:
                # The signal arrived during the start.
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
        """Close the session at the first signal. A second one reaches Python's own handler."""
        import anyio

        # Signals that the shell made us ignore (`nohup`, a background job) stay ignored.
        stopping = (signal.SIGINT, signal.SIGTERM)
        handled = [number for number in stopping if signal.getsignal(number) != signal.SIG_IGN]
        if not handled:
            return
        with anyio.open_signal_receiver(*handled) as signals:
            async for number in signals:
                self.signal = number
                break
        if not self._progress.began:
            starting.cancel()
            return
        await self._session.aclose()
