"""``ptc check``: find the problems of a script without running it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from ._options import TOOL_KEYS, json_option, open_session, settings_options
from ._status import COMPLETED, EXIT_STATUS_HELP, FAILED

if TYPE_CHECKING:
    from .._config._settings import Settings

__all__ = ["command"]

_HELP = """Check SCRIPT (`-` reads standard input) without running it.

Reports forbidden code, unknown tools, wrong or missing arguments and missing awaits, all at once.
Exits with status 1 if any finding is more than advice.

\b
Examples:
  ptc check samples/scripts/find_usages.py --allow grep,read
  cat script.py | ptc check -
  ptc check script.py --json | jq '.[].message'
"""


@click.command(
    "check", short_help="Check a script without running it.", help=_HELP, epilog=EXIT_STATUS_HELP
)
@click.argument("script", metavar="SCRIPT")
@settings_options("allow", *TOOL_KEYS, "engine", "isolation", "packages")
@json_option("Print the findings as JSON.")
def command(*, script: str, settings: Settings, as_json: bool) -> int:
    """Run the command; `_HELP` is its help text."""
    import anyio

    from .._records._result import Finding
    from ._report import report_findings
    from ._script import read_script, refuse_host_program
    from ._terminal import standard_error, standard_output

    source, filename = read_script(script)
    refuse_host_program(source, script)
    session = open_session(settings)

    async def check() -> tuple[Finding, ...]:
        async with session:
            return await session.check(source=source, filename=filename)

    findings = anyio.run(check)
    if as_json:
        standard_output().json([dataclasses.asdict(finding) for finding in findings])
    else:
        report_findings(standard_output(), findings, filename)
        if not findings:
            standard_error().line(f"{filename}: no problems found", "green")
    return FAILED if any(not finding.advisory for finding in findings) else COMPLETED
