"""``ptc config``: check and show the effective settings, and trust a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from ._options import RUN_KEYS, json_option, load_tools, open_session, settings_options
from ._status import COMPLETED
from ._wait import wait_for

if TYPE_CHECKING:
    from .._config._settings import Setting, Settings

__all__ = ["command"]

_HELP = """Check and show the settings of a folder.

Every command reads `ptc.toml`, or `[tool.ptc]` in `pyproject.toml`, from the root or the nearest
folder above it. The file is code: it names tools that ptc executes, and sets permissions. No tool
of a script can change it. For example:

\b
  tools = ["tools.py"]                    # every tool that the file defines
  allow = ["read", "price", "pay(amount <= 100)"]
  env = { api_key = "SHOP_API_KEY" }      # the name of a variable, never a secret

\b
  [limits]
  timeout_ms = 5000

An option of the command line overrides a variable (PTC_ALLOW, PTC_LIMITS_TIMEOUT_MS), and a
variable overrides the file. docs/configuration.md describes every key.
"""


@click.group("config", short_help="Check and show the settings.", help=_HELP)
def command() -> None:
    """Group the commands about settings."""


_CHECK_HELP = """Check the configuration file, the variables, and the tools that they name.

The tools files are executed, as by every other command. Exits with status 2 if something is wrong.
"""


@command.command("check", short_help="Check the configuration.", help=_CHECK_HELP)
@settings_options(*RUN_KEYS)
def check(*, settings: Settings) -> int:
    """Run the command; `_CHECK_HELP` is its help text."""
    from .._config._settings import unknown_variables
    from ..errors import UsageError
    from ._terminal import standard_output

    if problems := unknown_variables(os.environ):
        raise UsageError("\n".join(problems))
    session = open_session(settings)
    load_tools(session)
    names = session.tool_names()
    wait_for(session.history.close)
    where = "no configuration file" if settings.file is None else f"{settings.file}"
    standard_output().line(f"{where}: no problems found; {len(names)} tools: {', '.join(names)}")
    return COMPLETED


_SHOW_HELP = """Show the effective settings, and the source of each. Executes nothing.

Limits and ceilings that have their defaults are listed with --all only.

\b
Examples:
  ptc config show
  ptc config show --timeout-ms 5000 --all
  ptc config show --json | jq '.[] | select(.source != "default")'
"""


@command.command("show", short_help="Show the effective settings.", help=_SHOW_HELP)
@settings_options(*RUN_KEYS, check_trust=False)
@click.option("--all", "show_all", is_flag=True, help="List every limit and ceiling.")
@json_option("Print all settings as JSON.")
def show(*, settings: Settings, show_all: bool, as_json: bool) -> int:
    """Run the command; `_SHOW_HELP` is its help text."""
    from .._core import _json
    from ._table import write_table
    from ._terminal import standard_error, standard_output

    output = standard_output()
    if as_json:
        output.json([_row(setting, settings) for setting in settings])
        return COMPLETED
    tables = ("limits.", "ceiling.")
    shown = [
        setting
        for setting in settings
        if show_all or setting.origin != "default" or not setting.key.name.startswith(tables)
    ]
    rows = []
    for setting in shown:
        row = _row(setting, settings)
        value = _json.dumps(row["value"]).decode()
        place = f" ({row['place']})" if row["place"] else ""
        rows.append((row["key"], value, f"{row['source']}{place}"))
    write_table(output, (("key", ""), ("value", "wrap"), ("source", "wrap")), rows)
    if not _is_trusted(settings):
        standard_error().line(
            f"note: {settings.file} is not trusted, so other commands refuse it; read it, then run "
            "`ptc config trust`"
        )
    return COMPLETED


def _row(setting: Setting, settings: Settings) -> dict[str, Any]:
    from ..journal._address import redact_address

    value = setting.value
    if setting.key.name == "root" and setting.origin == "default":
        value = str(settings.start)
    if setting.key.name == "journal" and isinstance(value, str):
        value = redact_address(value)
    return {
        "key": setting.key.name,
        "value": value,
        "source": setting.origin,
        "place": setting.place,
        "option": setting.key.flag,
        "variable": setting.key.variable,
    }


_TRUST_HELP = """Trust the configuration file as it is now.

Two files count only after you have read and trusted them: [tool.ptc] in a pyproject.toml, which
scripts may change, and a ptc.toml that is neither in the current folder nor above it, such as one
of a checkout that you pass with --root. Run this again after each change of the settings.
"""


@command.command("trust", short_help="Trust a configuration file.", help=_TRUST_HELP)
@settings_options("root", check_trust=False)
def trust(*, settings: Settings) -> int:
    """Run the command; `_TRUST_HELP` is its help text."""
    from .._config._file import load_file
    from .._config._trust import trust as trust_table
    from ..errors import UsageError
    from ._terminal import standard_output

    path = settings.file
    if path is None:
        raise UsageError("there is no configuration file in the root or above it")
    file = load_file(path, named=settings.named, check_trust=False)
    trust_table(path, file.table)
    standard_output().line(f"trusted: {'[tool.ptc] in ' if file.in_project else ''}{path}")
    return COMPLETED


def _is_trusted(settings: Settings) -> bool:
    from .._config._file import is_file_trusted, load_file

    if settings.file is None:
        return True
    file = load_file(settings.file, named=settings.named, check_trust=False)
    return is_file_trusted(file, named=settings.named)
