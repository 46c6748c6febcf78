"""Each thing that a hostile run may leave behind costs it its worker, or is gone afterwards."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import signal
import sys
from functools import partial

import anyio
import pytest

from ptc import Limits, tool
from ptc._wire._protocol import Kind, encode
from ptc._workers import _pool
from ptc.worker.kernel import _trace
from tests.core.pools import pool_of
from tests.worker.restore.hostile import attacked, mappings_of

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() != "x86_64",
        reason="workers are restored on Linux and x86-64 only",
    ),
]

HARMLESS = "def run(ctx, inputs):\n    return {number}\n"
DONE = f"DONE = {int(Kind.DONE)}\nCALL = {int(Kind.CALL)}\nREADY = {encode(Kind.READY, b'[]')!r}\n"


@tool
async def double(n: int) -> int:
    """Double a number."""
    return 2 * n


REPLACED = {
    "new mapping": (
        "def run(ctx, inputs):\n    return call(MMAP, 0, PAGE, 3, 0x22, -1, 0) > 0\n",
        "a mapping differs",
    ),
    "many mappings": (
        "def run(ctx, inputs):\n"
        "    start = call(MMAP, 0, 4000 * PAGE, 3, 0x22, -1, 0)\n"
        "    for page in range(0, 4000, 2):\n"
        "        call(MUNMAP, start + page * PAGE, PAGE)\n"
        "    return True\n",
        "a mapping differs",
    ),
    "hole": (
        "def run(ctx, inputs):\n"
        "    room = (ctypes.c_char * (1 << 20))()\n"
        "    page = (ctypes.addressof(room) + (1 << 19)) // PAGE * PAGE\n"
        "    call(MUNMAP, page, PAGE)\n"
        "    out()['room'] = room\n"
        "    return True\n",
        "a mapping differs",
    ),
    "other mapping of the same size": (
        "def run(ctx, inputs):\n"
        "    room = (ctypes.c_char * (1 << 20))()\n"
        "    call(MUNMAP, (ctypes.addressof(room) + (1 << 19)) // PAGE * PAGE, PAGE)\n"
        "    call(MMAP, 0, PAGE, 3, 0x22, -1, 0)\n"
        "    out()['room'] = room\n"
        "    return True\n",
        "a mapping differs",
    ),
    "new mapping at an old address": (
        "def run(ctx, inputs):\n"
        "    room = (ctypes.c_char * (1 << 20))()\n"
        "    page = (ctypes.addressof(room) + (1 << 19)) // PAGE * PAGE\n"
        "    call(MUNMAP, page, PAGE)\n"
        "    if call(MMAP, page, PAGE, 3, 0x22, -1, 0) != page:\n"
        "        raise ValueError\n"
        "    out()['room'] = room\n"
        "    return True\n",
        "",  # the kernel merges it with its neighbours or not: other words
    ),
    "moved mapping": (
        "def run(ctx, inputs):\n"
        "    start = call(MMAP, 0, PAGE, 3, 0x22, -1, 0)\n"
        "    call(MREMAP, start, PAGE, 1 << 20, 1)\n"
        "    return True\n",
        "it made a call that cannot be undone",
    ),
    "grown heap": (
        "def run(ctx, inputs):\n    call(BRK, call(BRK, 0) + PAGE)\n    return True\n",
        "it made a call that cannot be undone",
    ),
    "returned pages": (
        "def run(ctx, inputs):\n"
        "    room = (ctypes.c_char * (1 << 16))()\n"
        "    call(MADVISE, ctypes.addressof(room) // PAGE * PAGE + PAGE, PAGE, 4)\n"
        "    return True\n",
        "it made a call that cannot be undone",
    ),
    "constants made writable": (
        "def run(ctx, inputs):\n"
        "    page = address(sys) // PAGE * PAGE\n"
        "    return call(MPROTECT, page, PAGE, 1) + call(MPROTECT, page, PAGE, 3)\n",
        "it made a call that cannot be undone",
    ),
    "pending signal": (
        "def run(ctx, inputs):\n"
        "    signal.pthread_sigmask(0, {6})\n"
        "    call(TGKILL, os.getpid(), os.getpid(), 6)\n"
        "    return True\n",
        "a signal is pending",
    ),
    "closed wire": (
        "def run(ctx, inputs):\n"
        "    sock = wire()\n    finish(b'true')\n    os.close(sock.fileno())\n    stop()\n",
        "",  # The host sees the end of the stream, and kills it before the restorer does.
    ),
    "unread answer": (
        "def run(ctx, inputs):\n"
        "    sock = wire()\n"
        '    sock.sendall(frame(CALL, b\'[1,"double",{"n":1},1]\'))\n'
        "    sock.recv(1)\n"
        "    finish(b'true')\n    stop()\n",
        "the wire holds bytes of the host",
    ),
}


@pytest.mark.parametrize("name", REPLACED)
async def test_change_that_is_not_written_back_costs_the_worker(name: str) -> None:
    code, reason = REPLACED[name]
    async with attacked(tools=[double]) as attack:
        result = await attack.run(DONE + code)
        assert (result.status, result.error) == ("completed", None)
        await attack.settle()
        counts = attack.counts()
        assert counts.get("restored", 0) == 0
        if reason:
            assert attack.replaced == {reason: 1}
        assert (await attack.session.program(source="1 + 1")).value == 2


# With the pages of any run more ranges than the kernel reports at once, 512.
SCATTERED = """
def run(ctx, inputs):
    libc.malloc.restype = ctypes.c_void_p
    start = libc.malloc(ctypes.c_size_t(3 << 20)) // PAGE * PAGE
    pages = range(start + PAGE, start + (3 << 20), 2 * PAGE)
