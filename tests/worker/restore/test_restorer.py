"""The restorer as a process, and the option that turns it on."""

from __future__ import annotations

import logging
import os
import platform
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import BlockingSession, Session, UsageError, tool
from ptc._workers import _pool, _zygote
from ptc.worker._inheritance import NOBODY
from ptc.worker.kernel import _landlock
from tests.core.pools import pool_of
from tests.core.zygotes import start_zygotes_through
from tests.worker.restore.hostile import Attack, attacked, children, worker_pids

PRYING_ZYGOTE = Path(__file__).with_name("prying_zygote.py")

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() != "x86_64",
        reason="workers are restored on Linux and x86-64 only",
    ),
]


def restorer_of(session: Session) -> int:
    zygote = pool_of(session)._zygote
    assert zygote is not None
    (pid,) = [pid for pid in children(zygote.pid) if pid not in worker_pids(session)]
    return pid


async def test_death_of_the_restorer_costs_no_run() -> None:
    async with attacked() as attack:
        assert (await attack.session.program(source="1 + 1")).value == 2
        pool = pool_of(attack.session)
        zygote = pool._zygote
        os.kill(restorer_of(attack.session), signal.SIGKILL)
        assert (await attack.session.program(source="1 + 2")).value == 3
        # That run may have ended before the zygote did, and only a run starts another zygote.
        with anyio.fail_after(20.0):
            while pool._zygote is zygote:
                await anyio.sleep(0.005)
        assert (await attack.session.program(source="1 + 3")).value == 4
        await attack.settle()
        assert attack.counts()["images"] >= 1


@pytest.mark.skipif(os.geteuid() != 0, reason="reads the files of the restorer, which root may")
async def test_restorer_holds_no_file_of_the_host() -> None:
    async with attacked() as attack:
        assert (await attack.session.program(source="1 + 1")).value == 2
        await attack.settle()
        pid = restorer_of(attack.session)
        folder = Path(f"/proc/{pid}/fd")
        kinds = {os.readlink(entry).partition(":")[0] for entry in folder.iterdir()}
        files = {kind for kind in kinds if not kind.startswith("/proc")}
        assert files <= {"socket", "anon_inode"}
        assert Path(f"/proc/{pid}/environ").read_bytes() in {b"", b"PYTHONHASHSEED=0\0"}


FORBIDDEN = (
    "reads memory",
    "writes memory",
    "reads its environment",
    "leaves by its root",
    "leaves by its folder",
    "opens its program",
    "traces",
    "forks",
    "makes sockets",
    "maps code",
    "sends other signals",
    "changes its limits",
)
"""Attempts of `prying_zygote.py` on a process of the same user."""


@pytest.fixture
def other_process() -> Iterator[int]:
    """A process of the user that a zygote has: one started by root becomes nobody."""
    user = NOBODY if os.geteuid() == 0 else None
    with subprocess.Popen(["sleep", "60"], cwd="/", user=user, group=user) as process:
        yield process.pid
        process.kill()


@pytest.mark.parametrize("layer", ["on", "off"])
async def test_restorer_reaches_no_process_but_the_workers(
    layer: str, other_process: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not _landlock.abi():
        pytest.skip("this kernel has no Landlock")
    start_zygotes_through(monkeypatch, PRYING_ZYGOTE, str(other_process), layer)
    async with Session(toolsets=(), workers=1, reuse_workers=True) as session:
        attack = Attack(session)
        assert (await session.program(source="1 + 1")).value == 2
        await attack.settle()
        counts = attack.counts()
    assert counts["lists processes"] == 1
    assert counts["restored"] == 1
    could = {name for name in FORBIDDEN if name in counts}
    assert could == (set() if layer == "on" else set(FORBIDDEN))


async def test_workers_are_forked_where_they_cannot_be_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    message = _zygote.Zygote._message
    held: list[int] = []

    def refused(self: _zygote.Zygote, said: dict[str, Any], fds: list[int]) -> None:
        if "hello" in said:
            said["hello"]["no_restorer"] = "this kernel is older than 6.7"
            # Open until the end: a restorer whose host has gone ends, and with it the zygote.
            held.append(fds.pop())
        message(self, said, fds)

    monkeypatch.setattr(_zygote.Zygote, "_message", refused)
    with caplog.at_level(logging.WARNING, logger="ptc"):
        async with Session(tmp_path, toolsets=(), workers=1, reuse_workers=True) as session:
            await session.warm_up()
            assert pool_of(session).reuse_problem == "this kernel is older than 6.7"
    for fd in held:
        os.close(fd)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "ptc"]
    assert line == "workers are not reused on this machine: this kernel is older than 6.7"


