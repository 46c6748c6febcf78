"""``ptc save`` and ``ptc programs``: scripts that worked, as tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ._options import (
    TOOL_KEYS,
    json_option,
    load_tools,
    open_session,
    settings_options,
)
from ._status import COMPLETED, USAGE
from ._wait import wait_for

if TYPE_CHECKING:
    from .._config._settings import Settings
    from .._programs._saved import SavedProgram
    from .._programs._store import ProgramStore
    from .._tools._allow import Allow
    from ._terminal import Stream

__all__ = ["command", "save"]

_STORE_KEYS = ("root", "programs")

_SAVE_HELP = """Save the script of RUN as the tool NAME.

RUN is an ID from `ptc runs`, or its first characters, of a run that completed. From now on NAME is
a tool like any other, of every session of the folder: scripts, models and `ptc call` can use it.
Its source, its tools and its limits are pinned. A call needs an allow-list with all of these tools,
and is refused once one of them has another schema or other flags. Saving under the same name again
makes the next version.

\b
Examples:
  ptc run todos.py --input query=TODO --allow grep,read
  ptc save 3f2a find_todos --description "Find lines with a word, and who wrote them."
  ptc call find_todos '{"query": "FIXME"}'
  ptc save 3f2a pay_small --allow 'price,pay(amount<=100)'

The inputs of the run become the parameters: all required, with the types of their values. For
optional parameters or descriptions, pass a JSON Schema with --input-schema.
"""


@click.command("save", short_help="Save a run as a tool.", help=_SAVE_HELP)
@click.argument("run", metavar="RUN")
@click.argument("name", metavar="NAME")
@click.option(
    "--description",
    metavar="TEXT",
    help="Description for models. [default: the docstring of `run` or of the script]",
)
@click.option(
    "--input-schema",
    metavar="FILE",
    help="JSON Schema of the inputs. [default: names and types of the run's inputs]",
)
@click.option(
    "--output-schema",
    metavar="FILE",
    help="JSON Schema of the value. [default: that of the run, or the shape of its value]",
)
@click.option(
    "--allow",
    multiple=True,
    metavar="TOOL,...",
    help="Tools that the program may call, with rules if the run had some; may be repeated. "
    "[default: those that the run called and those that its source names]",
)
@settings_options(*TOOL_KEYS, "journal")
@json_option("Print the saved program as JSON.")
def save(
    *,
    run: str,
    name: str,
    description: str | None,
    input_schema: str | None,
    output_schema: str | None,
    allow: tuple[str, ...],
    settings: Settings,
    as_json: bool,
) -> int:
    """Run the command; `_SAVE_HELP` is its help text."""
    from ._inputs import read_object
    from ._run_ids import find_run
    from ._runs import open_history
    from ._terminal import standard_output

    schemas = [
        None if file is None else read_object(file, option)
        for file, option in ((input_schema, "--input-schema"), (output_schema, "--output-schema"))
    ]
    allowed = _parse_allow(allow)
    history = open_history(settings)
    run_id = wait_for(find_run, history, run)
    wait_for(history.close)
    session = open_session(settings)
    load_tools(session)
    program = wait_for(
        session.save_program,
        run_id,
        name=name,
        description=description,
        input_schema=schemas[0],
        output_schema=schemas[1],
        allowed_tools=allowed,
    )
    wait_for(session.history.close)
    output = standard_output()
    if as_json:
        output.json(_row(program))
        return COMPLETED
    output.line(f"saved {program.name}, version {program.version}: {program.folder}")
    output.line(f"its tools: {', '.join(program.allowed_tools) or 'none'}")
    return COMPLETED


def _parse_allow(texts: tuple[str, ...]) -> list[str | Allow] | None:
    from .._tools._allow_text import parse_allow, split_entries
    from ..errors import UsageError

    if not texts:
        return None
    try:
        return [parse_allow(entry) for text in texts for entry in split_entries(text)]
    except UsageError as error:
        raise UsageError(f"--allow: {error}") from None


_HELP = """List, show and delete saved programs.

A saved program is a script that worked and became a tool: see `ptc save --help`. Its files are in
.ptc/programs/NAME/VERSION of the root: program.py, and program.json with its pinned tools. They are
not meant to be edited: a changed file is refused. No tool of a script can change them.
"""


@click.group("programs", short_help="List, show and delete saved programs.", help=_HELP)
def command() -> None:
    """Group the commands about saved programs."""


_LIST_HELP = """List the saved programs of a folder: name, newest version, time, tools, description.

