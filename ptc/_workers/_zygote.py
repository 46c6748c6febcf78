"""The host's handle of the zygote process: start it, request forks, receive exits."""

from __future__ import annotations

import array
import contextlib
import errno
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import orjson

from .._core._reactor import Reactor, Stop
from .._dataclass import dataclass
from .._facts import Layer
from ..errors import SetupError
from ._restore import RestorerClient
from ._spawn import start_error, take_or_spawn
from ._worker import Exit

__all__ = ["Hello", "Zygote"]

_JAIL_ONLY = ("seccomp", "landlock")
"""Layers that only ``jail`` requires."""
_START_SECONDS = 20.0
_PACKAGES_START_SECONDS = 60.0
"""The same for a session with packages: matplotlib needs some seconds of CPU time."""
_END_SECONDS = 1.0
_MESSAGE_BYTES = 65_536
_MESSAGES_IN_A_ROW = 64
"""Messages handled before the event loop runs again."""
_MESSAGES_LEFT = 4_096
"""More than a socket's buffer holds."""


@dataclass(frozen=True, slots=True)
class Hello:
    """First message of a zygote that is ready."""

    layers: tuple[Layer, ...]
    policy: str
    """Version of the language policy, part of the cache key of compiled scripts."""
    no_restorer: str = ""
    """Reason why workers are not restored although that was requested."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Layers that are off on this machine and required at the default level."""
        off = {layer.name for layer in self.layers if not layer.on}
        return tuple(name for name in _JAIL_ONLY if name in off)

    def weaknesses(self, isolation: str) -> list[str]:
        """Describe what sessions of this isolation level do without on this machine."""
        found = []
        if self.missing:
            verb = "is" if len(self.missing) == 1 else "are"
            found.append(
                f"isolation {isolation!r}: {' and '.join(self.missing)} {verb} off on this "
                "machine: one bug in the language layer gives a script the rights of the user "
                "that runs this process"
            )
        if self.no_restorer:
            found.append(f"workers are not reused on this machine: {self.no_restorer}")
        return found


