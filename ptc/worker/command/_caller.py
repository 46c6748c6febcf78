"""The thread of a command that made a system call: its memory, descriptors and umask."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False  # `typing` takes 3 ms to import.
if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = [
    "AT_FDCWD",
    "FOLDER",
    "PATH_MAX",
    "PATH_ONLY",
    "PERMISSIONS",
    "Caller",
    "ContinueError",
    "read_start",
    "with_umask",
]

AT_FDCWD = -100
PATH_MAX = 4096
PATH_ONLY = os.O_PATH | os.O_CLOEXEC
FOLDER = PATH_ONLY | os.O_DIRECTORY
PERMISSIONS = 0o7777
"""Bits of a mode that a call may set."""


class ContinueError(Exception):
    """Raised to have the kernel continue the call as the command made it."""


class Caller:
    """The thread that made a call, and the descriptors held until the call is answered."""

    __slots__ = ("_opened", "_proc")

    def __init__(self, proc: int, thread: int) -> None:
        self._opened: list[int] = []
        self._proc = self.keep(os.open(b"%d" % thread, FOLDER, dir_fd=proc))

    def keep(self, fd: int) -> int:
        """Hold `fd` open until the call is answered."""
        self._opened.append(fd)
        return fd

    def close(self) -> None:
        """Close all held descriptors."""
        opened, self._opened = self._opened, []
        for fd in opened:
            os.close(fd)

    def read_string(self, address: int) -> bytes:
        """Read the string at an address of its memory.

        Raises:
            OSError: EFAULT or ENAMETOOLONG, as from the kernel.
        """
        memory = os.open(b"mem", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        try:
            # The top byte may be a tag (aarch64).
            data = os.pread(memory, PATH_MAX, address & (1 << 56) - 1)
        except (OSError, OverflowError):
            raise OSError(errno.EFAULT, "not readable") from None
        finally:
            os.close(memory)
        text, end, _ = data.partition(b"\0")
        if not end:
            raise OSError(errno.ENAMETOOLONG, "too long")
        return text

    def descriptor(self, number: int) -> int:
        """Open the file behind one of its descriptors, or (AT_FDCWD) its current folder."""
        name = b"cwd" if number == AT_FDCWD else b"fd/%d" % number
        try:
            return self.keep(os.open(name, PATH_ONLY, dir_fd=self._proc))
        except OSError:
            raise OSError(errno.EBADF, "no such descriptor") from None

    def start(self, number: int, path: bytes) -> tuple[int, bytes]:
        """Resolve the start of a path passed with a descriptor number; return it and the path."""
        number, path = _resolve_own_proc(number, path)
        return (AT_FDCWD if path.startswith(b"/") else self.descriptor(number)), path

    def umask(self) -> int:
        """Return its umask."""
        status = os.open(b"status", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        try:
            _, _, rest = os.read(status, 4096).partition(b"\nUmask:\t")
        finally:
            os.close(status)
        return int(rest.partition(b"\n")[0], 8)


_STREAMS = {b"/dev/stdin": 0, b"/dev/stdout": 1, b"/dev/stderr": 2}
_SELF = (b"/proc/self/", b"/proc/thread-self/")


def _resolve_own_proc(number: int, path: bytes) -> tuple[int, bytes]:
    """Resolve a path through the command's own /proc entries without /proc.

    Only paths that name them directly: through links they lead to /proc entries of this process,
    which are not in the root.
    """
    if path in _STREAMS:
        return _STREAMS[path], b""
    if path.startswith(b"/dev/fd/"):
        path = b"/proc/self" + path[4:]
    for folder in _SELF:
        if path.startswith(folder):
            kind, _, rest = path[len(folder) :].partition(b"/")
            if kind == b"cwd":
                return AT_FDCWD, rest or b"."
            if kind == b"root":
                return number, b"/" + rest
            digits, _, rest = rest.partition(b"/")
            if kind == b"fd" and digits.isdigit() and len(digits) < 10:
                return int(digits), rest
    return number, path


def read_start(caller: Caller, dirfd: int, address: int) -> tuple[int, bytes]:
    """Read a path from the command's memory; return its start and the path."""
    path = caller.read_string(address)
    if not path:
        raise ContinueError  # The kernel returns ENOENT, or another error of the call.
    return caller.start(dirfd, path)


def with_umask(caller: Caller, call: Callable[[], int | None]) -> int:
    """Run `call` under the command's umask."""
    own = os.umask(caller.umask())
    try:
        return call() or 0
    finally:
        os.umask(own)
