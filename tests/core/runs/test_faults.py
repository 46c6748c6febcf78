"""A process, a limit of the machine or a callback that fails: one clear outcome."""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import orjson
import pytest

from ptc import (
    Limits,
    RunResult,
    Session,
    SessionClosedError,
    SetupError,
    tool,
)
from ptc._core._reactor import current_reactor
from ptc._wire._protocol import State
from ptc._workers._process import ProcessWorker
from ptc._workers._zygote import Hello, Zygote
from tests.core.pools import pool_of
from tests.core.zygotes import start_zygotes_through

from ..ready_session import ready_session, wait_until_full

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

SOURCE = "def run(ctx, inputs):\n    return 1\n"
LOOP = "def run(ctx, inputs):\n    while True: pass\n"
WAIT = "import asyncio\nasync def run(ctx, inputs):\n    await asyncio.sleep(0.001)\n    return 1\n"
"""Cannot end before the host has seen it run."""


async def wait_until_full_beside(session: Session, working: int) -> None:
    """Wait until the pool is full while some workers are at work."""
    pool = pool_of(session)
    while pool.ready != pool._size or pool.live != pool._size + working:
        await anyio.sleep(0.001)


def shell_pid(session: Session) -> int:
    """The process that the host started."""
    zygote = pool_of(session)._zygote
    assert zygote is not None
    return zygote.pid


def children_of(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in listed.split()]


def zygote_pid(session: Session) -> int:
    """The process that forks: the other's child where it is the first of a PID namespace."""
    shell = shell_pid(session)
    below = children_of(shell)
    grand = [pid for child in below for pid in children_of(child)]
    return below[0] if len(below) == 1 and grand else shell


def processes_of(session: Session) -> list[int]:
    """All processes of a session."""
    found = [shell_pid(session)]
    for pid in found:
        found += children_of(pid)
    return found


def is_running(pid: int) -> bool:
    """True while a process is there and is more than an entry in a table."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


ZYGOTES = pytest.mark.parametrize("pid_of", [shell_pid, zygote_pid])


def ended(pid: int) -> None:
    """Wait for the end of a process, without a turn of the event loop."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def killed(worker: ProcessWorker) -> None:
    """Kill a worker and wait until the kernel has done it, without a turn of the event loop."""
    assert worker._pidfd is not None
    worker.kill()
    assert select.select([worker._pidfd], [], [], 10)[0]


@contextmanager
def no_descriptors(left: int = 0) -> Iterator[None]:
    """This process may open `left` more files and no more."""
    taken = []
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        while True:
            try:
                taken.append(os.open("/dev/null", os.O_RDONLY))
            except OSError:
                break
            if len(taken) == 1:
                resource.setrlimit(resource.RLIMIT_NOFILE, (max(taken) + 64, limit[1]))
        for fd in [taken.pop() for _ in range(left)]:
            os.close(fd)
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        for fd in taken:
            os.close(fd)


# --- the zygote dies -------------------------------------------------------------------------


@ZYGOTES
async def test_run_started_after_the_zygote_died_gets_a_new_one(
    tmp_path: Path, pid_of: Callable[[Session], int]
) -> None:
    async with ready_session(tmp_path, workers=2) as session:
        for _ in range(3):
            os.kill(pid_of(session), signal.SIGKILL)
            ended(shell_pid(session))
            # The host has not had a turn: it does not know yet.
            assert (await session.program(source=SOURCE)).value == 1
            await wait_until_full(session)


async def test_runs_that_wait_for_a_worker_survive_the_death_of_the_zygote(tmp_path: Path) -> None:
    results: list[RunResult] = []
    async with ready_session(tmp_path, workers=1) as session:

        async def one() -> None:
            results.append(await session.program(source=SOURCE))

        os.kill(zygote_pid(session), signal.SIGSTOP)
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(one)
            # One has the worker that was there, the others wait for a zygote that is stopped.
            while len(pool_of(session)._waiting) < 3:
                await anyio.sleep(0.001)
            os.kill(zygote_pid(session), signal.SIGKILL)
        await wait_until_full(session)
    values = [result.value for result in results if result.status == "completed"]
    assert len(results) == 4
    assert len(values) >= 3


