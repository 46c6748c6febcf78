"""``ptc settle``, ``resume`` and ``rollback``: runs that stopped before their end."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from ._identity import as_option, by_option, no_input_option, reason_option
from ._options import (
    DECISION_KEYS,
    RUN_KEYS,
    TOOL_KEYS,
    json_option,
    open_session,
    settings_options,
)
from ._run import verbose_option
from ._run_ids import find_run
from ._runs import open_history
from ._status import COMPLETED, EXIT_STATUS_HELP, FAILED
from ._wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from .._config._settings import Settings
    from .._records._result import RunEvent, RunResult
    from .._session._session import Session

__all__ = ["resume", "resume_run", "rollback", "settle"]


def _decision_options(command: Any) -> Any:
    """Add the arguments and options of a decision to `command`."""
    for option in (
        *(settings_options(*DECISION_KEYS), reason_option, by_option),
        click.argument("call", metavar="[CALL]", required=False),
        click.argument("run", metavar="RUN"),
    ):
        command = option(command)
    return command


_SETTLE_HELP = """Record the outcome of an interrupted call of RUN.

The host died during the call, so ptc cannot know whether it took effect. Check the effect yourself,
record it, then continue the run with `ptc resume RUN`.

\b
Examples:
  ptc settle 3f2a 2 --outcome done --value '{"receipt": 7}'
  ptc settle 3f2a 2 --outcome again
"""


@click.command("settle", short_help="Record a call's outcome.", help=_SETTLE_HELP)
@_decision_options
@click.option(
    "--outcome",
    type=click.Choice(["done", "failed", "again"]),
    required=True,
    help="done: it returned --value. failed: it had no effect. again: retry it, with the same "
    "idempotency key.",
)
@click.option("--value", metavar="JSON", help="Return value of a `done` call, which needs it.")
def settle(
    *,
    run: str,
    call: str | None,
    by: str,
    comment: str,
    settings: Settings,
    outcome: Any,
    value: str | None,
) -> int:
    """Run the command; `_SETTLE_HELP` is its help text."""
    from ._next_step import report_next_step, tools_option
    from ._terminal import standard_error

    data = _read_value(outcome, value)
    history = open_history(settings, notifies=True)
    run_id = wait_for(find_run, history, run)
    wait_for(history.settle, run_id, call, outcome, value=data, by=by, comment=comment)
    more = tools_option(settings, wait_for(history.run, run_id))
    report_next_step(standard_error(), run_id, wait_for(history.pending, run_id), more=more)
    wait_for(history.close)
    return COMPLETED


def _read_value(outcome: str, value: str | None) -> Any:
    """Return the value of a call that is done. Raises `UsageError` if it is missing or no JSON."""
    from .._core import _json
    from ..errors import UsageError

    if outcome != "done":
        if value is not None:
            raise UsageError("--value belongs to --outcome done")
        return None
    if value is None:
        # Null by default would be a wrong value of most tools, and the script would receive it.
        msg = (
            "--outcome done needs --value JSON, the return value of the call; write --value null "
            "if its tool returns nothing"
        )
        raise UsageError(msg)
    try:
        return _json.loads(value)
    except ValueError as error:
        raise UsageError(f"--value is not JSON: {error}") from None


_RESUME_HELP = """Resume RUN, which is paused, was interrupted or was stopped by a limit.

RUN is an ID from `ptc runs`, or its first characters. Finished calls are not repeated: the script
receives their recorded results. On a terminal, you are asked about calls that require approval.
Options such as --timeout-ms replace the recorded limits.

With --script, a corrected script continues RUN from its beginning, also if RUN failed. Calls whose
effect is recorded are matched by tool and arguments and are not repeated. If the script makes a new
effect, or ends, without having made them all, it is stopped and they are listed. The earlier record
stays readable: `ptc show RUN.1`.

\b
Examples:
  ptc resume 3f2a
  ptc resume 3f2a --timeout-ms 60000
  ptc resume 3f2a --script fixed.py
  ptc resume 3f2a --script fixed.py --reads refresh --allow-unmatched
  ptc resume 3f2a --json | jq .value
