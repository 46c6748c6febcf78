"""The real command as a process of its own: without a terminal, or on one made with a pty."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

import ptc

REPOSITORY = Path(ptc.__file__).parent.parent
SECONDS = 20.0
"""Upper bound of every wait. No test depends on how long one takes."""

SHELF = '''
import sys

import anyio
import click
from ptc import Effect, ToolError, Toolset, tool


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    The sum is exact.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


@tool
async def slow(seconds: float) -> str:
    """Wait."""
    await anyio.sleep(seconds)
    return "done"


@tool
async def refuse(why: str) -> str:
    """Fail."""
    raise ToolError(f"no: {why}", code="refused")


@tool
async def escape() -> str:
    """Give text that would clear a terminal."""
    return "\\x1b[2Jcleared"


@tool
async def announce(seconds: float = 60) -> str:
    """Say on standard error that it has begun, and wait."""
    print("begun", file=sys.stderr, flush=True)
    await anyio.sleep(seconds)
    return ""


async def untouch(effect: Effect) -> None:
    if effect.arguments["name"] == "stuck":
        raise ToolError("it is stuck")


@tool(side_effect=True, idempotent=True, revert=untouch)
async def touch(name: str) -> str:
    """Make a file."""
    return name


@tool(side_effect=True, idempotent=True)
async def shout(text: str) -> str:
    """Be heard."""
    return text


@tool(needs_approval=True)
async def gate(n: int) -> int:
    """Be asked about."""
    return n


@tool(
    side_effect=True,
    idempotent=True,
    needs_approval=True,
    approval_prompt=lambda arguments: f"Pay {arguments['cents']} cents to {arguments['to']}?",
    approval_defaults={"note": "goodwill"},
)
async def pay(cents: int, to: str = "ann", note: str = "") -> dict:
    """Pay."""
    with open("paid.txt", "a") as file:
        file.write(f"{cents} {to} {note}\\n")
    return {"cents": cents, "to": to, "note": note}


@tool(side_effect=True, idempotent=True, needs_approval=True, unrecorded=["text"])
async def save(name: str, text: str) -> str:
    """Save."""
    return name


toolset = Toolset("shelf", (add, slow, refuse, escape, announce, touch, shout, gate, pay, save))


@click.command()
@click.option("--name", default="you")
def greet(name):
    """Say hello."""
    click.echo(f"hello {name}")
    return 7


not_a_command = 3
'''

ENTRY_POINTS = """
[ptc.toolsets]
shelf = ptc_cli_shelf:toolset
broken = ptc_cli_broken:toolset

