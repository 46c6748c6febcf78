"""Commands with the network off reach no server, no file and no process of the host.

Real programs try every escape, as the user of the tests (root or another), as root without
capabilities, as nobody, and in a container that allows no new namespaces. The tests check the
target: listening servers of every kind, a folder outside, a process.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from .command_escapes import NETWORK, PROCESSES, WRITES

MODES = ["plain", "powerless", "container", "nobody"]
PLAIN_AND_SLOW = ["plain", *(pytest.param(mode, marks=pytest.mark.slow) for mode in MODES[1:])]
"""For what takes seconds in each mode."""
_CHILD = Path(__file__).with_name("command_child.py")
_SYSTEM_PYTHON = "/usr/bin/python3"


class Servers:
    """Servers of each kind on the host, which record the data they receive."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.hits: list[str] = []
        self._selector = selectors.DefaultSelector()
        self._stop, stopped = socket.socketpair()
        stack.enter_context(self._stop)
        stack.enter_context(stopped)
        self._selector.register(stopped, selectors.EVENT_READ, None)
        self.names = {
            "PORT": str(self._serve(stack, "tcp", socket.AF_INET, "127.0.0.1")),
            "UDP": str(self._serve(stack, "udp", socket.AF_INET, "127.0.0.1", stream=False)),
            "PORT6": str(self._serve(stack, "tcp6", socket.AF_INET6, "::1")),
        }
        self.names["UNIX"] = str(folder / "stream.sock")
        self.names["UNIXDGRAM"] = str(folder / "datagram.sock")
        self.names["ABSTRACT"] = f"ptc-test-{os.getpid()}-{id(self)}"
        self._serve(stack, "unix", socket.AF_UNIX, self.names["UNIX"])
        self._serve(stack, "unixdgram", socket.AF_UNIX, self.names["UNIXDGRAM"], stream=False)
        self._serve(stack, "abstract", socket.AF_UNIX, "\0" + self.names["ABSTRACT"])
        for name in ("UNIX", "UNIXDGRAM"):
            Path(self.names[name]).chmod(0o777)
        thread = threading.Thread(target=self._watch)
        thread.start()
        stack.callback(thread.join)
        stack.callback(self._stop.send, b"x")

    def wait_for(self, hits: int) -> None:
        """Wait until this many servers have received data."""
        deadline = time.monotonic() + 20
        while len(self.hits) < hits:
            assert time.monotonic() < deadline, self.hits
            time.sleep(0.005)

    def _serve(
        self, stack: ExitStack, kind: str, family: int, host: str, *, stream: bool = True
    ) -> int:
        server = socket.socket(family, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM)
        stack.enter_context(server)
        server.bind(host if family == socket.AF_UNIX else (host, 0))
        if stream:
            server.listen(64)
        self._selector.register(server, selectors.EVENT_READ, (kind, stream))
        return 0 if family == socket.AF_UNIX else int(server.getsockname()[1])

    def _watch(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return
                kind, stream = key.data
                self.hits.append(kind)
                server = key.fileobj
                assert isinstance(server, socket.socket)
                if stream:
                    with server.accept()[0] as client:
                        client.settimeout(2)
                        with contextlib.suppress(OSError):
                            client.recv(100)
                else:
                    server.recv(100)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may enter, with ``root`` and ``outside``."""
    folder = Path(tempfile.mkdtemp(prefix="ptc-escapes-")).resolve()
    folder.chmod(0o755)
    for name in ("root", "outside"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    (folder / "outside" / "empty").mkdir()
    (folder / "outside" / "file").write_text("SECRET")
    yield folder
    shutil.rmtree(folder)


def _run(mode: str, root: Path, commands: list[dict[str, Any]], env: dict[str, str]) -> Any:
    python = sys.executable
    if mode == "nobody":
        if os.geteuid() != 0 or not _nobody_can_run():
            pytest.skip("needs root, and a system Python and sources that nobody may read")
        python = _SYSTEM_PYTHON
        for path in (root, root.parent / "outside", *(root.parent / "outside").iterdir()):
            os.chown(path, 65534, 65534)
    if mode == "powerless" and os.geteuid() != 0:
        pytest.skip("who is not root has no powers anyway: this is the plain mode")
    for row in commands:
        row["argv"] = [python if word == sys.executable else word for word in row["argv"]]
    # The environment of this process has a canary that no command may read.
    done = subprocess.run(
        [python, "-B", str(_CHILD), mode],
        input=json.dumps({"root": str(root), "commands": commands}),
        env={"PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _nobody_can_run() -> bool:
    check = [
        _SYSTEM_PYTHON,
        "-c",
        f"open({str(_CHILD)!r}); import sys; sys.exit(sys.version_info < (3, 11))",
    ]
    try:
        return subprocess.run(check, user=65534, capture_output=True, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _substitute(argv: list[str], names: dict[str, str]) -> list[str]:
    for name, value in names.items():
        argv = [word.replace(f"@{name}@", value) for word in argv]
    return argv


@pytest.mark.parametrize("mode", PLAIN_AND_SLOW)
def test_known_network_bypasses_reach_no_host_server(mode: str, place: Path) -> None:
    root = place / "root"
    with ExitStack() as stack:
        servers = Servers(root, stack)
        names = {**servers.names, "PID": str(os.getpid()), "ROOT": str(root)}
        commands = [{"argv": _substitute(argv, names)} for argv in NETWORK.values()]
        rows = _run(mode, root, commands, {})
        # The servers are reachable: an unconfined command connects to them.
        assert servers.hits == []
        with socket.create_connection(("127.0.0.1", int(servers.names["PORT"]))) as client:
            client.send(b"x")
            assert client.recv(1) == b""
        assert servers.hits == ["tcp"]
    outcomes = dict(zip(NETWORK, rows, strict=True))
    assert {row["how"] for row in rows} <= {"exit", "signal", "missing"}, outcomes
    assert outcomes["io-uring"]["number"] == 0, outcomes["io-uring"]
    assert outcomes["ptrace"]["number"] == 0 or os.uname().machine != "x86_64"
    # A program that does not run proves nothing; at least these are always installed.
    for name in ("python-tcp", "dev-tcp", "unix-path", "unix-abstract"):
        assert outcomes[name]["how"] == "exit"
        assert outcomes[name]["number"] != 0


def test_network_bypasses_succeed_without_confinement(place: Path) -> None:
    root = place / "root"
    with ExitStack() as stack:
        servers = Servers(root, stack)
        names = {**servers.names, "PID": str(os.getpid()), "ROOT": str(root)}
        for name in ("python-tcp", "dev-tcp", "unix-path", "unix-abstract", "python-udp"):
            subprocess.run(_substitute(NETWORK[name], names), check=True, cwd=root, timeout=20)
        servers.wait_for(5)
        assert sorted(servers.hits) == ["abstract", "tcp", "tcp", "udp", "unix"]


@pytest.mark.parametrize("mode", ["plain", "container"])
def test_enabled_network_reaches_servers_but_not_unix_sockets(mode: str, place: Path) -> None:
    root = place / "root"
    with ExitStack() as stack:
        servers = Servers(root, stack)
        chosen = ("python-tcp", "python-udp", "unix-path", "unix-abstract", "unix-datagram")
        commands = [
            {"argv": _substitute(NETWORK[name], servers.names), "network": True} for name in chosen
        ]
        rows = _run(mode, root, commands, {})
        assert rows[0]["number"] == rows[1]["number"] == 0, rows
        servers.wait_for(2)
        assert sorted(servers.hits) == ["tcp", "udp"]


def _picture(folder: Path) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for path in sorted([folder, *folder.rglob("*")]):
        info = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        attributes = os.listxattr(path, follow_symlinks=False)
        rows.append(
            (str(path), info.st_mode, info.st_uid, info.st_gid, info.st_mtime_ns, info.st_ino,
             info.st_nlink, content, tuple(attributes))
        )  # fmt: skip
    return rows


@pytest.mark.parametrize("openable", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", PLAIN_AND_SLOW)
def test_known_bypasses_write_nothing_outside_the_root(
    mode: str, openable: bool, place: Path
) -> None:
    root, outside = place / "root", place / "outside"
    (root / "is_root").touch()
    program = place / "outside" / "program"
    program.write_text("")
    names = {"OUTSIDE": str(outside), "PID": str(os.getpid()), "PYTHON": str(program)}
    readable = [str(outside)] if openable else []
    commands = [
        {"argv": _substitute(argv, names), "readable": readable} for argv in WRITES.values()
    ]
    if mode == "nobody" and os.geteuid() == 0:
        for path in (outside, *outside.iterdir()):
            os.chown(path, 65534, 65534)
    before = _picture(outside)
    rows = _run(mode, root, commands, {})
    assert _picture(outside) == before, dict(zip(WRITES, rows, strict=True))
    assert {row["how"] for row in rows} <= {"exit", "signal", "missing"}
    # ... and inside the root every change succeeds.
    inside = [
        "sh",
        "-c",
        "mkdir d && echo x > d/f && mv d e && cat e/f && rm -r e && echo $HOME > h",
    ]
    (row,) = _run(mode, root, [{"argv": inside}], {})
    assert (row["how"], row["number"], row["stdout"]) == ("exit", 0, "x\n"), row


@pytest.mark.parametrize("mode", MODES)
def test_command_cannot_affect_or_inspect_host_processes(mode: str, place: Path) -> None:
    victim_env = {"CANARY": "SECRET-of-the-host"}
    user = 65534 if mode == "nobody" and os.geteuid() == 0 else None
    victim = subprocess.Popen(
        ["sleep", "1000"], env={**os.environ, **victim_env}, user=user, cwd="/"
    )
    try:
        names = {"PID": str(victim.pid)}
        commands = [{"argv": _substitute(argv, names)} for argv in PROCESSES.values()]
        rows = _run(mode, place / "root", commands, victim_env)
        assert victim.poll() is None
        limits = Path(f"/proc/{victim.pid}/limits").read_text()
        assert "cpu time                  1 " not in limits.replace("Max ", "")
        said = "".join(row["stdout"] + row["stderr"] for row in rows)
        assert "SECRET-of-the-host" not in said
    finally:
        victim.kill()
        victim.wait()


@pytest.mark.parametrize("mode", MODES)
def test_files_outside_the_root_cannot_be_read(mode: str, place: Path) -> None:
    tries = [
        ["cat", f"{place}/outside/file"],
        ["cat", f"/proc/self/root{place}/outside/file"],
        ["cat", f"/proc/1/root{place}/outside/file"],
        ["ls", f"{place}/outside"],
        ["cat", "/etc/shadow"],
        ["ls", "/root", "/home"],
        ["sh", "-c", f"ln -s {place}/outside link && cat link/file"],
        ["sh", "-c", f"ln {place}/outside/file hard && cat hard"],
        ["sh", "-c", f"cp -r {place}/outside copy; cat copy/file"],
        ["sh", "-c", f". {place}/outside/file"],
    ]
    rows = _run(mode, place / "root", [{"argv": argv} for argv in tries], {})
    for argv, row in zip(tries, rows, strict=True):
        assert row["number"] != 0, argv
        assert "SECRET" not in row["stdout"] + row["stderr"], argv


def test_command_without_landlock_is_refused_with_a_suggested_fix(place: Path) -> None:
    command = {"argv": ["touch", "made"]}
    (row,) = _run("no-landlock", place / "root", [dict(command)], {})
    assert row["how"] == "refused"
    assert "landlock" in row["text"]
    assert "CONFIG_SECURITY_LANDLOCK" in row["text"]
    assert not (place / "root" / "made").exists()
    (row,) = _run("no-landlock", place / "root", [{**command, "required": False}], {})
    assert (row["how"], row["number"]) == ("exit", 0)


@pytest.mark.parametrize("mode", MODES)
def test_no_process_of_a_command_survives_it(mode: str, place: Path) -> None:
    marker = place / "root" / "marker"
    fork_away = (
        "import os, time\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        f"open({str(place / 'root' / 'alive')!r}, 'w').write('x')\n"
        f"time.sleep(1); open({str(marker)!r}, 'w').write('x')\n"
    )
    sleep = f"sleep 1000.{os.getpid()}"
    wait = f"while [ ! -e {place}/root/alive ]; do :; done"
    commands: list[dict[str, Any]] = [
        {"argv": ["sh", "-c", f"setsid {sys.executable} -c \"$CODE\" & {wait}"],
         "env": {"CODE": fork_away}},
        {"argv": ["sh", "-c", f"nohup {sleep} > /dev/null 2>&1 & exit 3"]},
        {"argv": ["sh", "-c", f"trap '' TERM HUP INT; setsid {sleep} & sleep 1000"],
         "timeout_ms": 300},
    ]  # fmt: skip
    if mode == "nobody":
        commands[0]["argv"][2] = commands[0]["argv"][2].replace(sys.executable, _SYSTEM_PYTHON)
    rows = _run(mode, place / "root", commands, {})
    assert [row["how"] for row in rows] == ["exit", "exit", "timeout"], rows
    assert (place / "root" / "alive").exists()
    needles = (str(marker).encode(), f"1000.{os.getpid()}".encode())
    left = [line for line in _command_lines() if any(needle in line for needle in needles)]
    assert left == []
    assert not marker.exists()


def _command_lines() -> list[bytes]:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
        except OSError:
            continue
    own = f"/proc/{os.getpid()}/cmdline"
    return [line for line in lines if line and line != Path(own).read_bytes()]