"""
# A run reads what an earlier one may have left: `(leave, read)`.
RESTORED = {
    "signal mask": (
        "def run(ctx, inputs):\n    signal.pthread_sigmask(0, {1, 2, 15})\n    return 1\n",
        "def run(ctx, inputs):\n    return sorted(signal.pthread_sigmask(0, set()))\n",
    ),
    "rounding of floating point": (
        "def run(ctx, inputs):\n    ctypes.CDLL('libm.so.6').fesetround(0x400)\n    return 1\n",
        "def run(ctx, inputs):\n    return [ctypes.CDLL('libm.so.6').fegetround(), 0.1 + 0.2]\n",
    ),
    "floating-point exceptions": (
        "def run(ctx, inputs):\n    ctypes.CDLL('libm.so.6').feraiseexcept(0x3d)\n    return 1\n",
        "def run(ctx, inputs):\n    return ctypes.CDLL('libm.so.6').fetestexcept(0x3d)\n",
    ),
    "module": (
        "def run(ctx, inputs):\n    sys.modules['planted'] = os.planted = os\n    return 1\n",
        "def run(ctx, inputs):\n    return ['planted' in sys.modules, hasattr(os, 'planted')]\n",
    ),
    "constant of the interpreter": (
        "def run(ctx, inputs):\n    poke(address(b'~') + 32, b'!')\n    return 1\n",
        "def run(ctx, inputs):\n    return peek(address(b'~') + 32, 1).decode()\n",
    ),
    "scattered pages": (
        SCATTERED + "    return [poke(page, b'x') for page in pages][0]\n",
        SCATTERED + "    return sum(peek(page, 1) == b'x' for page in pages)\n",
    ),
}


@pytest.mark.parametrize("name", RESTORED)
async def test_next_run_finds_nothing_of_the_last_one(name: str) -> None:
    leave, read = RESTORED[name]
    async with attacked() as attack:
        fresh = await attack.run(read)
        await attack.settle()
        assert (await attack.run(leave)).status == "completed"
        await attack.settle()
        after = await attack.run(read)
        assert (after.value, after.error) == (fresh.value, None)
        await attack.settle()
        assert attack.differences == {}
        counts = attack.counts()
        assert counts["restored"] == counts["compared"] == 3


async def test_worker_cannot_announce_itself() -> None:
    code = (
        "def run(ctx, inputs):\n"
        "    sock = wire()\n"
        "    finish()\n"
        "    sock.sendall(READY)\n"
        "    while True:\n"
        "        data = sock.recv(65536)\n"
        "        sock.sendall(frame(DONE, b'\"stolen\"'))\n"
    )
    async with attacked() as attack:
        for number in range(5):
            await attack.run(DONE + code)
            result = await attack.session.program(source=HARMLESS.format(number=number))
            assert (result.status, result.value) == ("completed", number)
        assert attack.counts().get("restored", 0) <= 5


async def test_worker_that_never_stops_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pool, "_RESTORE_SECONDS", 0.1)
    code = "def run(ctx, inputs):\n    finish()\n    while True:\n        pass\n"
    async with attacked() as attack:
        assert (await attack.run(DONE + code)).value == 1
        pool = pool_of(attack.session)
        first = set(pool._workers)
        await attack.settle()
        assert (await attack.session.program(source="1 + 1")).value == 2
        assert not first & set(pool._workers) or "restored" not in attack.counts()


async def test_worker_that_stops_during_its_run_meets_its_timeout() -> None:
    async with attacked() as attack:
        code = "def run(ctx, inputs):\n    stop()\n"
        result = await attack.run(code, limits=Limits(timeout_ms=300))
        assert result.status == "timed_out"
        assert (await attack.session.program(source="1 + 1")).value == 2


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("sigaltstack", "call(131, 0, 0)"),
        ("set_robust_list", "call(273, 0, 24)"),
        ("rseq", "call(334, 0, 32, 1, 0)"),
        ("clone", "call(56, 0x50f00, 0, 0, 0, 0)"),
        ("rt_sigaction", "call(13, 10, 0, 0, 8)"),
        ("arch_prctl", "call(158, 0x1002, 0)"),
        ("ptrace", "call(101, 0, 0, 0, 0)"),
        ("userfaultfd", "call(323, 1)"),
        ("setitimer", "call(38, 0, 0, 0)"),
        ("fcntl", "call(72, 3, 4, 0o4000)"),
        ("shutdown", "call(48, 3, 0)"),
        ("clock_gettime", "call(228, 2, 0)"),
    ],
)
async def test_state_outside_of_memory_is_out_of_reach(name: str, code: str) -> None:
    async with attacked() as attack:
        result = await attack.run(f"def run(ctx, inputs):\n    {code}\n")
        assert result.error is not None
        assert (result.status, result.error.syscall) == ("violation", name)


async def test_pointer_of_restartable_sequences_is_restored() -> None:
    code = """
