"""What all tests share: both event loops, and a guard that nothing is left behind."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

# Imported here: it looks for who refers to a random source, before the freeze.
import hypothesis
import pytest

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    # A shell starts what is in the background with Ctrl-C ignored; programs that the tests
    # interrupt would inherit that, and heed it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# `pytest --hypothesis-profile=thorough`, as `.ci/run` does; by default 100 examples.
hypothesis.settings.register_profile("thorough", max_examples=500)


def pytest_configure(config: pytest.Config) -> None:
    """Keep everything that the tests record out of the user's own state directory."""
    folder = tempfile.mkdtemp(prefix="ptc-state-")
    os.environ["XDG_STATE_HOME"] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow the trio half of tests without `both_loops`, and the cases `sample` omits."""
    sampled: dict[tuple[str, str], list[pytest.Function]] = {}
    for item in items:
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
            continue
        loop = item.callspec.params.get("anyio_backend")
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
    """Leave what the imports made out of every later collection: a full one takes 100 ms else."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=["asyncio", "trio"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every async test runs on both; on trio by default only with the marker `both_loops`."""
    return str(request.param)


def descriptors() -> dict[int, str]:
    """Open descriptors of this process and what they lead to."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = str(Path(f"/proc/self/fd/{name}").readlink())
        except OSError:
            continue
    return found


def children() -> set[int]:
    """Processes this one has started and that are still there."""
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
