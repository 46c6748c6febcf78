"""``ptc show``, ``replay`` and ``export``: one recorded run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._options import HISTORY_KEYS, json_option, settings_options
from ._run_ids import find_run
from ._status import COMPLETED, EXIT_STATUS_HELP, status_of
from ._wait import wait_for

if TYPE_CHECKING:
    from .._config._settings import Settings
    from .._runs._history import History

__all__ = ["export", "open_history", "replay", "show"]


def open_history(settings: Settings, *, notifies: bool = False) -> History:
    """Open the recorded runs of a folder.

    Args:
        settings: Settings of the command.
        notifies: True: the webhook is notified of decisions.

    Raises:
        UsageError: If the folder has no journal.
    """
    from .._runs._history import History
    from .._runs._lazy_journal import LazyJournal
    from .._runs._webhook import Webhook
    from ..errors import UsageError
    from ..journal._address import is_address
    from ..journal._location import former_journal, former_notice, journal_of
    from ._terminal import standard_error

    url = settings["webhook"] if notifies else None
    try:
        webhook = None if url is None else Webhook(url)
    except UsageError as error:
        raise settings.explain(error) from None
    journal, expiry = settings.journal(), settings["approvals_expire_ms"]
    if journal is not None:
        if not is_address(journal) and not Path(journal).is_file():
            subject = settings.by_name["journal"].subject
            problem = f"there is no journal {str(journal)!r}; check the path of {subject}"
            if Path(journal).is_dir():
                problem = f"{subject} {str(journal)!r} is a folder; name the file in it"
            raise UsageError(problem)
        return History(LazyJournal(journal), approvals_expire_ms=expiry, webhook=webhook)
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
    return History(LazyJournal(path), approvals_expire_ms=expiry, webhook=webhook)


_SHOW_HELP = """Show the run RUN: its source annotated with calls, each call in order, its outcome.

RUN is an ID from `ptc runs`, or its first characters. --json prints the record as `ptc export`
writes it. There, each call also has `value` or `error` as the script received it, and
`decided_arguments` if its approver edited the arguments.

\b
Examples:
  ptc show 3f2a
  ptc show 3f2a --events
  ptc show 3f2a --json | jq '.calls[].tool'
"""


@click.command("show", short_help="Show a run: source, calls, outcome.", help=_SHOW_HELP)
@click.argument("run", metavar="RUN")
@click.option(
    "--events",
    "with_events",
    is_flag=True,
    help="Show output, progress, calls and usage of models in the order of their times instead.",
)
@settings_options(*HISTORY_KEYS)
@json_option("Print the whole record as JSON.")
def show(*, run: str, with_events: bool, settings: Settings, as_json: bool) -> int:
    """Run the command; `_SHOW_HELP` is its help text."""
    from .._core import _json
    from .._runs._program_row import load_result
    from ..testing import Recording
    from ._events import event_data, read_events, timeline
    from ._recorded_calls import add_outcomes, show_calls, without_decided
    from ._report import report_outcome
    from ._terminal import standard_output

    history = open_history(settings)
    recorded = wait_for(history.recorded, wait_for(find_run, history, run))
    events = wait_for(read_events, history, recorded.run.run_id) if with_events else []
    wait_for(history.close)
    output = standard_output()
    if as_json:
        data = _json.loads(Recording(recorded).to_json())
        add_outcomes(data, recorded)
        shown = [event_data(recorded.run.run_id, row) for row in events]
        output.json({**data, "events": shown} if with_events else data)
        return COMPLETED
    if with_events:
        for line in timeline(recorded, events):
            output.line(line)
    else:
        show_calls(output, recorded)
    run_id, revision = recorded.run.run_id, recorded.run.revision
    if revision > 1 and "." not in run_id:
        earlier = f"{run_id}.{revision - 1}"
        output.line(f"revision {revision} of the script; `ptc show {earlier}` shows the one before")
    result = load_result(recorded.run)
    if recorded.run.rolled_back_ms is not None:
        output.line(f"rolled back; it was {recorded.run.status}")
    elif result is None:
        output.line(f"{recorded.run.status}: no outcome is recorded; `ptc resume` continues it")
    elif result.ok:
        output.line("completed:")
        output.json(result.value)
    else:
        report_outcome(output, without_decided(result, recorded), recorded.run.filename)
    return COMPLETED


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
    recording = wait_for(Recording.of, history, wait_for(find_run, history, run))
    wait_for(history.close)
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
    recording = wait_for(Recording.of, history, wait_for(find_run, history, run))
    wait_for(history.close)
    if target is None:
        standard_output().write(recording.to_json().decode() + "\n")
        return COMPLETED
    try:
        recording.save(target)
    except OSError as error:
        msg = f"{target!r} cannot be written: {error.strerror}"
        raise UsageError(msg) from None
    return COMPLETED
