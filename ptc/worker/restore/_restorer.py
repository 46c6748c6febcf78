"""The restorer: a process that traces the workers of a zygote and restores them after their runs.

Rule 1: it never runs a script, and holds no descriptor of the host but the socket of its requests.
    tests/worker/restore/test_restorer.py::test_restorer_holds_no_file_of_the_host
    Landlock keeps it from all files but those of /proc, and from other processes (`_jail`). A
    filter keeps it from all calls but its own.
    tests/worker/restore/test_restorer.py::test_restorer_reaches_no_process_but_the_workers
Rule 2: a worker that is not certainly as it was is killed; the zygote reports its exit as any
    other. tests/worker/restore/test_hostile_runs.py
Rule 3: if it ends, the kernel kills the workers that it traces.
    tests/worker/restore/test_restorer.py::test_death_of_the_restorer_costs_no_run

A worker's life: it hands its descriptors over (`_hand_over`), locks itself down, rehearses, and
makes the call `MARK`, at which its filter stops it for its tracer. The restorer takes its image,
announces it to the host, and lets it go on: it waits for a program. After the run it makes the call
again. It stays stopped there until the host asks for it; the restorer then writes the image back,
announces the worker again, and lets it go on from the first mark. No worker announces itself: a
hostile one would do so before it is restored, and read the program of the next run.

Datagrams of JSON. From the host: ``{"restore": number}``, ``{"report": true}``. To the host:
``{"ready": number}``, ``{"report": counts}``. A worker that cannot be restored is killed, which
the zygote reports.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
from collections import Counter
from typing import Any, NoReturn

from ..._dataclass import dataclass
from ..kernel import _libc, _seccomp, _trace
from ._hand_over import FIRST_MESSAGE_FDS, Restorer
from ._image import Files, Image, Template
from ._reading import Unlike

__all__ = ["confine", "start_restorer"]

_MESSAGE_BYTES = 4096
_HIGH_FD = 16
_RSEQ_WRITTEN = ((0, 8), (16, 32))
"""Ranges of struct rseq that the kernel writes: all but the pointer `rseq_cs`."""
_O_PATH_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_SFD_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK
_SIGNALFD4 = 289
"""x86-64."""
_ABORTED = -1


@dataclass(slots=True)
class _Traced:
    number: int
    tracee: _trace.Tracee
    files: Files
    cpu: int
    image: Image | None = None
    rest: list[bytes] | None = None
    """Its other state at its mark, for comparison."""
    spoilt: str = ""
    """Why it cannot be restored after this run."""
    remapped: bool = False
    """True if it has changed its mappings in this run."""
    announced: bool = False
    """True once it was at its mark for the first time."""
    stopped: bool = False
    """True while it is at its mark after a run."""
    wanted: bool = False
    """True if the host has asked for it."""


def start_restorer(proc: int, *, verify: bool) -> Restorer:
    """Fork the restorer from a zygote that has not dropped its access to files yet.

    Args:
        proc: Descriptor of /proc; closed here.
        verify: Compare all of a worker's memory after each restoring, for tests.

    Raises:
        OSError: If the kernel refuses it.
    """
    if not _trace.supported():
        raise OSError(0, "this machine's registers are not known")
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    host, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = _libc.fork()
    if pid == 0:
        try:
            _libc.prctl(_libc.PR_SET_PDEATHSIG, signal.SIGKILL)
            _close_others({proc, near.fileno(), ours.fileno()})
            server = _Server(proc, near, ours, verify=verify)
            confine()
            server.serve()
        finally:
            os._exit(1)
    near.close()
    ours.close()
    os.close(proc)
    return Restorer(pid, _move_high(far), _move_high(host))


def confine() -> None:
    """Allow this process the calls that it makes, and no other, for good."""
    table = _seccomp.machine()
    if table is None:
        raise OSError(0, "the system calls of this machine are not known")
    _seccomp.build_for_restorer(table).install(os.getpid())


def _move_high(sock: socket.socket) -> socket.socket:
    """Give a socket another number: workers and their jail use fixed low ones."""
    with sock:
        return socket.socket(fileno=fcntl.fcntl(sock, fcntl.F_DUPFD_CLOEXEC, _HIGH_FD))


def _close_others(kept: set[int]) -> None:
    first = 0
    for fd in sorted(kept):
        _libc.close_range(first, fd - 1)
        first = fd + 1
    _libc.close_range(first)


def _outer_pid(proc: int, pidfd: int) -> str:
    """Return the process id under which `proc` lists a process; it is of another namespace."""
    fd = os.open(f"self/fdinfo/{pidfd}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    try:
        text = os.read(fd, _MESSAGE_BYTES)
    finally:
        os.close(fd)
    return str(int(text.partition(b"\nPid:")[2].split(None, 1)[0]))


def _open_signals() -> int:
    """Block SIGCHLD and return a descriptor that is readable when one arrives."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    mask = ctypes.create_string_buffer(struct.pack("=Q", 1 << (signal.SIGCHLD - 1)), 8)
    return _libc.syscall(_SIGNALFD4, _ABORTED, ctypes.addressof(mask), 8, _SFD_FLAGS)


