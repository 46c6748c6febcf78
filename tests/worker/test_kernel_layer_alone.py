"""The kernel layer alone: escapes made for the language policy, run as plain Python in the jail.

The scripts get every builtin, every module they name and an event loop. They may hold what they
like; what they may not do is read the canary or make a file.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import os
import platform
import secrets
import socket
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ptc.worker.kernel import _seccomp

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in _seccomp.MACHINES,
    reason="the jail is for Linux on x86-64 and aarch64",
)

HERE = Path(__file__).parent
PATIENCE_S = 20.0
STOPPED = 1_000
"""Status of a worker that was stopped in a call."""
CASES: list[dict[str, Any]] = [
    json.loads(line)
    for path in sorted((HERE.parent / "programs/escapes").glob("lang_*.jsonl"))
    for line in path.read_text(encoding="utf-8").splitlines()
]

AROUND = '''
import asyncio, inspect, json

class _Loop(asyncio.BaseEventLoop):
    """A loop without descriptors, as a worker has."""
    def __init__(self):
        super().__init__()
        self._selector = self
    def select(self, timeout):
        return []
    def _process_events(self, events):
        pass
    def _write_to_self(self):
        pass

class _Ctx:
    logs = []
    def call(self, name, args=None):
        if name == "apply":
            return args["fn"](1)
        if name == "fail":
            raise RuntimeError("tool failed")
        return (args or {}).get("x")
    def echo(self, x):
        return x
    def log(self, *parts):
        self.logs.append(parts)

def _text(value):
    try:
        return json.dumps(value, default=repr)
    except Exception:
        return repr(value)

def _run(run, inputs):
    try:
        value = run(_Ctx(), inputs)
        if inspect.isawaitable(value):
            async def wait():
                return await value
            value = _Loop().run_until_complete(wait())
        return _text(value)
    except BaseException as error:
        return "raised " + type(error).__name__ + ": " + str(error)
'''


def plain(case: dict[str, Any]) -> str:
    """A case as `jail_zygote.py` runs it: a script with a `run` that gives text."""
    return (
        f"{AROUND}\nspace = dict(__name__='__main__')\n"
        f"source = {case['script']!r}\n"
        f"if {bool(case.get('source_bytes'))}: source = source.encode('latin-1')\n"
        "def run(ctx, inputs):\n"
        "    space.update(inputs=inputs, ctx=_Ctx())\n"
        "    exec(compile(source, 'script.py', 'exec', dont_inherit=True), space)\n"
        "    return _run(space.get('run', lambda ctx, inputs: space.get('result')), inputs)\n"
    )


def modules() -> list[str]:
    """List the existing modules that the scripts import: an import inside the jail is fatal."""
    names = {"asyncio", "inspect", "json"}
    for case in CASES:
        with contextlib.suppress(SyntaxError, ValueError):
            for node in ast.walk(ast.parse(case["script"])):
                if isinstance(node, ast.Import):
                    names |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    names.add(node.module or "")
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    names |= {node.value} & sys.stdlib_module_names
    return sorted(name for name in names if name.partition(".")[0] in sys.stdlib_module_names)


def exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


class Zygote:
    """Host's end of `jail_zygote.py`."""

    def __init__(self, isolation: str) -> None:
        options = {
            "isolation": isolation,
            "uid": None,
            "deny": [],
            "use_filter": True,
            "landlock_abi": None,
            "listen": True,
            "preload": [name for name in modules() if exists(name) and name not in _SIDE_EFFECTS],
        }
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(PATIENCE_S)
        with theirs:
            arguments = [str(HERE.parent.parent), str(theirs.fileno()), json.dumps(options)]
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-s", "-S", str(HERE / "jail_zygote.py"), *arguments],
                env={"PYTHONHASHSEED": "0"},
                pass_fds=(theirs.fileno(),),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        hello = json.loads(self.control.recv(65536))
        assert "refused" not in hello, hello

    def run(self, script: str, inputs: dict[str, str]) -> tuple[int, str]:
        """Run a script; return the worker's exit status and output."""
        ours, theirs = socket.socketpair()
        ours.settimeout(PATIENCE_S)
        request = {"memory_bytes": 256 << 20, "cpu_seconds": 2}
        with theirs:
            socket.send_fds(self.control, [json.dumps(request).encode()], [theirs.fileno()])
        _, (pidfd,), _, _ = socket.recv_fds(self.control, 64, 1)
        os.close(pidfd)
        text = json.dumps({"script": script, "inputs": inputs}).encode()
        said = b""
        with ours, contextlib.suppress(ConnectionResetError, BrokenPipeError):
            ours.sendall(struct.pack("=I", len(text)) + text)
            while chunk := ours.recv(1 << 20):
                said += chunk
        status, call = json.loads(self.control.recv(512))
        return STOPPED if call is not None else int(status), said[4:].decode()

    def close(self) -> None:
        self.control.close()
        self.process.kill()
        self.process.wait(PATIENCE_S)


_SIDE_EFFECTS = {"antigravity", "this", "idlelib", "turtle", "turtledemo", "tkinter"}


def run_all(isolation: str, folder: Path) -> tuple[dict[str, str], Counter[str]]:
    """The cases that got out and how; how many ended in which way."""
    zygote = Zygote(isolation)
    out, ends = {}, Counter[str]()
    try:
        for case in CASES:
            token = "TKN" + secrets.token_hex(8)
            inputs = {
                "canary": str(folder / "canary.txt"),
                "canary_ini": str(folder / "canary.ini"),
                "drop": str(folder / "drop.txt"),
                "tmpdir": str(folder),
            }
            Path(inputs["canary"]).write_text(f"canary {token}\n")
            Path(inputs["canary_ini"]).write_text(f"[s]\nk = {token}\n")
            before = set(os.listdir(folder))
            status, said = zygote.run(plain(case), inputs)
            made = set(os.listdir(folder)) - before
            if token in said:
                out[case["id"]] = said[:200]
            elif made:
                out[case["id"]] = f"made {made}"
            for name in made:
                (folder / name).unlink()
            ends["stopped" if status == STOPPED else str(status)] += 1
    finally:
        zygote.close()
    return out, ends


def test_kernel_layer_alone_keeps_escapes_from_the_canary(tmp_path: Path) -> None:
    out, ends = run_all("jail", tmp_path)
    assert out == {}
    assert ends.total() == len(CASES) > 250
    assert ends["stopped"] > 50  # they do arrive at the fence


@pytest.mark.slow
def test_same_escapes_succeed_without_the_kernel_layer(tmp_path: Path) -> None:
    # Cases that never fire would prove nothing.
    out, _ = run_all("raw", tmp_path)
    assert len(out) > 100
