"""The jail alone: raw Python with the whole C library in a worker, no language policy."""

from __future__ import annotations

import os
import platform
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ptc._workers._syscall_names import syscall_name
from ptc.worker._layers import require_layers
from ptc.worker.kernel import _seccomp

from .jail_harness import (
    AUDIT_ARCH,
    IMPORTS,
    OUT_OF_MEMORY,
    PATIENCE_S,
    PROBES,
    RAW_CALL,
    SETTINGS,
    Outcome,
    PlantedSecrets,
    Setting,
    Zygote,
    plant_secrets,
    probes_for,
    put,
    stopped,
    wait_for_end,
)

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in _seccomp.MACHINES,
    reason="the jail is for Linux on x86-64 and aarch64",
)


@pytest.fixture(scope="module", params=SETTINGS.values(), ids=list(SETTINGS))
def secret(request: pytest.FixtureRequest) -> Iterator[PlantedSecrets]:
    """A jailed zygote with secrets around it, in every setting."""
    with plant_secrets(request.param) as found:
        yield found


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    found = Zygote()
    assert found.layers["violation_names"].on
    yield found
    found.close()


# --- nothing gets out ---


def test_probes_of_each_machine_make_the_same_system_calls() -> None:
    def calls(machine: str) -> dict[str, list[str]]:
        return {
            probe["id"]: [
                syscall_name(AUDIT_ARCH[machine], int(number))
                for number in RAW_CALL.findall(probe["script"])
            ]
            for probe in probes_for(machine)
        }

    of_intel, of_arm = calls("x86_64"), calls("aarch64")
    assert of_intel.items() >= of_arm.items()
    # access, modify_ldt, and the 32-bit entry by int 0x80
    assert of_intel.keys() - of_arm.keys() == {"osp-009", "osp-137", "osp-158"}


def test_no_escape_probe_succeeds(secret: PlantedSecrets) -> None:
    escaped = {}
    for probe in PROBES:
        outcome = secret.zygote.run(probe["script"], secret.inputs)
        how = secret.escaped(outcome)
        if how:
            escaped[probe["id"]] = how
    assert escaped == {}


def test_escape_probes_succeed_where_no_layer_confines_them() -> None:
    # a probe that never fires would prove nothing
    expected = {"osp-007", "osp-009", "osp-059", "osp-156", "osp-158", "osp-170"}
    with plant_secrets(Setting("none")) as secret:
        outcomes = {
            probe["id"]: secret.zygote.run(probe["script"], secret.inputs)
            for probe in PROBES
            if probe["id"] in expected
        }
        found = {name for name, outcome in outcomes.items() if secret.escaped(outcome)}
    assert found == set(outcomes)
    assert found


SECOND_LINE = {
    "file-read",
    "file-write",
    "file-watch",
    "file-path-fd",
    "proc",
    "fork",
    "exec",
    "code-memory",
    "compat-abi",
    "network",
    "network-family",
    "secrets",
    "session",
    "tty",
}
"""Probes that Landlock, limits and namespaces refuse if the filter has a gap."""


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_files_processes_and_secrets_stay_protected_without_seccomp(
    setting: Setting,
) -> None:
    with plant_secrets(replace(setting, use_filter=False)) as secret:
        escaped = {
            probe["id"]: secret.escaped(secret.zygote.run(probe["script"], secret.inputs))
            for probe in PROBES
            if probe["class"] in SECOND_LINE
        }
    assert {name: how for name, how in escaped.items() if how} == {}


FORBIDDEN = {
    "open a file": ("open('/etc/passwd')", "openat"),
    "look for a file": ("os.stat('/')", "newfstatat"),
    "import what is not loaded": ("__import__('tabnanny')", "newfstatat"),
    "fork": ("os.fork()", "clone"),
    "execute": ("os.execv('/bin/true', ['true'])", "execve"),
    "make a socket": ("socket.socket()", "socket"),
    "make a pipe": ("os.pipe()", "pipe2"),
    "read a descriptor": ("os.read(WIRE.fileno(), 1)", "read"),
    "write to the wire by number": ("os.write(WIRE.fileno(), b'x')", "write"),
    "duplicate the wire": ("os.dup(WIRE.fileno())", "fcntl"),
    "pass a descriptor": ("socket.send_fds(WIRE, [b'x'], [WIRE.fileno()])", "sendmsg"),
    "receive a descriptor": ("socket.recv_fds(WIRE, 1, 1)", "recvmsg"),
    "send out of band": ("WIRE.send(b'x', socket.MSG_OOB)", "sendto"),
    "receive out of band": ("WIRE.recv(1, socket.MSG_OOB)", "recvfrom"),
    "send to an address": ("WIRE.sendto(b'x', '/tmp/x')", "sendto"),
    "ask who sent": ("WIRE.recvfrom(1)", "recvfrom"),
    "make the wire non-blocking": ("WIRE.setblocking(False)", "ioctl"),
    "signal itself": ("os.kill(os.getpid(), 0)", "kill"),
    "signal the zygote": ("os.kill(1, signal.SIGTERM)", "kill"),
    "set a handler": ("signal.signal(signal.SIGXCPU, signal.SIG_IGN)", "rt_sigaction"),
    "raise a limit": ("resource.setrlimit(resource.RLIMIT_CPU, (100, 100))", "prlimit64"),
    "start a thread": ("threading.Thread(target=print).start()", "rt_sigaction"),
    "sleep": ("time.sleep(0.001)", "clock_nanosleep"),
    "map executable memory": (
        "mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANON, prot=7)", "mmap",
    ),
    "map shared memory": ("mmap.mmap(-1, 4096)", "mmap"),
    "map at an address": ("mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANON | 16)",
                          "mmap"),
    "read another process's clock": ("time.clock_gettime(-6)", "clock_gettime"),
    "ask who the parent is": ("os.getppid()", "getppid"),
    "make an event loop": ("asyncio.new_event_loop()", "epoll_create1"),
}  # fmt: skip


