"""``ptc submit``: have a script run by the workers of a journal."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ._options import RUN_KEYS, json_option, open_session, script_options, settings_options
from ._run import verbose_option
from ._runs import open_history
from ._status import COMPLETED, EXIT_STATUS_HELP
from ._wait import wait_for
from ._watch import watch_to_end

if TYPE_CHECKING:
    from .._config._settings import Settings

__all__ = ["submit"]

_SUBMIT_HELP = """Submit SCRIPT to the workers of a PostgreSQL journal, and print the id of the run.

The command returns at once. `ptc worker` on any machine that has the same tools executes the run;
`ptc wait RUN` waits for its result, and --wait does both. A repeated submission with the same
--run-id changes nothing.

\b
Examples:
  ptc submit find.py --journal postgresql://ptc@db/runs --input query=TODO
  ptc submit report.py --tenant shop --priority 5 --delay-ms 60000
  ptc submit report.py --at 2026-07-01T06:00+02:00
"""


def _read_time(_context: object, _option: object, text: str | None) -> datetime | None:
    try:
        at = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        at = datetime.min  # as one without a zone
    if at is not None and at.tzinfo is None:
        msg = f"{text!r} is not a time with a zone; write it as 2026-07-01T06:00+02:00"
        raise click.BadParameter(msg)
    return at


@click.command(
    "submit",
    short_help="Submit a script to the workers.",
    help=_SUBMIT_HELP,
    epilog=EXIT_STATUS_HELP,
)
@script_options
@click.option("--run-id", metavar="ID", help="Id of the run. [default: a new one]")
@click.option("--tenant", default="", metavar="NAME", help="Owner of the run; see `ptc tenant`.")
@click.option(
    "--priority",
    type=int,
    default=0,
    metavar="N",
    help="-10 to 10; runs of a tenant with a higher number start first. [default: 0]",
)
@click.option(
    "--delay-ms", type=int, default=0, metavar="N", help="Time before which it does not start."
)
@click.option(
    "--at", callback=_read_time, metavar="TIME", help="The same, as 2026-07-01T06:00+02:00."
)
@click.option(
    "--wait", "waits", is_flag=True, help="Show the progress of the run, and print its result."
)
@settings_options(*RUN_KEYS)
@verbose_option
@json_option("With --wait: print the whole result as JSON.")
def submit(
    *,
    script: str,
    pairs: tuple[str, ...],
    inputs: str | None,
    run_id: str | None,
    waits: bool,
    settings: Settings,
    verbose: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Run the command; `_SUBMIT_HELP` is its help text."""
    from ..errors import UsageError
    from ._inputs import read_program
    from ._terminal import standard_error, standard_output

    program = read_program(script, pairs, inputs)
    session = open_session(settings)

    async def send() -> str:
        async with session:
            return await session.submit(**program, run_id=run_id, **options)

    try:
        sent = wait_for(send)
    except UsageError as error:
        raise settings.explain(error) from None
    if not waits:
        standard_output().line(sent)
        return COMPLETED
    standard_error().line(f"submitted: {sent}")
    history = open_history(settings)
    return watch_to_end(
        history, sent, events=not as_json, queued=True, verbose=verbose, as_json=as_json
    )
