"""The process under test of `durable.py`: a host that executes and resumes runs on request.

A request is a line of JSON with a program and the actions to take at steps of its journal. The host
answers with the result of the run, or dies in the middle.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import re
import signal
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TextIO

import anyio
import anyio.to_thread

from ptc import CallRecord, Limits, PendingCall, RunResult, Session
from ptc._workers._choose import EngineName
from ptc._workers.wasm._guest import Guest
from ptc.errors import BusyRunError, JournalError, UsageError
from ptc.journal import Journal
from ptc.journal._sqlite import SqliteJournal
from tests.fuzz.durable_leases import left_in_postgres, left_in_sqlite
from tests.fuzz.durable_mutants import MUTANTS
from tests.fuzz.durable_postgres import kill_backends, kill_server, processes_of
from tests.fuzz.durable_server import Server, answer
from tests.fuzz.durable_steps import Steps, watch
from tests.fuzz.durable_world import CORRECTIONS, TOOLS, program, save_programs, tools

__all__ = ["RUN", "Place", "check_rows", "comparable", "decide", "serve"]

RUN = "r"
_REJECTED = 3
"""The number for which approval is rejected."""
_MOST_ATTEMPTS = 400
_CONTINUED = ("crashed", "cancelled")


@dataclass(frozen=True)
class Place:
    """Folder and store of the hosts of a series."""

    folder: Path
    url: str = ""
    """Address of a PostgreSQL server; "": a file in `folder`."""
    schema: str = ""
    lease_seconds: float = 15.0
    postmaster: Path = Path()
    """File with the process id of the server."""
    mutant: str = ""
    freezes: bool = False
    """True if hosts are stopped, which must not hold the lock of a file then."""
    engine: EngineName = "process"

    def open(self) -> Journal:
        """Open the store."""
        if not self.url:
            return SqliteJournal(self.folder / "journal", lease_seconds=self.lease_seconds)
        from ptc.journal._postgres._journal import PostgresJournal

        return PostgresJournal(self.url, schema=self.schema, lease_seconds=self.lease_seconds)

    async def lease_left(self) -> float | None:
        """Return the seconds until the lease of the run expires; None if nobody holds it."""
        if self.url:
            return await left_in_postgres(self.url, self.schema, RUN)
        return left_in_sqlite(self.folder / "journal", RUN)


def serve(place: Place, requests: TextIO, answers: TextIO) -> None:
    """Execute requests until there are no more."""
    if place.mutant:
        MUTANTS[place.mutant]()
    watch(inside=not place.freezes)
    anyio.run(_serve, place, requests, answers)


async def _serve(place: Place, requests: TextIO, answers: TextIO) -> None:
    server = Server(place.folder / "server")
    logging.getLogger("asyncpg").setLevel(logging.CRITICAL)
    own = tools(server, Steps.step)
    root = place.folder / "root"
    root.mkdir(exist_ok=True)
    save_programs(root, own)
    journal = await anyio.to_thread.run_sync(place.open)
    async with Session(
        root, tools=own, toolsets=(), journal=journal, max_attempts=10_000, engine=place.engine
    ) as session:
        _SESSIONS[:] = [session]
        if isinstance(journal, SqliteJournal):
            _LOCKS.append(journal._db.lock)
        while line := await anyio.to_thread.run_sync(requests.readline):
            request = json.loads(line)
            server.move(Path(request["server"]))
            shift_clock(request.get("shift", 0))
            found: dict[str, Any] = {}
            try:
                if request.get("new"):
                    Steps.reset()
                    await _delete_run(session)
                Steps.reset(_plan(place, request))
                drive = Drive(session, server, request)
                found = await (_rival(place, drive) if request.get("rival") else drive.run())
            except Exception as error:  # noqa: BLE001  # reported to the fuzzer
                found = {"error_text": f"{type(error).__name__}: {error}"}
                found["trace"] = traceback.format_exc()
            found["steps"] = Steps.count
            print(json.dumps(found), file=answers, flush=True)  # a pipe
    await journal.close()


async def _rival(place: Place, drive: Drive) -> dict[str, Any]:
    """Execute a run that another host may hold; ``stolen`` is the time that its lease had left."""
    began = time.monotonic()
    left = await place.lease_left()
    found = await drive.run()
    if left is not None and time.monotonic() - began < left:
        found["stolen"] = left
    return found


async def _delete_run(session: Session) -> None:
    """Delete the run of the point before; its end may have been recorded by a wrong clock."""
    store = await session.history.open()
    await store.delete_ended(time.time_ns() // 10**6 + 10**8, 1_000)


# --- actions ------------------------------------------------------------------------------------


def _plan(place: Place, request: dict[str, Any]) -> dict[int, Callable[[], None]]:
    chance = Random(request.get("seed", 0))
    log = Path(request["server"] + ".deaths")
    found: dict[int, Callable[[], None]] = {}
    for step in request["at"]:
        action = _ACTIONS[request["death"]]
        found[step] = partial(_act, partial(action, place, chance, log), request.get("jump", 0))
    return found


def _act(action: Callable[[], None], jump: int) -> None:
    action()
    if jump:
        shift_clock(jump)


def _count(log: Path, how: str) -> None:
    with log.open("a") as file:
        file.write(how + "\n")


def _host(place: Place, chance: Random, log: Path) -> None:
    _count(log, "host")
    os.kill(os.getpid(), signal.SIGKILL)


def _worker(place: Place, chance: Random, log: Path) -> None:
    workers = [pid for zygote in _zygotes() for pid in processes_of(zygote)]
    chosen = workers if chance.random() < 0.5 else chance.sample(workers, min(1, len(workers)))
    _kill_all(chosen, log, "worker")


def _zygote(place: Place, chance: Random, log: Path) -> None:
    # The process that this host spawned may be the shell of a PID namespace.
    _kill_all(_zygotes() if chance.random() < 0.5 else processes_of(os.getpid()), log, "zygote")


def _zygotes() -> list[int]:
    """Return the processes that fork workers: the lowest ones that have children."""
    found = []
    for spawned in processes_of(os.getpid()):
        parents = [pid for pid in processes_of(spawned) if processes_of(pid)]
        found += parents or [spawned]
    return found


def _guest(place: Place, chance: Random, log: Path) -> None:
    """End the guest of the run: between two instructions, or by a trap at its next frame.

    That of a saved program that it calls is left alone: its trap is an error of that call.
    """
    active = [run for run in _SESSIONS[0]._runs.active if run.run_id == RUN]
    workers: list[Any] = [run._worker for run in active if run._worker is not None]
    for guest in [each.guest for each in workers if each.exit is None]:
        if chance.random() < 0.5:
            _count(log, "guest")
            guest._stopped = True  # not by `stop`, which also ends the stream to this host
            guest._snapshot.interpreter.engine.increment_epoch()
        else:
            _count(log, "trap")
            guest.read = partial(_erase_and_read, guest)


def _erase_and_read(guest: Guest, values: Any) -> int:
    """Serve ``fd_read`` in the guest's thread: overwrite its memory, and let it continue."""
    memory = guest._memory
    ctypes.memset(memory.address(0, memory.size), 0xFF, memory.size)
    return 0


