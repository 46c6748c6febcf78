"""Runs programs in plain CPython, one fork each: what a script should do, by the real thing.

It knows nothing of the sandbox it is compared with. A program runs in an empty folder, without a
network where the kernel allows that, with an alarm after three seconds.

usage: plain_child.py PROGRAMS.json OUTCOMES.jsonl; each program is ``{"id", "source"}``.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
from typing import Any, NoReturn

SECONDS = 3
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000


class Late(BaseException):
    """Raised by the alarm; not an Exception, so that a program does not catch it by habit."""


def late(*_: object) -> NoReturn:
    raise Late


def outcome(source: str) -> dict[str, Any]:
    output = io.StringIO()
    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
            code = compile(source, "script.py", "exec", dont_inherit=True)
            exec(code, {"__name__": "__main__"})  # noqa: S102
    except BaseException as error:  # noqa: BLE001  # whatever the program raised is its outcome
        return {"error": type(error).__name__, "output": output.getvalue()}
    finally:
        signal.alarm(0)
    return {"error": None, "output": output.getvalue()}


def confine() -> None:
    """Deny plain CPython the network, unlimited memory and large files."""
    # Best effort: a kernel without user namespaces runs the programs with its network.
    ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def in_fork(source: str) -> dict[str, Any]:
    folder = tempfile.mkdtemp(prefix="ptc-plain-")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.chdir(folder)
        confine()
        try:
            text = json.dumps(outcome(source))
            with os.fdopen(write, "w") as pipe:
                pipe.write(text)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        received = pipe.read()
    os.waitpid(child, 0)
    shutil.rmtree(folder)
    answer: dict[str, Any] = json.loads(received) if received else {"error": "died", "output": ""}
    return answer


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        programs = json.load(file)
    os.close(0)
    os.open(os.devnull, os.O_RDONLY)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        for program in programs:
            answer = {"id": program["id"], **in_fork(program["source"])}
            file.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
