"""Harness of the jail's tests: a zygote that runs raw Python, in a host with secrets."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import platform
import re
import secrets
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ptc._workers._syscall_names import syscall_name
from ptc.worker._layers import Layer

HERE = Path(__file__).parent
ALL_PROBES = [
    json.loads(line)
    for line in (HERE.parent / "programs/escapes/os.jsonl").read_text().splitlines()
]
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
RAW_CALL = re.compile(r"\bsc\((\d+)")


def probes_for(machine: str) -> list[dict[str, str]]:
    """Return the probes with the system call numbers of a machine; the corpus has x86-64's.

    Probes of calls and instructions that the machine does not have are left out.
    """
    ours = {syscall_name(AUDIT_ARCH[machine], number): number for number in range(500)}

    def name(match: re.Match[str]) -> str:
        return syscall_name(AUDIT_ARCH["x86_64"], int(match[1]))

    return [
        {**probe, "script": RAW_CALL.sub(lambda call: f"sc({ours[name(call)]}", probe["script"])}
        for probe in ALL_PROBES
        if probe.get("machine", machine) == machine
        and all(name(call) in ours for call in RAW_CALL.finditer(probe["script"]))
    ]


PROBES = probes_for(platform.machine()) if platform.machine() in AUDIT_ARCH else []
PATIENCE_S = 20.0
ORDINARY_USER = 54321


def modules_of(script: str) -> set[str]:
    """Return the modules a probe imports: an attacker with code execution has them in memory."""
    names = set()
    for node in ast.walk(ast.parse(script)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


IMPORTS = (
    "import asyncio, datetime, decimal, fractions, functools, gc, hashlib, json, mmap, os, random\n"
    "import re, resource, signal, socket, statistics, threading, time, uuid, ctypes\n"
)
"""Modules that a zygote imports before the jail, besides those of the probes."""
PRELOAD = modules_of(IMPORTS) | {"_strptime", "encodings.idna"}


@dataclass
class Outcome:
    """End of one worker."""

    status: int
    """Exit code, or minus the signal."""
    result: object = None
    error: str = ""
    call: str | None = None
    """The system call it was stopped at; it was killed there."""


def stopped(call: str) -> Outcome:
    """Expected end of a worker that makes a forbidden call."""
    return Outcome(-signal.SIGKILL, call=call)


class StartRefusedError(Exception):
    """The zygote did not start; the text is what it said."""


@dataclass(frozen=True)
class Setting:
    """Environment in which a zygote is started."""

    isolation: str = "jail"
    uid: int | None = None
    """The user it becomes before it enters the jail."""
    deny: tuple[str, ...] = ()
    """System calls the kernel refuses, as under a container's profile."""
    use_filter: bool = True
    landlock_abi: int | None = None
    """Landlock version that the kernel reports; None: the real one."""
    listen: bool = True
    """False: another filter has the listener, and there may be one."""


class Zygote:
    """Host's end of `jail_zygote.py`."""

    def __init__(
        self,
        setting: Setting = Setting(),
        *,
        env: dict[str, str] | None = None,
        keep: tuple[int, ...] = (),
    ) -> None:
        probed = {name for probe in PROBES for name in modules_of(probe["script"])}
        options = asdict(setting) | {"preload": sorted(PRELOAD | probed)}
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(PATIENCE_S)
        with theirs:
            program = [str(HERE / "jail_zygote.py"), str(HERE.parent.parent)]
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-s",
                    "-S",
                    *program,
                    str(theirs.fileno()),
                    json.dumps(options),
                ],
                env={"PYTHONHASHSEED": "0"} | (env or {}),
                pass_fds=(theirs.fileno(), *keep),
            )
        said = self.control.recv(65536)
        hello: Any = json.loads(said) if said else {"refused": "nothing was said"}
        if "refused" in hello:
            self.close()
            raise StartRefusedError(hello["refused"])
        self.pid_inside = hello["pid"]
        self.layers = {layer["name"]: Layer(**layer) for layer in hello["layers"]}

    def start(self, memory_mb: int = 256, cpu_seconds: int = 5) -> tuple[socket.socket, int]:
        """A worker that waits for its case: its wire and its pidfd."""
        ours, theirs = socket.socketpair()
        ours.settimeout(PATIENCE_S)
        request = {"memory_bytes": memory_mb << 20, "cpu_seconds": cpu_seconds}
        with theirs:
            socket.send_fds(self.control, [json.dumps(request).encode()], [theirs.fileno()])
        _, descriptors, _, _ = socket.recv_fds(self.control, 64, 1)
        return ours, descriptors[0]

    def ended(self) -> tuple[int, list[int] | None]:
        """Exit code or minus the signal; architecture, number and arguments of a forbidden call."""
        status, call = json.loads(self.control.recv(512))
        return status, call

    def run(self, script: str, inputs: dict[str, str] | None = None, **limits: int) -> Outcome:
        wire, pidfd = self.start(**limits)
        with wire:
            put(wire, {"script": script, "inputs": inputs or {}})
            said = b""
            with contextlib.suppress(ConnectionResetError):
                while chunk := wire.recv(1 << 20):
                    said += chunk
        os.close(pidfd)
        outcome = json.loads(said[4:]) if said else {}
        status, call = self.ended()
        name = syscall_name(call[0], call[1]) if call else None
        return Outcome(status, outcome.get("result"), outcome.get("error", ""), name)

    def close(self) -> None:
        self.control.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)


