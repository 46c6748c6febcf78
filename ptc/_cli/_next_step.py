"""The command that continues a run, printed when the run stops before its end."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from ..journal._address import redact_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._config._keys import Key
    from .._config._settings import Settings
    from .._records._result import PendingCall, RunResult
    from ..journal._journal import RunRow
    from ._terminal import Stream

__all__ = [
    "report_correction",
    "report_next_page",
    "report_next_step",
    "report_save",
    "tools_option",
]

_SHOWN = 5
_REPEATED = {
    *("--as", "--json", "--no-input", "--verbose", "--comment"),
    *("--script", "--reads", "--allow-unmatched", "--after"),
}
"""Options that belong to one command, not to its run."""
_STORE = {"--journal", "--store"}
"""Options that say where a run is recorded."""


def report_next_step(
    stream: Stream,
    run_id: str,
    pending: Sequence[PendingCall],
    *,
    name_calls: bool = False,
    queued: bool = False,
    margin: str = "",
    more: str = "",
) -> None:
    """Write the commands that decide on the pending calls of a run, and that resume it.

    Args:
        stream: Receives the lines.
        run_id: The run.
        pending: Its pending calls.
        name_calls: True: name each call. False: only if there are several.
        queued: True: a worker of a queue continues the run after the decisions.
        margin: Start of each line.
        more: Options of the commands that resume the run, as `tools_option` returns them.
    """
    name_calls = name_calls or len(pending) > 1
    for line in _commands(run_id, pending, name_calls=name_calls, queued=queued, more=more):
        stream.line(margin + line)


def tools_option(settings: Settings, run: RunRow) -> str:
    """Return `` --tools FILE`` if the run has a tool that this command line does not load.

    No file of tools is executed to find that out: a command that has some loads those of the run,
    as far as is known.
    """
    from .._config._session_arguments import session_arguments
    from .._runs._program_row import recorded_tools
    from .._session._session import Session
    from ..errors import PtcError

    if settings["tools"]:
        return ""
    # An error of another setting is reported by the command that needs it.
    with suppress(PtcError):
        session = Session(**{**session_arguments(settings), "telemetry": False})
        lacking = recorded_tools(run).keys() - set(session.tool_names())
        return " --tools FILE" if lacking and session.knows_all_tools else ""
    return ""


def report_save(stream: Stream, result: RunResult, source: str) -> None:
    """Write the command that makes a tool of a run, if it completed and called tools."""
    from .._programs._save import find_docstring

    if result.ok and result.calls:
        options = _repeated("save")
        if not find_docstring(source):
            options += " --description TEXT"
        stream.line(f"to make it a tool: ptc save {result.run_id} NAME{options}", "dim")


def report_next_page(stream: Stream, cursor: str) -> None:
    """Write the command that lists the next page of runs."""
    stream.line(f"next page: ptc runs{_repeated('runs')} --after {cursor}", "dim")


def report_correction(stream: Stream, result: RunResult) -> None:
    """Write the command that continues a run with a higher limit or a corrected script.

    The second only after a failure with effects, which a new run could repeat.
    """
    from .._config._keys import KEYS

    breach = None if result.error is None else result.error.breach
    key = None if breach is None else KEYS.get(f"limits.{breach.limit}")
    if key is not None and result.status in ("timed_out", "limit_exceeded"):
        options = _repeated("resume", without=key)
        raised = f"{key.flag} N" if key.option else f"{key.flag}=N"
        stream.line(f"next: ptc resume {result.run_id}{options} {raised}")
    elif any(warning.code == "effects_made" for warning in result.warnings):
        options = _repeated("resume")
        stream.line(
            f"next: correct the script, then ptc resume {result.run_id}{options} --script FILE"
        )


def _commands(
    run_id: str, pending: Sequence[PendingCall], *, name_calls: bool, queued: bool, more: str
) -> list[str]:
    known = _STORE if queued else None
    resume = f"ptc resume {run_id}{_repeated('resume')}{more}"
    if queued:
        resume = f"ptc wait {run_id}{_repeated('wait', known)}"
    if not pending:
        return [f"next: {resume}"]
    lines = []
    for call in pending[:_SHOWN]:
        which = f"{run_id} {call.call}" if name_calls else run_id
        if call.kind == "approval":
            end = "" if queued else f"{more} --resume"
            lines.append(f"next: ptc approve {which}{_repeated('approve', known)}{end}")
            reject = f"ptc reject {which}{_repeated('reject', known)} --reason TEXT{end}"
            lines.append(f"  or: {reject}")
        else:
            outcomes = "(done --value JSON|failed|again)"
            settle = _repeated("settle", known)
            lines.append(f"next: ptc settle {which}{settle} --outcome {outcomes}")
            if not queued:
                lines.append(f"then: {resume}")
    if len(pending) > _SHOWN:
        lines.append(f"and {len(pending) - _SHOWN} more: ptc approvals {run_id}")
    if queued:
        lines.append(f"then: {resume}")
    return lines


def _repeated(name: str, wanted: set[str] | None = None, without: Key | None = None) -> str:
    """Return the options of this command line that the command `name` needs to find the run.

    Args:
        name: The command.
        wanted: Options to repeat; None: all that both commands have.
        without: Setting that is not repeated, since the command gets another value.
    """
    context = click.get_current_context(silent=True)
    group = context.parent.command if context is not None and context.parent is not None else None
    if context is None or not isinstance(group, click.Group):
        return ""
    target = group.get_command(context, name)
    known = {flag for each in target.params for flag in each.opts} if target is not None else set()
    if wanted is not None:
        known &= wanted
    words: list[str] = []
    for option in context.command.params:
        if isinstance(option, click.Option) and known & set(option.opts) - _REPEATED:
            words += _words(context, option, without)
    return "".join(f" {shlex.quote(word)}" for word in words)


def _words(context: click.Context, option: click.Option, without: Key | None) -> list[str]:
    name = option.name or ""
    if without is not None and without.option in option.opts:
        return []
    if context.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE:
        return []
    # A wrapper may have taken the value out of the parameters that the command receives.
    value: Any = context.params.get(name)
    if isinstance(value, bool):
        return [option.opts[0] if value else option.secondary_opts[0]]
    values = value if isinstance(value, list | tuple) else [value]
    if without is not None and "--set" in option.opts:
        values = [each for each in values if each.partition("=")[0] != without.name]
    # The address of a journal can have a password.
    return [word for each in values for word in (option.opts[0], redact_address(str(each)))]
