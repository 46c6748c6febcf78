"""``ptc run``: run a script, print its value, and exit with the status of its outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ._identity import as_option, no_input_option
from ._options import (
    RUN_KEYS,
    json_option,
    open_session,
    script_options,
    settings_options,
)
from ._status import EXIT_STATUS_HELP

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from .._config._settings import Settings
    from .._records._result import RunEvent, RunResult
    from ._guarded_run import RunReport

__all__ = ["command", "print_result", "verbose_option"]

_HELP = """Run SCRIPT, a file with `async def run(ctx, inputs)` or `def run(ctx, inputs)`.

SCRIPT is a path relative to the current folder, inside --root or not; `-` reads standard input.
ptc prints the return value of `run` to standard output as JSON (a terminal shows a string as plain
text). The script's own output, warnings and errors go to standard error.

\b
Examples:
  ptc run find.py --input query=TODO --allow grep,read
  ptc run report.py --inputs data.json --root ./src --timeout-ms 5000
  ptc run order.py --tools shop.py --allow 'price,pay(amount<=100)'
  ptc run find.py --json | jq .calls
  echo 'def run(ctx, inputs): return inputs["n"] * 2' | ptc run - --input n=21

A call that requires approval pauses the run, durably. On a terminal you are asked about it there
and then: approve it, edit its arguments, reject it, or leave it for later. Elsewhere, and with
--no-input, ptc prints the command that decides on it and resumes the run.

VALUE of --input is parsed as JSON: 3 is a number, true a boolean, [1,2] a list. A value that is not
JSON is a string: TODO. To pass a string that looks like JSON, quote it: --input 'id="007"'.
"""


verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Write the table of calls to standard error, also if that is no terminal.",
)
"""Decorator that adds the option ``--verbose``."""


@click.command("run", short_help="Run a script in the jail.", help=_HELP, epilog=EXIT_STATUS_HELP)
@script_options
@settings_options(*RUN_KEYS, starts_workers=True)
@as_option
@no_input_option
@verbose_option
@click.option(
    "--watch",
    is_flag=True,
    help="Show the run in a browser, as `ptc ui` does, until Ctrl-C. Decisions are made there.",
)
@json_option("Print the whole result (status, value, calls, usage, error ...) as JSON.")
def command(
    *,
    script: str,
    pairs: tuple[str, ...],
    inputs: str | None,
    settings: Settings,
    by: str,
    no_input: bool,
    verbose: bool,
    watch: bool,
    as_json: bool,
) -> int:
    """Run the command; `_HELP` is its help text."""
    from ._guarded_run import RunReport
    from ._inputs import read_program

    # Validate the whole command line before anything is started.
    program = read_program(script, pairs, inputs)
    asked = None if no_input else by
    report = RunReport(program["filename"], program["source"], as_json=as_json, verbose=verbose)
    return _execute(program, settings, report, by=asked, page_for=by if watch else None)


def _execute(
    program: Mapping[str, Any],
    settings: Settings,
    report: RunReport,
    *,
    by: str | None,
    page_for: str | None,
) -> int:
    from ..errors import UsageError
    from ._guarded_run import run_to_end
    from ._terminal import standard_error

    session = open_session(settings)
    errors = standard_error()
    if settings["isolation"] == "process":
        errors.line(
            f"warning: {settings.by_name['isolation'].subject} process: kernel layers that this "
            "machine lacks are not required; where one is missing, one bug in the language layer "
            "gives the script your user's rights (`ptc doctor` shows both levels)",
            "yellow",
        )

    page = None
    if page_for is not None:
        from ._run_page import RunPage

        page = RunPage(session, settings, errors, page_for)
        program = {**program, "run_id": page.run_id}

    def start(on_event: Callable[[RunEvent], None]) -> Awaitable[RunResult]:
        return session.program(**program, on_event=on_event)

    try:
        return run_to_end(session, start, report, by=by, allowed=session.allowed_tools, page=page)
    except UsageError as error:
        raise settings.explain(error) from None


def print_result(result: RunResult, filename: str, *, as_json: bool, verbose: bool = False) -> None:
    """Print the value of a run, then its report; off a terminal the calls only if `verbose`."""
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
    if errors.is_terminal or verbose:
        report_calls(errors, result)