async def test_worker_serves_several_runs(tmp_path: Path) -> None:
    async with Session(tmp_path, toolsets=(), workers=1, reuse_workers=True) as session:
        for number in range(5):
            assert (await session.program(source=f"{number}")).value == number
            assert (await session.program(source="1 // 0")).status == "failed"
        zygote = pool_of(session)._zygote
        assert zygote is not None
        restorer = zygote._shared.zygote.restorer
        assert restorer is not None
        assert restorer.report()["restored"] >= 5


class Gate:
    """A tool whose calls wait until the test opens it."""

    def __init__(self) -> None:
        self.waiting = 0
        self.arrived, self.opened = anyio.Event(), anyio.Event()

    async def hold(self) -> int:
        """Wait at the gate."""
        self.waiting += 1
        self.arrived.set()
        await self.opened.wait()
        return 7

    async def wait_for(self, calls: int) -> None:
        with anyio.fail_after(20):
            while self.waiting < calls:
                await self.arrived.wait()
                self.arrived = anyio.Event()


@asynccontextmanager
async def held_workers(
    root: Path, gate: Gate, workers: int
) -> AsyncIterator[tuple[Session, list[Any]]]:
    """Open a session whose ready workers are in use; yield it and the values of these runs."""
    values = list[Any]()
    hold = tool(gate.hold)
    async with (
        Session(root, tools=[hold], toolsets=(), workers=workers, reuse_workers=True) as session,
        anyio.create_task_group() as group,
    ):

        async def run() -> None:
            result = await session.program(source="await ctx.hold()", allowed_tools=["hold"])
            values.append(result.value)

        await session.warm_up()
        with anyio.fail_after(20):
            while pool_of(session).ready < workers:
                await anyio.sleep(0.005)
        for _ in range(workers):
            group.start_soon(run)
        await gate.wait_for(workers)
        yield session, values
        gate.opened.set()


async def test_workers_in_use_are_expected_back_before_others_are_forked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Regression: four tasks on two ready workers forked one for each 14 runs, and killed others.
    monkeypatch.setattr(_pool, "_RETURN_SECONDS", 20.0)
    gate = Gate()
    async with held_workers(tmp_path, gate, 2) as (session, values):
        for number in range(3):
            assert (await session.program(source=f"{number}")).value == number
        assert pool_of(session).live == 3
    assert values == [7, 7]


async def test_worker_whose_run_takes_long_is_replaced(tmp_path: Path) -> None:
    gate = Gate()
    async with held_workers(tmp_path, gate, 1) as (session, _):
        with anyio.fail_after(20):
            while not pool_of(session).ready:
                await anyio.sleep(0.005)
        assert pool_of(session).live == 2


async def test_worker_is_forked_for_each_run_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PTC_TEST_RESTORE", raising=False)
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        await session.warm_up()
        zygote = pool_of(session)._zygote
        assert zygote is not None
        assert zygote._shared.zygote.restorer is None


def test_reuse_is_refused_where_it_has_no_meaning() -> None:
    pytest.importorskip("numpy")
    with pytest.raises(UsageError, match="cannot be combined with packages"):
        Session(toolsets=(), reuse_workers=True, packages=["numpy"])
    with pytest.raises(UsageError, match="True or False"):
        BlockingSession(toolsets=(), reuse_workers=1)  # type: ignore[arg-type]  # the error
