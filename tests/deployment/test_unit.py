"""The jail under the settings of the systemd unit, as far as they can be had without systemd."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import REPOSITORY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="systemd is a part of Linux systems"),
]

# ProtectSystem=strict with one writable folder, ProtectKernelLogs= and PrivateDevices=.
MOUNTS = """
set -e
mount --bind "$1" "$1"
mount --bind /dev/null /proc/kmsg
mount -t tmpfs -o mode=755 tmpfs /mnt
for each in null zero full random urandom tty; do
    touch /mnt/$each
    mount --bind /dev/$each /mnt/$each
done
mkdir /mnt/shm
mount -t tmpfs -o mode=1777 tmpfs /mnt/shm
mount --rbind /mnt /dev
mount -o remount,bind,ro /
shift
exec "$@"
"""
SCRIPT = """
async def run(ctx, inputs):
    shell = await ctx.bash(cmd="sh", args=["-c", "echo yes >made.txt; cat made.txt"])
    return shell["stdout"]
"""


def unit() -> str:
    page = (REPOSITORY / "docs" / "operations.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```ini\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return str(text)


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    passed = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    environment = {**passed, "HOME": str(folder), "LANG": "C.UTF-8"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=90
    )


@pytest.fixture
def under_unit(in_container: list[str], folder: Path) -> list[str]:
    """Start of a command with the mounts, the user and the filter of the unit."""
    if os.getuid() != 0:
        pytest.skip("only root can make the mounts of a unit")
    pytest.importorskip("pyseccomp", reason="pip install pyseccomp, which needs libseccomp")
    script = Path(__file__).with_name("under_unit.py")
    return [
        *("unshare", "--mount", "--propagation", "private"),
        *("sh", "-c", MOUNTS, "unit", str(folder)),
        *in_container,
        *(sys.executable, str(script)),
    ]


def test_jail_has_every_layer_under_the_settings_of_the_unit(
    under_unit: list[str], in_container: list[str], folder: Path
) -> None:
    doctor = [sys.executable, "-m", "ptc", "doctor", "--json"]
    layers = []
    for start in (in_container, under_unit):
        done = run([*start, *doctor], folder)
        assert done.returncode == 0, done.stderr
        levels = json.loads(done.stdout)["levels"]
        layers.append({each["name"]: each["on"] for each in levels["jail"]["layers"]})
    assert layers[0] == layers[1]


def test_script_runs_a_command_under_the_settings_of_the_unit(
    under_unit: list[str], folder: Path
) -> None:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    (folder / "root").mkdir()
    shutil.chown(folder / "root", folder.stat().st_uid, folder.stat().st_gid)
    options = ("--root", str(folder / "root"), "--allow", "bash", "--journal", ":memory:")
    done = run([*under_unit, sys.executable, "-m", "ptc", "run", str(script), *options], folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == "yes\n"
    refused = run([*under_unit, "sh", "-c", "echo no >/etc/x"], folder)
    assert "Read-only file system" in refused.stderr
    family = "import socket; socket.socket(socket.AF_PACKET)"
    refused = run([*under_unit, sys.executable, "-c", family], folder)
    assert "Address family not supported" in refused.stderr


def test_systemd_rates_the_exposure_of_the_unit_as_acceptable(tmp_path: Path) -> None:
    command = shutil.which("systemd-analyze")
    if command is None:
        pytest.skip("systemd-analyze is not installed")
    path = tmp_path / "ptc-worker.service"
    path.write_text(unit())
    done = subprocess.run(
        [command, "security", "--offline=yes", "--threshold=50", "--no-pager", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze cannot rate a file")
    assert done.returncode == 0, done.stdout[-300:] + done.stderr