"""


@click.command("resume", short_help="Resume a run.", help=_RESUME_HELP, epilog=EXIT_STATUS_HELP)
@click.argument("run", metavar="RUN")
@click.option("--script", metavar="FILE", help="Corrected script; - reads standard input.")
@click.option(
    "--reads",
    type=click.Choice(["reuse", "refresh"]),
    default="reuse",
    help="With --script: reuse the recorded results of calls without a side effect until the first "
    "new effect, or make them again. [default: reuse]",
)
@click.option(
    "--allow-unmatched",
    is_flag=True,
    help="With --script: continue although it does not make all calls whose effects are recorded.",
)
@click.option(
    "--accept-changed-tools",
    is_flag=True,
    help="Continue although the schemas or flags of tools changed since RUN was recorded.",
)
@settings_options(*RUN_KEYS, starts_workers=True)
@as_option
@no_input_option
@verbose_option
@json_option("Print the whole result as JSON.")
def resume(
    *,
    run: str,
    script: str | None,
    reads: Any,
    allow_unmatched: bool,
    accept_changed_tools: bool,
    settings: Settings,
    by: str,
    no_input: bool,
    verbose: bool,
    as_json: bool,
) -> int:
    """Run the command; `_RESUME_HELP` is its help text."""
    from ..errors import UsageError
    from ._script import read_script

    options: dict[str, Any] = {}
    if script is not None:
        source, filename = read_script(script)
        options = {"source": source, "filename": filename}
        options |= {"reads": reads, "allow_unmatched": allow_unmatched}
    elif allow_unmatched or reads != "reuse":
        msg = "--reads and --allow-unmatched need --script"
        raise UsageError(msg)
    if accept_changed_tools:
        options["accept_changed_tools"] = True
    run_id = _full_id(run, settings)
    session = open_session(settings)
    asked = None if no_input else by
    return resume_run(
        session, settings, run_id, by=asked, verbose=verbose, as_json=as_json, options=options
    )


def resume_run(
    session: Session,
    settings: Settings,
    run_id: str,
    *,
    by: str | None,
    verbose: bool,
    as_json: bool,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> int:
    """Resume a run as `ptc run` runs one, and return the exit status.

    Args:
        session: The session, not yet opened.
        settings: Its settings.
        run_id: The run.
        by: Name of the person at the terminal, who is asked about calls; None: ask nobody.
        verbose: True: print the table of calls, off a terminal as well.
        as_json: True: print the whole result.
        options: Further arguments of `Session.resume`: a corrected script.
    """
    from ..errors import UsageError
    from ._guarded_run import RunReport, run_to_end

    allowed = session.allowed_tools if settings.is_given("allow") else None
    limits = {
        name.removeprefix("limits."): settings[name]
        for name in settings.by_name
        if name.startswith("limits.") and settings.is_given(name)
    }

    def start(on_event: Callable[[RunEvent], None]) -> Awaitable[RunResult]:
        return session.resume(
            run_id, allowed_tools=allowed, limits=limits or None, on_event=on_event, **options
        )

    row = wait_for(session.history.run, run_id)
    script = (options.get("filename") or row.filename, options.get("source") or row.source)
    report = RunReport(*script, as_json=as_json, verbose=verbose)
    try:
        return run_to_end(session, start, report, by=by, allowed=allowed)
    except UsageError as error:
        raise settings.explain(error) from None


def _full_id(run: str, settings: Settings) -> str:
    """Return the full id of a run that is recorded for a folder."""
    history = open_history(settings)
    run_id = wait_for(find_run, history, run)
    wait_for(history.close)
    return run_id


_ROLLBACK_HELP = """Roll back RUN with the `revert` functions of its tools, newest call first.

Calls that no tool can revert, and calls with an unknown outcome, are listed and left alone. A
failed revert stops the rollback: fix its cause and repeat the command, or --skip the call. RUN
cannot be resumed afterwards. Exits with status 1 if a revert failed.

\b
Examples:
  ptc rollback 3f2a --dry-run
  ptc rollback 3f2a --skip 7
"""


@click.command("rollback", short_help="Undo the effects of a run.", help=_ROLLBACK_HELP)
@click.argument("run", metavar="RUN")
@click.option("--dry-run", is_flag=True, help="List the reverts without running them.")
@click.option("--skip", multiple=True, metavar="CALL", help="Skip this call; may be repeated.")
@settings_options(*TOOL_KEYS, "journal", "journal_in_root")
@json_option("Print the list as JSON.")
def rollback(
    *, run: str, dry_run: bool, skip: tuple[str, ...], settings: Settings, as_json: bool
) -> int:
    """Run the command; `_ROLLBACK_HELP` is its help text."""
    from dataclasses import asdict

    import anyio

    from .._runs._rollback import Rollback
    from ._table import write_table
    from ._terminal import standard_output

    run_id = _full_id(run, settings)
    session = open_session(settings)

    async def undo() -> Rollback:
        async with session:
            return await session.rollback(run_id, skip=skip, dry_run=dry_run)

    done = anyio.run(undo)
    output = standard_output()
    if as_json:
        output.json(asdict(done))
    elif done.steps:
        columns = (("call", ""), ("tool", ""), ("outcome", ""), ("reason", "wrap"))
        rows = [(s.call, s.tool, s.status.replace("_", " "), s.error or "") for s in done.steps]
        write_table(output, columns, rows)
    else:
        output.line("the run had no effects: there is nothing to roll back")
    return COMPLETED if done.ok or dry_run else FAILED
