"""``ptc approvals``, ``approve``, ``reject``, ``settle``, ``resume``, ``rollback``: decisions."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ._options import (
    HISTORY_KEYS,
    RUN_KEYS,
    TOOL_KEYS,
    json_option,
    open_session,
    settings_options,
)
from ._run import verbose_option
from ._runs import open_history
from ._status import COMPLETED, EXIT_STATUS_HELP, FAILED, status_of

if TYPE_CHECKING:
    from .._config._settings import Settings

__all__ = ["approvals", "approve", "reject", "resume", "rollback", "settle"]

_APPROVALS_HELP = """List the calls that are awaiting a decision, of RUN or of all paused runs.

\b
Examples:
  ptc approvals
  ptc approvals --json | jq '.[] | .run_id'
"""


@click.command("approvals", short_help="List pending calls.", help=_APPROVALS_HELP)
@click.argument("run", metavar="[RUN]", required=False)
@settings_options(*HISTORY_KEYS)
@json_option("Print the list as JSON.")
def approvals(*, run: str | None, settings: Settings, as_json: bool) -> int:
    """Run the command; `_APPROVALS_HELP` is its help text."""
    from dataclasses import asdict

    from .._core import _json
    from ._table import write_table
    from ._terminal import standard_output

    history = open_history(settings)
    names = [run] if run else [r.run_id for r in history.runs(1_000) if r.status == "paused"]
    found = [(name, call) for name in names for call in history.pending(name)]
    history.close()
    output = standard_output()
    if as_json:
        output.json([{"run_id": name, **asdict(call)} for name, call in found])
        return COMPLETED
    columns = (("run", ""), ("call", ""), ("kind", ""), ("tool", ""), ("arguments", "wrap"))
    rows = [(name, c.call, c.kind, c.tool, _json.dumps(c.arguments).decode()) for name, c in found]
    write_table(output, columns, rows)
    return COMPLETED


def _user_name() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user without a name
        return f"user {os.getuid()}"


def _decision_options(command: Any, keys: tuple[str, ...] = HISTORY_KEYS) -> Any:
    """Add the arguments and options of a decision to `command`."""
    for option in (
        settings_options(*keys),
        click.option("--comment", default="", metavar="TEXT", help="Reason, for the record."),
        click.option(
            "--by",
            default=_user_name,
            metavar="NAME",
            help="Name of the decider, for the record. [default: your user name]",
        ),
        click.argument("call", metavar="[CALL]", required=False),
        click.argument("run", metavar="RUN"),
    ):
        command = option(command)
    return command


_APPROVE_HELP = """Approve a pending call of RUN; CALL may be omitted if there is only one.

`ptc approvals` lists the pending calls. The decision is final. Then continue the run with
`ptc resume RUN`.

\b
Examples:
  ptc approve 3f2a... 2 --by ann
  ptc approve 3f2a... 2 --arguments '{"amount": 10}'
"""


@click.command("approve", short_help="Approve a pending call.", help=_APPROVE_HELP)
@partial(_decision_options, keys=(*TOOL_KEYS, "journal"))
@click.option("--arguments", metavar="JSON", help="Replace the call's arguments.")
def approve(
    *,
    run: str,
    call: str | None,
    by: str,
    comment: str,
    settings: Settings,
    arguments: str | None,
) -> int:
    """Run the command; `_APPROVE_HELP` is its help text."""
    from ._inputs import parse_object

    edited = tools = None
    if arguments is not None:
        edited = parse_object(arguments, "--arguments")
        session = open_session(settings)
        tools = session.select_tools(session.tool_names())
    history = open_history(settings, tools=tools)
    history.approve(run, call, arguments=edited, by=by, comment=comment)
    history.close()
    return COMPLETED


_REJECT_HELP = """Reject a pending call of RUN; CALL may be omitted if there is only one.

The call raises ToolError in the script. The decision is final. Then continue the run with
`ptc resume RUN`.

\b
Example:
  ptc reject 3f2a... 2 --by ann --comment 'too much'
"""


@click.command("reject", short_help="Reject a pending call.", help=_REJECT_HELP)
@_decision_options
def reject(*, run: str, call: str | None, by: str, comment: str, settings: Settings) -> int:
    """Run the command; `_REJECT_HELP` is its help text."""
    history = open_history(settings)
    history.reject(run, call, by=by, comment=comment)
    history.close()
    return COMPLETED


_SETTLE_HELP = """Record the outcome of an interrupted call of RUN.

The host died during the call, so ptc cannot know whether it took effect. Check the effect yourself,
record it, then continue the run with `ptc resume RUN`.

\b
Examples:
  ptc settle 3f2a... 2 --outcome done --value '{"receipt": 7}'
  ptc settle 3f2a... 2 --outcome again
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
@click.option("--value", metavar="JSON", default="null", help="Return value of a `done` call.")
def settle(
    *,
    run: str,
    call: str | None,
    by: str,
    comment: str,
    settings: Settings,
    outcome: Any,
    value: str,
) -> int:
    """Run the command; `_SETTLE_HELP` is its help text."""
    from .._core import _json
    from ..errors import UsageError

    try:
        data = _json.loads(value)
    except ValueError as error:
        msg = f"--value is not JSON: {error}"
        raise UsageError(msg) from None
    history = open_history(settings)
    history.settle(run, call, outcome, value=data, by=by, comment=comment)
    history.close()
    return COMPLETED


_RESUME_HELP = """Resume RUN, which is paused or was interrupted, at the point where it stopped.

Finished calls are not repeated: the script receives their recorded results.

\b
Examples:
  ptc resume 3f2a...
  ptc resume 3f2a... --json | jq .value
"""


@click.command("resume", short_help="Resume a run.", help=_RESUME_HELP, epilog=EXIT_STATUS_HELP)
@click.argument("run", metavar="RUN")
@settings_options(*RUN_KEYS)
@verbose_option
@json_option("Print the whole result as JSON.")
def resume(*, run: str, settings: Settings, verbose: bool, as_json: bool) -> int:
    """Run the command; `_RESUME_HELP` is its help text."""
    import anyio

    from .._records._result import RunResult
    from ..errors import UsageError
    from ._run import print_result

    open_history(settings).close()
    session = open_session(settings)

    async def resume_run() -> RunResult:
        async with session:
            allowed = session.allowed_tools if settings.is_given("allow") else None
            return await session.resume(run, allowed_tools=allowed)

    try:
        result = anyio.run(resume_run)
    except UsageError as error:
        raise settings.explain(error) from None
    print_result(result, "script.py", as_json=as_json, verbose=verbose)
    return status_of(result)


_ROLLBACK_HELP = """Roll back RUN with the `revert` functions of its tools, newest call first.

Calls that no tool can revert, and calls with an unknown outcome, are listed and left alone. A
failed revert stops the rollback: fix its cause and repeat the command, or --skip the call. RUN
cannot be resumed afterwards. Exits with status 1 if a revert failed.

\b
Examples:
  ptc rollback 3f2a... --dry-run
  ptc rollback 3f2a... --skip 7
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

    open_history(settings).close()
    session = open_session(settings)

    async def undo() -> Rollback:
        async with session:
            return await session.rollback(run, skip=skip, dry_run=dry_run)

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
