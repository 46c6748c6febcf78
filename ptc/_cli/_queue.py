"""``ptc cancel``, ``tenant`` and ``queue``: runs that wait for workers, and their limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ._options import HISTORY_KEYS, json_option, open_session, settings_options
from ._run_ids import RUN_HELP
from ._status import COMPLETED
from ._wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeVar

    from .._config._settings import Settings
    from .._session._session import Session

    _T = TypeVar("_T")

__all__ = ["cancel", "queue", "tenant"]


def _in_session(settings: Settings, use: Callable[[Session], Awaitable[_T]]) -> _T:
    """Call `use` with a session that has no tools."""
    session = open_session(settings, tools=(), toolsets=())

    async def call() -> _T:
        async with session:
            return await use(session)

    return wait_for(call)


_CANCEL_HELP = f"""Cancel RUN, wherever it is.

A run that is queued or paused never starts. Of one that a worker executes, no new call starts after
at most one heartbeat of the worker, and results of its calls are recorded.

{RUN_HELP}
"""


@click.command("cancel", short_help="Cancel a run.", help=_CANCEL_HELP)
@click.argument("run", metavar="RUN")
@settings_options(*HISTORY_KEYS)
def cancel(*, run: str, settings: Settings) -> int:
    """Run the command; `_CANCEL_HELP` is its help text."""
    from ._run_ids import find_run
    from ._terminal import standard_output

    async def use(session: Session) -> tuple[str, bool]:
        run_id = await find_run(session.history, run)
        return run_id, await session.cancel(run_id)

    run_id, done = _in_session(settings, use)
    standard_output().line(f"{run_id} {'cancelled' if done else 'is being stopped'}")
    return COMPLETED


_TENANT_HELP = """Show or change the limits of the tenant NAME, on all workers.

\b
Examples:
  ptc tenant shop --max-running 20 --rate 5 --burst 20
  ptc tenant shop --max-queued 1000
  ptc tenant shop --no-limit rate
"""
_LIMITS = {
    "max-running": "max_running",
    "rate": "rate_per_second",
    "max-queued": "max_queued",
}


@click.command("tenant", short_help="Limit the runs of a tenant.", help=_TENANT_HELP)
@click.argument("name", metavar="NAME")
@click.option("--max-running", type=int, metavar="N", help="Runs at once.")
@click.option(
    "--rate",
    "rate_per_second",
    type=float,
    metavar="R",
    help="Runs that start in a second, on average.",
)
@click.option("--burst", type=int, metavar="N", help="Runs that may start at once after a pause.")
@click.option("--max-queued", type=int, metavar="N", help="Runs that may wait.")
@click.option(
    "--no-limit",
    "removed",
    type=click.Choice(list(_LIMITS)),
    multiple=True,
    help="Remove a limit; may be repeated.",
)
@settings_options(*HISTORY_KEYS)
@json_option("Print the limits as JSON.")
def tenant(
    *, name: str, removed: tuple[str, ...], settings: Settings, as_json: bool, **limits: Any
) -> int:
    """Run the command; `_TENANT_HELP` is its help text."""
    from dataclasses import asdict

    from ._terminal import standard_output

    changes = {key: value for key, value in limits.items() if value is not None}
    changes |= dict.fromkeys(_LIMITS[each] for each in removed)
    found = asdict(_in_session(settings, lambda session: session.set_tenant(name, **changes)))
    output = standard_output()
    if as_json:
        output.json(found)
    else:
        shown = [f"{key}: {'no limit' if value is None else value}" for key, value in found.items()]
        output.line(f"{name}: {', '.join(shown)}")
    return COMPLETED


_QUEUE_HELP = """Show the queue: its tenants, its workers, and runs that no worker can execute.

A run waits for ever if no worker has its tools, with the same schemas and flags, and the engine
that started it, if one has. The last table names what is missing or different.
"""


@click.command("queue", short_help="Show the queue and its workers.", help=_QUEUE_HELP)
@settings_options(*HISTORY_KEYS)
@json_option("Print the state as JSON.")
def queue(*, settings: Settings, as_json: bool) -> int:
    """Run the command; `_QUEUE_HELP` is its help text."""
    from dataclasses import asdict

    from ._table import write_table
    from ._terminal import standard_output

    status = _in_session(settings, lambda session: session.queue_status())
    output = standard_output()
    if as_json:
        output.json(asdict(status))
        return COMPLETED
    number = "number"
    write_table(
        output,
        (("tenant", ""), ("queued", number), ("running", number), ("most", number)),
        [
            (each.name or "-", f"{each.queued}", f"{each.running}", _text(each.limits.max_running))
            for each in status.tenants
        ],
    )
    write_table(
        output,
        (("worker", ""), ("running", number), ("slots", number), ("state", "")),
        [
            (
                each.description,
                f"{each.running}",
                f"{each.slots}",
                "drains" if each.is_draining else "works",
            )
            for each in status.workers
        ],
    )
    if status.unserved:
        rows = [(run_id, ", ".join(names)) for run_id, names in status.unserved.items()]
        write_table(output, (("run without a worker", ""), ("needs", "wrap")), rows)
    return COMPLETED


def _text(limit: int | None) -> str:
    return "-" if limit is None else f"{limit}"
