"""``ptc approvals``, ``approve`` and ``reject``: calls that require approval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .._core._clock import now_ms
from ._identity import by_option, no_input_option, reason_option
from ._options import (
    HISTORY_KEYS,
    RUN_KEYS,
    json_option,
    open_session,
    settings_options,
)
from ._run import verbose_option
from ._run_ids import find_run
from ._runs import open_history
from ._status import COMPLETED, EXIT_STATUS_HELP
from ._wait import wait_for

if TYPE_CHECKING:
    from .._config._settings import Settings
    from .._records._result import PendingCall
    from .._runs._history import History
    from .._session._session import Session
    from ._terminal import Stream

__all__ = ["approvals", "approve", "reject"]

_APPROVALS_HELP = """List the calls that await a decision, of RUN or of all paused runs.

Each has its arguments, the tool's question, the line of the script that made it, its age and its
expiry. Off a terminal each call is one line with tab-separated columns: run, call, kind, tool,
time of the request, expiry or `expired`, script line, arguments, question.

\b
Examples:
  ptc approvals
  ptc approvals 3f2a
  ptc approvals --json | jq -r '.[] | "\\(.run_id) \\(.prompt)"'
"""


@click.command("approvals", short_help="List pending calls.", help=_APPROVALS_HELP)
@click.argument("run", metavar="[RUN]", required=False)
@settings_options(*HISTORY_KEYS)
@json_option("Print the list as JSON.")
def approvals(*, run: str | None, settings: Settings, as_json: bool) -> int:
    """Run the command; `_APPROVALS_HELP` is its help text."""
    from dataclasses import asdict

    from ._terminal import standard_error, standard_output

    history = open_history(settings)
    calls, sources = wait_for(_read, history, run)
    output = standard_output()
    if as_json:
        output.json([{**asdict(call), **_script_of(call, sources)} for call in calls])
    elif output.is_terminal:
        _write_blocks(output, calls, sources)
        if not calls:
            standard_error().line("no call awaits a decision")
    else:
        _write_rows(output, calls, sources)
    return COMPLETED


_Sources = dict[str, tuple[str, str]]
"""Name and text of the script, by run."""


async def _read(history: History, run: str | None) -> tuple[tuple[PendingCall, ...], _Sources]:
    """Return the pending calls and their scripts."""
    calls = await history.pending(await find_run(history, run) if run else None)
    scripts = [await history.run(name) for name in {call.run_id for call in calls}]
    await history.close()
    return calls, {row.run_id: (row.filename, row.source) for row in scripts}


def _script_of(call: PendingCall, sources: _Sources) -> dict[str, Any]:
    from ._pending_call import script_line

    filename, source = sources[call.run_id]
    return {
        "filename": filename,
        "script_line": script_line(call, source),
        "expired": _has_expired(call),
    }


def _has_expired(call: PendingCall) -> bool:

    return call.expires_ms is not None and now_ms() > call.expires_ms


def _write_blocks(output: Stream, calls: tuple[PendingCall, ...], sources: _Sources) -> None:

    from ._next_step import report_next_step
    from ._pending_call import describe_call

    seen_ms = now_ms()
    for call in calls:
        head, *rows = describe_call(call, *sources[call.run_id], seen_ms)
        output.line(head, "bold")
        for row in rows:
            output.line(row)
        if call.kind == "unknown":
            output.line("  it was interrupted: check whether it took effect")
        report_next_step(output, call.run_id, [call], name_calls=True, margin="  ")
        output.line()


def _write_rows(output: Stream, calls: tuple[PendingCall, ...], sources: _Sources) -> None:
    from .._core import _json
    from ._pending_call import visible
    from ._table import write_table

    names = "run call kind tool requested expires line arguments prompt"
    rows = [
        (
            *(call.run_id, call.call, call.kind, call.tool),
            *(
                _time(call.requested_ms),
                "expired" if _has_expired(call) else _time(call.expires_ms),
            ),
            _script_of(call, sources)["script_line"],
            *(visible(_json.dumps(call.arguments).decode()), visible(call.prompt)),
        )
        for call in calls
    ]
    write_table(output, [(heading, "") for heading in names.split()], rows)


def _time(ms: int | None) -> str:
    from datetime import datetime

    if ms is None:
        return ""
    return datetime.fromtimestamp(ms / 1000).astimezone().isoformat("T", "seconds")


def _decision_options(command: Any) -> Any:
    """Add the arguments and options of `approve` and `reject` to `command`."""
    for option in (
        json_option("With --resume: print the whole result as JSON."),
        *(verbose_option, no_input_option, settings_options(*RUN_KEYS)),
        click.option(
            "--resume", "resumes", is_flag=True, help="Resume the run now, and print its result."
        ),
        *(by_option, reason_option),
        click.argument("call", metavar="[CALL]", required=False),
        click.argument("run", metavar="RUN"),
    ):
        command = option(command)
    return command


_APPROVE_HELP = """Approve a pending call of RUN; CALL may be omitted if there is only one.