class _Server:
    """Server of the host's requests, the workers' messages and their stops."""

    def __init__(
        self, proc: int, workers: socket.socket, host: socket.socket, *, verify: bool
    ) -> None:
        self._proc, self._workers, self._host, self._verify = proc, workers, host, verify
        self._template = Template()
        self._by_pid: dict[int, _Traced] = {}
        self._by_number: dict[int, _Traced] = {}
        self._counts: Counter[str] = Counter()
        self._restartable = _restartable_area()
        self._signals = _open_signals()

    def serve(self) -> NoReturn:
        """Serve until the zygote or the host closes its socket; the workers die with this."""
        poll = select.poll()
        workers, host, signals = self._workers.fileno(), self._host.fileno(), self._signals
        for fd in (workers, host, signals):
            poll.register(fd, select.POLLIN)
        busy = False
        while True:
            ready = {fd for fd, _ in poll.poll(0 if busy else None)}
            if signals in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(signals, _MESSAGE_BYTES)
            busy = (busy or signals in ready) and self._handle_stops()
            if host in ready:
                self._request()
            if workers in ready:
                self._adopt()

    # --- new workers -------------------------------------------------------------------------

    def _adopt(self) -> None:
        """Trace a worker that hands itself over, and open its files."""
        size = array.array("i").itemsize
        data, ancillary, _, _ = self._workers.recvmsg(
            _MESSAGE_BYTES, socket.CMSG_SPACE(FIRST_MESSAGE_FDS * size)
        )
        if not data:
            os._exit(0)
        fds = array.array("i")
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(payload[: len(payload) - len(payload) % size])
        if len(fds) != FIRST_MESSAGE_FDS:
            for fd in fds:
                os.close(fd)
            return
        message = json.loads(data)
        # It may have been killed meanwhile: its reply then fails, too.
        with socket.socket(fileno=fds[2]) as reply, contextlib.suppress(BrokenPipeError):
            try:
                self._trace_worker(message, fds[0], fds[1])
            except OSError as error:
                self._counts[f"not traced: {error}"] += 1
                os.close(fds[0])
                os.close(fds[1])
                reply.send(b"-" + str(error).encode())
            else:
                reply.send(b"+")

    def _trace_worker(self, message: dict[str, Any], tracker: int, wire: int) -> None:
        pid = message["pid"]
        pidfd = os.pidfd_open(pid)
        opened: list[int] = []
        try:
            folder = os.open(_outer_pid(self._proc, pidfd), _O_PATH_DIRECTORY, dir_fd=self._proc)
            opened.append(folder)
            for name, flags in (
                ("mem", os.O_RDWR),
                ("pagemap", os.O_RDONLY),
                ("maps", os.O_RDONLY),
                ("statm", os.O_RDONLY),
                ("fd", os.O_RDONLY | os.O_DIRECTORY),
                ("clear_refs", os.O_WRONLY),
            ):
                opened.append(os.open(name, flags | os.O_CLOEXEC, dir_fd=folder))
            tracee = _trace.Tracee(pid)
        except OSError:
            for fd in opened:
                os.close(fd)
            raise
        finally:
            os.close(pidfd)
        folder, memory, pagemap, maps, sizes, descriptors, peak = opened
        files = Files(
            tracker,
            socket.socket(fileno=wire),
            memory=memory,
            pagemap=pagemap,
            maps=maps,
            sizes=sizes,
            descriptors=descriptors,
            peak=peak,
            folder=folder,
        )
        traced = _Traced(message["number"], tracee, files, message["cpu"])
        self._by_pid[pid] = self._by_number[traced.number] = traced

    # --- stops that were not asked for ---------------------------------------------------------

    def _handle_stops(self) -> bool:
        """Handle one stop or exit of each worker; return True if there was one.

        One of each: a hostile worker can stop again as fast as it is continued.
        """
        found = False
        for traced in list(self._by_pid.values()):
            try:
                pid, status = os.waitpid(traced.tracee.pid, os.WNOHANG | _trace.WALL)
            except ChildProcessError:
                continue
            if pid:
                found = True
                self._handle_stop(traced, status)
        return found

    def _handle_stop(self, traced: _Traced, status: int) -> None:
        if not os.WIFSTOPPED(status):
            self._forget(traced)
            return
        with contextlib.suppress(ProcessLookupError):  # killed meanwhile: its exit follows
            event = _trace.event_of(status)
            message = traced.tracee.message() if event == _trace.EVENT_SECCOMP else 0
            if message == _seccomp.MARK_MESSAGE:
                self._handle_mark(traced)
            elif message == _seccomp.MAPPING_MESSAGE:
                traced.remapped = True
                traced.tracee.resume()
            elif event:
                self._spoil(traced, "it made a call that cannot be undone")
                traced.tracee.resume()
            else:
                self._spoil(traced, "it received a signal")
                traced.tracee.resume(os.WSTOPSIG(status))

    def _spoil(self, traced: _Traced, why: str) -> None:
        """Record that a worker cannot be restored; what it does before its image is harmless."""
        if traced.announced:
            traced.spoilt = traced.spoilt or why

    def _handle_mark(self, traced: _Traced) -> None:
        if traced.announced:
            traced.stopped = True
            if traced.wanted:
                self._restore_or_kill(traced)
            return
        try:
            traced.image = Image(traced.tracee, traced.files, traced.cpu, self._template)
            traced.rest = traced.image.read_rest() if self._verify else None
            self._counts["images"] += 1
        except (Unlike, OSError) as error:
            traced.spoilt = f"no image: {error}"
        self._announce(traced)

    def _announce(self, traced: _Traced) -> None:
        """Report a worker as new to the host, and let it go on."""
        traced.announced, traced.stopped, traced.wanted = True, False, False
        traced.remapped = False
        self._host.send(json.dumps({"ready": traced.number}).encode())
        traced.tracee.resume()

    def _forget(self, traced: _Traced) -> None:
        del self._by_pid[traced.tracee.pid], self._by_number[traced.number]
        traced.files.close()

    # --- requests --------------------------------------------------------------------------------

    def _request(self) -> None:
        data = self._host.recv(_MESSAGE_BYTES)
        if not data:
            os._exit(0)
        message = json.loads(data)
        if "report" in message:
            self._host.send(json.dumps({"report": dict(self._counts)}).encode())
            return
        traced = self._by_number.get(message["restore"])
        if traced is not None:
            traced.wanted = True
            if traced.stopped or traced.spoilt:
                self._restore_or_kill(traced)

    def _restore_or_kill(self, traced: _Traced) -> None:
        try:
            if traced.spoilt or traced.image is None:
                raise Unlike(traced.spoilt or "it has no image")
            traced.image.restore(remapped=traced.remapped)
            if self._verify:
                self._compare(traced.image, traced.rest)
            self._counts["restored"] += 1
            self._announce(traced)
        except Exception as error:  # noqa: BLE001  # whatever it did, it costs only this worker
            words = str(error) if isinstance(error, Unlike | OSError) else repr(error)
            self._counts[f"replaced: {words}"] += 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(traced.tracee.pid, signal.SIGKILL)

    def _compare(self, image: Image, rest: list[bytes] | None) -> None:
        start = image.thread_area + self._restartable
        bad = image.differing_pages([(start + low, start + high) for low, high in _RSEQ_WRITTEN])
        self._counts["compared"] += 1
        if bad:
            self._counts["differing pages"] += len(bad)
            raise Unlike(f"{len(bad)} pages differ: {', '.join(map(hex, bad[:4]))}")
        if (found := image.read_rest()) != rest:
            self._counts["differing states"] += 1
            pairs = zip(found, rest or [], strict=False)
            raise Unlike(f"its state differs: {[pair for pair in pairs if pair[0] != pair[1]][:2]}")


def _restartable_area() -> int:
    """Return the offset of the area of restartable sequences in the data of a thread."""
    try:
        return ctypes.c_ssize_t.in_dll(ctypes.CDLL(None), "__rseq_offset").value
    except ValueError:
        return 0
