"""Execute programs in plain Python or in a sealed runtime, each in a fork of its own.

usage: python tests/fuzz/plain_child.py plain|ptc

Reads lines of JSON from standard input, ``[number, source]``, and answers each with
``[number, {"end": ..., "out": ..., "err": ...}]``. A fork that prints nothing for a while is
killed, and what it has printed counts.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))
_FILE = "script.py"
_SECONDS = 6
_BYTES = 2 << 30
_MOST = 1 << 20

Outcome = dict[str, str]
#: Passes on text that a program has printed: the stream, ``out`` or ``err``, and the text.
Tell = Callable[[str, str], None]
Run = Callable[[str, Tell], str]


def _prepare_plain() -> Run:
    """Return a function that executes a program as `python script.py` does."""
    import io
    import linecache
    import mimetypes
    import traceback

    from ptc._policy_modules import MODULES

    for name in MODULES:
        __import__(name)
    mimetypes.knownfiles.clear()  # documented: the types of the system
    # Documented: tracebacks in ptc show the script's frames only, and no suggestions.
    kind: Any = traceback.StackSummary
    extract = kind._extract_from_extended_frame_gen.__func__
    kind._extract_from_extended_frame_gen = classmethod(
        lambda cls, frames, **options: extract(
            cls, (each for each in frames if each[0].f_code.co_filename == _FILE), **options
        )
    )
    traceback.__dict__["_compute_suggestion_error"] = lambda *_: None

    class Output(io.StringIO):
        def __init__(self, name: str, tell: Tell) -> None:
            super().__init__()
            self._parts = name, tell
            self.name = f"<std{name}>"

        def __repr__(self) -> str:
            return f"<_io.TextIOWrapper name='{self.name}' mode='w' encoding='utf-8'>"

        def write(self, text: str, /) -> int:
            count = super().write(text)
            name, tell = self._parts
            tell(name, text)
            return count

    def run(source: str, tell: Tell) -> str:
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        linecache.cache[_FILE] = (len(source), None, source.splitlines(True), _FILE)
        sys.stdout, sys.stderr = Output("out", tell), Output("err", tell)
        try:
            code = compile(source, _FILE, "exec", dont_inherit=True)
            exec(code, main.__dict__)  # noqa: S102  # what this program is for
            end = "done"
        except BaseException as error:  # noqa: BLE001  # the outcome of the program
            end = f"failed {type(error).__name__}: {error}"
        finally:
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        return end

    return run


def _prepare_ptc() -> Run:  # noqa: C901  # counts the class inside
    """Return a function that executes a program in a sealed runtime, without the kernel layer."""
    from ptc._wire._protocol import Kind, encode
    from ptc.worker._loop import forbid_other_loops
    from ptc.worker._wire import Wire
    from tests.fuzz.reach import Done, Host, prepare

    class Recorder(Host):
        """Answers timers, passes on what the script prints, and keeps how it ends."""

        def __init__(self, source: str, tell: Tell) -> None:
            super().__init__(source)
            self._tell = tell
            self.end = "no last frame"
            self._deadline = 0.0

        def recv(self, size: int, flags: int = 0, /) -> bytes:
            if self._frames:
                return self._frames.pop()
            return encode(Kind.TICK, json.dumps([self._deadline]).encode())

        def sendall(self, data: bytes, /) -> None:
            while data:
                end = 4 + int.from_bytes(data[:4])
                kind, body = data[4], data[5:end]
                if kind == Kind.PRINT:
                    text, output = json.loads(body)
                    self._tell("err" if output else "out", text)
                elif kind == Kind.TIMER:
                    (self._deadline,) = json.loads(body)
                elif kind == Kind.DONE:
                    self.end = "done"
                elif kind == Kind.REJECTED:
                    rows = json.loads(body)
                    self.end = f"rejected {rows[0]['code']}: {rows[0]['message']}"
                elif kind == Kind.FAILED:
                    row = json.loads(body)
                    self.end = f"failed {row['type']}: {row['message']}"
                data = data[end:]

    runtime = prepare()

    def run(source: str, tell: Tell) -> str:
        host = Recorder(source, tell)
        forbid_other_loops()  # in the fork: asyncio resets the policy of a fork
        runtime._kits = []
        try:
            runtime.serve(Wire(host))
        except Done:
            host.end += " (out of answers)"
        return host.end

    return run


def _in_fork(run: Run, source: str) -> Outcome:
    """Execute one program, so that it leaves nothing behind for the next."""
    folder = tempfile.mkdtemp()  # a sealed process can create no TemporaryDirectory
    try:
        return _fork(run, source, folder)
    finally:
        shutil.rmtree(folder)


def _fork(run: Run, source: str, folder: str) -> Outcome:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.chdir(folder)  # plain Python writes files
        _answer(run, source, write)
    os.close(write)
    received = b""
    while select.select([read], [], [], _SECONDS)[0] and len(received) < _MOST:
        chunk = os.read(read, 1 << 16)
        if not chunk:
            break
        received += chunk
    else:
        os.kill(child, signal.SIGKILL)
    os.close(read)
    _, status = os.waitpid(child, 0)
    answer = {"end": f"ended with status {status}", "out": "", "err": ""}
    for line in received.splitlines(keepends=True):
        if line.endswith(b"\n"):
            name, text = json.loads(line)
            answer[name] = text if name == "end" else answer[name] + text
    return answer


def _answer(run: Run, source: str, write: int) -> NoReturn:
    def tell(name: str, text: str) -> None:
        data = json.dumps([name, text]).encode() + b"\n"
        while data:
            data = data[os.write(write, data) :]

    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
    devnull = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(devnull, stream)
    try:
        tell("end", run(source, tell))
    except BaseException as error:  # noqa: BLE001  # of the harness
        tell("end", f"harness {error!r}")
    os._exit(0)


def main() -> None:
    """Serve programs until standard input ends."""
    prepare: dict[str, Callable[[], Run]] = {
        "plain": _prepare_plain,
        "ptc": _prepare_ptc,
    }
    run = prepare[sys.argv[1]]()
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        number, source = json.loads(line)
        sys.stdout.write(json.dumps([number, _in_fork(run, source)]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