[ptc.commands]
greet = ptc_cli_shelf:greet
lacks = ptc_cli_lacks:command
partial = ptc_cli_shelf:greet
broken = ptc_cli_broken:command
absent = ptc_cli_absent:command
number = ptc_cli_shelf:not_a_command
run = ptc_cli_shelf:greet
"""

TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""A process of a new session takes the pty as its terminal: then Ctrl-C is a signal to it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    status: int
    out: str
    err: str


class Command(Protocol):
    def __call__(
        self,
        *arguments: str,
        stdin: str | bytes = "",
        before: Sequence[str] = (),
        **environment: str,
    ) -> Outcome: ...


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an installed package that brings a toolset and commands, good and bad."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "ptc_cli_shelf.py").write_text(SHELF)
    (folder / "ptc_cli_lacks.py").write_text("import no_such_module_at_all\n")
    (folder / "ptc_cli_broken.py").write_text("raise ValueError('half written')\n")
    info = folder / "ptc_cli_shelf-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: ptc-cli-shelf\nVersion: 1.0\nProvides-Extra: lacks\n"
        "Provides-Extra: partial\nRequires-Dist: click; extra == 'partial'\n"
        "Requires-Dist: no-such-package-at-all>=1; extra == 'partial'\n"
    )
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


@pytest.fixture(scope="session")
def environment(site: Path) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": f"{site}{os.pathsep}{REPOSITORY}",
        "LANG": "C.UTF-8",
        "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"],
        # The interpreter that was compiled for the tests is there, if one was.
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", ""),
    }


Start = Callable[[Sequence[str], Path, dict[str, str], bytes], tuple[int, bytes, bytes]]


@pytest.fixture(scope="session")
def warm(environment: dict[str, str]) -> Iterator[Start]:
    """Start the command in a process forked from one with its imports; see ``fork_server.py``."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(SECONDS)
    with theirs:
        program = [sys.executable, "-P", str(Path(__file__).with_name("fork_server.py"))]
        process = subprocess.Popen(
            [*program, str(theirs.fileno())],
            env=environment,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def start(
        arguments: Sequence[str], folder: Path, variables: dict[str, str], stdin: bytes
    ) -> tuple[int, bytes, bytes]:
        request = {"arguments": arguments, "folder": str(folder), "environment": variables}
        with ExitStack() as stack:
            files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            files[0].write(stdin)
            files[0].seek(0)
            streams = [file.fileno() for file in files]
            socket.send_fds(ours, [json.dumps(request).encode()], streams)
            status = int(ours.recv(64))
            for file in files[1:]:
                file.seek(0)
            return status, files[1].read(), files[2].read()

    with ours, process:
        yield start
        ours.close()


@pytest.fixture
def command(environment: dict[str, str], tmp_path: Path, warm: Start) -> Command:
    """Run ``ptc ARGUMENTS`` in `tmp_path`, no stream of it a terminal, to its end."""

    def run(
        *arguments: str,
        stdin: str | bytes = "",
        before: Sequence[str] = (),
        **more: str,
    ) -> Outcome:
        if not before and not any(name.startswith(("PYTHON", "LANG", "LC_")) for name in more):
            given = stdin.encode() if isinstance(stdin, str) else stdin
            status, out, err = warm(arguments, tmp_path, {**environment, **more}, given)
            return Outcome(status, out.decode(), err.decode())
        done = subprocess.run(  # our own interpreter and our own command
            [sys.executable, *before, "-P", "-m", "ptc", *arguments],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            cwd=tmp_path,
            env={**environment, **more},
            timeout=SECONDS,
            check=False,
        )
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


class Terminal:
    """``ptc`` on a pty: what it has written so far, and a keyboard."""

    def __init__(self, arguments: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
        self._ours, theirs = os.openpty()
        self._process = subprocess.Popen(  # our own interpreter and command
            [sys.executable, "-c", TERMINAL, "-P", "-m", "ptc", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            cwd=folder,
            env={"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", **environment},
        )
        os.close(theirs)
        self.written = b""
        self._deadline = time.monotonic() + SECONDS

    @property
    def pid(self) -> int:
        return self._process.pid

    def read_until(self, text: bytes, start: int = 0) -> None:
        """Read until `text` has been written, after the first `start` bytes."""
        while text not in self.written[start:]:
            assert self._read(), f"ended before it wrote {text!r}: {self.written!r}"

    def press(self, key: bytes) -> None:
        os.write(self._ours, key)

    def end(self) -> int:
        """Read to the end; give the exit status."""
        while self._read():
            pass
        return self._process.wait(timeout=max(0.1, self._deadline - time.monotonic()))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def screen(self) -> list[str]:
        """The lines a person sees when everything has been written."""
        return screen_of(self.written.decode())

    def _read(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], self._deadline - time.monotonic())
        assert ready, f"nothing more within {SECONDS} s after {self.written!r}"
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # EIO: the other side is closed
            return False
        self.written += data
        return bool(data)


def screen_of(written: str) -> list[str]:
    """Return the screen of a terminal after `written`, for the sequences of a display."""
    lines, row, column, at = [""], 0, 0, 0
    while at < len(written):
        character = written[at]
        at += 1
        if character == "\n":
            row += 1
            while len(lines) <= row:
                lines.append("")
        elif character == "\r":
            column = 0
        elif character == "\x1b":
            assert written[at] == "[", f"a sequence that no display needs: {written[at : at + 8]!r}"
            end = at + 1
            while not written[end].isalpha():
                end += 1
            parameters, kind = written[at + 1 : end], written[end]
            at = end + 1
            if kind == "A":
                row -= int(parameters or 1)
                assert row >= 0
            elif kind == "K":
                assert parameters == "2"
                lines[row] = ""
            else:
                assert kind == "m" or (parameters, kind) in (("?25", "l"), ("?25", "h"))
        else:
            lines[row] = lines[row].ljust(column)[:column] + character + lines[row][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]


@pytest.fixture
def terminal(
    environment: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[..., Terminal]:
    """Start ``ptc ARGUMENTS`` in `tmp_path` on a terminal."""

    def start(*arguments: str, **more: str) -> Terminal:
        made = Terminal(arguments, tmp_path, {**environment, **more})
        request.addfinalizer(made.close)
        return made

    return start


def descendants(pid: int) -> list[tuple[int, str]]:
    """Processes below `pid` as (process id, start time), children before grandchildren."""
    parents: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (row := _stat(int(entry.name))) is not None:
            parents.setdefault(row[0], []).append((int(entry.name), row[1]))
    found: list[tuple[int, str]] = []
    queue = [pid]
    while queue:
        below = parents.get(queue.pop(0), [])
        found += below
        queue += [child for child, _ in below]
    return found


def _stat(pid: int) -> tuple[int, str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return (int(fields[1]), fields[19]) if fields[0] not in "ZX" else None


def alive(process: tuple[int, str]) -> bool:
    """True if it is that process and not another that got its number."""
    row = _stat(process[0])
    return row is not None and row[1] == process[1]


@pytest.fixture
def processes() -> Callable[[int], list[tuple[int, str]]]:
    """Processes below one, as (process id, start time)."""
    return descendants


@pytest.fixture
def wait_until_gone() -> Callable[[list[tuple[int, str]]], None]:
    """Wait until none of the processes is left."""

    def wait(those: list[tuple[int, str]]) -> None:
        deadline = time.monotonic() + SECONDS
        while left := [process for process in those if alive(process)]:
            assert time.monotonic() < deadline, f"left behind: {left}"
            time.sleep(0.01)

    return wait


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        (tmp_path / "script.py").write_text(text)
        return "script.py"

    return write