@pytest.mark.parametrize(("attempt", "call"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_forbidden_system_call_ends_the_worker_and_is_named(
    zygote: Zygote, attempt: str, call: str
) -> None:
    outcome = zygote.run(f"{IMPORTS}def run(ctx, inputs):\n    {attempt}")
    assert outcome == stopped(call)


def test_forbidden_call_is_unnamed_if_another_filter_has_the_listener() -> None:
    zygote = Zygote(Setting(listen=False))
    layer = zygote.layers["violation_names"]
    assert (layer.on, layer.required) == (False, False)
    assert "Device or resource busy" in layer.detail
    assert "reported without the name of the call" in layer.detail
    assert zygote.layers["seccomp"].on
    assert zygote.run(f"{IMPORTS}def run(ctx, inputs):\n    os.getppid()") == Outcome(
        -signal.SIGSYS
    )
    zygote.close()


# --- ordinary work goes on ---

ORDINARY = {
    "compute": "sum(i * i for i in range(300_000))",
    "sort": "sorted(range(200_000), key=lambda v: -v)[0]",
    "regex": "len(re.sub(r'\\d+', 'y', 'a1b2' * 20_000))",
    "text": "'x'.encode('idna').decode() + 'ß'.upper() + '{:>10n}'.format(5)",
    "allocate 100 MB": "len('x' * 100_000_000)",
    "many small objects": "len([bytes(1000) for _ in range(100_000)])",
    "grow": "len(functools.reduce(lambda b, _: b + bytes(1_000_000), range(30), bytearray()))",
    "clocks": "[f() for f in (time.time, time.monotonic, time.perf_counter)] and 1",
    "cpu clocks": "time.process_time() + time.thread_time()",
    "clock steps": "time.get_clock_info('monotonic').resolution",
    "local time": "str(datetime.datetime.fromtimestamp(0).astimezone())",
    "print a local time": "time.strftime('%c %Z', time.localtime(0))",
    "parse a time": "str(datetime.datetime.strptime('2020-01-01', '%Y-%m-%d'))",
    "random": "len(os.urandom(16)) + len(str(uuid.uuid4())) + int(random.Random().random())",
    "hash": "hashlib.sha256(b'x' * 1_000_000).hexdigest()",
    "decimals": "str(decimal.Decimal(2).sqrt() + int(fractions.Fraction(3, 3)))",
    "statistics": "statistics.mean([1, 2])",
    "collect": "gc.collect() * 0",
    "json": "len(json.dumps(json.loads(json.dumps({str(i): i for i in range(50_000)}))))",
    "locks": "[k := threading.Lock(), k.acquire(), k.acquire(timeout=0.001)][2]",
}


@pytest.mark.parametrize("work", ORDINARY.values(), ids=ORDINARY)
def test_ordinary_work_survives_the_filter(zygote: Zygote, work: str) -> None:
    outcome = zygote.run(f"{IMPORTS}def run(ctx, inputs):\n    return {work}")
    assert (outcome.status, outcome.error) == (0, "")
    assert outcome.result is not None


def test_a_script_recovers_from_running_out_of_memory(secret: PlantedSecrets) -> None:
    outcome = secret.zygote.run(OUT_OF_MEMORY, memory_mb=64)
    assert outcome == Outcome(0, [4, 10_000_000])


def test_memory_limit_is_relative_to_the_size_of_the_zygote(zygote: Zygote) -> None:
    script = "def run(ctx, inputs):\n    return len(bytearray({}))"
    assert zygote.run(script.format(95 << 20), memory_mb=100) == Outcome(0, 95 << 20)
    assert zygote.run(script.format(101 << 20), memory_mb=100).error.startswith("MemoryError")


def test_endless_recursion_raises_recursion_error(zygote: Zygote) -> None:
    outcome = zygote.run("def run(ctx, inputs):\n    return run(ctx, inputs)")
    assert outcome.error.startswith("RecursionError")


def test_an_abort_of_the_interpreter_is_a_crash_and_not_a_violation(zygote: Zygote) -> None:
    library = "import ctypes\ndef run(ctx, inputs):\n    "
    assert zygote.run(library + "ctypes.CDLL(None).abort()").status == -signal.SIGABRT
    fatal = "ctypes.pythonapi.Py_FatalError(b'gone')"
    assert zygote.run(library + fatal).status == -signal.SIGABRT
    assert zygote.run(library + "ctypes.string_at(0)").status == -signal.SIGSEGV


def test_an_abort_of_another_process_is_a_violation(zygote: Zygote) -> None:
    number = 234 if platform.machine() == "x86_64" else 131
    script = (
        f"import ctypes\ndef run(ctx, inputs):\n    ctypes.CDLL(None).syscall({number}, 1, 1, 6)"
    )
    assert zygote.run(script) == stopped("tgkill")


def test_cpu_limit_ends_the_worker_with_sigxcpu(zygote: Zygote) -> None:
    outcome = zygote.run("def run(ctx, inputs):\n    while True: pass", cpu_seconds=1)
    assert outcome == Outcome(-signal.SIGXCPU)


def test_a_worker_that_blocks_sigxcpu_is_killed_at_the_hard_limit(zygote: Zygote) -> None:
    block = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGXCPU])"
    script = f"import signal\ndef run(ctx, inputs):\n    {block}\n    while True: pass"
    assert zygote.run(script, cpu_seconds=1) == Outcome(-signal.SIGKILL)


