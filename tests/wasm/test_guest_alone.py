"""A guest without a language policy: plain Python that may do what it likes.

The programs get every builtin and every module, and the raw interface to the host. They may not
read the canary, make a file, or stop the host.
"""

from __future__ import annotations

import ast
import json
import resource
import secrets
import textwrap
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ptc._workers._worker import Exit
from ptc._workers.wasm._guest import Guest
from ptc._workers.wasm._module import load_interpreter
from ptc._workers.wasm._pipe import Pipe
from ptc._workers.wasm._snapshot import (
    Snapshot,
    SnapshotBuilder,
    read_snapshot,
    write_snapshot,
)

ESCAPES = Path(__file__).parent.parent / "programs" / "escapes"
CASES: list[dict[str, Any]] = [
    json.loads(line)
    for path in sorted(ESCAPES.glob("*.jsonl"))
    for line in path.read_text(encoding="utf-8").splitlines()
]
MEMORY = 64 << 20
PATIENCE_S, SHORT_S = 0.5, 0.1
"""Time for a case; those that compute for ever are stopped then."""

BOOT = """
import importlib, json, posix, _host
for name in PACKAGES:
    try:
        importlib.import_module(name)
    except BaseException:
        pass

class _Ctx:
    logs = []
    def call(self, name, args=None):
        if name == "fail":
            raise RuntimeError("failed", object())
        return {"rows": [1]}
    def __getattr__(self, name):
        return lambda *a, **k: {"rows": [1]}

def _ptc_serve():
    import sys
    data = b""
    while not data.endswith(b"\\n"):
        data += posix.read(0, 65536)
    case = json.loads(data)
    answer = {}
    try:
        space = {"__name__": "script"}
        exec(compile(case["script"], "script.py", "exec"), space)
        value = space["run"](_Ctx(), case["inputs"])
        if hasattr(value, "send"):
            try:
                value.send(None)
            except StopIteration as stop:
                value = stop.value
        answer["result"] = str(value)
    except BaseException as error:
        answer["error"] = repr(error)[:2000]
    posix.write(1, json.dumps(answer).encode() + b"\\n")
"""


HOSTILE = (
    """
    def run(c, i):
        x = []
        while True:
            x.append(bytearray(1 << 20))
    """,
    """
    import posix
    def run(c, i):
        while True:
            posix.write(1, b"x" * 65536)
    """,
    """
    import posix
    def run(c, i):
        posix.write(1, b"\\xff" * 1000)
        posix._exit(3)
    """,
    """
    import sys
    def run(c, i):
        def f():
            f()
        sys.setrecursionlimit(10**9)
        f()
    """,
    """
    import _host
    def run(c, i):
        n = 0
        for _ in range(1000):
            try:
                _host.call(b"i" + b"x" * 5000)
            except OSError:
                n += 1
        return n
    """,
    """
    import posix
    def run(c, i):
        n = 0
        for f in range(64):
            for call in (posix.close, posix.fsync, posix.isatty):
                try:
                    call(f)
                except OSError:
                    n += 1
        return n
    """,
    """
    def run(c, i):
        x = "x"
        for _ in range(9):
            x = [x] * 9
        return len(repr(x))
    """,
    """
    import sys
    def run(c, i):
        sys.stderr.write("y" * 10**6)
        return 1
    """,
)


def modules_of(script: str) -> set[str]:
    names: set[str] = set()
    try:
        tree = ast.parse(script)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return names
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """A snapshot of the interpreter with every module that the programs name, and no worker."""
    interpreter = load_interpreter()
    names = sorted(
        {name for case in CASES for name in modules_of(case["script"])} - {"", "antigravity"}
    )
    file = tmp_path_factory.mktemp("plain") / "plain.snapshot"
    write_snapshot(file, SnapshotBuilder(interpreter, names, BOOT).run())
    made = read_snapshot(interpreter, file)
    assert made is not None
    return made