def _kill_all(pids: list[int], log: Path, how: str) -> None:
    killed = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    if killed:
        _count(log, how)


def _server(place: Place, chance: Random, log: Path) -> None:
    postmaster = int(place.postmaster.read_text())
    if chance.random() < 0.3:
        if kill_backends(postmaster, chance):
            _count(log, "backend")
        return
    kill_server(postmaster)
    _count(log, "server")


def _connections(place: Place, chance: Random, log: Path) -> None:
    if kill_backends(int(place.postmaster.read_text())):
        _count(log, "connections")


def _frozen(place: Place, chance: Random, log: Path) -> None:
    with _LOCKS[0] if _LOCKS else nullcontext():
        Steps.write_passed(log.with_suffix(".passed"))
        _count(log, "frozen")
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(0.02)  # until every thread has stopped


def _cancel(place: Place, chance: Random, log: Path) -> None:
    loop, scope = _CURRENT[0]
    _count(log, "cancelled")
    loop.call_soon_threadsafe(scope.cancel)


_CURRENT: list[tuple[asyncio.AbstractEventLoop, anyio.CancelScope]] = []
"""Event loop of this host, and the scope of its run."""
_ACTIONS: dict[str, Callable[[Place, Random, Path], None]] = {
    "host": _host,
    "worker": _worker,
    "zygote": _zygote,
    "guest": _guest,
    "server": _server,
    "connections": _connections,
    "frozen": _frozen,
    "two": _frozen,
    "clock": _frozen,  # and its clock jumps
    "cancel": _cancel,
}
_SESSIONS: list[Session] = []
"""The session of this host."""
_LOCKS: list[threading.RLock] = []
"""Lock of the file of this host, if it has one."""
_time, _time_ns = time.time, time.time_ns


def shift_clock(seconds: int) -> None:
    """Let the wall clock of this process be wrong by so many seconds."""
    time.time = lambda: _time() + seconds
    time.time_ns = lambda: _time_ns() + seconds * 10**9


# --- one run ------------------------------------------------------------------------------------