def test_large_messages_pass_the_wire_both_ways(zygote: Zygote) -> None:
    text = "x" * 3_000_000
    outcome = zygote.run("def run(ctx, inputs):\n    return inputs['t'] * 2", {"t": text})
    assert outcome == Outcome(0, text * 2)


# --- a worker that has been taken over completely ---

EVERY_CALL = """
import ctypes
LIBC = ctypes.CDLL(None, use_errno=True)
def run(ctx, inputs):
    return LIBC.syscall({number}, 0, 0, 0, 0, 0, 0)
"""


def test_every_system_call_outside_the_table_ends_the_worker(zygote: Zygote) -> None:
    table = _seccomp.machine()
    assert table is not None
    ends = {}
    for number in range(LAST_CALL + 1):
        outcome = zygote.run(EVERY_CALL.format(number=number))
        name = syscall_name(table.audit_arch, number)
        if name in NOT_SHOWN_TO_FILTERS and outcome != stopped(name):
            if outcome != Outcome(-signal.SIGILL) and outcome.result != -1:
                ends[name] = outcome
        elif number not in table.numbers.values():
            if outcome != stopped(name):
                ends[name] = outcome
        elif outcome.status not in (0, -signal.SIGKILL, *ALSO.get(name, ())):
            ends[name] = outcome
    assert ends == {}


NOT_SHOWN_TO_FILTERS = {"uretprobe", "uprobe"}
"""Of x86-64: code that the kernel itself writes for tracing calls them (`seccomp_uprobe_exception`
of ``kernel/seccomp.c``, Linux 6.14); called from elsewhere they are an error or SIGILL."""
ALSO = {"rt_sigreturn": (-signal.SIGSEGV,)}
"""Further ends of allowed calls: outside of a handler it restores registers that nobody saved."""
LAST_CALL = 480
"""The kernel of 2025 ends at 469; what comes after is refused unseen."""


