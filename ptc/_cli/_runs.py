"""``ptc runs``, ``show``, ``replay``, ``export`` and ``forget``: recorded runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ._options import HISTORY_KEYS, json_option, settings_options
from ._run_ids import find_run
from ._status import COMPLETED, EXIT_STATUS_HELP, status_of

if TYPE_CHECKING:
    from .._config._settings import Settings
    from .._journal._journal import CallRow, RunRecord
    from .._runs._history import History

__all__ = ["export", "forget", "open_history", "replay", "runs", "show"]


def open_history(settings: Settings, *, notifies: bool = False) -> History:
    """Open the recorded runs of a folder.

    Args:
        settings: Settings of the command.
        notifies: True: the webhook is notified of decisions.

    Raises:
        UsageError: If the folder has no journal.
    """
    from .._journal._location import former_journal, former_notice, journal_of
    from .._runs._history import History
    from .._runs._webhook import Webhook
    from ..errors import UsageError
    from ._terminal import standard_error

    url = settings["webhook"] if notifies else None
    try:
        webhook = None if url is None else Webhook(url)
    except UsageError as error:
        raise settings.explain(error) from None
    journal, expiry = settings.path("journal"), settings["approvals_expire_ms"]
    if journal is not None:
        if not journal.is_file():
            subject = settings.by_name["journal"].subject
            raise UsageError(f"there is no journal {str(journal)!r}; check the path of {subject}")
        return History(journal, approvals_expire_ms=expiry, webhook=webhook)
    folder = settings.root.resolve()
    path, former = journal_of(folder), former_journal(folder)
    note = "" if former is None else former_notice(former)
    if not path.is_file():
        msg = (
            f"there is no journal of {str(folder)!r}: {str(path)!r} does not exist, so no run was "
            "recorded. Name the folder with --root, or the file with --journal"
        )
        raise UsageError(f"{msg}. {note}" if note else msg)
    if note:
        standard_error().line(f"note: {note}")
    return History(path, approvals_expire_ms=expiry, webhook=webhook)


_RUNS_HELP = """List the newest runs: ID, start time, outcome, number of calls, and file name.

\b
Examples:
  ptc runs
  ptc runs --limit 5 --json | jq '.[].run_id'
"""


@click.command("runs", short_help="List recorded runs.", help=_RUNS_HELP)
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=20,
    metavar="N",
    help="Maximum number of runs to list. [default: 20]",
)
@settings_options(*HISTORY_KEYS)
@json_option("Print the list as JSON.")
def runs(*, limit: int, settings: Settings, as_json: bool) -> int:
    """Run the command; `_RUNS_HELP` is its help text."""
    from datetime import datetime

    from ._table import write_table
    from ._terminal import standard_output

    history = open_history(settings)
    rows = []
    for run in history.runs(limit):
        started = datetime.fromtimestamp(run.created_ms / 1000).astimezone()
        calls = len(history.recorded(run.run_id).calls)
        status = "rolled back" if run.rolled_back_ms is not None else run.status
        rows.append((run.run_id, started.isoformat(" ", "seconds"), status, calls, run.filename))
    history.close()
    output = standard_output()
    if as_json:
        names = ("run_id", "begun", "status", "calls", "filename")
        output.json([dict(zip(names, row, strict=True)) for row in rows])
        return COMPLETED
    columns = (
        *(("run", ""), ("started", ""), ("outcome", "")),
        *(("calls", "number"), ("script", "truncate")),
    )
    write_table(output, columns, [tuple(map(str, row)) for row in rows])
    return COMPLETED


_SHOW_HELP = """Show the run RUN: its source annotated with calls, each call in order, its outcome.

RUN is an ID from `ptc runs`, or its first characters.

\b
Examples:
  ptc show 3f2a
  ptc show 3f2a --json | jq '.calls[].tool'
