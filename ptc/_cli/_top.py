"""``ptc top``: the runs that execute, wait and have ended, redrawn while they change."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any, Final

import click

from .._dataclass import dataclass
from ._options import HISTORY_KEYS, json_option, settings_options
from ._runs import open_history
from ._status import COMPLETED
from ._wait import wait_for

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from .._config._settings import Settings
    from .._runs._history import History
    from ..journal._queue import QueueStatus
    from ..journal._run_lists import RunSummary

__all__ = ["command"]

_HELP = """Show the runs of all processes that use the journal, redrawn as they change.

The first lines count the runs that started in the last ten minutes, by outcome, and the calls that
await a decision. Below them: runs that execute or are queued, the oldest first, with their age and
recorded calls; runs that wait for a decision; the last that ended; and the workers of a queue.

Press q to leave. With --once, or off a terminal, the tables are printed once.

\b
Examples:
  ptc top
  ptc top --journal postgresql://ptc@db/runs --interval-ms 250
  ptc top --once
  ptc top --json | jq '.unfinished[] | select(.age_ms > 60000)'
"""
_RECENT_MS: Final = 600_000
_MOST_ROWS: Final = 1_000
"""Rows of each list that is read; of more, the numbers are at least these."""
_ENDED_ROWS: Final = 8
_STYLES: Final[Mapping[str, str]] = {
    "completed": "green", "paused": "yellow", "running": "cyan", "queued": "dim",
}  # fmt: skip
"""Colours of statuses; all others are those of a run that failed."""


@click.command("top", short_help="Watch runs, queue and errors.", help=_HELP)
@click.option(
    "--interval-ms",
    type=click.IntRange(100, 3_600_000),
    default=1_000,
    metavar="N",
    help="Time between two looks at the journal. [default: 1000]",
)
@click.option("--once", is_flag=True, help="Print the tables once, and end.")
@settings_options(*HISTORY_KEYS)
@json_option("Print the state once, as JSON.")
def command(*, interval_ms: int, once: bool, settings: Settings, as_json: bool) -> int:
    """Run the command; `_HELP` is its help text."""
    from ._terminal import standard_output

    output = standard_output()
    history = open_history(settings)

    async def show() -> None:
        try:
            if as_json:
                output.json(_as_data(await look(history)))
            elif once or not output.has_cursor:
                _write(await look(history))
            else:
                await _follow(history, interval_ms / 1000)
        finally:
            await history.close()

    # Ctrl-C is a way to leave, as `q` is.
    with suppress(KeyboardInterrupt):
        wait_for(show)
    return COMPLETED


# --- what there is ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """State of a journal at one moment."""

    at_ms: int
    unfinished: tuple[RunSummary, ...]
    """Runs that execute or are queued, the oldest first."""
    paused: tuple[RunSummary, ...]
    ended: tuple[RunSummary, ...]
    """The last that ended, the newest start first."""
    counts: Mapping[str, int]
    """Runs that started lately, by status."""
    pending: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Tools that await a decision, by run."""
    queue: QueueStatus | None = None
    """The queue; None: the journal has none."""


async def look(history: History) -> Look:
    """Read the state of a journal."""
    from .._runs._watch import UNFINISHED
    from ..journal._queue import QueuedJournal
    from ..journal._run_lists import RunQuery

    journal = await history.open()
    now = time.time_ns() // 1_000_000
    unfinished = await journal.runs(RunQuery(statuses=UNFINISHED, limit=_MOST_ROWS))
    paused = await journal.runs(RunQuery(statuses=("paused",), limit=_MOST_ROWS))
    recent = await journal.runs(RunQuery(since_ms=now - _RECENT_MS, limit=_MOST_ROWS))
    newest = await journal.runs(RunQuery(limit=_ENDED_ROWS * 4))
    pending: dict[str, tuple[str, ...]] = {}
    for run_id, row in await journal.pending():
        pending[run_id] = (*pending.get(run_id, ()), row.tool)
    return Look(
        now,
        tuple(sorted(unfinished, key=lambda run: run.created_ms)),
        tuple(paused),
        tuple(run for run in newest if run.status not in (*UNFINISHED, "paused"))[:_ENDED_ROWS],
        Counter(run.status for run in recent),
        pending,
        await journal.queue.status() if isinstance(journal, QueuedJournal) else None,
    )


def _as_data(state: Look) -> dict[str, Any]:
    def row(run: RunSummary) -> dict[str, Any]:
        age_ms = (run.ended_ms or state.at_ms) - run.created_ms
        data = {"run_id": run.run_id, "status": run.status, "script": run.filename}
        return {**data, "calls": run.calls, "tenant": run.tenant, "age_ms": age_ms}

    return {
        "at_ms": state.at_ms,
        "recent": dict(state.counts),
        "unfinished": [row(run) for run in state.unfinished],
        "paused": [{**row(run), "tools": state.pending.get(run.run_id)} for run in state.paused],
        "ended": [row(run) for run in state.ended],
        "queue": None if state.queue is None else asdict(state.queue),
    }


