"""``ptc wait``, and the rest of ``ptc submit --wait``: wait for a run that others execute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ._options import HISTORY_KEYS, json_option, settings_options
from ._run import verbose_option
from ._run_ids import find_run
from ._runs import open_history
from ._status import EXIT_STATUS_HELP, INTERRUPTED, status_of
from ._wait import wait_for

if TYPE_CHECKING:
    from .._config._settings import Settings
    from .._records._result import RunResult
    from .._runs._history import History
    from ._progress import Progress

__all__ = ["command", "watch_to_end"]

_HELP = """Wait until RUN ends or pauses, print its value, and exit with its status.

RUN is an ID from `ptc submit` or `ptc runs`, or its first characters; any process on any machine
may execute it. Ctrl-C ends the wait and leaves the run alone.

\b
Examples:
  ptc wait 3f2a
  ptc wait 3f2a --events --journal postgresql://ptc@db/runs
  ptc wait 3f2a --through-pauses --timeout-ms 3600000
  ptc wait 3f2a --json | jq .value
"""


@click.command("wait", short_help="Wait for a run.", help=_HELP, epilog=EXIT_STATUS_HELP)
@click.argument("run", metavar="RUN")
@click.option("--events", is_flag=True, help="Show progress and output, as `ptc run` does.")
@click.option(
    "--through-pauses", is_flag=True, help="Also wait for decisions about a paused run, to its end."
)
@click.option(
    "--timeout-ms",
    type=click.IntRange(1),
    metavar="N",
    help="Longest time to wait. Then the status is 3 and the run continues. [default: any]",
)
@settings_options(*HISTORY_KEYS)
@verbose_option
@json_option("Print the whole result as JSON.")
def command(
    *,
    run: str,
    events: bool,
    through_pauses: bool,
    timeout_ms: int | None,
    settings: Settings,
    verbose: bool,
    as_json: bool,
) -> int:
    """Run the command; `_HELP` is its help text."""
    history = open_history(settings)
    run_id = wait_for(find_run, history, run)
    return watch_to_end(
        history,
        run_id,
        events=events,
        through_pauses=through_pauses,
        timeout_ms=timeout_ms,
        verbose=verbose,
        as_json=as_json,
    )


def watch_to_end(
    history: History,
    run_id: str,
    *,
    events: bool,
    through_pauses: bool = False,
    timeout_ms: int | None = None,
    queued: bool = False,
    verbose: bool = False,
    as_json: bool = False,
) -> int:
    """Wait for a run, print its result, and return the exit status.

    Args:
        history: Its journal, which is closed.
        run_id: The run.
        events: True: show its progress and its output.
        through_pauses: True: also wait while it is paused.
        timeout_ms: Longest time; None: any.
        queued: True: workers of a queue continue the run after a pause.
        verbose: True: print the table of calls, off a terminal as well.
        as_json: True: print the whole result.
    """
    from ..errors import WaitTimeoutError
    from ._next_step import report_next_step
    from ._run import print_result
    from ._status import LIMIT
    from ._terminal import standard_error

    errors = standard_error()
    try:
        result, filename = wait_for(
            _watch, history, run_id, timeout_ms, events=events, through_pauses=through_pauses
        )
    except KeyboardInterrupt:
        errors.line(f"interrupted; the run continues: ptc wait {run_id}")
        return INTERRUPTED
    except WaitTimeoutError as error:
        errors.line(str(error))
        return LIMIT
    print_result(result, filename, as_json=as_json, verbose=verbose)
    if result.status == "paused" and not as_json:
        report_next_step(errors, run_id, result.pending, queued=queued)
    return status_of(result)


async def _watch(
    history: History, run_id: str, timeout_ms: int | None, *, events: bool, through_pauses: bool
) -> tuple[RunResult, str]:
    from .._runs._watch import wait_for_result

    try:
        journal = await history.open()
        if events:
            result = await _show(history, run_id, timeout_ms, through_pauses=through_pauses)
        else:
            result = await wait_for_result(
                journal, run_id, timeout_ms, through_pauses=through_pauses
            )
        return result, (await history.run(run_id)).filename
    finally:
        await history.close()


async def _show(
    history: History, run_id: str, timeout_ms: int | None, *, through_pauses: bool
) -> RunResult:
    """Show the events of a run until its end."""
    import anyio

    from ..errors import PtcError
    from ._progress import Progress
    from ._terminal import standard_error

    progress = Progress(standard_error(), quiet=False)
    outcome: RunResult | PtcError | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(progress.follow)
        try:
            outcome = await _last_event(history, run_id, timeout_ms, progress, through_pauses)
        except PtcError as error:  # raised outside the group, which would wrap it
            outcome = error
        finally:
            progress.close()
            group.cancel_scope.cancel()
    if isinstance(outcome, PtcError):
        raise outcome
    assert outcome is not None  # noqa: S101  # a cancelled group does not get here
    return outcome


async def _last_event(
    history: History,
    run_id: str,
    timeout_ms: int | None,
    progress: Progress,
    through_pauses: bool,
) -> RunResult:
    from contextlib import aclosing

    import anyio

    from .._runs._follow import follow_run
    from ..errors import WaitTimeoutError

    journal = await history.open()
    with anyio.move_on_after(None if timeout_ms is None else timeout_ms / 1000):
        events = follow_run(journal, run_id, 0, through_pauses=through_pauses)
        async with aclosing(events):
            async for event in events:
                if event.kind == "finished":
                    result: RunResult = event.value
                    return result
                progress.on_event(event)
    msg = f"run {run_id!r} has not ended after {timeout_ms:,} ms; it continues"
    raise WaitTimeoutError(msg)
