"""The host's side of a command that a tool runs: start it confined, read its output, kill it.

`ptc.worker.command` confines the command in a separate launcher process. This module starts it as a
program and imports none of its code.

Rule 1: No output is lost silently: each stream has its own budget, and excess bytes are counted.
    (test_noisy_stream_does_not_shorten_the_other)
Rule 2: No process is left when `run` returns, also after a time-out or a `Command.kill` from
    another thread. (test_no_process_of_a_command_survives_it,
    test_a_cancelled_command_leaves_no_process)
"""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .._dataclass import dataclass

if TYPE_CHECKING:
    from .._protected import Protection

__all__ = ["MAX_STREAM_BYTES", "Command", "CommandOutcome", "Output", "Protected"]

MAX_STREAM_BYTES = 10_485_760
"""Bytes retained of one stream (10 MiB); a longer stream keeps this start and its last 64 KiB."""

_TAIL_BYTES = 65_536
_CHUNK_BYTES = 65_536
_END_SECONDS = 10.0
"""Time for the launcher to kill and reap; after it the launcher itself is killed."""

# An empty package named ptc: the launcher needs nothing that `import ptc` would import.
_ENTRY = (
    "import sys; ptc = sys.modules['ptc'] = type(sys)('ptc'); ptc.__path__ = [sys.argv.pop(1)];"
    " from ptc.worker.command._command import main; main()"
)

_PROGRAM_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_INHERITED_VARIABLES = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
"""Variables of the host's environment that are passed to a command."""


@dataclass(frozen=True, slots=True)
class Output:
    """Output of one stream."""

    head: bytes
    """Its first bytes, up to `MAX_STREAM_BYTES`."""
    tail: bytes
    """The last bytes of a longer stream."""
    total_bytes: int
    """Bytes written, retained or not."""


@dataclass(frozen=True, slots=True)
class Protected:
    """A refused change of a protected path."""

    path: str
    """Relative to the root."""
    rule: str
    entry: str
    """Name of the table that lifts it, see `ptc._protected`."""


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """Outcome of a command."""

    how: Literal["exit", "signal", "timeout", "killed", "missing", "refused", "fault"]
    """``missing``: the program could not be started. ``refused``: a required layer is missing.
    ``fault``: the launcher failed. ``killed``: by `Command.kill`."""
    number: int
    """Exit code, signal or errno."""
    text: str
    """Reason, for the last three kinds."""
    stdout: Output
    stderr: Output
    duration_ms: float
    protected: tuple[Protected, ...] = ()
    """Refused changes, up to 20."""


@dataclass(slots=True)
class _Stream:
    head: bytearray
    tail: bytearray
    total: int = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        room = MAX_STREAM_BYTES - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        del self.tail[:-_TAIL_BYTES]

    def output(self) -> Output:
        return Output(bytes(self.head), bytes(self.tail), self.total)


