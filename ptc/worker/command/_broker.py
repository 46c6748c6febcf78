"""Makes the changes of files that a confined command asks for, unless a path is protected.

The command itself may change nothing in the root: Landlock gives it the right to read there and no
other. Its filter (`_filter`) stops each call that could make a change and puts it to the
listener that is served here, in the launcher, outside of the command. What the table of protected
paths (`ptc._protected`) allows is done in the command's place (`_broker_calls`); a file that is
opened becomes a descriptor of the command.

Rule 1: A path is read from the command's memory once. What it leads to is opened, judged by the
    name that the kernel has for it, and used by descriptor: nothing that the command changes
    meanwhile matters. (test_a_path_that_changes_while_it_is_judged_gains_nothing)
Rule 2: What is not in the root is none of ours: the kernel continues the call as the command made
    it, under the command's own confinement. It may have become another call by then, and gains
    nothing, since Landlock lets none of them change the root. Calls that Landlock does not cover
    are never continued. (test_without_the_broker_a_command_changes_nothing_in_the_root)
Rule 3: It never waits for the command: no call here blocks.
    (test_neither_a_fifo_nor_a_lease_holds_the_launcher_up)

See seccomp_unotify(2). A command starts in milliseconds, so nothing here imports much.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct

# The C module: the Python one on top of it takes 8 ms to import.
from _socket import CMSG_SPACE, SCM_RIGHTS, SOL_SOCKET
from contextlib import suppress

from ..._protected import Refusal
from ..kernel import _libc

TYPE_CHECKING = False  # As `typing` says, which takes 3 ms to import.
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from ..._protected import Protection

    Handler: TypeAlias = Callable[["Broker", "Caller", Sequence[int]], "Opened | int"]

__all__ = [
    "AT_FDCWD",
    "Broker",
    "Caller",
    "ContinueError",
    "Entry",
    "Opened",
    "ParkError",
    "Places",
    "hand_over",
    "take",
]

# include/uapi/linux/seccomp.h; the same numbers on x86-64 and aarch64.
_RECEIVE, _ANSWER, _IS_VALID, _ADD_DESCRIPTOR = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
_SET_FLAGS, _WAKE_ON_SAME_CPU = 0x40082104, 1
_CONTINUE = 1
_QUESTION = struct.Struct("=QIIiIQ6Q")
"""id, thread, flags; then struct seccomp_data: number, architecture, instruction, arguments."""
_REPLY = struct.Struct("=QqiI")
_DESCRIPTOR = struct.Struct("=QIIII")

_OPENAT2, _NO_MAGIC_LINKS = 437, 2
AT_FDCWD = -100
_PATH_MAX = 4096
_LOOK = os.O_PATH | os.O_CLOEXEC
_FOLDER = _LOOK | os.O_DIRECTORY
_MOST_REFUSALS = 20
"""That are reported; a program may try the same thing a thousand times."""


class ContinueError(Exception):
    """Raised where the kernel is to make the call as the command made it."""


class ParkError(Exception):
    """Raised where an open would wait; the argument is the function that tries it again."""


class Places:
    """Where a command may change files, and what its broker looks things up with."""

    __slots__ = ("own", "proc", "root", "scratch")

    def __init__(self, root: bytes) -> None:
        """Open /proc: it must be the one of the namespace that this process was started in."""
        self.root = root
        self.scratch: tuple[bytes, ...] = ()
        """Folders for temporary files, in which the command may change all by itself."""
        self.proc = os.open("/proc", _FOLDER)
        self.own = os.open("/proc/self/fd", _FOLDER)


class Opened:
    """A file that is to become a descriptor of the command."""

    __slots__ = ("close_on_exec", "fd")

    def __init__(self, fd: int, flags: int) -> None:
        self.fd = fd
        self.close_on_exec = bool(flags & os.O_CLOEXEC)


class Entry:
    """A name in a folder that is open."""

    __slots__ = ("folder", "is_scratch", "name", "parts")

    def __init__(
        self, folder: int, name: bytes, parts: tuple[str, ...] | None, *, is_scratch: bool
    ) -> None:
        self.folder = folder
        self.name = name
        """With the slashes at its end, which mean something to the kernel."""
        self.parts = parts
        """From the root to it; None if it is not in the root."""
        self.is_scratch = is_scratch

    def mode(self) -> int | None:
        """``st_mode`` of what has the name; None if nothing has."""
        try:
            return os.stat(
                self.name.rstrip(b"/"), dir_fd=self.folder, follow_symlinks=False
            ).st_mode
        except OSError:
            return None


class Caller:
    """The thread that made a call, and what is open on its behalf until it is answered."""

    __slots__ = ("_opened", "_proc")

    def __init__(self, proc: int, thread: int) -> None:
        self._opened: list[int] = []
        self._proc = self.keep(os.open(b"%d" % thread, _FOLDER, dir_fd=proc))

    def keep(self, fd: int) -> int:
        """Close `fd` when the call is answered."""
        self._opened.append(fd)
        return fd

    def close(self) -> None:
        """Close everything."""
        opened, self._opened = self._opened, []
        for fd in opened:
            os.close(fd)

    def text(self, address: int) -> bytes:
        """The text at an address of its memory.

        Raises:
            OSError: EFAULT or ENAMETOOLONG, as the kernel would say.
        """
        memory = os.open(b"mem", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        try:
            # The upper byte may be a tag (aarch64).
            data = os.pread(memory, _PATH_MAX, address & (1 << 56) - 1)
        except (OSError, OverflowError):
            raise OSError(errno.EFAULT, "not readable") from None
        finally:
            os.close(memory)
        text, end, _ = data.partition(b"\0")
        if not end:
            raise OSError(errno.ENAMETOOLONG, "too long")
        return text

    def descriptor(self, number: int) -> int:
        """What one of its descriptors is open on, or (AT_FDCWD) the folder it is in."""
        name = b"cwd" if number == AT_FDCWD else b"fd/%d" % number
        try:
            return self.keep(os.open(name, _LOOK, dir_fd=self._proc))
        except OSError:
            raise OSError(errno.EBADF, "no such descriptor") from None

    def start(self, number: int, path: bytes) -> tuple[int, bytes]:
        """Where a path starts that came with a descriptor's number, and the path from there."""
        number, path = _own(number, path)
        return (AT_FDCWD if path.startswith(b"/") else self.descriptor(number)), path

    def umask(self) -> int:
        """The bits that it wants no new file to have."""
        status = os.open(b"status", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        try:
            _, _, rest = os.read(status, 4096).partition(b"\nUmask:\t")
        finally:
            os.close(status)
        return int(rest.partition(b"\n")[0], 8)


class Broker:
    """Serves the listener of one command."""

    def __init__(
        self,
        listener: int,
        places: Places,
        protection: Protection,
        handlers: Mapping[int, Handler],
    ) -> None:
        """Open the root.

        Args:
            listener: Descriptor of the filter's listener; `close` closes it.
            places: Where the command may change files.
            protection: What it may not change there.
            handlers: What to do at each call, by its number.
        """
        self.listener = listener
        self._places = places
        self._beneath = places.root.rstrip(b"/") + b"/"
        self._protection = protection
        self._handlers = handlers
        self._root = os.open(places.root, _FOLDER)
        self._parked: list[tuple[int, Caller, Callable[[], Opened]]] = []
        self.refusals: dict[tuple[str, str, str], None] = {}
        """Path, rule, and what lifts it, of the first changes that were refused."""
        with suppress(OSError):  # Linux 6.6: the answer comes on the CPU that asked.
            fcntl.ioctl(listener, _SET_FLAGS, _WAKE_ON_SAME_CPU)

    @property
    def is_waiting(self) -> bool:
        """True if `retry` has something to do."""
        return bool(self._parked)

    def close(self) -> None:
        """Let go of everything: calls that were not answered fail with ENOSYS."""
        for _, caller, _ in self._parked:
            caller.close()
        self._parked.clear()
        os.close(self._root)
        os.close(self.listener)

    def serve(self) -> None:
        """Answer one question. The listener must be readable."""
        data = bytearray(_QUESTION.size)
        try:
            fcntl.ioctl(self.listener, _RECEIVE, data)
        except OSError:
            return  # Whoever asked has been killed.
        question, thread, _, number, _, _, *arguments = _QUESTION.unpack(data)
        try:
            caller = Caller(self._places.proc, thread)
        except OSError:
            self._answer(question, error=errno.EPERM)
            return
        # From here on what is read is of the thread that asked, not of a later one of its number.
        if self._is_gone(question):
            caller.close()
            return
        try:
            self._finish(question, caller, self._handlers[number](self, caller, arguments))
        except ParkError as error:
            self._parked.append((question, caller, error.args[0]))
            return
        except ContinueError:
            self._answer(question, flags=_CONTINUE)
        except OSError as error:
            self._answer(question, error=error.errno or errno.EIO)
        except Exception:  # noqa: BLE001 - the command's call fails; its launcher must live
            self._answer(question, error=errno.EIO)
        caller.close()

    def retry(self) -> None:
        """Try again what would have waited."""
        waiting, self._parked = self._parked, []
        for question, caller, again in waiting:
            try:
                if not self._is_gone(question):
                    self._finish(question, caller, again())
            except ParkError:
                self._parked.append((question, caller, again))
                continue
            except OSError as error:
                self._answer(question, error=error.errno or errno.EIO)
            caller.close()

    # --- answers ----------------------------------------------------------------------------

    def _is_gone(self, question: int) -> bool:
        try:
            fcntl.ioctl(self.listener, _IS_VALID, struct.pack("=Q", question))
        except OSError:
            return True
        return False

    def _finish(self, question: int, caller: Caller, result: Opened | int) -> None:
        value = self._give(question, result) if isinstance(result, Opened) else result
        # Before the answer: a program that is open here for writing could not be started.
        caller.close()
        self._answer(question, value=value)

    def _give(self, question: int, opened: Opened) -> int:
        """Make a file a descriptor of the command; fails with EMFILE at the command's limit."""
        inherited = os.O_CLOEXEC if opened.close_on_exec else 0
        request = bytearray(_DESCRIPTOR.pack(question, 0, opened.fd, 0, inherited))
        number: int = fcntl.ioctl(self.listener, _ADD_DESCRIPTOR, request)
        return number

    def _answer(self, question: int, *, value: int = 0, error: int = 0, flags: int = 0) -> None:
        with suppress(OSError):  # It may have been killed meanwhile.
            reply = bytearray(_REPLY.pack(question, value, -error, flags))
            fcntl.ioctl(self.listener, _ANSWER, reply)

    # --- paths ------------------------------------------------------------------------------

    def pin(self, caller: Caller, base: int, path: bytes, flags: int = 0) -> int:
        """Open what a path leads to, without the right to read or change it.

        Args:
            caller: Whose path it is.
            base: Where it starts.
            path: The path from there; empty for what `base` is.
            flags: Of open(2), further ones.
        """
        if not path:
            return base
        # Links of /proc would lead to what this process has open, not the command.
        return caller.keep(_openat2(base, path, _LOOK | flags))

    def entry(self, caller: Caller, base: int, path: bytes) -> Entry:
        """The name that a path ends in, and its folder."""
        bare = path.rstrip(b"/")
        head, slash, name = bare.rpartition(b"/")
        if name in (b"", b".", b".."):
            raise ContinueError  # The kernel refuses all of these.
        try:
            folder = self.pin(caller, base, head or b"/", os.O_DIRECTORY) if slash else base
            path = name + path[len(bare) :]
            where = self._path(folder)
        except OSError:
            raise ContinueError from None  # The kernel says what is wrong.
        inner = self._beneath_root(where)
        parts = None if inner is None else (*inner, os.fsdecode(name))
        return Entry(folder, path, parts, is_scratch=self._is_scratch(where))

    def place(self, fd: int) -> tuple[str, ...] | None:
        """Names from the root to what is open; None if it is not in the root."""
        return self._beneath_root(self._path(fd))

    def is_scratch(self, fd: int) -> bool:
        """True if it is in a folder for temporary files."""
        return self._is_scratch(self._path(fd))

    def _path(self, fd: int) -> bytes:
        return os.readlink(b"%d" % fd, dir_fd=self._places.own)

    def _beneath_root(self, path: bytes) -> tuple[str, ...] | None:
        if self._is_scratch(path):
            return None
        if path == self._places.root:
            return ()
        if not path.startswith(self._beneath):
            return None
        return tuple(os.fsdecode(path[len(self._beneath) :]).split("/"))

    def _is_scratch(self, path: bytes) -> bool:
        folders = self._places.scratch
        return any(path == folder or path.startswith(folder + b"/") for folder in folders)

    def reopen(self, caller: Caller, fd: int, flags: int, mode: int = 0) -> int:
        """Open what is pinned for use."""
        return caller.keep(os.open(b"%d" % fd, flags, mode, dir_fd=self._places.own))

    def change_mode(self, fd: int, mode: int) -> None:
        """Set the permissions of what is pinned."""
        os.chmod(b"%d" % fd, mode, dir_fd=self._places.own)

    def link(self, fd: int, target: Entry) -> None:
        """Give what is pinned another name."""
        name, own = b"%d" % fd, self._places.own
        os.link(
            *(name, target.name),
            src_dir_fd=own,
            dst_dir_fd=target.folder,
            follow_symlinks=True,
        )

    # --- judgement --------------------------------------------------------------------------

    def judge(self, parts: Sequence[str], *, replaces: bool = False, content: bool = False) -> None:
        """Raise PermissionError if the entry at `parts` is protected.

        Args:
            parts: From the root to it.
            replaces: True: what is there would not be there any more.
            content: True: the command could give it any content.
        """
        if content and self.is_git_index(parts):
            self.refuse(parts, Refusal("git", "git"))
        refusal = self._protection.refusal(parts, self._exists, by_program=True, replaces=replaces)
        if refusal is not None:
            self.refuse(parts, refusal)

    def refuse(self, parts: Sequence[str], refusal: Refusal) -> None:
        """Note that a change was refused, and refuse it."""
        if len(self.refusals) < _MOST_REFUSALS:
            self.refusals["/".join(parts), refusal.rule, refusal.entry] = None
        raise PermissionError(errno.EPERM, "protected")

    def git_folder(self, parts: Sequence[str] | None) -> tuple[str, ...] | None:
        """The innermost git folder that an entry is in, if any."""
        return None if parts is None else self._protection.git_folder(parts, self._exists)

    def is_git_index(self, parts: Sequence[str]) -> bool:
        """True if it is what a repository believes to be its index."""
        return parts[-1:] in (("index",), ["index"]) and self.git_folder(parts) == tuple(parts[:-1])

    def _exists(self, parts: Sequence[str]) -> bool:
        try:
            os.stat("/".join(parts) or ".", dir_fd=self._root, follow_symlinks=False)
        except OSError:
            return False
        return True


def _openat2(base: int, path: bytes, flags: int) -> int:
    name = ctypes.create_string_buffer(path)
    how = ctypes.create_string_buffer(struct.pack("=3Q", flags, 0, _NO_MAGIC_LINKS), 24)
    return _libc.syscall(_OPENAT2, base, ctypes.addressof(name), ctypes.addressof(how), 24)


def hand_over(near: socket, listener: int, scratch: Sequence[bytes]) -> None:
    """Send a listener to the process that will serve it, and close it here.

    Args:
        near: One of a pair (SOCK_SEQPACKET).
        listener: Of the filter of this process.
        scratch: Folders for temporary files.
    """
    near.sendmsg([b"\0".join(scratch)], [(SOL_SOCKET, SCM_RIGHTS, struct.pack("=i", listener))])
    os.close(listener)


def take(near: socket) -> tuple[int, tuple[bytes, ...]] | None:
    """What was handed over: listener and folders; None if the other side ended before."""
    data, rights, _, _ = near.recvmsg(3 * _PATH_MAX, CMSG_SPACE(4))
    if not rights:
        return None
    (listener,) = struct.unpack_from("=i", rights[0][2])
    return listener, tuple(data.split(b"\0"))


_STREAMS = {b"/dev/stdin": 0, b"/dev/stdout": 1, b"/dev/stderr": 2}
_SELF = (b"/proc/self/", b"/proc/thread-self/")


def _own(number: int, path: bytes) -> tuple[int, bytes]:
    """A path through what /proc has of the program itself, without /proc.

    Only where the path says so: through links it leads to what /proc has of this process, which is
    not in the root.
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