async def test_run_whose_zygote_dies_is_crashed_with_the_reason(tmp_path: Path) -> None:
    entered = anyio.Event()

    @tool
    async def wait() -> None:
        """Never answer."""
        entered.set()
        await anyio.sleep_forever()

    results: list[RunResult] = []
    async with ready_session(tmp_path, wait) as session:

        async def one() -> None:
            results.append(await session.program(source="ctx.emit(1)\nawait ctx.wait()"))

        async with anyio.create_task_group() as group:
            group.start_soon(one)
            await entered.wait()
            os.kill(zygote_pid(session), signal.SIGKILL)
        assert (await session.program(source=SOURCE)).value == 1
        await wait_until_full(session)
    (result,) = results
    assert result.status == "crashed"
    assert result.error is not None
    assert "the process that forked it died" in result.error.message
    assert result.partial == (1,)
    assert [call.status for call in result.calls] == ["unknown"]


@pytest.mark.parametrize("dead", [False, True], ids=["dying", "dead"])
@pytest.mark.slow
async def test_zygote_that_always_dies_is_reported_after_limited_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dead: bool
) -> None:
    from ptc._workers._pool import Pool

    started = 0
    spawn = Pool.spawn

    def dying(self: Pool) -> None:
        nonlocal started
        started += 1
        spawn(self)
        assert self._zygote is not None
        fork = self._zygote._shared.zygote.fork

        def kill_and_fork(*args: int) -> socket.socket:
            assert self._zygote is not None
            pid = self._zygote.pid
            os.kill((children_of(pid) or [pid])[0], signal.SIGKILL)
            if dead:
                # A request is refused before the host has found the end of the stream.
                ended(pid)
            return fork(*args)

        self._zygote._shared.zygote.fork = kill_and_fork  # type: ignore[method-assign,assignment]  # the fault

    monkeypatch.setattr(Pool, "spawn", dying)
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        with anyio.fail_after(20):
            with pytest.raises(SetupError, match=r"died 3 times.*out-of-memory"):
                await session.program(source=SOURCE)
            assert 3 <= started <= 9
            monkeypatch.setattr(Pool, "spawn", spawn)
            assert (await session.program(source=SOURCE)).value == 1


@pytest.mark.parametrize("unread", [False, True])
async def test_messages_of_a_dead_zygote_are_read_when_a_request_fails(
    unread: bool,
) -> None:
    zygote = Zygote("jail", current_reactor())
    heard: list[Any] = []
    zygote.on_exited = lambda number, how: heard.append((number, how.call))
    zygote.on_gone = lambda: heard.append("gone")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    zygote._control = ours
    with theirs:
        if unread:
            # The first thing that the host then finds is an error, ECONNRESET.
            zygote.kill(9)
        for number in (1, 2):
            said = {"exited": number, "signal": 9, "status": 0, "call": [1, 59, 0]}
            theirs.send(orjson.dumps(said))
    with pytest.raises(SetupError, match="does not respond"):
        zygote.fork(3, 1 << 20, 1)
    assert heard == [(1, (1, 59, 0)), (2, (1, 59, 0)), "gone"]


async def test_zygote_that_dies_after_its_hello_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(tmp_path, toolsets=(), workers=1)
    hello, died = Zygote.hello, list[Zygote]()

    async def dying(self: Zygote) -> Hello:
        said = await hello(self)
        if not died:
            died.append(self)
            os.kill(self.pid, signal.SIGKILL)
            while (share := pool_of(session)._zygote) and share._shared.zygote is self:
                await anyio.lowlevel.checkpoint()
        return said

    with anyio.fail_after(20):
        async with session:
            monkeypatch.setattr(Zygote, "hello", dying)
            assert (await session.program(source=SOURCE)).value == 1


@ZYGOTES
async def test_zygote_that_is_killed_while_it_starts_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid_of: Callable[[Session], int]
) -> None:
    session = Session(tmp_path, toolsets=(), workers=1)
    hello, died = Zygote.hello, list[Zygote]()

    async def dying(self: Zygote) -> Hello:
        if not died:
            died.append(self)
            os.kill(pid_of(session), signal.SIGKILL)
        return await hello(self)

    monkeypatch.setattr(Zygote, "hello", dying)
    with anyio.fail_after(20):
        async with session:
            assert (await session.program(source=SOURCE)).value == 1
    assert len(died) == 1


# --- a worker dies ---------------------------------------------------------------------------


