"""``ptc worker``: execute the runs that were submitted to a PostgreSQL journal."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import click

from ._options import RUN_KEYS, open_session, settings_options
from ._status import COMPLETED

if TYPE_CHECKING:
    from .._config._settings import Settings
    from .._queue._worker import Outcome, Worker
    from .._session._session import Session

__all__ = ["worker"]

_HELP = """Execute the runs that `ptc submit` and `session.submit` put into the queue.

Start as many workers as you need, on any machine that reaches the database. A worker takes the runs
whose tools it has, with the same schemas and flags; the configuration names its tools, as for `ptc
run`. If a worker dies, another continues its runs after the lease.

SIGTERM or Ctrl-C drains it: it takes no more runs and finishes those that it has, for at most
--drain-seconds. Then, or at a second signal, it puts them back.

\b
Examples:
  ptc worker --journal postgresql://ptc@db/runs --slots 16
  ptc worker --config /etc/ptc/ptc.toml --lease-seconds 5
  ptc worker --embedded
"""


@click.command("worker", short_help="Execute submitted runs.", help=_HELP)
@click.option(
    "--slots",
    type=click.IntRange(1, 256),
    default=16,
    show_default=True,
    metavar="N",
    help="Runs at once.",
)
@click.option(
    "--lease-seconds",
    type=click.FloatRange(1, 600),
    default=15.0,
    show_default=True,
    metavar="S",
    help="Time without a sign of life after which other workers continue its runs.",
)
@click.option(
    "--drain-seconds",
    type=click.FloatRange(0, 86_400),
    default=30.0,
    show_default=True,
    metavar="S",
    help="Time that running runs have to end after a signal.",
)
@click.option(
    "--embedded",
    is_flag=True,
    help="Start a PostgreSQL server on this machine, as --journal embedded: does.",
)
@click.option(
    "--health-port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Serve /live, /ready and /metrics over HTTP; 0 chooses a port. [default: off]",
)
@click.option(
    "--health-address",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address of the health endpoint. It has no authentication, and shows names of tenants.",
)
@settings_options(*RUN_KEYS)
def worker(
    *,
    slots: int,
    lease_seconds: float,
    drain_seconds: float,
    health_port: int | None,
    health_address: str,
    embedded: bool,
    settings: Settings,
) -> int:
    """Run the command; `_HELP` is its help text."""
    import anyio

    from ..errors import UsageError
    from ..journal._address import EMBEDDED, is_address
    from ..journal._open import ClosedAtOnce, open_journal

    address = settings.journal()
    if embedded:
        if settings.is_given("journal"):
            raise UsageError("--embedded and --journal exclude each other")
        address = EMBEDDED
    if not is_address(address):
        msg = (
            "a worker needs a PostgreSQL journal: --journal postgresql://user@host/database, or "
            "--embedded to try it on this machine"
        )
        raise UsageError(msg)
    journal = open_journal(address, lease_seconds=lease_seconds)
    try:
        session = open_session(
            settings, workers=min(slots, 64), journal=journal, max_concurrent_runs=slots
        )
        health = None if health_port is None else (health_address, health_port)
        anyio.run(_work, session, journal, slots, lease_seconds, drain_seconds, health)
    except UsageError as error:
        raise settings.explain(error) from None
    finally:
        if isinstance(journal, ClosedAtOnce):
            journal.close_now()
    return COMPLETED


async def _work(
    session: Session,
    journal: object,
    slots: int,
    lease_seconds: float,
    drain_seconds: float,
    health: tuple[str, int] | None,
) -> None:
    from contextlib import AsyncExitStack

    import anyio

    from .._queue._observed import ObservedWorker
    from .._queue._worker import Worker
    from ..errors import PtcError
    from ..journal._sample import ObservedJournal
    from ._terminal import standard_error

    assert isinstance(journal, ObservedJournal)  # noqa: S101  # it has an address
    stream = standard_error()

    def report(outcome: Outcome) -> None:
        observed.count(outcome)
        claim, result = outcome.claim, outcome.result
        status = result.status if result is not None else f"put back: {outcome.note}"
        tenant = f" tenant {claim.tenant}" if claim.tenant else ""
        stream.line(f"{claim.run_id}{tenant} {status} {outcome.seconds * 1000:.0f} ms")

    async with session, AsyncExitStack() as stack:
        running = Worker(session, slots=slots, on_outcome=report)
        observed = ObservedWorker(
            running, session, journal, slots=slots, lease_seconds=lease_seconds
        )
        if health is not None:
            server = await stack.enter_async_context(observed.serve(*health))
            stream.line(f"health endpoint: http://{health[0]}:{server.port}/ready")
        names = session.tool_names()
        stream.line(f"worker with {slots} slots and {len(names)} tools: {', '.join(names)}")
        failure = None
        async with anyio.create_task_group() as group:
            group.start_soon(_stop_on_signal, running, drain_seconds)
            group.start_soon(observed.report)
            try:
                await running.run()
            except PtcError as error:
                # Raised outside of the group, which would wrap it.
                failure = error
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _stop_on_signal(running: Worker, drain_seconds: float) -> None:
    import anyio

    from .._core._signals import receive_signals

    with receive_signals(signal.SIGTERM, signal.SIGINT) as signals:
        await signals.__anext__()
        await running.drain()
        with anyio.move_on_after(drain_seconds):
            await signals.__anext__()
    # From now on, another signal ends the process at once; other workers continue its runs.
    await running.release()
