"""``ptc approvals``, ``approve``, ``reject``, ``settle``, ``resume`` and ``rollback``."""

from __future__ import annotations

from typing import Any

import click

from ._options import (
    isolation_option,
    journal_in_root_option,
    journal_option,
    json_option,
    model_option,
    open_session,
    root_option,
    toolset_option,
    unprotect_option,
)
from ._runs import history_of
from ._status import COMPLETED, EXIT_STATUS_HELP, FAILED, status_of

__all__ = ["approvals", "approve", "reject", "resume", "rollback", "settle"]

_APPROVALS_HELP = """List the calls that wait for a decision, of RUN or of all paused runs.

\b
Examples:
  ptc approvals
  ptc approvals --json | jq '.[] | .run_id'
"""


@click.command("approvals", short_help="List calls that wait.", help=_APPROVALS_HELP)
@click.argument("run", metavar="[RUN]", required=False)
@root_option
@journal_option
@json_option("Print the list as JSON.")
def approvals(*, run: str | None, root: str, journal: str | None, as_json: bool) -> int:
    """Run the command; the docstring for users is `_APPROVALS_HELP`."""
    from dataclasses import asdict

    from .. import _json
    from ._table import write_table
    from ._terminal import standard_output

    history = history_of(root, journal)
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


def _deciding(command: Any) -> Any:
    """Give `command` the arguments and options of a decision."""
    for option in (
        journal_option,
        root_option,
        click.option("--comment", default="", metavar="TEXT", help="Why."),
        click.option("--by", default="", metavar="NAME", help="Who decides."),
        click.argument("call", metavar="[CALL]", required=False),
        click.argument("run", metavar="RUN"),
    ):
        command = option(command)
    return command


_APPROVE_HELP = """Approve a call that RUN waits for; CALL may be left out if there is only one.

The decision is final. `ptc resume RUN` then goes on with the run.

\b
Examples:
  ptc approve 3f2a... 2 --by ann
  ptc approve 3f2a... 2 --arguments '{"amount": 10}'
"""


@click.command("approve", short_help="Approve a call that waits.", help=_APPROVE_HELP)
@_deciding
@click.option("--arguments", metavar="JSON", help="Other arguments to make the call with.")
@toolset_option
def approve(
    *,
    run: str,
    call: str | None,
    by: str,
    comment: str,
    root: str,
    journal: str | None,
    arguments: str | None,
    toolsets: tuple[str, ...],
) -> int:
    """Run the command; the docstring for users is `_APPROVE_HELP`."""
    from ._inputs import parse_object

    edited = tools = None
    if arguments is not None:
        edited = parse_object(arguments, "--arguments")
        session = open_session(root=root, toolsets=toolsets)
        tools = session.select_tools(session.tool_names())
    history = history_of(root, journal, tools=tools)
    history.approve(run, call, arguments=edited, by=by, comment=comment)
    history.close()
    return COMPLETED


_REJECT_HELP = """Reject a call that RUN waits for: its script gets a ToolError. Final.

\b
Example:
  ptc reject 3f2a... 2 --by ann --comment 'too much'
"""


@click.command("reject", short_help="Reject a call that waits.", help=_REJECT_HELP)
@_deciding
def reject(
    *, run: str, call: str | None, by: str, comment: str, root: str, journal: str | None
) -> int:
    """Run the command; the docstring for users is `_REJECT_HELP`."""
    history = history_of(root, journal)
    history.reject(run, call, by=by, comment=comment)
    history.close()
    return COMPLETED


_SETTLE_HELP = """Say what became of a call of RUN that began and whose end is not known.

\b
Examples:
  ptc settle 3f2a... 2 --outcome done --value '{"receipt": 7}'
  ptc settle 3f2a... 2 --outcome again
"""


