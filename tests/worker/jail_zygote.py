"""A zygote for the jail's tests: it forks jailed workers that run raw Python, policy off.

usage: jail_zygote.py REPOSITORY CONTROL_FD OPTIONS, all read from argv; OPTIONS is JSON:
``isolation`` (``raw``: no jail at all, which shows that cases do fire), ``preload`` (modules),
``uid`` (become it first), ``deny`` (names of system calls the kernel shall refuse, as a container's
profile does), ``use_filter`` (false: workers go without it), ``landlock_abi`` (what the kernel is
said to offer), ``listen`` (false: another filter has a listener, as under some containers).

Control socket: a request carries a wire; the answers are the worker's pidfd, then its status, the
number of the call it was stopped at (or null) and that call's arguments.
Wire: a length-prefixed JSON case in, a length-prefixed JSON outcome out.
"""

import ctypes
import dataclasses
import importlib
import json
import os
import platform
import select
import socket
import struct
import sys
from typing import Any

sys.path.insert(0, sys.argv[1])

from ptc.worker._isolation import ZygoteJail
from ptc.worker._jail import enter_zygote_jail
from ptc.worker._listener import read_stopped_call
from ptc.worker._probe import probe_layers
from ptc.worker._worker_jail import enter_worker_jail
from ptc.worker.kernel import _landlock

DENIABLE = {
    "x86_64": {
        "unshare": 272,
        "setns": 308,
        "mount": 165,
        "pivot_root": 155,
        "landlock_create_ruleset": 444,
        "setuid": 105,
        "setgid": 106,
        "capset": 126,
        "seccomp": 317,
    },
    "aarch64": {
        "unshare": 97,
        "setns": 268,
        "mount": 40,
        "pivot_root": 41,
        "landlock_create_ruleset": 444,
        "setuid": 146,
        "setgid": 144,
        "capset": 91,
        "seccomp": 277,
    },
}
SECCOMP = {"x86_64": 317, "aarch64": 277}


def deny(names: list[str], *, take_the_listener: bool) -> None:
    """Refuse system calls with EPERM the way a container's profile does."""
    libc = ctypes.CDLL(None, use_errno=True)
    steps = [(0x20, 0, 0, 0)]
    for name in names:
        number = DENIABLE[platform.machine()][name]
        steps += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | 1)]
    steps.append((0x06, 0, 0, 0x7FFF0000))
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("=H6xQ", len(steps), ctypes.addressof(buffer))
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    flags = 8 if take_the_listener else 0  # SECCOMP_FILTER_FLAG_NEW_LISTENER
    assert libc.syscall(SECCOMP[platform.machine()], 1, flags, header) >= 0
    parent = os.getpid()
    if take_the_listener and os.fork() == 0:
        # It holds the listener while its parent lives. A parent that has become another user may
        # not send the signal of PR_SET_PDEATHSIG.
        select.select([os.pidfd_open(parent)], [], [])
        os._exit(0)


def take(wire: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = wire.recv(size - len(data))
        if not chunk:
            os._exit(3)
        data += chunk
    return data


def put(wire: socket.socket, value: object) -> None:
    text = json.dumps(value, default=repr).encode()
    wire.sendall(struct.pack("=I", len(text)) + text)


def work(jail: ZygoteJail | None, request: dict[str, int], wire_fd: int) -> None:
    if jail is None:
        wire = socket.socket(fileno=wire_fd)
    else:
        wire = enter_worker_jail(jail, wire_fd, request["memory_bytes"], request["cpu_seconds"])
    case = json.loads(take(wire, struct.unpack("=I", take(wire, 4))[0]))
    names: dict[str, Any] = {"__name__": "script", "WIRE": wire}
    try:
        exec(compile(case["script"], "<script>", "exec"), names)  # noqa: S102 - raw, on purpose
        value = names["run"](None, case["inputs"])
        if isinstance(value, bytes):
            value = value.decode("latin-1")
        outcome = {"result": value}
    except BaseException as error:  # noqa: BLE001 - whatever it is, the test judges it
        outcome = {"error": f"{type(error).__name__}: {error}"}
    put(wire, outcome)
    os._exit(0)


def serve(control: socket.socket, jail: ZygoteJail | None) -> None:
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 4096, 1)
        if not message:
            return
        child = os.fork()
        if child == 0:
            try:
                work(jail, json.loads(message), descriptors[0])
            finally:
                os._exit(4)
        os.close(descriptors[0])
        pidfd = os.pidfd_open(child)
        socket.send_fds(control, [b"started"], [pidfd])
        call = watch(control, jail, pidfd, child)
        if call == GONE:
            return
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.close(pidfd)
        control.send(json.dumps([status, call]).encode())


GONE = "the host has gone"


def watch(
    control: socket.socket, jail: ZygoteJail | None, pidfd: int, child: int
) -> tuple[int, ...] | str | None:
    """Until the worker has ended: the call it was stopped at, if it was."""
    listener_socket = jail.listener_socket if jail is not None else None
    listener = -1
    while True:
        ends = [pidfd, control.fileno()] + ([listener_socket.fileno()] if listener_socket else [])
        ready = select.select(ends + ([listener] if listener >= 0 else []), [], [])[0]
        if listener_socket and listener_socket.fileno() in ready:
            pid, taken = listener_socket.receive_listener()
            assert pid == child
            assert taken is not None
            listener = taken
        elif listener in ready:
            call = read_stopped_call(listener)
            if call is not None:
                os.kill(child, 9)
            elif pidfd not in ready:
                continue
            os.close(listener)
            return call
        elif pidfd in ready:
            if listener >= 0:
                os.close(listener)
            return None
        elif control.fileno() in ready:
            return GONE


def main() -> None:
    options = json.loads(sys.argv[3])
    control = socket.socket(fileno=int(sys.argv[2]))
    for name in options["preload"]:
        importlib.import_module(name)
    deny(options["deny"], take_the_listener=not options["listen"])
    if options["landlock_abi"] is not None:
        _landlock.abi = lambda: int(options["landlock_abi"])
    if options["uid"] is not None:
        os.setgroups([])
        os.setgid(options["uid"])
        os.setuid(options["uid"])
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as an ordinary user's own program would be
    if options["isolation"] == "raw":
        control.send(json.dumps({"layers": [], "pid": os.getpid()}).encode())
        serve(control, None)
        os._exit(0)
    try:
        jail = enter_zygote_jail(options["isolation"], control.fileno())
        layers = probe_layers(jail)
        if not options["use_filter"]:
            jail = dataclasses.replace(jail, filter=None, listener_socket=None)
    except Exception as error:  # noqa: BLE001 - the test reads it
        control.send(json.dumps({"refused": f"{type(error).__name__}: {error}"}).encode())
        os._exit(5)
    fields = ("name", "on", "required", "how", "detail")
    report = [{field: getattr(layer, field) for field in fields} for layer in layers]
    control.send(json.dumps({"layers": report, "pid": os.getpid()}).encode())
    serve(control, jail)
    os._exit(0)


if __name__ == "__main__":
    main()