class Command:
    """A command to run once. Only `kill` may be called from another thread."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        root: Path,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        network: bool = False,
        required: bool = True,
        readable: Sequence[Path] = (),
        programs: Sequence[Path] = (),
        writable: bool = True,
        protection: Protection | None = None,
        stdin: bytes = b"",
        max_memory_bytes: int = 0,
    ) -> None:
        """Describe the command without starting it.

        Args:
            argv: Program and arguments; no shell interprets them.
            root: Folder in which files may be changed; resolved.
            cwd: Working folder, relative to `root`, without links.
            env: Variables to add to the clean environment.
            network: True: it may use the host's network. Unix sockets are denied in any case.
            required: False: continue without layers that the kernel lacks.
            readable: Further files and folders that it may read and execute.
            programs: If not empty: the only files it may execute, including script interpreters.
            writable: False: it may change nothing in the root.
            protection: Protected paths in a writable root; None: none.
            stdin: Data for its standard input.
            max_memory_bytes: Address space of each of its processes (RLIMIT_AS); 0: no limit.
        """
        self._argv = list(argv)
        self._root = root
        self._cwd = cwd
        self._env = dict(env or {})
        self._network = network
        self._required = required
        self._readable = [*_interpreter_folders(), *readable]
        self._programs = [*programs, *(_loaders() if programs else ())]
        self._writable = writable
        self._protection = protection
        self._stdin = stdin
        self._max_memory_bytes = max_memory_bytes
        self._lock = threading.Lock()
        self._killed = False
        self._wake = -1

    def kill(self) -> None:
        """Kill the command and its processes, so that `run` returns. Thread-safe, repeatable."""
        with self._lock:
            self._killed = True
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def run(self, timeout_ms: int) -> CommandOutcome:
        """Run the command and wait for it. Blocks.

        Raises:
            OSError: If no process can be started.
        """
        with self._lock:
            if self._killed:
                nothing = Output(b"", b"", 0)
                return CommandOutcome("killed", 0, "", nothing, nothing, 0.0)
            self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        tmp = Path(tempfile.mkdtemp(prefix="ptc-command-")).resolve()
        try:
            return self._run(tmp, timeout_ms)
        finally:
            with self._lock:
                os.close(self._wake)
                self._wake = -1
            _remove(tmp)

    def _run(self, tmp: Path, timeout_ms: int) -> CommandOutcome:
        spec = os.memfd_create("ptc-command")
        stdin = os.memfd_create("ptc-stdin")
        lifeline, ours = os.pipe()
        report, theirs = os.pipe()
        started = time.monotonic()
        try:
            _write_all(spec, self._spec(tmp))
            _write_all(stdin, self._stdin)
            os.lseek(stdin, 0, os.SEEK_SET)
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own code
                [
                    *(sys.executable, "-I", "-S", "-c", _ENTRY, str(Path(__file__).parent.parent)),
                    *map(str, (spec, lifeline, theirs)),
                ],
                env={},
                cwd="/",
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(spec, lifeline, theirs),
                # Ctrl-C in the host's terminal is for the host.
                start_new_session=True,
            )
        except BaseException:
            os.close(ours)
            os.close(report)
            raise
        finally:
            for fd in (spec, stdin, lifeline, theirs):
                os.close(fd)
        running = _RunningCommand(process, ours, report, self._wake)
        try:
            how = running.read_until(started + timeout_ms / 1000)
        finally:
            running.close()
        return running.outcome(how, (time.monotonic() - started) * 1000)

    def _spec(self, tmp: Path) -> bytes:
        protection = self._protection
        home = None if protection is None else protection.home
        lists = (
            list(map(str, self._readable)),
            list(map(str, self._programs)),
            [f"{name}={value}" for name, value in self._environment(tmp).items()],
            self._argv,
            [] if protection is None else sorted(protection.lifted),
            [] if home is None else [".", *home],
            [] if protection is None else protection.files,
        )
        changes = "writable" if protection is None else "brokered"
        fields = [
            "network" if self._network else "off",
            "required" if self._required else "available",
            changes if self._writable else "fixed",
            str(self._max_memory_bytes),
            *(str(self._root), self._cwd, str(tmp)),
        ]
        for items in lists:
            fields += [str(len(items)), *items]
        return b"\0".join(map(os.fsencode, fields))

    def _environment(self, tmp: Path) -> dict[str, str]:
        folders = [str(path) for path in self._readable]
        path_folders = [
            entry
            for entry in os.environ.get("PATH", "").split(os.pathsep)
            # Readable folders only; never a relative entry, which could be in the workspace.
            if any(entry == folder or entry.startswith(f"{folder}/") for folder in folders)
        ]
        own = os.path.join(sys.prefix, "bin")
        return {
            "PATH": os.pathsep.join(dict.fromkeys([*path_folders, own, *_PROGRAM_FOLDERS])),
            "HOME": str(tmp),
            "TMPDIR": str(tmp),
            "TERM": "dumb",
            **{name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ},
            **self._env,
        }


class _RunningCommand:
    """A started command and the pipes to it."""

    def __init__(
        self, process: subprocess.Popen[bytes], lifeline: int, report: int, wake: int
    ) -> None:
        self._process = process
        self._lifeline = lifeline
        self._report = report
        self._wake = wake
        self._report_bytes = b""
        self._open = 3
        self._streams = (
            _Stream(bytearray(), bytearray()),
            _Stream(bytearray(), bytearray()),
        )
        self._selector = selectors.DefaultSelector()
        self._selector.register(wake, selectors.EVENT_READ, "wake")
        self._selector.register(report, selectors.EVENT_READ, "report")
        for stream, pipe in zip(self._streams, self._pipes(), strict=True):
            self._selector.register(pipe, selectors.EVENT_READ, stream)

    def _pipes(self) -> tuple[int, int]:
        process = self._process
        if process.stdout is None or process.stderr is None:
            raise AssertionError("started with pipes")
        return process.stdout.fileno(), process.stderr.fileno()

    def read_until(self, deadline: float) -> Literal["exited", "timeout", "killed"]:
        """Read everything until the command exits, the deadline passes, or `kill` is called."""
        how: Literal["exited", "timeout", "killed"] = "exited"
        while self._open:
            left = deadline - time.monotonic()
            events = self._selector.select(max(0.0, left))
            killed = any(key.data == "wake" for key, _ in events)
            # A command that never stops writing always has events: check the clock as well.
            if how == "exited" and (killed or left <= 0):
                how = "killed" if killed else "timeout"
                self._selector.unregister(self._wake)
                os.close(self._lifeline)
                self._lifeline = -1
                # Read the remaining output; the end of the pipes proves that no process is left.
                deadline = time.monotonic() + _END_SECONDS
            elif left <= 0:
                break
            for key, _ in events:
                if key.data != "wake":
                    self._read(key)
        return how

    def _read(self, key: selectors.SelectorKey) -> None:
        data = os.read(key.fd, _CHUNK_BYTES)
        if not data:
            self._selector.unregister(key.fd)
            self._open -= 1
        elif isinstance(key.data, _Stream):
            key.data.feed(data)
        elif len(self._report_bytes) < _CHUNK_BYTES:
            self._report_bytes += data

    def close(self) -> None:
        """Kill the launcher if it still runs, and close everything."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._selector.close()
        os.close(self._report)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def outcome(
        self, how: Literal["exited", "timeout", "killed"], duration_ms: float
    ) -> CommandOutcome:
        stdout, stderr = (stream.output() for stream in self._streams)
        lines = self._report_bytes.decode("utf-8", "replace").splitlines()
        protected = tuple(filter(None, map(_parse_protected, lines)))
        rest = (stdout, stderr, duration_ms, protected)
        if how != "exited":
            return CommandOutcome(how, 0, "", *rest)
        first = next((line for line in lines if _parse_protected(line) is None), "")
        kind, _, text = first.partition(" ")
        number, _, why = text.partition(" ")
        match kind:
            case "exit" | "signal":
                return CommandOutcome(kind, int(number), "", *rest)
            case "missing":
                return CommandOutcome("missing", int(number), why, *rest)
            case "refused":
                return CommandOutcome("refused", 0, text, *rest)
        output = stderr.head[-2_000:].decode("utf-8", "replace")
        words = text or output or "it wrote nothing to stderr"
        return CommandOutcome("fault", 0, words, *rest)


