"""Shared fixtures: both event loops, and a check that no process or descriptor is left behind."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import hypothesis  # noqa: F401  # it looks for who refers to a random source: before the freeze
import pytest

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    # A shell starts background jobs with Ctrl-C ignored. Programs that the tests interrupt would
    # inherit that and ignore the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Keep all records of the tests out of the user's own state directory."""
    folder = tempfile.mkdtemp(prefix="ptc-state-")
    os.environ["XDG_STATE_HOME"] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_collection_finish() -> None:
    """Exclude imported objects from later collections, which would otherwise take 100 ms each."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=["asyncio", "trio"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every async test on both event loops."""
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