class Drive:
    """A run, from its start or wherever it stopped to its end."""

    def __init__(self, session: Session, server: Server, request: dict[str, Any]) -> None:
        self._session = session
        self._server = server
        self._name: str = request["program"]
        self._is_first: bool = request.get("first", True)
        """False: the run must exist."""
        self._patience: float = request.get("patience", 0.0)
        """Seconds in which the run may be busy."""
        self._repeated: list[str] = []

    async def run(self) -> dict[str, Any]:
        """Execute the run to its end, making the requested decisions; return its result."""
        row = await self._session.history.find(RUN)
        result = await self._finish()
        await check_rows(self._session, RUN, result)
        return {
            **comparable(result),
            "repeated": self._repeated,
            "was": None if row is None else row.status,
        }

    async def _finish(self) -> RunResult:
        busy_until = time.monotonic() + self._patience
        last: Exception | None = None
        for _ in range(_MOST_ATTEMPTS):
            result: RunResult | None = None
            try:
                with anyio.CancelScope() as scope:
                    _CURRENT[:] = [(asyncio.get_running_loop(), scope)]
                    result = await self._continue()
                if result is None:
                    continue  # it was cancelled
            except BusyRunError as error:
                if time.monotonic() > busy_until:
                    raise
                last = error
                await anyio.sleep(0.02)
                continue
            except JournalError as error:
                # The lease was lost, or the server is away: the run continues later.
                last = error
                if time.monotonic() > busy_until:
                    raise
                await anyio.sleep(0.05)
                continue
            if result.status == "paused":
                await decide(self._session, RUN, self._server)
            elif result.status == "failed" and self._corrects(result):
                continue
            elif result.status not in _CONTINUED:
                return result
        raise RuntimeError(f"the run does not end: {last!r}")

    def _corrects(self, result: RunResult) -> bool:
        return self._name in CORRECTIONS and result.error is not None and self._revision == 1

    async def _continue(self) -> RunResult:
        row = await self._session.history.find(RUN)
        self._revision = 1 if row is None else row.revision
        ended = {} if row is None else await self._ended_calls()
        before = len(self._server.requests())
        limits = Limits(max_tool_calls=5_000)
        if row is not None and row.status in ("paused", "running", *_CONTINUED):
            result = await self._session.resume(RUN)
        elif row is not None and row.status == "failed" and self._revision == 1:
            fixed = CORRECTIONS.get(self._name)
            if fixed is None:
                result = await self._ask_again(limits)
            else:
                result = await self._session.resume(RUN, source=fixed)
            self._revision += fixed is not None
        else:
            result = await self._ask_again(limits)
        for tool, n, key in self._server.requests()[before:]:
            if key in ended:
                self._repeated.append(f"{tool} {n}: call {ended[key]} had finished")
        return result

    async def _ask_again(self, limits: Limits) -> RunResult:
        return await self._session.program(
            **program(self._name), allowed_tools=TOOLS, limits=limits, run_id=RUN
        )

    async def _ended_calls(self) -> dict[str, str]:
        """Return the paths of finished effects by key, unless their caller may retry."""
        rows = (await self._session.history.recorded(RUN)).calls
        retried = {row.path for row in rows if row.tool in ("again", "owe")}
        return {
            row.key: row.path
            for row in rows
            if row.key and row.side_effect and row.end is not None and row.end.ok
            if not any(f"{row.path}.".startswith(f"{path}.") for path in retried)
        }


async def check_rows(session: Session, run_id: str, result: RunResult) -> None:
    """Check that a finished run has nothing open."""
    recorded = await session.history.recorded(run_id)
    ended = [(row.path, row.tool) for row in recorded.calls if row.end is None]
    assert not ended, f"{result.status} {result.error} {recorded.run.status}, open: {ended}"
    assert not await session.history.pending(run_id), "nothing waits"


async def decide(session: Session, run_id: str, server: Server) -> None:
    """Decide every pending call by the server's log."""
    for call in await session.history.pending(run_id):
        with suppress(UsageError):  # another process has decided meanwhile
            await _decide_one(session, run_id, server, call)


async def _decide_one(session: Session, run_id: str, server: Server, call: PendingCall) -> None:
    n = call.arguments["n"]
    if call.kind == "approval":
        if n == _REJECTED:
            await session.history.reject(run_id, call.call, by="ann", comment="not this one")
        else:
            await session.history.approve(run_id, call.call, by="ann")
        return
    rows = (await session.history.recorded(run_id)).calls
    (row,) = (row for row in rows if row.path == call.call)
    requests = server.requests()
    if any((name, n, row.key) in requests for name in (call.tool, f"{call.tool} drawn")):
        value = answer(call.tool, n)
        await session.history.settle(run_id, call.call, "done", value=value, by="ann")
    else:
        await session.history.settle(run_id, call.call, "again", by="ann")


def comparable(result: RunResult) -> dict[str, Any]:
    """Return the parts of a result that do not depend on the deaths."""
    return {
        "status": result.status,
        "value": result.value,
        "error": result.error.message if result.error else None,
        "stdout": result.stdout,
        "partial": result.partial,
        "calls": _comparable_calls(result),
    }


def _comparable_calls(result: RunResult) -> list[list[Any]]:
    """Return the calls of a result that do not depend on the deaths, unless a tool retries.

    Random numbers of a run and truncated arguments are left out.
    """
    if "again" in {call.tool for call in result.calls}:
        return []
    untruncated = re.compile(r'\{"n":-?\d+\}')
    return [
        [c.tool, _status_of(c), c.error_code, untruncated.findall(c.arguments[:30])]
        for c in result.calls
    ]


def _status_of(call: CallRecord) -> str:
    """Return the status of a call; `stuck` is cancelled early, on a busy machine unstarted."""
    return "unknown" if call.tool == "stuck" else call.status