Exits with status 2 if one was changed; the others are listed.

\b
Examples:
  ptc programs list
  ptc programs list --json | jq '.[].name'
"""


@command.command("list", short_help="List the saved programs.", help=_LIST_HELP)
@settings_options(*_STORE_KEYS)
@json_option("Print the programs as JSON.")
def list_programs(*, settings: Settings, as_json: bool) -> int:
    """Run the command; `_LIST_HELP` is its help text."""
    from ..errors import UsageError
    from ._table import write_table
    from ._terminal import standard_error, standard_output

    store = _open_store(settings)
    found, damaged = [], False
    for name in store.names():
        try:
            found.append(store.load(name))
        except UsageError as error:
            damaged = True
            standard_error().line(f"Error: {error}")
    output = standard_output()
    if as_json:
        output.json([_row(program) for program in found])
    else:
        columns = (
            *(("program", ""), ("version", "number"), ("saved", "")),
            *(("tools", "wrap"), ("description", "wrap")),
        )
        rows = [
            (
                program.name,
                str(program.version),
                program.saved_at,
                ", ".join(program.allowed_tools),
                program.description.partition("\n")[0],
            )
            for program in found
        ]
        write_table(output, columns, rows)
    return USAGE if damaged else COMPLETED


_SHOW_HELP = """Show the saved program NAME: its tools and parameters, and its source.

\b
Examples:
  ptc programs show find_todos
  ptc programs show find_todos --version 1 --json | jq .limits
"""
_version_option = click.option(
    "--version", type=click.IntRange(1), metavar="N", help="Version. [default: the newest]"
)


@command.command("show", short_help="Show a saved program.", help=_SHOW_HELP)
@click.argument("name", metavar="NAME")
@_version_option
@settings_options(*_STORE_KEYS)
@json_option("Print the program as JSON.")
def show(*, name: str, version: int | None, settings: Settings, as_json: bool) -> int:
    """Run the command; `_SHOW_HELP` is its help text."""
    from ._terminal import standard_output

    store = _open_store(settings)
    program = store.load(name, version)
    output = standard_output()
    if as_json:
        output.json(_row(program))
        return COMPLETED
    _describe(output, program, store.versions(name))
    return COMPLETED


def _describe(output: Stream, program: SavedProgram, versions: list[int]) -> None:
    from ._tools import describe_type

    listed = ", ".join(map(str, versions))
    output.line(f"{program.name}, version {program.version} of {listed}", "bold")
    output.line(f"saved {program.saved_at} from run {program.run_id}: {program.folder}")
    output.line()
    output.line(program.description)
    output.line()
    for entry in program.allowed_tools:
        name = entry.partition("(")[0]
        effect = ", with a side effect" if program.tools[name].side_effect else ""
        output.line(f"tool       {entry}{effect}")
    required = program.input_schema.get("required", ())
    for name, schema in program.input_schema.get("properties", {}).items():
        kind = describe_type(schema, program.input_schema.get("$defs", {}))
        output.line(f"parameter  {name}: {kind}{'' if name in required else ', optional'}")
    output.line()
    output.write(program.source if program.source.endswith("\n") else f"{program.source}\n")


_DELETE_HELP = """Delete the saved program NAME, or one version of it.

Without its newest version, a program is the version before it. Runs that are paused in a deleted
version cannot continue it.

\b
Examples:
  ptc programs delete find_todos
  ptc programs delete find_todos --version 3
"""


@command.command("delete", short_help="Delete a saved program.", help=_DELETE_HELP)
@click.argument("name", metavar="NAME")
@click.option(
    "--version",
    type=click.IntRange(1),
    metavar="N",
    help="Version to delete. [default: all of them]",
)
@settings_options(*_STORE_KEYS)
def delete(*, name: str, version: int | None, settings: Settings) -> int:
    """Run the command; `_DELETE_HELP` is its help text."""
    from ._terminal import standard_output

    deleted = _open_store(settings).delete(name, version)
    word = "version" if len(deleted) == 1 else "versions"
    standard_output().line(f"deleted {name}, {word} {', '.join(map(str, deleted))}")
    return COMPLETED


def _open_store(settings: Settings) -> ProgramStore:
    from .._programs._programs import program_store

    return program_store(settings.root.resolve(), settings.path("programs"))


def _row(program: SavedProgram) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(program), "folder": str(program.folder)}