async def test_killed_idle_worker_is_not_assigned_to_a_run(tmp_path: Path) -> None:
    async with ready_session(tmp_path, workers=2) as session:
        for worker in pool_of(session)._ready:
            killed(worker)
        # The host has not had a turn: it does not know yet.
        assert (await session.program(source=SOURCE)).value == 1
        await wait_until_full(session)


@pytest.mark.parametrize("state", [State.FORKED, State.IDLE, State.COMPILING, State.RUNNING])
async def test_worker_killed_in_any_state_has_one_defined_outcome(
    tmp_path: Path, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[ProcessWorker] = []

    class Doomed(ProcessWorker):
        """Killed when it has come to a state, once."""

        @property
        def state(self) -> State:
            return self._state

        @state.setter
        def state(self, new: State) -> None:
            self._state = new
            self._strike()

        def set_pidfd(self, pidfd: int) -> None:
            super().set_pidfd(pidfd)
            # Its first message may have come before its pidfd, without which it is not offered.
            self._strike(known_late=state is State.FORKED)

        def _strike(self, *, known_late: bool = False) -> None:
            reached = known_late or self._state is state
            if reached and getattr(self, "_pidfd", None) is not None and not done:
                done.append(self)
                killed(self)

    monkeypatch.setattr("ptc._workers._pool.ProcessWorker", Doomed)
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        with anyio.fail_after(20):
            result = await session.program(source=WAIT)
            assert done
            if state in (State.FORKED, State.IDLE):
                assert result.value == 1
            else:
                # Its last frames may have arrived before its end.
                assert result.status in {"crashed", "completed"}
                assert result.status != "crashed" or "SIGKILL" in str(result.error)
            assert (await session.program(source=SOURCE)).value == 1
            await wait_until_full(session)


# --- no descriptors, no processes ------------------------------------------------------------


async def test_session_without_descriptors_reports_it_and_recovers(
    tmp_path: Path,
) -> None:
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        with anyio.fail_after(20):
            for left in range(12):
                with no_descriptors(left):
                    try:
                        await session.warm_up()
                    except SetupError as error:
                        assert "Too many open files" in str(error)  # noqa: PT017  # some do not
                    else:
                        break
            else:
                pytest.fail("it never had enough of them")
            assert left > 2
            assert (await session.program(source=SOURCE)).value == 1


async def test_forks_without_descriptors_fail_by_name_and_recover(
    tmp_path: Path,
) -> None:
    outcomes = []
    async with ready_session(tmp_path, workers=1) as session:
        for left in range(4):
            async with anyio.create_task_group() as group:
                # The worker that is ready is at work; the next has to be forked.
                group.start_soon(lambda: session.program(source=LOOP))
                while not session._runs.active:
                    await anyio.sleep(0.001)
                with no_descriptors(left):
                    while pool_of(session)._pending_forks:
                        await anyio.sleep(0.001)
                    try:
                        result = await session.program(source=SOURCE)
                    except SetupError as error:
                        assert "Too many open files" in str(error)  # noqa: PT017  # some do not
                        outcomes.append("refused")
                    else:
                        assert result.value == 1
                        outcomes.append("done")
                assert (await session.program(source=SOURCE)).value == 1
                group.cancel_scope.cancel()
            await wait_until_full(session)
    assert "refused" in outcomes
    assert "done" in outcomes


async def test_worker_whose_pidfd_is_lost_is_killed_and_runs_no_script(
    tmp_path: Path,
) -> None:
    async with ready_session(tmp_path, workers=1) as session:
        pool = pool_of(session)
        zygote = pool._zygote
        assert zygote is not None
        forked, lost = zygote.on_forked, list[ProcessWorker]()

        def lose(number: int, pidfd: int | None) -> None:
            if not lost and pidfd is not None:
                lost.append(pool._workers[number])
                os.close(pidfd)
                pidfd = None
            forked(number, pidfd)

        zygote.on_forked = lose
        for _ in range(3):
            assert (await session.program(source=SOURCE)).value == 1
        await wait_until_full(session)
        assert lost[0].exit is not None
        # It may have left by itself when the host hung up; one that does not is killed.
        (other,) = pool._ready
        zygote.kill(other.id)
        while other.exit is None:
            await anyio.sleep(0.001)
        assert other.exit.signal == signal.SIGKILL
        await wait_until_full(session)


FAULTY = Path(__file__).parent / "faulty_zygote.py"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("fork", "[Errno 11] Resource temporarily unavailable"),
        ("pidfd", "[Errno 24] Too many open files"),
        ("receive", "Too many open files"),
    ],
)
async def test_zygote_that_cannot_fork_reports_why_and_continues(
    tmp_path: Path, fault: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_zygotes_through(monkeypatch, FAULTY, fault, "2-7")
    async with ready_session(tmp_path, workers=1) as session:
        pid, outcomes = zygote_pid(session), set()
        for limits in (None, Limits(max_memory_bytes=64 << 20)):
            for _ in range(3):
                try:
                    outcomes.add((await session.program(source=SOURCE, limits=limits)).value)
                except SetupError as error:
                    outcomes.add(str(error))
        await wait_until_full(session)
        assert (await session.program(source=SOURCE)).value == 1
        await wait_until_full(session)
        assert zygote_pid(session) == pid
    assert 1 in outcomes
    refusals = {str(outcome) for outcome in outcomes if outcome != 1}
    assert refusals
    assert all(f"no worker can be forked: {words}" in text for text in refusals), refusals
    assert all("ulimit" in text for text in refusals)


async def test_unresponsive_zygote_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptc._workers._pool._FORK_SECONDS", 0.05)
    async with ready_session(tmp_path, workers=1) as session:
        os.kill(zygote_pid(session), signal.SIGSTOP)
        await session.program(source=SOURCE)
        with pytest.raises(SetupError, match="does not respond"):
            await session.program(source=SOURCE)
        os.kill(zygote_pid(session), signal.SIGCONT)
        await wait_until_full(session)
        assert (await session.program(source=SOURCE)).value == 1


# --- the session is closed -------------------------------------------------------------------


async def test_closing_waits_for_no_worker_that_was_only_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The zygote may be busy: after its first fork it makes its heap immortal.
    monkeypatch.setattr("ptc._workers._pool._CLOSE_SECONDS", 600)
    fork = Zygote.fork
    with anyio.fail_after(20):
        async with Session(tmp_path, toolsets=(), workers=1) as session:

            def fork_never(zygote: Zygote, *request: int) -> socket.socket:
                for pid in processes_of(session):
                    os.kill(pid, signal.SIGSTOP)
                return fork(zygote, *request)

            monkeypatch.setattr(Zygote, "fork", fork_never)
            await pool_of(session).hello()
            assert pool_of(session).live == 1


async def test_programs_waiting_when_the_session_closes_raise_session_closed(
    tmp_path: Path,
) -> None:
    # Regression: the second of them started another zygote, and closing waited for it for ever.
    refused: list[SessionClosedError] = []
    session = Session(tmp_path, toolsets=(), workers=1)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group, session:

            async def one() -> None:
                with pytest.raises(SessionClosedError) as caught:
                    await session.program(source=SOURCE)
                refused.append(caught.value)

            for _ in range(3):
                group.start_soon(one)
            while pool_of(session)._zygote is None or session._runs.unfinished < 3:
                await anyio.lowlevel.checkpoint()
    assert len(refused) == 3
    assert all("closed" in str(error) for error in refused)


async def test_concurrent_closes_both_wait_until_the_session_is_closed(tmp_path: Path) -> None:
    live = []
    async with ready_session(tmp_path, workers=2) as session:

        async def close() -> None:
            await session.aclose()
            live.append(pool_of(session).live)

        async with anyio.create_task_group() as group:
            group.start_soon(close)
            group.start_soon(close)
    assert live == [0, 0]


@pytest.mark.parametrize("how", ["closed", "cancelled", "zygote killed", "shell killed"])
async def test_no_process_survives_its_session(tmp_path: Path, how: str) -> None:
    members: list[int] = []
    async with ready_session(tmp_path, workers=2) as session, anyio.create_task_group() as group:
        group.start_soon(lambda: session.program(source=LOOP))
        while not session._runs.active:
            await anyio.sleep(0.001)
        await wait_until_full_beside(session, 1)
        members += processes_of(session)
        if how == "cancelled":
            group.cancel_scope.cancel()
        elif how == "zygote killed":
            os.kill(zygote_pid(session), signal.SIGKILL)
        elif how == "shell killed":
            os.kill(shell_pid(session), signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await session.aclose()
    assert len(members) >= 4
    assert not [pid for pid in members if is_running(pid)]


async def test_no_queued_call_is_started_after_the_caller_is_cancelled(tmp_path: Path) -> None:
    begun: list[int] = []
    entered = anyio.Event()

    @tool(side_effect=True, idempotent=True)
    async def act(n: int) -> int:
        """Do something at once, but for the first, which does not stop when it is told to."""
        begun.append(n)
        if n == 0:
            entered.set()
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.05)
        return n

    source = """
import asyncio
async def run(ctx, inputs):
    await asyncio.gather(*(ctx.act(n) for n in range(20)))
"""
    async with ready_session(tmp_path, act) as session:
        async with anyio.create_task_group() as group:
            limits = Limits(max_in_flight=1)

            async def one() -> None:
                await session.program(source=source, allowed_tools=["act"], limits=limits)

            group.start_soon(one)
            await entered.wait()
            group.cancel_scope.cancel()
        assert begun == [0]
        await wait_until_full(session)


async def test_sync_function_cancelled_in_the_queue_is_never_started(
    tmp_path: Path,
) -> None:
    begun: list[int] = []
    release = threading.Event()
    threads = 40  # as many as anyio has

    @tool
    def block(n: int) -> int:
        """Block until all others are waiting."""
        begun.append(n)
        release.wait(20)
        return n

    source = f"""
import asyncio
async def run(ctx, inputs):
    await asyncio.gather(*(ctx.block(n) for n in range({threads + 5})))
"""
    async with ready_session(tmp_path, block) as session:
        async with anyio.create_task_group() as group:

            async def one() -> None:
                await session.program(source=source, limits=Limits(max_tool_calls=100))

            group.start_soon(one)
            while len(begun) < threads:
                await anyio.sleep(0.001)
            release.set()
            group.cancel_scope.cancel()
        assert len(begun) == threads
        assert (await session.program(source="return 1")).status == "rejected"


async def test_nested_timeouts_end_the_run_and_keep_the_session_usable(tmp_path: Path) -> None:
    async with ready_session(tmp_path) as session:
        for seconds, inner in ((0.05, 5.0), (5.0, 0.05), (0.05, 0.05)):
            with anyio.move_on_after(seconds), anyio.move_on_after(inner):
                await session.program(source=LOOP)
                pytest.fail("it has no end")
            with anyio.move_on_after(0.05) as outer:
                with anyio.CancelScope(shield=True), anyio.move_on_after(0.1) as shielded:
                    await session.program(source=LOOP)
                assert shielded.cancelled_caught
                await anyio.lowlevel.checkpoint()
            assert outer.cancelled_caught
            await wait_until_full(session)
        assert (await session.program(source=SOURCE)).value == 1


# --- Ctrl-C ------------------------------------------------------------------------------------

INTERRUPTED = """
import os, signal, sys, threading
from pathlib import Path
from ptc import BlockingSession, tool

signal.signal(signal.SIGINT, signal.default_int_handler)
ended, calls = [], 0

@tool
async def interrupt() -> int:
    "Press Ctrl-C, and never answer."
    import anyio
    global calls
    calls += 1
    os.kill(os.getpid(), signal.SIGINT)
    try:
        await anyio.sleep_forever()
    finally:
        ended.append(calls)

with BlockingSession(sys.argv[1], tools=[interrupt], toolsets=(), workers=1) as session:
    for work in (
        lambda: session.program(source="await ctx.interrupt()"),
        lambda: session.tool("interrupt"),
        lambda: session.interrupt(),
    ):
        try:
            work()
        except KeyboardInterrupt:
            # The requested work has ended before its caller continues.
            print("interrupted", calls, ended)
    print(session.program(source="1 + 1").value, len(session._session._runs.active))
try:
    with BlockingSession(sys.argv[1], tools=[interrupt], toolsets=(), workers=1) as session:
        session.program(source="await ctx.interrupt()")
except KeyboardInterrupt:
    print("left", ended, threading.active_count())
children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text()
print("children", repr(children))
"""


def test_ctrl_c_interrupts_the_operation_of_a_blocking_session(tmp_path: Path) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "interrupted 1 [1]",
        "interrupted 2 [1, 2]",
        "interrupted 3 [1, 2, 3]",
        "2 0",
        "left [1, 2, 3, 4] 1",
        "children ''",
    ], done.stderr
