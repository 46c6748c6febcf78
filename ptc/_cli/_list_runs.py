"""``ptc runs`` and ``forget``: the list of recorded runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from ._options import HISTORY_KEYS, json_option, settings_options
from ._runs import open_history
from ._status import COMPLETED
from ._wait import wait_for

if TYPE_CHECKING:
    from .._config._settings import Settings
    from ..journal._run_lists import RunSummary
    from ._terminal import Stream

__all__ = ["forget", "runs"]

_RUNS_HELP = """List recorded runs, newest first: ID, start time, outcome, number of calls, file.

Filters combine: a run is listed if it matches all of them. --status may be repeated; a run matches
one of the statuses. A time is a period before now (90m, 2h, 3d, 1w) or a date or time in ISO 8601,
in local time unless it has an offset.

A page has up to --limit runs. If there are more, the last line, on stderr, is the command that
lists the next page; with --json, pass `next_cursor` as --after.

\b
Examples:
  ptc runs
  ptc runs --status failed --status crashed --since 2h
  ptc runs --tool pay --since 2026-11-01 --until 2026-11-08
  ptc runs --tenant acme --limit 5 --json | jq '.runs[].run_id'
"""


@click.command("runs", short_help="List recorded runs.", help=_RUNS_HELP)
@click.option(
    "--status", "statuses", multiple=True, metavar="STATUS", help="Only runs with this status."
)
@click.option("--tool", metavar="NAME", help="Only runs with a call of this tool.")
@click.option("--tenant", metavar="NAME", help="Only runs of this tenant.")
@click.option("--since", metavar="TIME", help="Only runs that started at this time or later.")
@click.option("--until", metavar="TIME", help="Only runs that started before this time.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=20,
    metavar="N",
    help="Maximum number of runs to list. [default: 20]",
)
@click.option("--after", metavar="CURSOR", help="List the page after this cursor.")
@settings_options(*HISTORY_KEYS)
@json_option("Print an object with the list, `runs`, and `next_cursor`.")
def runs(
    *,
    statuses: tuple[str, ...],
    tool: str | None,
    tenant: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    after: str | None,
    settings: Settings,
    as_json: bool,
) -> int:
    """Run the command; `_RUNS_HELP` is its help text."""
    from functools import partial

    from ._next_step import report_next_page
    from ._table import write_table
    from ._terminal import standard_error, standard_output

    history = open_history(settings)
    filters = {"tool": tool, "tenant": tenant, "since": since, "until": until, "after": after}
    page = wait_for(partial(history.runs, limit, statuses=statuses, **filters))
    wait_for(history.close)
    output = standard_output()
    rows = [_row(run) for run in page]
    if as_json:
        names = ("run_id", "begun", "status", "calls", "filename", "tenant", "size_bytes")
        listed = [
            dict(zip(names, (*row, run.tenant, run.size_bytes), strict=True))
            for row, run in zip(rows, page, strict=True)
        ]
        output.json({"runs": listed, "next_cursor": page.next_cursor})
        return COMPLETED
    columns = (
        *(("run", ""), ("started", ""), ("outcome", "")),
        *(("calls", "number"), ("script", "truncate")),
    )
    write_table(output, columns, [tuple(map(str, row)) for row in rows])
    if page.next_cursor is not None:
        report_next_page(standard_error(), page.next_cursor)
    return COMPLETED


def _row(run: RunSummary) -> tuple[str, str, str, int, str]:
    from datetime import datetime

    started = datetime.fromtimestamp(run.created_ms / 1000).astimezone()
    status = "rolled back" if run.rolled_back_ms is not None else run.status
    return run.run_id, started.isoformat(" ", "seconds"), status, run.calls, run.filename


_FORGET_HELP = """Delete the oldest runs that have finished, and free their disk space.

Name at least one bound; a run beyond any of them is deleted. Paused and interrupted runs have not
finished and are not deleted. A deleted run can no longer be shown or replayed; use `ptc export`
first to keep one.

Runs are deleted in small batches, so that other processes can use the journal meanwhile. Ctrl-C
stops after a batch: the deleted runs stay deleted, and the other ones are complete.

\b
Examples:
  ptc forget --older-than 30
  ptc forget --runs 10000
  ptc forget --older-than 90 --bytes 5000000000
"""


@click.command("forget", short_help="Delete old runs.", help=_FORGET_HELP)
@click.option(
    "--older-than",
    "days",
    type=click.FloatRange(0, 36_500),
    metavar="DAYS",
    help="Delete the runs that finished at least so many days ago; 0: all.",
)
@click.option(
    "--runs",
    "max_runs",
    type=click.IntRange(0),
    metavar="N",
    help="Delete all finished runs but the last N.",
)
@click.option(
    "--bytes",
    "max_bytes",
    type=click.IntRange(0),
    metavar="N",
    help="Delete all finished runs but the last ones with N bytes of records in total.",
)
@settings_options(*HISTORY_KEYS)
@json_option("Print the number of deleted runs as JSON.")
def forget(
    *,
    days: float | None,
    max_runs: int | None,
    max_bytes: int | None,
    settings: Settings,
    as_json: bool,
) -> int:
    """Run the command; `_FORGET_HELP` is its help text."""
    from functools import partial

    from ..errors import UsageError
    from ._terminal import standard_error, standard_output

    if days is None and max_runs is None and max_bytes is None:
        raise UsageError("name a bound: --older-than DAYS, --runs N or --bytes N")
    history = open_history(settings)
    progress = _Progress(standard_error())
    deletion = partial(
        history.forget, days, max_runs=max_runs, max_bytes=max_bytes, on_progress=progress.report
    )
    try:
        count = wait_for(deletion)
    except KeyboardInterrupt:
        standard_error().line(
            f"interrupted: {_runs(progress.deleted)} deleted; the other runs are complete"
        )
        raise
    finally:
        wait_for(history.close)
    output = standard_output()
    if as_json:
        output.json({"forgotten": count})
    else:
        output.line(f"{_runs(count)} deleted")
    return COMPLETED


class _Progress:
    """Reports the progress of a deletion once a second."""

    def __init__(self, stream: Stream) -> None:
        self.deleted = 0
        self._stream = stream
        self._reported = time.monotonic()

    def report(self, deleted: int) -> None:
        """Note the number of runs that were deleted so far."""
        self.deleted = deleted
        if time.monotonic() - self._reported >= 1:
            self._reported = time.monotonic()
            self._stream.line(f"{_runs(deleted)} deleted so far")


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"