def put(wire: socket.socket, value: object) -> None:
    text = json.dumps(value).encode()
    wire.sendall(struct.pack("=I", len(text)) + text)


def wait_for_end(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], PATIENCE_S)[0])


ROOT = os.name == "posix" and os.geteuid() == 0
ORDINARY_UID = ORDINARY_USER if ROOT else None
NO_NAMESPACES = ("unshare", "setns", "mount", "pivot_root")
"""System calls that a container's profile refuses."""
SETTINGS = {
    "namespaces": Setting(),
    "no-namespaces": Setting(deny=("unshare",)),
    "ordinary-user": Setting(uid=ORDINARY_UID),
    "ordinary-user-no-namespaces": Setting(uid=ORDINARY_UID, deny=NO_NAMESPACES),
    "ordinary-user-no-namespaces-no-listener": Setting(
        uid=ORDINARY_UID, deny=NO_NAMESPACES, listen=False
    ),
}
"""The fourth is a container as most run it: seccomp and Landlock alone. The fifth is one whose own
filter has a listener, so that ours cannot."""


@dataclass
class PlantedSecrets:
    """Secrets a probe is to find, all with one token."""

    token: str
    directory: str
    zygote: Zygote

    @property
    def inputs(self) -> dict[str, str]:
        return {
            "canary": f"{self.directory}/canary.txt",
            "drop": f"{self.directory}/drop.txt",
            "tmpdir": self.directory,
        }

    def escaped(self, outcome: Outcome) -> str:
        """Return the trace of an escape of the worker, or ``""``."""
        result = outcome.result if isinstance(outcome.result, str) else json.dumps(outcome.result)
        if self.token in result:
            return "the token is in the result"
        if result.startswith("ESCAPED:"):
            return result
        if self.token in outcome.error:
            return "the token is in the error"
        return "the drop file was written" if os.path.exists(self.inputs["drop"]) else ""


@contextlib.contextmanager
def plant_secrets(setting: Setting) -> Iterator[PlantedSecrets]:
    token = "TKN" + secrets.token_hex(8)
    directory = tempfile.mkdtemp()  # not tmp_path: that is closed to other users
    os.chmod(directory, 0o777)  # noqa: S103 - a probe may not fail for its permissions alone
    canary = Path(directory, "canary.txt")
    canary.write_text(token)
    canary.chmod(0o666)
    descriptor = os.open(canary, os.O_RDONLY)
    os.environ["PTC_TEST_SECRET"] = token
    try:
        zygote = Zygote(setting, keep=(descriptor,))
        try:
            yield PlantedSecrets(token, directory, zygote)
        finally:
            zygote.close()
    finally:
        os.environ.pop("PTC_TEST_SECRET", None)
        os.close(descriptor)
        shutil.rmtree(directory)


OUT_OF_MEMORY = """
def run(ctx, inputs):
    caught = 0
    for size in (10**13, 10**7, 10**5, 300):
        held = []
        try:
            while True:
                held.append(bytearray(size))
        except MemoryError:
            caught += 1
        del held
    return [caught, len(bytearray(10**7))]
"""