class Zygote:
    """A zygote process. Call `spawn` first, and `close` in any case."""

    def __init__(
        self,
        isolation: str,
        reactor: Reactor,
        packages: Sequence[str] = (),
        restore: str = "",
    ) -> None:
        """Start nothing yet; `restore` is a mode of `_restore`."""
        self._isolation = f"{isolation}:{restore}" if restore else isolation
        self._packages = packages
        self._reactor = reactor
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._pidfd: int | None = None
        self._stop: Stop | None = None
        self._answered = anyio.Event()
        self._hello: Hello | None = None
        self._restorer: RestorerClient | None = None
        self._fault = ""
        self.was_killed = False
        """True if it died during its start, and gave no reason."""
        self._layers: tuple[Layer, ...] = ()
        self.on_forked: Callable[[int, int | None], None] = _close_pidfd
        self.on_exited: Callable[[int, Exit], None] = lambda _number, _exit: None
        self.on_gone: Callable[[], None] = lambda: None
        self.on_ready: Callable[[int], None] = lambda _number: None
        """Receives the number of a worker that the restorer announced."""

    @property
    def alive(self) -> bool:
        """True while it accepts fork requests."""
        return self._control is not None and self._hello is not None

    @property
    def pid(self) -> int:
        """Process id of the process that the host spawned."""
        assert self._process is not None  # noqa: S101  # read only after `spawn`
        return self._process.pid

    def spawn(self) -> None:
        """Start the process without waiting until it is ready.

        Raises:
            SetupError: If it cannot be started.
        """
        if sys.platform != "linux":
            msg = (
                f"ptc runs scripts on Linux only, and this is {sys.platform}; "
                "direct tool calls work on every system"
            )
            raise SetupError(msg)
        self._process, ours = take_or_spawn(self._isolation, self._packages)
        ours.setblocking(False)
        self._control = ours
        self._stop = self._reactor.on_readable(ours, self._readable)

    async def hello(self) -> Hello:
        """Wait until the zygote is ready.

        Raises:
            SetupError: If a layer is missing or the process failed to start.
        """
        seconds = _PACKAGES_START_SECONDS if self._packages else _START_SECONDS
        with anyio.move_on_after(seconds):
            await self._answered.wait()
        if self._hello is None:
            fault = self._fault or f"the worker process did not start in {seconds:.0f} s"
            raise SetupError(fault, layers=self._layers)
        return self._hello

    def fork(self, number: int, memory_bytes: int, cpu_seconds: int) -> socket.socket:
        """Request a worker; return its socket at once, and pass its pidfd to `on_forked` later.

        Raises:
            SetupError: If the request cannot be sent. If the zygote died, `on_gone` was called.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            request = {"fork": number, "memory": memory_bytes, "cpu": cpu_seconds}
            rights = array.array("i", [theirs.fileno()])
            try:
                if self._control is None:
                    raise BrokenPipeError
                self._control.sendmsg(
                    [orjson.dumps(request)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
                )
            except OSError as error:
                ours.close()
                if isinstance(error, BrokenPipeError | ConnectionResetError):
                    self._drain()
                msg = f"the process that forks the workers does not respond: {error}"
                raise SetupError(msg) from None
        ours.setblocking(False)
        return ours

    def _drain(self) -> None:
        """Read the last messages of a dead zygote, then report its death.

        A send fails before the event loop reaches the end of the stream. The messages may report
        that a worker was stopped at a system call, which must not be lost.
        """
        for _ in range(_MESSAGES_LEFT):
            if self._control is not None and not self._read_one():
                break
        if self._control is not None:
            self._on_gone()

    @property
    def restorer(self) -> RestorerClient | None:
        """The restorer of its workers; None if they are not restored."""
        return self._restorer

    def kill(self, number: int) -> None:
        """Have the zygote kill a worker, for lack of its pidfd."""
        if self._control is not None:
            # If the send fails the zygote is dead, and its workers with it.
            with contextlib.suppress(OSError):
                self._control.send(orjson.dumps({"kill": number}))

    def close(self) -> None:
        """Kill the zygote and, through it, every worker. Returns when it has been reaped."""
        self._hang_up()
        if not self._answered.is_set():
            # Wake the tasks that wait for the start.
            self._fault = "the session was closed while its workers were starting"
            self._answered.set()
        if self._pidfd is not None:
            # The spawned process may be only the shell of a PID namespace, which exits without
            # waiting for the zygote. The zygote's own exit waits for its workers'.
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            select.select([self._pidfd], [], [], _END_SECONDS)
            os.close(self._pidfd)
            self._pidfd = None
        if self._restorer is not None:
            self._restorer.close()
            self._restorer = None
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()

    def _hang_up(self) -> None:
        if self._stop is not None:
            self._stop()
            self._stop = None
        if self._control is not None:
            self._reactor.closing(self._control)
            self._control.close()
            self._control = None

    def _readable(self) -> None:
        for _ in range(_MESSAGES_IN_A_ROW):
            if self._control is None or not self._read_one():
                return

    def _read_one(self) -> bool:
        """Read and handle a message or the end of the stream; False if there is none yet."""
        assert self._control is not None  # noqa: S101  # callers have checked
        size = array.array("i").itemsize
        try:
            # recvmsg is safe here: the zygote runs no script, and it sends pidfds.
            data, ancillary, _, _ = self._control.recvmsg(
                _MESSAGE_BYTES, socket.CMSG_SPACE(2 * size)
            )
        except (BlockingIOError, InterruptedError):
            return False
        except ConnectionResetError:
            # It died with unread requests. Its own messages follow this error.
            return True
        except OSError:
            data, ancillary = b"", []
        if not data:
            self._on_gone()
            return True
        fds = array.array("i")
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(payload[: len(payload) - len(payload) % size])
        self._message(orjson.loads(data), list(fds))
        return True

    def _message(self, message: dict[str, Any], fds: list[int]) -> None:
        if "forked" in message:
            # The kernel drops a descriptor that exceeds this process's limit.
            self.on_forked(message["forked"], fds[0] if fds else None)
        elif "exited" in message:
            call = message["call"]
            how = Exit(
                message["signal"],
                message["status"],
                tuple(call) if call else None,
                why=message.get("why", ""),
                memory_bytes=message.get("memory", 0),
            )
            self.on_exited(message["exited"], how)
        elif "hello" in message:
            if not fds:
                # Without the pidfd the zygote could not be killed reliably.
                error = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                self._fault = start_error(error)
                self._answered.set()
                return
            hello, self._pidfd = message["hello"], fds[0]
            if len(fds) > 1:
                self._restorer = RestorerClient(
                    fds[1], self._reactor, lambda number: self.on_ready(number)
                )
            self._hello = Hello(
                tuple(Layer(**row) for row in hello["layers"]),
                hello["policy"],
                hello.get("no_restorer", ""),
            )
            self._answered.set()
        else:
            self._fault = str(message.get("error"))
            self._layers = tuple(Layer(**row) for row in message.get("layers", ()))
            self._answered.set()

    def _on_gone(self) -> None:
        self._hang_up()
        if not self._answered.is_set():
            words = self._last_output()
            self.was_killed = not words
            reason = words or "no reason given"
            self._fault = f"the worker process exited during its start: {reason}"
            self._answered.set()
        self.on_gone()

    def _last_output(self) -> str:
        if self._process is None or self._process.stderr is None:
            return ""
        os.set_blocking(self._process.stderr.fileno(), False)
        words = (self._process.stderr.read() or b"").decode(errors="replace").strip()
        return words[-2_000:]


def _close_pidfd(_number: int, pidfd: int | None) -> None:
    if pidfd is not None:
        os.close(pidfd)
