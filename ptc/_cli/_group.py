"""The command table: built-in commands and those of other packages, loaded on use."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from .. import __version__
from ..errors import PtcError, SetupError, UsageError
from ._status import FAILED, INTERRUPTED, SETUP, USAGE

__all__ = ["run_command_line"]

_HOME = {
    "run": "_run:command",
    "check": "_check:command",
    "call": "_call:command",
    "generate": "_generate:command",
    "extract": "_extract:command",
    "tools": "_tools:command",
    "docs": "_docs:command",
    "doctor": "_doctor:command",
    "warm-up": "_warm_up:command",
    "config": "_config:command",
    "submit": "_submit:submit",
    "wait": "_watch:command",
    "worker": "_worker:worker",
    "cancel": "_queue:cancel",
    "tenant": "_queue:tenant",
    "queue": "_queue:queue",
    "ui": "_ui:command",
    "top": "_top:command",
    "runs": "_list_runs:runs",
    "show": "_runs:show",
    "resume": "_decide:resume",
    "approvals": "_approvals:approvals",
    "approve": "_approvals:approve",
    "reject": "_approvals:reject",
    "settle": "_decide:settle",
    "rollback": "_decide:rollback",
    "artifact": "_artifact:command",
    "replay": "_runs:replay",
    "export": "_runs:export",
    "forget": "_list_runs:forget",
    "save": "_programs:save",
    "programs": "_programs:command",
}
"""Built-in commands and their locations, in help order. A package cannot replace one."""

_HELP = """Run Python scripts in a jail, with no powers but the tools you allow.

\b
  ptc run find.py --input query=TODO --allow grep,read   run a script
  ptc call grep '{"pattern": "TODO"}'                    call one tool yourself
  ptc generate --schema s.json --prompt "..." a.txt      have a model fill in a JSON Schema
  ptc extract docs/ --schema s.json --output rows.jsonl  the same for many documents
  ptc tools                                              list the tools
  ptc doctor                                             check the sandbox of this machine
  ptc docs tutorial                                      read the documentation
  ptc config show                                        show the settings of this folder
  ptc runs                                               list recorded runs, to show or resume
  ptc ui                                                 the same in a browser, with approvals
  ptc top                                                watch what runs, waits and fails
  ptc approvals                                          list calls that await your decision
  ptc save 3f2a find_todos --description "..."           make a tool of a run that completed

A script defines `async def run(ctx, inputs)`; ptc prints its return value as JSON.
"""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        from ._plugins import plugin_names

        return [*_HOME, *(name for name in plugin_names() if name not in _HOME)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _HOME:
            module, _, attribute = _HOME[cmd_name].partition(":")
            home = import_module(f".{module}", __name__.rpartition(".")[0])
            loaded: click.Command = getattr(home, attribute)
            return loaded
        from ._plugins import load_plugin, plugin_names

        if cmd_name not in plugin_names():
            return None
        try:
            return load_plugin(cmd_name)
        except SetupError as error:
            return _Unavailable(cmd_name, error)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # click would suggest only commands that are loaded, so none.
        name = args[0]
        if name not in _HOME and not name.startswith("-") and not ctx.resilient_parsing:
            known = self.list_commands(ctx)
            if name not in known:
                close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
                hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
                ctx.fail(f"No such command {name!r}.{hint} Commands: {', '.join(known)}.")
        return super().resolve_command(ctx, args)


class _Unavailable(click.Command):
    """Command whose package cannot be loaded; its help and its use report the reason."""

    def __init__(self, name: str, error: SetupError) -> None:
        super().__init__(name, short_help=f"(not available: {error})", add_help_option=False)
        self._error = error
        self.ignore_unknown_options = True
        self.allow_extra_args = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        raise self._error


@click.command(cls=_Commands, help=_HELP, context_settings={"max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    callback=lambda ctx, _, value: _print_version(ctx) if value else None,
    help="Show the version and exit; with --verbose, also those of Python and dependencies.",
)
@click.option(
    "--verbose",
    is_flag=True,
    is_eager=True,  # known when --version is processed, in either order
    expose_value=False,
    callback=lambda ctx, _, value: ctx.meta.update(verbose=value),
    help="Details of --version. Commands have their own -v.",
)
@click.pass_context
def _ptc(ctx: click.Context) -> None:
    if ctx.meta["verbose"]:
        raise click.UsageError(
            "--verbose stands before the command and belongs to --version. Write it after the "
            "command, as in `ptc run -v SCRIPT`."
        )


def _print_version(ctx: click.Context) -> None:
    if not ctx.meta["verbose"]:
        click.echo(f"ptc {__version__}")
        ctx.exit()
    from ._version import describe_versions

    rows = list(describe_versions())
    width = max(len(name) for name, _ in rows)
    for name, found in rows:
        click.echo(f"{name:<{width}}  {found}")
    ctx.exit()


def run_command_line(arguments: Sequence[str]) -> int:
    """Run the command that `arguments` name and return its exit status, see `_status`."""
    try:
        if os.environ.get("PTC_LOG_LEVEL") or os.environ.get("PTC_LOG_FORMAT"):
            from ._logging import configure_logging

            configure_logging(os.environ)
        outcome: Any = _ptc.main(list(arguments), prog_name="ptc", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        _say("interrupted")
        return INTERRUPTED
    except PtcError as error:
        _say(f"Error: {error}")
        return {UsageError: USAGE, SetupError: SETUP}.get(type(error), FAILED)
    # A plugin command may return anything.
    return outcome if type(outcome) is int else 0


def _say(message: str) -> None:
    from ._terminal import standard_error

    standard_error().line(message)