def run_case(
    snapshot: Snapshot, case: dict[str, Any], patience_s: float = PATIENCE_S
) -> tuple[dict[str, Any], Exit, int]:
    """Execute a case; return its answer, how the guest ended, and the bytes that it sent."""
    ended, found, received = threading.Event(), bytearray(), 0
    exits: list[Exit] = []

    def on_end(how: Exit) -> None:
        exits.append(how)
        ended.set()

    def call_now(function: Callable[[], object]) -> None:
        function()

    pipe = Pipe(call_now)

    def read() -> None:
        nonlocal received
        data = pipe.recv(65536)
        received += len(data)
        if len(found) < 1 << 20:
            found.extend(data)
        if not data:
            pipe._on_readable = None

    pipe.on_readable(read)
    guest = Guest(snapshot, pipe, MEMORY, on_end)
    guest.start()
    pipe.send(json.dumps({"script": case["script"], "inputs": case["inputs"]}).encode() + b"\n")
    if not ended.wait(patience_s):
        guest.stop()
    assert ended.wait(5), f"the guest was not stopped: {case['id']}"
    line = bytes(found).rpartition(b"\n")[0].rpartition(b"\n")[2]
    try:
        answer = json.loads(line)
    except ValueError:
        answer = {}
    return (answer if isinstance(answer, dict) else {}), exits[0], received


def prepared(case: dict[str, Any], folder: Path, token: str) -> dict[str, Any]:
    """Fill the places of the canary and of the folder for files into a case."""
    canary = folder / "canary.txt"
    canary.write_text(token)
    drop = folder / "drop"
    drop.mkdir(exist_ok=True)
    text = json.dumps(case)
    for name, value in (("CANARY", canary), ("DROP", drop), ("TMPDIR", drop)):
        text = text.replace(f"@{name}@", str(value))
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.fixture
def rss() -> Iterator[None]:
    """Fail if the host grew by more than some guests."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 600 << 10, f"the host grew by {grown >> 10} MiB"


@pytest.mark.timeout(600)
def test_no_program_reaches_the_host_without_a_language_policy(
    plain: Snapshot, tmp_path: Path, rss: None
) -> None:
    token = "TKN" + secrets.token_hex(8)
    escaped, ends = [], Counter[str]()
    for case in CASES:
        answer, how, _ = run_case(plain, prepared(case, tmp_path, token))
        told = json.dumps(answer) + how.trap
        ends["answered" if answer else how.trap.partition(":")[0]] += 1
        powers = case["kind"] == "os" and answer.get("result", "").startswith("ESCAPED:")
        if token in told or powers or list((tmp_path / "drop").iterdir()):
            escaped.append((case["id"], told[:200]))
    assert escaped == []
    assert ends["answered"] > 500


@pytest.mark.timeout(900)
def test_process_survives_a_thousand_hostile_runs(plain: Snapshot, rss: None) -> None:
    hostile = [textwrap.dedent(each) for each in HOSTILE]
    ends = Counter[str]()
    for number in range(1_000):
        case = {"id": number, "script": hostile[number % len(hostile)], "inputs": {}}
        answer, how, _ = run_case(plain, case, SHORT_S)
        ends[json.dumps(answer)[:40] if answer else how.trap[:40] or str(how.status)] += 1
    assert sum(ends.values()) == 1_000
    answer, _, _ = run_case(plain, {"id": 0, "script": "def run(c, i): return 1 + 1", "inputs": {}})
    assert answer == {"result": "2"}


def test_guest_has_no_file_no_clock_and_no_entropy(plain: Snapshot) -> None:
    script = (
        "import posix, time\n"
        "def run(c, i):\n"
        "    found = []\n"
        "    for call in (lambda: posix.open('/', 0), lambda: posix.urandom(4), time.time,\n"
        "                 lambda: posix.listdir('/usr/local/lib'), lambda: time.sleep(0.01),\n"
        "                 lambda: posix.read(3, 4), lambda: posix.stat('.')):\n"
        "        try: call(); found.append('worked')\n"
        "        except (OSError, NotImplementedError) as error: found.append('refused')\n"
        "    return found\n"
    )
    answer, _, _ = run_case(plain, {"id": "x", "script": script, "inputs": {}})
    assert "worked" not in answer["result"], answer


def test_addresses_outside_of_memory_are_refused() -> None:
    from ptc._workers.wasm._wasmtime import GuestMemory, TrapError

    memory = object.__new__(GuestMemory)
    cls = type("Sized", (GuestMemory,), {"size": 1 << 20})
    memory = object.__new__(cls)
    object.__setattr__(memory, "_base", 0)
    object.__setattr__(memory, "_known", 1 << 16)  # it has grown since
    assert memory.address((1 << 20) - 1, 1) == (1 << 20) - 1
    for start, size in ((1 << 20, 1), (-1, 1), (0, (1 << 20) + 1), (0, -1), (2**32 - 1, 8)):
        with pytest.raises(TrapError):
            memory.address(start, size)
    with pytest.raises(TrapError):
        memory.vectors(0, 2_000)
