"""The filter program of both machines, run by an interpreter of classic BPF of our own."""

from __future__ import annotations

import errno
import os
import re
import struct
from pathlib import Path

import pytest

from ptc._workers._syscall_names import syscall_name
from ptc.worker.kernel import _seccomp

KILL, ALLOW, NOTIFY = 0x80000000, 0x7FFF0000, 0x7FC00000
EBADF = 0x00050000 | errno.EBADF
EPERM = 0x00050000 | errno.EPERM
WIRE, NOTICE, PID = 3, 4, 4711


def decide(
    table: _seccomp.Machine,
    number: int,
    *args: int,
    arch: int | None = None,
    notice_fd: int | None = None,
) -> int:
    """Return the filter's answer: classic BPF, include/uapi/linux/bpf_common.h."""
    program = _seccomp.build(table, WIRE, notice_fd)
    code = bytearray(program.code)
    for offset in program.pid_offsets:
        struct.pack_into("=I", code, offset, PID)
    words = [arg & 0xFFFFFFFFFFFFFFFF for arg in (*args, 0, 0, 0, 0, 0, 0)[:6]]
    data = struct.pack("=IIQ6Q", number, table.audit_arch if arch is None else arch, 0, *words)
    place = accumulator = 0
    while True:
        kind, yes, no, constant = struct.unpack_from("=HBBI", code, 8 * place)
        place += 1
        if kind == 0x06:
            return int(constant)
        if kind == 0x20:
            accumulator = struct.unpack_from("=I", data, constant)[0]
        elif kind == 0x54:
            accumulator &= constant
        else:
            tests = {0x15: accumulator == constant, 0x35: accumulator >= constant,
                     0x45: bool(accumulator & constant)}  # fmt: skip
            place += yes if tests[kind] else no


CALLS: list[tuple[str, tuple[int, ...], int]] = [
    ("recvfrom", (WIRE, 1, 1, 0, 0, 0), ALLOW),
    ("recvfrom", (WIRE, 1, 1, 0x100, 0, 0), ALLOW),
    ("recvfrom", (WIRE, 1, 1, 1, 0, 0), KILL),
    ("recvfrom", (WIRE + 1, 1, 1, 0, 0, 0), KILL),
    ("recvfrom", (WIRE, 1, 1, 0, 1, 0), KILL),
    ("recvfrom", (WIRE, 1, 1, 0, 1 << 32, 0), KILL),
    ("sendto", (WIRE, 1, 1, 0, 0, 0), ALLOW),
    ("sendto", (WIRE, 1, 1, 0x4000, 0, 0), ALLOW),
    ("sendto", (WIRE, 1, 1, 1, 0, 0), KILL),
    ("sendto", (0, 1, 1, 0, 0, 0), KILL),
    ("sendto", (WIRE, 1, 1, 0, 1 << 40, 0), KILL),
    ("mmap", (0, 1, 3, 0x22, -1, 0), ALLOW),
    ("mmap", (0, 1, 0, 0x4022, -1, 0), ALLOW),
    ("mmap", (0, 1, 3, 0x20022, 0xFFFFFFFF, 0), ALLOW),
    ("mmap", (0, 1, 4, 0x22, -1, 0), KILL),
    ("mmap", (0, 1, 7, 0x22, -1, 0), KILL),
    ("mmap", (0, 1, 3, 0x21, -1, 0), KILL),
    ("mmap", (0, 1, 3, 0x02, -1, 0), KILL),
    ("mmap", (0, 1, 3, 0x32, -1, 0), KILL),
    ("mmap", (0, 1, 3, 0x22, WIRE, 0), KILL),
    ("munmap", (1, 1), ALLOW),
    ("brk", (1,), ALLOW),
    ("mremap", (1, 1, 1, 1), ALLOW),
    ("mremap", (1, 1, 1, 3), KILL),
    ("mprotect", (1, 1, 3), ALLOW),
    ("mprotect", (1, 1, 5), KILL),
    ("madvise", (1, 1, 4), ALLOW),
    ("madvise", (1, 1, 8), ALLOW),
    ("madvise", (1, 1, 12), KILL),
    ("clock_gettime", (0,), ALLOW),
    ("clock_gettime", (11,), ALLOW),
    ("clock_gettime", (-6,), KILL),
    ("clock_getres", (1,), ALLOW),
    ("clock_getres", (-2,), KILL),
    ("getrandom", (1, 16, 0), ALLOW),
    ("getrandom", (1, 16, 1), ALLOW),
    ("getrandom", (1, 16, 2), KILL),
    ("futex", (1, 128), ALLOW),
    ("futex", (1, 129), ALLOW),
    ("futex", (1, 137), ALLOW),
    ("futex", (1, 137 | 256), ALLOW),
    ("futex", (1, 0), KILL),
    ("futex", (1, 128 | 12), KILL),
    ("exit_group", (0,), ALLOW),
    ("close", (7,), ALLOW),
    ("rt_sigprocmask", (0, 0, 0, 8), ALLOW),
    ("rt_sigreturn", (), ALLOW),
    ("getpid", (), ALLOW),
    ("gettid", (), ALLOW),
    ("prctl", (16, 0x7000), EPERM),
    ("prctl", (15, 0x7000), KILL),
    ("prctl", (38, 1), KILL),
    ("tgkill", (PID, PID, 6), ALLOW),
    ("tgkill", (PID, PID, 9), KILL),
    ("tgkill", (PID, 1, 6), KILL),
    ("tgkill", (1, 1, 6), KILL),
    ("write", (1, 1, 1), EBADF),
    ("write", (2, 1, 1), EBADF),
    ("write", (0, 1, 1), KILL),
    ("write", (WIRE, 1, 1), KILL),
    ("writev", (2, 1, 1), EBADF),
    ("writev", (WIRE, 1, 1), KILL),
    ("sendmsg", (NOTICE, 1, 0), KILL),
    ("prlimit64", (0, 7, 1, 0), KILL),
]
TO_HAND_OVER: list[tuple[str, tuple[int, ...], int]] = [
    ("sendmsg", (NOTICE, 1, 0), ALLOW),
    ("sendmsg", (NOTICE, 1, 1), NOTIFY),
    ("sendmsg", (WIRE, 1, 0), NOTIFY),
    ("prlimit64", (0, 7, 1, 0), ALLOW),
    ("prlimit64", (0, 0, 1, 0), NOTIFY),
    ("prlimit64", (1, 7, 1, 0), NOTIFY),
]
MACHINES = pytest.mark.parametrize("table", _seccomp.MACHINES.values(), ids=_seccomp.MACHINES)


