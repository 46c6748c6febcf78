"""The seccomp profile allows what the jail needs, and refuses calls that nothing here makes."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import DEPLOYMENT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="seccomp is a part of Linux"),
]

PROFILE = DEPLOYMENT / "seccomp.json"
NAMESPACES = {"unshare", "mount", "umount2", "pivot_root", "sethostname", "setdomainname"}
COMMANDS = {"open_tree", "move_mount", "mount_setattr"}

ATTEMPTS = """
import ctypes, json, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
found = {}
for name, number, *args in json.loads(sys.argv[1]):
    ctypes.set_errno(0)
    answer = libc.syscall(*(ctypes.c_long(each) for each in (number, *args)))
    found[name] = 0 if answer >= 0 else ctypes.get_errno()
print(json.dumps(found))
"""
MOUNTS = """
import ctypes, json
libc = ctypes.CDLL(None, use_errno=True)
found = []
for name, *args in (
    ("mount", b"none", b"/", None, 0x44000, None),
    ("umount2", b"/proc", 2),
    ("pivot_root", b"/", b"/"),
):
    found.append(getattr(libc, name)(*args) and ctypes.get_errno())
print(json.dumps(found))
"""
EPERM, ENOSYS = 1, 38
# Name, number on x86-64, arguments. With those, each would fail with another error if it were
# allowed, or succeed.
REFUSED: list[list[Any]] = [
    ["bpf", 321, 0, 0, 0],
    ["keyctl", 250, 0, 0],
    ["add_key", 248, 0, 0, 0, 0, 0],
    ["ptrace", 101, 0, 0, 0, 0],
    ["process_vm_readv", 310, 1, 0, 0, 0, 0, 0],
    ["pidfd_getfd", 438, 0, 0, 0],
    ["perf_event_open", 298, 0, 0, -1, -1, 0],
    ["io_uring_setup", 425, 1, 0],
    ["userfaultfd", 323, 1],
    ["setns", 308, 0, 0],
    ["chroot", 161, 0],
    ["kexec_load", 246, 0, 0, 0, 0],
    ["init_module", 175, 0, 0, 0],
    ["name_to_handle_at", 303, 0, 0, 0, 0, 0],
    ["personality", 135, 0xFFFFFFFF],
    ["clone3", 435, 0, 0],
    # Namespaces of a child, and of time.
    ["clone of a namespace", 56, 0x10000000, 0],
    ["unshare of time", 272, 0x80],
    # MS_BIND, MS_MOVE: the flags are an argument.
    ["bind mount", 165, 0, 0, 0, 0x1000, 0],
    ["moved mount", 165, 0, 0, 0, 0x2000, 0],
    # AF_ALG, AF_VSOCK, AF_PACKET, and netlink of another subsystem than routes.
    ["socket of the crypto API", 41, 38, 5, 0],
    ["socket of the hypervisor", 41, 40, 1, 0],
    ["socket of packets", 41, 17, 3, 0],
    ["socket of netfilter", 41, 16, 3, 12],
]


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{folder}:{os.environ['PATH']}"
    environment = {"HOME": str(folder), "PATH": path, "LANG": "C.UTF-8"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=90
    )


def ptc(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ptc", *arguments]


def layers(output: str) -> dict[str, dict[str, bool]]:
    found = json.loads(output)["levels"]
    return {
        level: {layer["name"]: layer["on"] for layer in of["layers"]} for level, of in found.items()
    }


def profile_without(names: set[str], folder: Path) -> Path:
    profile = json.loads(PROFILE.read_text())
    for rule in profile["syscalls"]:
        rule["names"] = [name for name in rule["names"] if name not in names]
    poorer = folder / "profile.json"
    poorer.write_text(json.dumps(profile))
    return poorer


def test_doctor_is_as_strict_under_the_profile_as_without_it(
    under_profile: list[str], in_container: list[str], folder: Path
) -> None:
    free = run([*in_container, *ptc("doctor", "--json")], folder)
    confined = run([*under_profile, str(PROFILE), *ptc("doctor", "--json")], folder)
    assert free.returncode == 0, free.stderr
    assert confined.returncode == 0, confined.stderr
    assert layers(confined.stdout) == layers(free.stdout)
    assert layers(confined.stdout)["jail"]["seccomp"]
    assert layers(confined.stdout)["jail"]["landlock"]


def test_profile_without_namespaces_still_passes_the_doctor(
    under_profile: list[str], folder: Path
) -> None:
    """As under the default profiles of Docker and containerd, which refuse new namespaces."""
    poorer = profile_without(NAMESPACES | COMMANDS, folder)
    found = run([*under_profile, str(poorer), *ptc("doctor", "--json")], folder)
    on = layers(found.stdout)["jail"]
    if not on["landlock"] or found.returncode != 0:
        pytest.skip("this kernel has Landlock before ABI 4, which needs namespaces beside it")
    assert on["seccomp"]
    assert not on["namespace_user"]
    assert not on["empty_root"]


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("unshare", "namespace_user"),
        ("mount", "empty_root"),
        ("pivot_root", "empty_root"),
        ("umount2", "empty_root"),
        ("seccomp", "seccomp"),
        ("landlock_restrict_self", "landlock"),
    ],
)
def test_layer_of_the_jail_needs_its_call(
    name: str, layer: str, under_profile: list[str], folder: Path
) -> None:
    command = ptc("doctor", "--json", "--isolation", "process")
    found = run([*under_profile, str(profile_without({name}, folder)), *command], folder)
    assert layers(found.stdout)["process"][layer] is False


def test_script_runs_with_both_sandbox_layers_under_the_profile(
    under_profile: list[str], folder: Path
) -> None:
    (folder / "root").mkdir(mode=0o777)
    (folder / "root").chmod(0o777)
    # access(2) ignores CAP_DAC_READ_SEARCH, by which the user reads an environment of root.
    rg = shutil.which("rg", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if rg is None:
        pytest.skip("pip install ripgrep")
    shutil.copy(rg, folder / "rg")
    script = folder / "script.py"
    script.write_text(
        "async def run(ctx, inputs):\n"
        "    await ctx.write(path='made.txt', content='yes')\n"
        "    text = 'cat made.txt; (echo no >/etc/x); true'\n"
        "    shell = await ctx.bash(cmd='sh', args=['-c', text])\n"
        "    return [(await ctx.grep(pattern='yes'))[0]['path'], shell['stdout']]\n"
    )
    options = ("--allow", "write", "--allow", "bash", "--allow", "grep", "--journal", ":memory:")
    command = ptc("run", str(script), "--root", str(folder / "root"), *options)
    found = run([*under_profile, str(PROFILE), *command], folder)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == ["made.txt", "yes"]
    assert not Path("/etc/x").exists()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")
def test_calls_that_nothing_needs_are_refused_by_the_profile(
    under_profile: list[str], folder: Path
) -> None:
    attempt = [sys.executable, "-c", ATTEMPTS, json.dumps(REFUSED)]
    found = json.loads(run([*under_profile, str(PROFILE), *attempt], folder).stdout)
    assert found == {name: ENOSYS for name, *_ in REFUSED}


def test_mounts_of_the_container_are_refused_by_the_kernel(
    under_profile: list[str], folder: Path
) -> None:
    """The profile allows mounts, for the jail's namespaces; elsewhere they need a capability."""
    command = [*under_profile, str(PROFILE), sys.executable, "-c", MOUNTS]
    assert json.loads(run(command, folder).stdout) == [EPERM, EPERM, EPERM]
