"""``ptc check``: find the problems of a script without running it."""

from __future__ import annotations

import dataclasses

import click

from ._options import (
    isolation_option,
    json_option,
    open_session,
    package_option,
    root_option,
    split_names,
    toolset_option,
)
from ._status import COMPLETED, EXIT_STATUS_HELP, FAILED

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
@click.option(
    "--allow",
    "allowed",
    multiple=True,
    metavar="TOOL,...",
    help="Tools that the script may call; may be repeated. [default: all without side effects]",
)
@root_option
@toolset_option
@isolation_option
@package_option
@json_option("Print the findings as JSON.")
def command(
    *,
    script: str,
    allowed: tuple[str, ...],
    root: str,
    toolsets: tuple[str, ...],
    isolation: str,
    packages: tuple[str, ...],
    as_json: bool,
) -> int:
    """Run the command; `_HELP` is its help text."""
    import anyio

    from .._records._result import Finding
    from ..errors import UsageError
    from ._options import with_option_names
    from ._report import report_findings
    from ._script import read_script
    from ._terminal import standard_error, standard_output

    source, filename = read_script(script)
    session = open_session(root=root, toolsets=toolsets, isolation=isolation, packages=packages)

    async def check() -> tuple[Finding, ...]:
        async with session:
            names = split_names(allowed) if allowed else None
            try:
                return await session.check(source=source, allowed_tools=names, filename=filename)
            except UsageError as error:
                raise with_option_names(error) from None

    findings = anyio.run(check)
    if as_json:
        standard_output().json([dataclasses.asdict(finding) for finding in findings])
    else:
        report_findings(standard_output(), findings, filename)
        if not findings:
            standard_error().line(f"{filename}: no problems found", "green")
    return FAILED if any(not finding.advisory for finding in findings) else COMPLETED
