"""No secret of a host is in its zygote and workers: their whole memory is searched."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail is for Linux")

HERE = Path(__file__).parent
CHUNK = 1 << 20
UNREADABLE = ("[vvar]", "[vsyscall]", "[vvar_vclock]")


@dataclass
class Process:
    """A process of the host's, seen from outside."""

    pid: int
    maps: list[list[str]]
    memory: bytes
    """All that can be read of it, one mapping after the other."""
    descriptors: list[str]
    environment: bytes

    @property
    def is_worker(self) -> bool:
        return self.descriptors == self.sockets and len(self.sockets) == 1

    @property
    def anonymous(self) -> set[str]:
        """Descriptors that the zygote holds of its workers: their ends and their listeners."""
        kinds = ("anon_inode:[pidfd]", "pidfd:", "anon_inode:seccomp notify")
        return {name for name in self.descriptors if name.startswith(kinds)}

    @property
    def sockets(self) -> list[str]:
        return [name for name in self.descriptors if name.startswith("socket:")]


def look_into(pid: int) -> Process:
    folder = Path(f"/proc/{pid}")
    maps = [line.split() for line in (folder / "maps").read_text().splitlines()]
    memory = bytearray()
    with (folder / "mem").open("rb", buffering=0) as file:
        for place, rights, *rest in maps:
            if "r" not in rights or rest[-1] in UNREADABLE:
                continue
            start, end = (int(number, 16) for number in place.split("-"))
            for at in range(start, end, CHUNK):
                file.seek(at)
                try:
                    memory += file.read(min(CHUNK, end - at))
                except OSError:  # a hole in a mapping of a file
                    break
    links = sorted((folder / "fd").iterdir())
    return Process(
        pid,
        maps,
        bytes(memory),
        [str(link.readlink()) for link in links],
        (folder / "environ").read_bytes(),
    )


@pytest.fixture(scope="module")
def secret() -> str:
    return "SECRET" + secrets.token_hex(12)


@pytest.fixture(scope="module")
def processes(secret: str) -> list[Process]:
    """The host's processes while a run waits: shell, zygote, two ready workers, one at work."""
    with subprocess.Popen(
        [sys.executable, str(HERE / "secret_host.py"), secret],
        env={**os.environ, "PTC_TEST_SECRET": secret},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as host:
        assert host.stdout is not None
        assert host.stdin is not None
        pids = [int(pid) for pid in host.stdout.readline().split()]
        found = []
        try:
            for pid in pids:
                # The worker of the run before may have been listed while it ended.
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    found.append(look_into(pid))
        except PermissionError:
            found = []
        host.stdin.close()
        assert host.wait(30) == 0
    if not found:
        pytest.skip("only root with CAP_SYS_PTRACE may read what is not dumpable")
    return found


def test_inspected_processes_are_the_zygote_and_three_workers(processes: list[Process]) -> None:
    assert len([process for process in processes if process.is_worker]) == 3
    assert len(processes) in (4, 5)  # a shell around the zygote where there is a PID namespace
    assert all(len(process.memory) > 5_000_000 for process in processes)


def test_no_host_secret_is_in_the_memory_of_zygote_and_workers(
    processes: list[Process], secret: str
) -> None:
    found = {
        process.pid: {text.decode() for text in re.findall(rb"%b[-\w]*" % secret.encode(), p)}
        for process in processes
        if (p := process.memory) and secret.encode() in p
    }
    # The one thing that is there, in one place: what the host sent to the run that is going on.
    # That it is found shows that the search would find the others.
    (where,) = found
    assert found[where] == {f"{secret}-inputs"}
    assert next(process for process in processes if process.pid == where).is_worker


def test_no_host_variable_or_file_is_inherited(processes: list[Process], secret: str) -> None:
    for process in processes:
        assert secret.encode() not in process.environment
        assert b"PATH" not in process.environment
        assert set(process.descriptors) <= {*process.sockets, "/dev/null", *process.anonymous}


def test_no_worker_has_a_socket_of_another(processes: list[Process]) -> None:
    wires = [process.sockets[0] for process in processes if process.is_worker]
    assert len(set(wires)) == len(wires) == 3
    for process in processes:
        if not process.is_worker:
            assert not set(wires) & set(process.descriptors)


def test_no_memory_is_shared_writable_or_writable_executable(
    processes: list[Process],
) -> None:
    # A page that two workers could write would be a channel from one run to another.
    for process in processes:
        rights = {rights for _, rights, *_ in process.maps}
        assert not {r for r in rights if "w" in r and "s" in r}
        assert not {r for r in rights if "w" in r and "x" in r}
