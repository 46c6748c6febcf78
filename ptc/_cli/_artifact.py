"""``ptc artifact``: read a stored value by its run or reference."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._options import HISTORY_KEYS, settings_options
from ._run_ids import find_run
from ._runs import open_history
from ._status import COMPLETED
from ._wait import wait_for

if TYPE_CHECKING:
    from .._config._settings import Settings

__all__ = ["command"]

_HELP = """Print a value that was truncated, or an attachment, whole.

NAME is a run, whose whole value is printed, or a reference such as sha256:DIGEST from its record.
The value is read from this machine, or from the store that machines share (--artifacts).

\b
Examples:
  ptc artifact 3f2a > value.json
  ptc artifact sha256:9f86... --output chart.png
"""


@click.command("artifact", short_help="Print a stored value.", help=_HELP)
@click.argument("name")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the value to FILE rather than to the standard output.",
)
@settings_options(*HISTORY_KEYS, "artifacts")
def command(*, name: str, output: Path | None, settings: Settings) -> int:
    """Run the command; `_HELP` is its help text."""
    data = wait_for(_load, name, settings)
    if output is not None:
        output.write_bytes(data)
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    return COMPLETED


async def _load(name: str, settings: Settings) -> bytes:
    from .._records._result import Cut, RunResult
    from .._session._artifacts import artifacts_of
    from ..errors import UsageError

    # The id of a run may have only hexadecimal digits, too.
    is_reference = name.startswith(("sha256:", "ptc://artifacts/"))
    history = None
    if not is_reference or settings.journal() is not None:
        history = open_history(settings)
    try:
        value: str | RunResult = name
        root, source = settings.root.resolve(), settings.artifacts()
        opened = None if history is None else history.open
        artifacts = artifacts_of(root, source, settings.journal(), opened)
        if not is_reference and history is not None:
            run_id = await find_run(history, name)
            row = await history.run(run_id)
            cut = json.loads(row.result or b"{}").get("cut")
            if cut is None:
                msg = f"the value of run {run_id!r} was not truncated: `ptc show {run_id}` has it"
                raise UsageError(msg)
            value = RunResult(
                run_id, "completed", cut=Cut(cut["bytes"], cut["sha256"], cut["artifact"])
            )
        try:
            return await artifacts.load(value)
        finally:
            await artifacts.close()
    finally:
        if history is not None:
            await history.close()
