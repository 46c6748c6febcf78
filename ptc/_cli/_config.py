"""``ptc config``: check and show the effective settings, and trust a table of pyproject.toml."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from ._options import RUN_KEYS, json_option, open_session, settings_options
from ._status import COMPLETED

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
    names = session.tool_names()
    session.history.close()
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
            "note: [tool.ptc] is not trusted, so other commands refuse it; run `ptc config trust`"
        )
    return COMPLETED


def _row(setting: Setting, settings: Settings) -> dict[str, Any]:
    value = setting.value
    if setting.key.name == "root" and setting.origin == "default":
        value = str(settings.start)
    return {
        "key": setting.key.name,
        "value": value,
        "source": setting.origin,
        "place": setting.place,
        "option": setting.key.flag,
        "variable": setting.key.variable,
    }


_TRUST_HELP = """Trust [tool.ptc] in pyproject.toml as it is now.

Scripts may change a pyproject.toml, so its table counts only after you have read it. Run this again
after each change of the table. A ptc.toml needs no trust, since no script can change it.
"""


@command.command("trust", short_help="Trust [tool.ptc] in pyproject.toml.", help=_TRUST_HELP)
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
    if not file.in_project:
        raise UsageError(f"{path} needs no trust: no script can change it")
    trust_table(path, file.table)
    standard_output().line(f"trusted: [tool.ptc] in {path}")
    return COMPLETED


def _is_trusted(settings: Settings) -> bool:
    from .._config._file import load_file
    from .._config._trust import is_trusted

    if settings.file is None:
        return True
    file = load_file(settings.file, named=settings.named, check_trust=False)
    return not file.in_project or is_trusted(file.path, file.table)
