"""``ptc call``: call one tool from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ._options import TOOL_KEYS, json_option, open_session, require_tool, settings_options
from ._status import COMPLETED, EXIT_STATUS_HELP, FAILED

if TYPE_CHECKING:
    from .._config._settings import Settings

__all__ = ["command"]

_HELP = """Call TOOL with ARGUMENTS, a JSON object (default: {}; `-` reads standard input).

Prints the text that a model would read, or the value with --json. The call runs without the jail:
tools are trusted code, and there is no script. Side effects happen as in a run.

\b
Examples:
  ptc call grep '{"pattern": "TODO", "glob": "*.py"}'
  ptc call read '{"path": "README.md"}' --root ~/project
  ptc call grep '{"pattern": "TODO"}' --json | jq length
"""


@click.command("call", short_help="Call one tool.", help=_HELP, epilog=EXIT_STATUS_HELP)
@click.argument("tool", metavar="TOOL")
@click.argument("arguments", metavar="[ARGUMENTS]", default="{}")
@settings_options(*TOOL_KEYS)
@json_option("Print the value as JSON instead of the text for a model.")
def command(*, tool: str, arguments: str, settings: Settings, as_json: bool) -> int:
    """Run the command; `_HELP` is its help text."""
    import anyio

    from .._core import _json
    from .._tools._tool_result import ToolResult
    from ._inputs import parse_object, read_object
    from ._terminal import standard_error, standard_output

    if arguments == "-":
        parsed = read_object("-", "ARGUMENTS")
    else:
        parsed = parse_object(arguments, "ARGUMENTS")
    session = open_session(settings)

    async def call() -> ToolResult:
        async with session:
            require_tool(tool, session.tool_names())
            return await session.tool(tool, parsed)

    if session.knows_all_tools:
        require_tool(tool, session.tool_names())
    result = anyio.run(call)
    errors = standard_error()
    if result.error is not None:
        errors.line(result.text, "bold red")
        return FAILED
    output = standard_output()
    try:
        if as_json:
            output.json(_json.loads(_json.dumps(result.value, what=tool)))
        else:
            text = result.text
            output.write(text if text.endswith("\n") else f"{text}\n")
    except _json.JsonError as error:
        errors.line(f"Error: the value cannot be encoded as JSON: {error}", "bold red")
        return FAILED
    return COMPLETED