@click.command("settle", short_help="Say what became of a call.", help=_SETTLE_HELP)
@_deciding
@click.option(
    "--outcome",
    type=click.Choice(["done", "failed", "again"]),
    required=True,
    help="done: with --value. failed: it was not done. again: make it again, with the same key.",
)
@click.option("--value", metavar="JSON", default="null", help="What the script is given.")
def settle(
    *,
    run: str,
    call: str | None,
    by: str,
    comment: str,
    root: str,
    journal: str | None,
    outcome: Any,
    value: str,
) -> int:
    """Run the command; the docstring for users is `_SETTLE_HELP`."""
    from .. import _json
    from ..errors import UsageError

    try:
        data = _json.loads(value)
    except ValueError as error:
        msg = f"--value is no JSON: {error}"
        raise UsageError(msg) from None
    history = history_of(root, journal)
    history.settle(run, call, outcome, value=data, by=by, comment=comment)
    history.close()
    return COMPLETED


_RESUME_HELP = """Go on with RUN, which is paused or was cut off, where it was.

No tool is called again for what it did before.

\b
Examples:
  ptc resume 3f2a...
  ptc resume 3f2a... --json | jq .value
"""


@click.command("resume", short_help="Go on with a run.", help=_RESUME_HELP, epilog=EXIT_STATUS_HELP)
@click.argument("run", metavar="RUN")
@root_option
@toolset_option
@isolation_option
@unprotect_option
@journal_option
@journal_in_root_option
@model_option
@json_option("Print the whole result as JSON.")
def resume(
    *,
    run: str,
    root: str,
    toolsets: tuple[str, ...],
    isolation: str,
    unprotected: tuple[str, ...],
    journal: str | None,
    journal_in_root: bool,
    model: str | None,
    as_json: bool,
) -> int:
    """Run the command; the docstring for users is `_RESUME_HELP`."""
    import anyio

    from .._records._result import RunResult
    from ._run import tell

    history_of(root, journal).close()
    session = open_session(
        root=root,
        toolsets=toolsets,
        isolation=isolation,
        unprotected=unprotected,
        journal=journal,
        journal_in_root=journal_in_root,
        model=model,
    )

    async def go_on() -> RunResult:
        async with session:
            return await session.resume(run)

    result = anyio.run(go_on)
    tell(result, "script.py", as_json=as_json)
    return status_of(result)


_ROLLBACK_HELP = """Undo what RUN did, the newest call first, with the reverts of its tools.

What no tool can undo, and calls whose end is not known, are listed and left. A revert that fails
stops it: put right what is in the way and ask again, or --skip the call. RUN cannot be resumed
afterwards. Exit status 1 if a revert failed.

\b
Examples:
  ptc rollback 3f2a... --dry-run
  ptc rollback 3f2a... --skip 7
"""


@click.command("rollback", short_help="Undo what a run did.", help=_ROLLBACK_HELP)
@click.argument("run", metavar="RUN")
@click.option("--dry-run", is_flag=True, help="Do nothing, list what would be undone.")
@click.option("--skip", multiple=True, metavar="CALL", help="Pass over this call. May be repeated.")
@root_option
@toolset_option
@journal_option
@journal_in_root_option
@json_option("Print the list as JSON.")
def rollback(
    *,
    run: str,
    dry_run: bool,
    skip: tuple[str, ...],
    root: str,
    toolsets: tuple[str, ...],
    journal: str | None,
    journal_in_root: bool,
    as_json: bool,
) -> int:
    """Run the command; the docstring for users is `_ROLLBACK_HELP`."""
    from dataclasses import asdict

    import anyio

    from .._runs._rollback import Rollback
    from ._table import write_table
    from ._terminal import standard_output

    history_of(root, journal).close()
    session = open_session(
        root=root, toolsets=toolsets, journal=journal, journal_in_root=journal_in_root
    )

    async def undo() -> Rollback:
        async with session:
            return await session.rollback(run, skip=skip, dry_run=dry_run)

    done = anyio.run(undo)
    output = standard_output()
    if as_json:
        output.json(asdict(done))
    elif done.steps:
        columns = (("call", ""), ("tool", ""), ("outcome", ""), ("why", "wrap"))
        rows = [(s.call, s.tool, s.status.replace("_", " "), s.error or "") for s in done.steps]
        write_table(output, columns, rows)
    else:
        output.line("the run had no effect: there is nothing to undo")
    return COMPLETED if done.ok or dry_run else FAILED