ATTACKS = {
    # what was let through to hand the listener over
    "the hand-over socket is gone": "sc('sendmsg', NOTICE, MESSAGE, 0) == EBADF",
    "its number cannot be made again": "[close(n) for n in range(3)] and "
    "sc('sendmsg', NOTICE, MESSAGE, 0) == EBADF",
    "descriptors cannot be allowed again": "sc('prlimit64', 0, 7, LIMITS, 0) == EPERM",
    # memory
    "a mapping of size 0 is not a second view": "sc('mremap', CODE, 0, 4096, 1) != 0",
    "the first page stays away": "sc('mmap', 0, 4096, 3, 0x22, -1, 0) > 65535",
    # others
    "a lock on nothing": "sc('futex', CODE, 128 | 1, 1, 0, 0, 0) == 0",
    "the whole machine's pool": "sc('getrandom', BUFFER, 8, 1) == 8",
}
ATTACK = """
import ctypes, errno
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
BUFFER = ctypes.addressof(KEPT := ctypes.create_string_buffer(64))
MESSAGE = ctypes.addressof(KEPT_2 := ctypes.create_string_buffer(64))
LIMITS = ctypes.addressof(KEPT_3 := (ctypes.c_ulong * 2)(64, 64))
CODE = ctypes.cast(LIBC.getpid, ctypes.c_void_p).value & ~4095
EBADF, EPERM = -errno.EBADF, -errno.EPERM
NOTICE = WIRE.fileno() + 1
NUMBERS = {numbers}
def sc(name, *arguments):
    answer = LIBC.syscall(NUMBERS[name], *map(ctypes.c_long, arguments))
    return answer if answer >= 0 else -ctypes.get_errno()
def close(number):
    return sc('close', number) == EBADF
def run(ctx, inputs):
    return {attack}
"""


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_allowed_system_calls_do_not_help_a_compromised_worker(zygote: Zygote, attack: str) -> None:
    table = _seccomp.machine()
    assert table is not None
    outcome = zygote.run(ATTACK.format(numbers=table.numbers, attack=attack))
    assert outcome == Outcome(0, True)


def test_splitting_mappings_to_the_kernel_limit_is_contained(zygote: Zygote) -> None:
    # Each piece is a structure in the kernel, outside the limit on memory: about 200 bytes of
    # them, at most vm.max_map_count (65,530) of them.
    attack = "split()"
    script = ATTACK.replace("def run(", "SPLIT\ndef run(").replace(
        "SPLIT",
        "def split():\n"
        "    start = sc('mmap', 0, 200 << 20, 3, 0x4022, -1, 0)\n"
        "    for page in range(0, 200 << 20, 8192):\n"
        "        if sc('mprotect', start + page, 4096, 1) < 0:\n"
        "            return page\n"
        "    return 0",
    )
    table = _seccomp.machine()
    assert table is not None
    outcome = zygote.run(script.format(numbers=table.numbers, attack=attack))
    assert (outcome.status, outcome.error) == (0, "")
    assert zygote.run("def run(ctx, inputs):\n    return 1") == Outcome(0, 1)


# --- life and death ---


def test_the_host_kills_a_worker_by_its_pidfd(secret: PlantedSecrets) -> None:
    wire, pidfd = secret.zygote.start()
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    assert secret.zygote.ended() == (-signal.SIGKILL, None)
    wire.close()
    os.close(pidfd)


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_workers_die_with_the_zygote(setting: Setting) -> None:
    zygote = Zygote(setting)
    wire, pidfd = zygote.start()
    put(wire, {"script": "def run(ctx, inputs):\n    while True: pass", "inputs": {}})
    zygote.process.kill()
    assert wait_for_end(pidfd)
    zygote.close()
    wire.close()
    os.close(pidfd)


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_zygote_and_workers_exit_when_the_host_is_gone(setting: Setting) -> None:
    zygote = Zygote(setting)
    wire, pidfd = zygote.start()
    zygote.control.close()
    assert wait_for_end(pidfd)
    assert zygote.process.wait(PATIENCE_S) == 0
    wire.close()
    os.close(pidfd)


def test_the_waiting_shell_keeps_no_control_socket_open(zygote: Zygote) -> None:
    if zygote.pid_inside != 1:
        pytest.skip("this kernel gives no PID namespace: there is no shell")
    directory = Path(f"/proc/{zygote.process.pid}/fd")
    try:
        seen = os.listdir(directory)
    except PermissionError:
        pytest.skip("only root may look into a process that is not dumpable")
    assert seen == []


# --- the report ---


def test_required_jail_layers_are_on_and_report_how_they_were_verified(
    secret: PlantedSecrets,
) -> None:
    layers = secret.zygote.layers
    assert {name for name, layer in layers.items() if layer.required} == {
        "seccomp", "landlock", "no_new_privs", "capabilities", "memory", "cpu", "processes",
        "files", "file_size", "descriptors", "environment", "session", "not_dumpable",
        "parent_death",
    }  # fmt: skip
    assert [name for name, layer in layers.items() if layer.required and not layer.on] == []
    assert all(layer.how.endswith(".") and layer.detail for layer in layers.values())
    require_layers(tuple(layers.values()))


def test_worker_has_no_descriptor_but_its_wire(secret: PlantedSecrets) -> None:
    # fstat through the C library would be death: ask the one allowed call that takes a number
    script = "import os\ndef run(ctx, inputs):\n    found = []\n    for n in range(256):\n"
    script += "        if n == WIRE.fileno(): continue\n        try:\n            os.close(n)\n"
    script += "            found.append(n)\n        except OSError: pass\n    return found"
    assert secret.zygote.run(script) == Outcome(0, [])
