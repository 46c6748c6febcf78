"""A process that uses a store, for the checks of a journal: executes commands, one a line."""

from __future__ import annotations

import base64
import os
import pickle  # noqa: TID251  # carries a function of the check to its own process
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from signal import Signals
from typing import Final

import anyio
import anyio.to_thread
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from ..errors import JournalError
from ..journal import Journal, Lease, RunRow, Tick

__all__ = ["StoreProcess", "main", "open_process", "sample_run"]

_CODE: Final = "from ptc.testing._journal_child import main; main()"
_SECONDS: Final = 60.0
"""Time limit of a command."""


def sample_run(run_id: str) -> RunRow:
    """Return the request of a run."""
    return RunRow(run_id, "pass", "s.py", b"{}", b"{}", 7, 1.5, 1)


# --- in the process of the check --------------------------------------------------------------


class StoreProcess:
    """A process that uses the store, as the check sees it."""

    def __init__(self, process: Process) -> None:
        if process.stdin is None or process.stdout is None:
            msg = "the process needs a pipe for its input and its output"
            raise TypeError(msg)
        self._process, self._stdin = process, process.stdin
        self._stdout = BufferedByteReceiveStream(process.stdout)

    async def do(self, command: str) -> str:
        """Execute a command, and return its outcome: ``done``, or the class of the error."""
        await self.send(command)
        return await self.read()

    async def send(self, command: str) -> None:
        """Start a command."""
        await self._stdin.send(f"{command}\n".encode())

    async def read(self) -> str:
        """Return the next outcome. Raises `anyio.IncompleteRead` at the end of the process."""
        with anyio.fail_after(_SECONDS):
            return (await self._stdout.receive_until(b"\n", 65_536)).decode()

    def signal(self, number: Signals) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    async def kill(self) -> None:
        """Kill the process, as a failure of its host would."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def open_process(
    open_store: Callable[[], Journal], *, clock_ahead: float = 0
) -> AsyncIterator[StoreProcess]:
    """Start a process that opens the store; it is killed after the block.

    Args:
        open_store: A function that can be pickled.
        clock_ahead: Seconds that the process reads more from `time.time` than this one.
    """
    try:
        pickled = base64.b64encode(pickle.dumps(open_store)).decode()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        msg = (
            "another process opens the store, so `open_store` must be picklable, such as a "
            f"function of a module or a functools.partial of one: {error}"
        )
        raise TypeError(msg) from error
    command = [sys.executable, "-c", _CODE, str(clock_ahead), pickled]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    async with await anyio.open_process(command, stderr=None, env=environment) as process:
        child = StoreProcess(process)
        try:
            yield child
        finally:
            with anyio.CancelScope(shield=True):
                await child.kill()


# --- in the process that uses the store --------------------------------------------------------


def main() -> None:
    """Execute commands from the standard input until it ends."""
    ahead = float(sys.argv[1])
    if ahead:
        now, now_ns = time.time, time.time_ns
        time.time = lambda: now() + ahead
        time.time_ns = lambda: now_ns() + int(ahead * 1e9)
    open_store = pickle.loads(base64.b64decode(sys.argv[2]))  # noqa: S301  # made by `open_process`
    anyio.run(_execute, open_store)


async def _execute(open_store: Callable[[], Journal]) -> None:
    journal = await anyio.to_thread.run_sync(open_store)
    leases: dict[str, Lease] = {}
    while line := await anyio.to_thread.run_sync(sys.stdin.readline):
        command, run_id = line.split()
        try:
            await _command(journal, leases, command, run_id)
            _report("done")
        except JournalError as error:
            _report(type(error).__name__)


def _report(outcome: str) -> None:
    sys.stdout.write(f"{outcome}\n")
    sys.stdout.flush()


async def _command(journal: Journal, leases: dict[str, Lease], command: str, run_id: str) -> None:
    if command == "start":
        leases[run_id] = journal.start_run(sample_run(run_id))
        await journal.barrier(leases[run_id])
    elif command == "acquire":
        leases[run_id] = await journal.acquire(run_id)
    elif command == "barrier":
        await journal.barrier(leases[run_id])
    elif command == "append":
        journal.append(leases[run_id], Tick(0.5))
        await journal.barrier(leases[run_id])
    else:
        # Until it is killed: three entries, a barrier, and its confirmation.
        for number in range(0, 1_000_000, 3):
            for each in range(number, number + 3):
                journal.append(leases[run_id], Tick(float(each)))
            await journal.barrier(leases[run_id])
            _report(str(number + 3))