def run(ctx, inputs):
    libc.__tls_get_addr
    offset = ctypes.c_ssize_t.in_dll(libc, "__rseq_offset").value
    pthread_self = libc.pthread_self
    pthread_self.restype = ctypes.c_void_p
    at = pthread_self() + offset + 8
    finish()
    poke(at, (0).to_bytes(7, "little") + b"\\x00")
    stop()
"""
    async with attacked() as attack:
        assert (await attack.run(DONE + code)).status == "completed"
        await attack.settle()
        assert attack.differences == {}


async def test_signal_during_a_run_costs_the_worker() -> None:
    async with attacked() as attack:
        result = await attack.session.program(
            source="while True: pass", limits=Limits(timeout_ms=200)
        )
        assert result.status == "timed_out"
        code = "def run(ctx, inputs):\n    for n in range(10 ** 6): pass\n    return 1\n"
        await attack.run(code)
        await attack.settle()
        assert attack.differences == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="reads the mappings of a worker, which root may")
async def test_stack_that_was_unmapped_and_grew_again_is_restored() -> None:
    # Its pages are still tracked, absent, and read as zeros.
    async with attacked() as attack:
        await attack.session.warm_up()
        await attack.settle()
        ((start, end),) = mappings_of(attack.session, "[stack]")
        pages = (end - start) // 4096 * 3 // 4
        code = (
            "def run(ctx, inputs):\n"
            f"    assert call(MUNMAP, {start}, {pages} * PAGE) == 0\n"
            f"    return list(peek({start}, 1))\n"  # the others stay absent
        )
        result = await attack.run(code)
        assert (result.status, result.value) == ("completed", [0])
        await attack.settle()
        assert attack.differences == {}
        assert attack.counts()["restored"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="reads the mappings of a worker, which root may")
async def test_stack_that_grew_costs_the_worker() -> None:
    # The only mapping that grows without a call.
    async with attacked() as attack:
        await attack.session.warm_up()
        await attack.settle()
        ((start, _),) = mappings_of(attack.session, "[stack]")
        code = f"def run(ctx, inputs):\n    poke({start} - 4 * PAGE, b'x')\n    return 1\n"
        assert (await attack.run(code)).status == "completed"
        await attack.settle()
        assert attack.replaced == {"a mapping differs": 1}


async def test_flood_of_stops_delays_no_other_worker() -> None:
    async with attacked(workers=2) as attack, anyio.create_task_group() as group:
        flood = "def run(ctx, inputs):\n    while True:\n        call(BRK, 0)\n"
        group.start_soon(partial(attack.run, flood, limits=Limits(timeout_ms=15_000)))
        await anyio.sleep(0.2)
        start = anyio.current_time()
        for number in range(5):
            result = await attack.session.program(source=HARMLESS.format(number=number))
            assert result.value == number
        assert anyio.current_time() - start < 10
        group.cancel_scope.cancel()


@pytest.mark.slow
async def test_limit_of_cpu_time_moves_on_with_each_run() -> None:
    # Far below the limit on a slow machine, and 25 of it above the limit on a fast one.
    code = "n = 0\nfor _ in range(2_500_000):\n    n += 1\nn"
    limits = Limits(max_cpu_ms=1_000)
    async with attacked(limits=limits, ceiling=limits) as attack:
        for _ in range(25):
            result = await attack.session.program(source=code)
            assert result.status == "completed", result.error
        await attack.settle()
        # 25 runs need more than the limit of one. A worker whose hard limit is near is replaced.
        assert set(attack.replaced) <= {"its CPU time is spent"}
        assert attack.differences == {}


def test_flags_that_the_kernel_does_not_set_are_noticed() -> None:
    # ID and NT: a program can set them, and PTRACE_SETREGS leaves them as they are.
    code = (
        b"\x9c\x81\x0c\x24\x00\x40\x20\x00\x9d"  # pushf; or dword [rsp], NT | ID; popf
        b"\xb8\x18\x00\x00\x00\x0f\x05\xc3"  # mov eax, 24; syscall; ret
    )
    pid = os.fork()
    if pid == 0:
        memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        memory.write(code)
        run = ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
        os.kill(os.getpid(), signal.SIGSTOP)
        run()
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    try:
        os.waitpid(pid, os.WUNTRACED)
        tracee = _trace.Tracee(pid)
        os.waitpid(pid, _trace.WALL)
        registers = _trace.Registers(pid)
        assert registers.write(pid)
        os.kill(pid, signal.SIGCONT)
        for _ in range(3):
            tracee.resume()
            os.waitpid(pid, _trace.WALL)
        assert not registers.write(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