"""


@click.command("show", short_help="Show a run: source, calls, outcome.", help=_SHOW_HELP)
@click.argument("run", metavar="RUN")
@settings_options(*HISTORY_KEYS)
@json_option("Print the whole record as JSON, as `ptc export` does.")
def show(*, run: str, settings: Settings, as_json: bool) -> int:
    """Run the command; `_SHOW_HELP` is its help text."""
    from .._core import _json
    from .._runs._program_row import load_result
    from ..testing import Recording
    from ._report import report_outcome
    from ._terminal import standard_output

    history = open_history(settings)
    recorded = history.recorded(find_run(history, run))
    history.close()
    output = standard_output()
    if as_json:
        output.json(_json.loads(Recording(recorded).to_json()))
        return COMPLETED
    for line in _annotated(recorded):
        output.line(line)
    output.line("")
    for row in recorded.calls:
        output.line(_describe_call(row) + _describe_decisions(recorded, row.path))
    result = load_result(recorded.run)
    if recorded.run.rolled_back_ms is not None:
        output.line(f"rolled back; it was {recorded.run.status}")
    elif result is None:
        output.line(f"{recorded.run.status}: no outcome is recorded; `ptc resume` continues it")
    elif result.ok:
        output.line("completed:")
        output.json(result.value)
    else:
        report_outcome(output, result, recorded.run.filename)
    return COMPLETED


def _annotated(recorded: RunRecord) -> list[str]:
    at: dict[int, list[str]] = {}
    for row in recorded.calls:
        if row.line is not None:
            at.setdefault(row.line, []).append(row.path)
    lines = recorded.run.source.splitlines()
    width = len(str(len(lines)))
    shown = []
    for number, line in enumerate(lines, 1):
        calls = at.get(number, [])
        more = f", {len(calls) - 8} more" if len(calls) > 8 else ""
        note = f"   # call {', '.join(calls[:8])}{more}" if calls else ""
        shown.append(f"{number:>{width}} | {line}{note}")
    return shown


def _describe_decisions(recorded: RunRecord, path: str) -> str:
    """Describe the revert of a call and the decisions about it."""
    note = ""
    for revert in recorded.reverts:
        if revert.path == path:
            note = f"  [revert: {revert.status}]"
    for decision in recorded.decisions:
        if decision.path == path:
            by = f" by {decision.by}" if decision.by else ""
            comment = f": {decision.comment[:120]}" if decision.comment else ""
            note += f"  [{decision.action}{by}{comment}]"
    return note


def _describe_call(row: CallRow) -> str:
    end = row.end
    arguments = row.arguments.decode(errors="replace")
    head = f"{row.path:>4}  {row.tool}({arguments[:120]}{'…' if len(arguments) > 120 else ''})"
    if end is None:
        return f"{head}  started; its outcome is unknown"
    value = end.body.decode(errors="replace")
    took = f"{end.at_ms - row.at_ms} ms"
    return f"{head}  {end.status}, {took}: {value[:120]}{'…' if len(value) > 120 else ''}"


_REPLAY_HELP = """Run the script of RUN again with the recorded results; no tool is called.

With --until CALL it stops when the script receives the result of that call, and shows the script's
local variables at that point. `ptc show RUN` lists the calls.

\b
Examples:
  ptc replay 3f2a
  ptc replay 3f2a --until 7
"""


@click.command(
    "replay", short_help="Replay a recorded run.", help=_REPLAY_HELP, epilog=EXIT_STATUS_HELP
)
@click.argument("run", metavar="RUN")
@click.option("--until", metavar="CALL", help="Stop at this call and show the variables.")
@settings_options(*HISTORY_KEYS)
@json_option("Print the whole result as JSON.")
def replay(*, run: str, until: str | None, settings: Settings, as_json: bool) -> int:
    """Run the command; `_REPLAY_HELP` is its help text."""
    from functools import partial

    import anyio

    from .._core import _json
    from ..testing import Recording
    from ._report import report_outcome
    from ._terminal import standard_error, standard_output

    history = open_history(settings)
    recording = Recording.of(history, find_run(history, run))
    history.close()
    result = anyio.run(partial(recording.replay, until=until))
    output = standard_output()
    if as_json:
        output.json(_json.loads(result.to_json()))
        return status_of(result)
    if until is not None and result.status == "paused":
        for frame in result.frames:
            output.line(f"{frame.function}, line {frame.line}")
            for name, text in frame.names.items():
                output.line(f"    {name} = {text}")
        return COMPLETED
    if result.ok:
        output.json(result.value)
    report_outcome(standard_error(), result, recording.recorded.run.filename)
    return status_of(result)


_EXPORT_HELP = """Export RUN as one JSON file that replays on any machine.

\b
Examples:
  ptc export 3f2a -o tests/data/report.json
In a test: await ptc.testing.Recording.load("tests/data/report.json").replay()
"""


@click.command("export", short_help="Export a run as a test fixture.", help=_EXPORT_HELP)
@click.argument("run", metavar="RUN")
@click.option("-o", "--output", "target", metavar="FILE", help="Output file. [default: stdout]")
@settings_options(*HISTORY_KEYS)
def export(*, run: str, target: str | None, settings: Settings) -> int:
    """Run the command; `_EXPORT_HELP` is its help text."""
    from ..errors import UsageError
    from ..testing import Recording
    from ._terminal import standard_output

    history = open_history(settings)
    recording = Recording.of(history, find_run(history, run))
    history.close()
    if target is None:
        standard_output().write(recording.to_json().decode() + "\n")
        return COMPLETED
    try:
        recording.save(target)
    except OSError as error:
        msg = f"{target!r} cannot be written: {error.strerror}"
        raise UsageError(msg) from None
    return COMPLETED


_FORGET_HELP = """Delete the runs that finished more than DAYS days ago, and free their disk space.

Paused and interrupted runs have not finished and are not deleted. A deleted run can no longer be
shown or replayed; use `ptc export` first to keep one.

\b
Examples:
  ptc forget --older-than 30
"""


@click.command("forget", short_help="Delete old runs.", help=_FORGET_HELP)
@click.option(
    "--older-than",
    "days",
    type=click.FloatRange(0, 36_500),
    required=True,
    metavar="DAYS",
    help="Minimum days since a run finished; 0 deletes every finished run.",
)
@settings_options(*HISTORY_KEYS)
@json_option("Print the number of deleted runs as JSON.")
def forget(*, days: float, settings: Settings, as_json: bool) -> int:
    """Run the command; `_FORGET_HELP` is its help text."""
    from ._terminal import standard_output

    history = open_history(settings)
    count = history.forget(days)
    history.close()
    output = standard_output()
    if as_json:
        output.json({"forgotten": count})
    else:
        output.line(f"{count} run{'' if count == 1 else 's'} deleted")
    return COMPLETED