def _parse_protected(line: str) -> Protected | None:
    words = line.split(" ", 3)
    return Protected(words[3], *words[1:3]) if words[0] == "protected" and words[3:] else None


def _interpreter_folders() -> list[Path]:
    """List the folders of the running Python and its packages, except one that holds the home."""
    home = Path(os.path.expanduser("~"))
    found = []
    for prefix in dict.fromkeys((sys.prefix, sys.base_prefix)):
        folder = Path(prefix).resolve()
        if folder != home and folder not in home.parents:
            found.append(folder)
    return found


def _loaders() -> list[Path]:
    """List the dynamic loaders, which the kernel executes for dynamically linked programs."""
    return [path for pattern in ("lib/ld-*", "lib64/ld-*") for path in Path("/").glob(pattern)]


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _remove(folder: Path) -> None:
    """Remove a command's private folder with any content."""
    with suppress(OSError):
        folder.rmdir()
        return
    # Not shutil.rmtree alone: it recurses, and stops at folders without read permission.
    for tool in (("chmod", "-R", "u+rwx"), ("rm", "-rf")):
        program = shutil.which(tool[0], path=os.pathsep.join(_PROGRAM_FOLDERS))
        if program is not None:
            subprocess.run([program, *tool[1:], "--", str(folder)], env={}, check=False)  # noqa: S603