RUN is an ID from `ptc approvals`, or its first characters. The decision is recorded with your name,
and final. --resume continues the run at once, as `ptc resume RUN` does later. --arguments replaces
the arguments of the call, after the tool has validated them; this and --resume need the tools
of the run.

\b
Examples:
  ptc approve 3f2a --resume
  ptc approve 3f2a 2 --arguments '{"amount": 10}' --reason 'at most 10'
"""


@click.command(
    "approve", short_help="Approve a pending call.", help=_APPROVE_HELP, epilog=EXIT_STATUS_HELP
)
@_decision_options
@click.option("--arguments", metavar="JSON", help="Replace the call's arguments.")
def approve(
    *, run: str, call: str | None, by: str, comment: str, arguments: str | None, **options: Any
) -> int:
    """Run the command; `_APPROVE_HELP` is its help text."""
    from ._inputs import parse_object

    edited = None if arguments is None else parse_object(arguments, "--arguments")

    def decide(history: History, run_id: str) -> PendingCall:
        return wait_for(history.approve, run_id, call, arguments=edited, by=by, comment=comment)

    return _decide(run, decide, "approved", by, edited=edited, **options)


_REJECT_HELP = """Reject a pending call of RUN; CALL may be omitted if there is only one.

RUN is an ID from `ptc approvals`, or its first characters. In the script the call raises ToolError
with the reason. The decision is recorded with your name, and final. --resume continues the run at
once, as `ptc resume RUN` does later; it needs the tools of the run.

\b
Examples:
  ptc reject 3f2a --reason 'too much'
  ptc reject 3f2a 2 --reason 'wrong account' --resume
"""


@click.command(
    "reject", short_help="Reject a pending call.", help=_REJECT_HELP, epilog=EXIT_STATUS_HELP
)
@_decision_options
def reject(*, run: str, call: str | None, by: str, comment: str, **options: Any) -> int:
    """Run the command; `_REJECT_HELP` is its help text."""

    def decide(history: History, run_id: str) -> PendingCall:
        return wait_for(history.reject, run_id, call, by=by, comment=comment)

    return _decide(run, decide, "rejected", by, **options)


def _decide(
    run: str,
    decide: Any,
    action: str,
    by: str,
    *,
    edited: dict[str, Any] | None = None,
    resumes: bool,
    no_input: bool,
    verbose: bool,
    as_json: bool,
    settings: Settings,
) -> int:
    """Record a decision, report it, and resume the run or say how."""
    from ._decide import resume_run
    from ._next_step import report_next_step, tools_option
    from ._terminal import standard_error

    errors = standard_error()
    history = open_history(settings, notifies=True)
    run_id = wait_for(find_run, history, run)
    session: Session | None = None
    if edited is not None or resumes:
        # Created first: an unknown toolset is an error before anything is decided.
        session = open_session(settings)
        wait_for(history.close)
        history = session.history
    decided = decide(history, run_id)
    errors.line(f"{action} by {by}: {_one_line(decided, edited)}")
    if session is None or not resumes:
        more = tools_option(settings, wait_for(history.run, run_id)) if session is None else ""
        report_next_step(errors, run_id, wait_for(history.pending, run_id), more=more)
        wait_for(history.close)
        return COMPLETED
    asked = None if no_input else by
    return resume_run(session, settings, run_id, by=asked, verbose=verbose, as_json=as_json)


def _one_line(call: PendingCall, edited: dict[str, Any] | None) -> str:
    from .._core import _json
    from ._pending_call import one_line

    requested = one_line(_json.dumps(call.arguments).decode())
    head = f"call {call.call} of run {call.run_id}, {call.tool}"
    if edited is None or edited == call.arguments:
        return f"{head}({requested})"
    shown = one_line(_json.dumps(edited).decode())
    return f"{head}({shown}); the script requested {requested}"
