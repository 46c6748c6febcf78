"""Sessions whose workers are reused and in the hands of the script: it runs as native code may.

The language layer is in the way, so it is taken down: the host gets code for the source that the
compiler never saw, and the zygote leaves the interpreter's internals in reach, `ctypes` included.
After each run the restorer compares the worker with its image.
"""

from __future__ import annotations

import marshal  # noqa: TID251  # the harness makes what a compromised compiler would have made
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import RunResult, Session
from ptc._runs._code_cache import CachedCode
from ptc._tools._table import ToolTable
from ptc._workers._process import ProcessWorker
from ptc._workers._restore import RestorerClient
from tests.core.pools import pool_of
from tests.core.zygotes import start_zygotes_through

__all__ = [
    "ATTACKER",
    "Attack",
    "attacked",
    "children",
    "compare_and_unseal",
    "mappings_of",
    "worker_pids",
]

SOURCE = "def run(ctx, inputs):\n    return 'harmless'\n"
UNSEALED_ZYGOTE = Path(__file__).parents[2] / "core" / "runs" / "unsealed_zygote.py"
_SECONDS = 20.0

ATTACKER = '''
def out():
    for kind in ().__class__.__base__.__subclasses__():
        if kind.__name__ == "_wrap_close":
            return kind.__init__.__globals__

sys = out()["sys"]
os = sys.modules["os"]
ctypes = sys.modules["ctypes"]
signal = sys.modules["signal"]
libc = ctypes.CDLL(None, use_errno=True)
MMAP, MPROTECT, MUNMAP, BRK, MASK, MREMAP, MADVISE, TGKILL = 9, 10, 11, 12, 14, 25, 28, 234
PAGE = 4096

def call(number, *arguments):
    libc.syscall.restype = ctypes.c_long
    return libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))

def peek(start, size):
    return ctypes.string_at(start, size)

def poke(start, data):
    ctypes.memmove(start, data, len(data))

def address(thing):
    held = ctypes.py_object(thing)  # id() hides addresses
    return ctypes.c_size_t.from_address(ctypes.addressof(held)).value

def wire():
    frame = sys._getframe()
    while frame is not None:
        for value in frame.f_locals.values():
            try:
                return value._wire._socket
            except AttributeError:
                pass
        frame = frame.f_back

def frame(kind, body):
    return (len(body) + 1).to_bytes(4, "big") + bytes([kind]) + body

def finish(value=b"1"):
    """Report a result."""
    wire().sendall(frame(DONE, value))

def stop():
    """Let the restorer have this process."""
    call(24)

'''


@contextmanager
def compare_and_unseal() -> Iterator[None]:
    """Start zygotes through `unsealed_zygote.py`, with a restorer that compares."""
    with pytest.MonkeyPatch.context() as patch:
        start_zygotes_through(patch, UNSEALED_ZYGOTE)
        patch.setenv("PTC_TEST_RESTORE", "2")
        yield


class Attack:
    """A session with one hostile script at a time, and the restorer's counts."""

    def __init__(self, session: Session) -> None:
        self.session = session

    async def run(self, code: str, **options: Any) -> RunResult:
        """Execute native code as a script."""
        compiled = compile(ATTACKER + code, "\ud800script", "exec", dont_inherit=True)
        tools = ToolTable(self.session.select_tools()).digest
        self.session._runs.code._codes.clear()
        self.session._runs.code.put(SOURCE, CachedCode(marshal.dumps(compiled)), tools)
        return await self.session.program(source=SOURCE, **options)

    async def settle(self) -> None:
        """Wait until the worker of the last run was restored or replaced."""
        pool = pool_of(self.session)
        with anyio.fail_after(_SECONDS):
            while not pool.ready or len(pool._ready) != len(pool._workers):
                await anyio.sleep(0.005)

    def counts(self) -> dict[str, int]:
        """Return the restorer's counts."""
        return self._restorer.report()

    @property
    def replaced(self) -> dict[str, int]:
        """Reasons for which workers were replaced."""
        return {
            words.removeprefix("replaced: "): count
            for words, count in self.counts().items()
            if words.startswith("replaced: ")
        }

    @property
    def differences(self) -> dict[str, int]:
        """Findings of the comparison of restored workers: none, or the restorer has a hole."""
        return {words: count for words, count in self.counts().items() if "differ" in words and
                not words.startswith("replaced: a ")}  # fmt: skip

    @property
    def _restorer(self) -> RestorerClient:
        zygote = pool_of(self.session)._zygote
        assert zygote is not None
        restorer = zygote._shared.zygote.restorer
        assert restorer is not None
        return restorer


@asynccontextmanager
async def attacked(*, workers: int = 1, **options: Any) -> AsyncIterator[Attack]:
    """Open a session with one reused worker, for attacks."""
    with compare_and_unseal():
        async with Session(toolsets=(), workers=workers, reuse_workers=True, **options) as session:
            yield Attack(session)


def mappings_of(session: Session, name: str) -> list[tuple[int, int]]:
    """Return the mappings of this name in the next worker of a session."""
    pid = _pid(pool_of(session)._ready[0])
    found = []
    for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines():
        if line.endswith(name):
            start, _, end = line.split()[0].partition("-")
            found.append((int(start, 16), int(end, 16)))
    return found


def worker_pids(session: Session) -> list[int]:
    """Return the process ids of the workers of a session."""
    return [_pid(worker) for worker in pool_of(session)._workers.values()]


def _pid(worker: ProcessWorker) -> int:
    text = Path(f"/proc/self/fdinfo/{worker._pidfd}").read_text(encoding="ascii")
    return int(text.partition("\nPid:")[2].split(None, 1)[0])


def children(pid: int) -> list[int]:
    """Return the processes below one that have no children themselves."""
    direct = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [leaf for child in direct for leaf in children(int(child)) or [int(child)]]