# --- how it looks ----------------------------------------------------------------------------


def _write(state: Look) -> None:
    from ._table import write_table
    from ._terminal import standard_error, standard_output

    standard_error().line(_summary(state))
    columns = (
        *(("run", ""), ("outcome", ""), ("age", "number")),
        *(("calls", "number"), ("script", "truncate")),
    )
    runs = (*state.unfinished, *state.paused, *state.ended)
    write_table(standard_output(), columns, [_cells(state, run) for run in runs])


def _summary(state: Look) -> str:
    started = sum(state.counts.values())
    parts = [f"{count} {status}" for status, count in sorted(state.counts.items())]
    waiting = sum(map(len, state.pending.values()))
    most = "+" if started >= _MOST_ROWS else ""
    text = f"{started}{most} runs in ten minutes"
    text += f" ({', '.join(parts)})" if parts else ""
    return f"{text}; {waiting} calls await a decision"


def _cells(state: Look, run: RunSummary) -> tuple[str, ...]:
    age = _duration((run.ended_ms or state.at_ms) - run.created_ms)
    tools = state.pending.get(run.run_id, ())
    status = f"{run.status}: {', '.join(tools)}" if run.status == "paused" and tools else run.status
    name = f"{run.filename} ({run.tenant})" if run.tenant else run.filename
    return run.run_id, status, age, f"{run.calls}", name


def _duration(ms: int) -> str:
    if ms < 60_000:
        return f"{max(ms, 0) / 1000:.1f} s"
    minutes, seconds = divmod(ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"


def _picture(state: Look, problem: str, height: int) -> Group:
    from rich.console import Group
    from rich.text import Text

    at = time.strftime("%H:%M:%S", time.localtime(state.at_ms / 1000))
    head = Text.assemble(("ptc top ", "bold"), at, "   ", _summary(state))
    if problem:
        head.append(f"\n{problem}", style="red")
    rows = (*state.unfinished, *state.paused, *state.ended)
    left = max(height - 8 - (0 if state.queue is None else len(state.queue.workers) + 3), 3)
    parts: list[Any] = [head, Text(), _runs_table(state, rows[:left])]
    if len(rows) > left:
        parts.append(Text(f"and {len(rows) - left} more", style="dim"))
    if state.queue is not None:
        parts.append(_workers_table(state.queue))
    parts.append(Text("\nq: leave", style="dim"))
    return Group(*parts)


def _runs_table(state: Look, runs: tuple[RunSummary, ...]) -> Table:
    from rich.text import Text

    from ._terminal import safe

    table = _table("run", "outcome", "age", "calls", "script")
    for run in runs:
        run_id, status, age, calls, name = map(safe, _cells(state, run))
        style = _STYLES.get(run.status, "red")
        table.add_row(run_id, Text(status, style=style), age, calls, Text(name))
    return table


def _workers_table(queue: QueueStatus) -> Table:
    from rich.text import Text

    from ._terminal import safe

    queued = sum(tenant.queued for tenant in queue.tenants)
    table = _table(f"worker ({queued} runs queued)", "running", "slots", "state")
    for worker in queue.workers:
        state = "drains" if worker.is_draining else "works"
        table.add_row(Text(safe(worker.description)), f"{worker.running}", f"{worker.slots}", state)
    return table


def _table(*headings: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for heading in headings:
        is_number = heading in ("age", "calls", "running", "slots")
        table.add_column(heading, no_wrap=True, justify="right" if is_number else "left")
    return table


# --- the screen ------------------------------------------------------------------------------


async def _follow(history: History, seconds: float) -> None:
    """Redraw until `q` is pressed. A journal that cannot be read is tried again."""
    from rich.live import Live

    from ..errors import PtcError
    from ._terminal import standard_output

    console = standard_output().console
    state, problem = Look(time.time_ns() // 1_000_000, (), (), (), {}), ""
    with (
        _single_keys(),
        Live(console=console, screen=True, auto_refresh=False, redirect_stderr=False) as live,
    ):
        while True:
            try:
                state, problem = await look(history), ""
            except PtcError as error:
                problem = str(error)
            live.update(_picture(state, problem, console.height), refresh=True)
            if await _pressed(seconds) == "q":
                return


@contextmanager
def _single_keys() -> Iterator[None]:
    """Make the terminal pass on each key at once; lines elsewhere."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


async def _pressed(seconds: float) -> str:
    """Wait for a key, at most so long; ``""``: none."""
    import os

    import anyio

    if sys.platform != "win32" and sys.stdin.isatty():
        with anyio.move_on_after(seconds):
            await anyio.wait_readable(sys.stdin)
            return os.read(sys.stdin.fileno(), 1).decode(errors="replace")
        return ""
    await anyio.sleep(seconds)
    return ""