@MACHINES
@pytest.mark.parametrize(("name", "args", "answer"), CALLS)
def test_filter_decides_each_call_by_its_arguments(
    table: _seccomp.Machine, name: str, args: tuple[int, ...], answer: int
) -> None:
    assert decide(table, table.numbers[name], *args) == answer


@MACHINES
@pytest.mark.parametrize(("name", "args", "answer"), CALLS)
def test_notifying_filter_notifies_where_the_other_kills(
    table: _seccomp.Machine, name: str, args: tuple[int, ...], answer: int
) -> None:
    told = decide(table, table.numbers[name], *args, notice_fd=NOTICE)
    if (name, args, ALLOW) in TO_HAND_OVER:
        assert told == ALLOW
    else:
        assert told == (NOTIFY if answer == KILL else answer)


@MACHINES
@pytest.mark.parametrize(("name", "args", "answer"), TO_HAND_OVER)
def test_notifying_filter_allows_only_the_handover_of_its_listener(
    table: _seccomp.Machine, name: str, args: tuple[int, ...], answer: int
) -> None:
    assert decide(table, table.numbers[name], *args, notice_fd=NOTICE) == answer


@MACHINES
@pytest.mark.parametrize(("notice_fd", "refusal"), [(None, KILL), (NOTICE, NOTIFY)])
def test_filter_refuses_every_call_outside_the_table(
    table: _seccomp.Machine, notice_fd: int | None, refusal: int
) -> None:
    args = (WIRE, 0, 3, 0x22, -1)
    others = set(range(1024)) - set(table.numbers.values())
    answers = {decide(table, number, *args, notice_fd=notice_fd) for number in others}
    assert answers == {refusal}
    # x32 numbers name other calls: death at once, by either filter
    x32 = {0x40000000 | number for number in range(1024)}
    assert {decide(table, number, *args, notice_fd=notice_fd) for number in x32} == {KILL}


@MACHINES
def test_the_filter_kills_every_call_of_another_architecture(table: _seccomp.Machine) -> None:
    # i386, arm, x86-64, aarch64, riscv64
    for arch in {0x40000003, 0x40000028, 0xC000003E, 0xC00000B7, 0xC00000F3} - {table.audit_arch}:
        for notice_fd in (None, NOTICE):
            answers = {
                decide(table, number, arch=arch, notice_fd=notice_fd)
                for number in table.numbers.values()
            }
            assert answers == {KILL}


def test_both_architectures_allow_the_same_tested_calls() -> None:
    tables = [set(table.numbers) for table in _seccomp.MACHINES.values()]
    assert tables[0] == tables[1] == {name for name, _, _ in CALLS}


@pytest.mark.parametrize(
    ("machine", "header"),
    [
        ("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        ("aarch64", "/usr/include/asm-generic/unistd.h"),
    ],
)
def test_system_call_numbers_match_the_kernel_headers(machine: str, header: str) -> None:
    if not os.path.exists(header):
        pytest.skip(f"the kernel's headers are not installed: {header}")
    text = Path(header).read_text()
    known = {
        name: int(number)
        for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)
    }
    table = _seccomp.MACHINES[machine]
    for name, number in table.numbers.items():
        assert known[name] == number
    # In the generic header but not on 64-bit arm: calls of 32 bits, marks, another name.
    others = re.compile(
        r".*time64|clock_\w+64|timerfd?_\w+64|syscalls|arch_spec\w+|fstatat|\w+_range2"
    )
    wrong = {
        name: syscall_name(table.audit_arch, number)
        for name, number in known.items()
        if syscall_name(table.audit_arch, number) != name and not others.fullmatch(name)
    }
    assert wrong == {}
