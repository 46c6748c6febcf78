"""Broker that makes a confined command's file changes, except to protected paths.

The command itself cannot change anything in the root: Landlock grants it read access only. Its
filter (`_filter`) stops each call that could make a change and notifies the listener served here,
in the launcher, outside the command. The broker performs the changes that the table of protected
paths (`ptc._protected`) allows (`_broker_calls`); an opened file becomes a descriptor of the
command.

Rule 1: A path is read from the command's memory once. Its target is opened, checked under the
    kernel's own name for it, and used by descriptor, so concurrent changes by the command have no
    effect. (test_changing_a_path_during_its_check_bypasses_nothing)
Rule 2: Calls outside the root are not brokered: the kernel continues the call as the command made
    it, under the command's own confinement. The command may have changed the call by then, and
    gains nothing, since Landlock lets no call change the root. Calls that Landlock does not cover
    are never continued. (test_without_the_broker_a_command_changes_nothing_in_the_root)
Rule 3: The broker never waits for the command: no call here blocks.
    (test_fifo_or_lease_does_not_block_the_launcher)

See seccomp_unotify(2). A command starts in milliseconds, so this module imports little.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct

# The C module: the Python module on top of it takes 8 ms to import.
from _socket import CMSG_SPACE, SCM_RIGHTS, SOL_SOCKET
from contextlib import suppress

from ..._protected import Refusal
from ..kernel import _libc

TYPE_CHECKING = False  # `typing` takes 3 ms to import.
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
    "Folders",
    "Opened",
    "WouldBlockError",
    "receive_listener",
    "send_listener",
]

# include/uapi/linux/seccomp.h; the same numbers on x86-64 and aarch64.
_RECEIVE, _ANSWER, _IS_VALID, _ADD_DESCRIPTOR = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
_SET_FLAGS, _WAKE_ON_SAME_CPU = 0x40082104, 1
_CONTINUE = 1
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
"""id, thread, flags; then struct seccomp_data: number, architecture, instruction, arguments."""
_RESPONSE = struct.Struct("=QqiI")
_DESCRIPTOR = struct.Struct("=QIIII")

_OPENAT2, _NO_MAGIC_LINKS = 437, 2
AT_FDCWD = -100
_PATH_MAX = 4096
_PATH_ONLY = os.O_PATH | os.O_CLOEXEC
_FOLDER = _PATH_ONLY | os.O_DIRECTORY
_MAX_REFUSALS = 20
"""Maximum number of refusals reported; a program may retry a change a thousand times."""


class ContinueError(Exception):
    """Raised to have the kernel continue the call as the command made it."""


class WouldBlockError(Exception):
    """Raised if an open would block; the argument is the function that retries it."""


class Folders:
    """The folders in which a command may change files, and /proc descriptors for lookups."""

    __slots__ = ("own", "proc", "root", "scratch")

    def __init__(self, root: bytes) -> None:
        """Open /proc, which must belong to the namespace that this process was started in."""
        self.root = root
        self.scratch: tuple[bytes, ...] = ()
        """Folders for temporary files, which the command changes without the broker."""
        self.proc = os.open("/proc", _FOLDER)
        self.own = os.open("/proc/self/fd", _FOLDER)


class Opened:
    """An open file that becomes a descriptor of the command."""

    __slots__ = ("close_on_exec", "fd")

    def __init__(self, fd: int, flags: int) -> None:
        self.fd = fd
        self.close_on_exec = bool(flags & os.O_CLOEXEC)


class Entry:
    """A name in an open folder."""

    __slots__ = ("folder", "is_scratch", "name", "parts")

    def __init__(
        self, folder: int, name: bytes, parts: tuple[str, ...] | None, *, is_scratch: bool
    ) -> None:
        self.folder = folder
        self.name = name
        """Includes trailing slashes, which the kernel interprets."""
        self.parts = parts
        """Names from the root to the entry; None if it is not in the root."""
        self.is_scratch = is_scratch

    def mode(self) -> int | None:
        """Return the entry's ``st_mode``, or None if it does not exist."""
        try:
            return os.stat(
                self.name.rstrip(b"/"), dir_fd=self.folder, follow_symlinks=False
            ).st_mode
        except OSError:
            return None


class Caller:
    """The thread that made a call, and the descriptors held until the call is answered."""

    __slots__ = ("_opened", "_proc")

    def __init__(self, proc: int, thread: int) -> None:
        self._opened: list[int] = []
        self._proc = self.keep(os.open(b"%d" % thread, _FOLDER, dir_fd=proc))

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
        """Open the file behind one of its descriptors, or (AT_FDCWD) its current folder."""
        name = b"cwd" if number == AT_FDCWD else b"fd/%d" % number
        try:
            return self.keep(os.open(name, _PATH_ONLY, dir_fd=self._proc))
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


class Broker:
    """Server of one command's seccomp listener."""

    def __init__(
        self,
        listener: int,
        folders: Folders,
        protection: Protection,
        handlers: Mapping[int, Handler],
    ) -> None:
        """Open the root.

        Args:
            listener: Descriptor of the filter's listener; `close` closes it.
            folders: Folders in which the command may change files.
            protection: Paths that it may not change there.
            handlers: Handler of each call, by system call number.
        """
        self.listener = listener
        self._folders = folders
        self._beneath = folders.root.rstrip(b"/") + b"/"
        self._protection = protection
        self._handlers = handlers
        self._root = os.open(folders.root, _FOLDER)
        self._blocked: list[tuple[int, Caller, Callable[[], Opened]]] = []
        self.refusals: dict[tuple[str, str, str], None] = {}
        """Path, rule and lifting entry of the first refused changes."""
        with suppress(OSError):  # Linux 6.6: respond on the CPU of the caller.
            fcntl.ioctl(listener, _SET_FLAGS, _WAKE_ON_SAME_CPU)

    @property
    def has_blocked(self) -> bool:
        """True if calls are waiting for `retry`."""
        return bool(self._blocked)

    def close(self) -> None:
        """Close all descriptors; unanswered calls fail with ENOSYS."""
        for _, caller, _ in self._blocked:
            caller.close()
        self._blocked.clear()
        os.close(self._root)
        os.close(self.listener)

    def serve(self) -> None:
        """Answer one notification. The listener must be readable."""
        data = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self.listener, _RECEIVE, data)
        except OSError:
            return  # The caller has been killed.
        notification, thread, _, number, _, _, *arguments = _NOTIFICATION.unpack(data)
        try:
            caller = Caller(self._folders.proc, thread)
        except OSError:
            self._respond(notification, error=errno.EPERM)
            return
        # Verified: reads from here on are of the calling thread, not of one that reuses its id.
        if self._is_gone(notification):
            caller.close()
            return
        try:
            self._finish(notification, caller, self._handlers[number](self, caller, arguments))
        except WouldBlockError as error:
            self._blocked.append((notification, caller, error.args[0]))
            return
        except ContinueError:
            self._respond(notification, flags=_CONTINUE)
        except OSError as error:
            self._respond(notification, error=error.errno or errno.EIO)
        except Exception:  # noqa: BLE001 - the command's call fails; its launcher must survive
            self._respond(notification, error=errno.EIO)
        caller.close()

    def retry(self) -> None:
        """Retry the calls that would have blocked."""
        waiting, self._blocked = self._blocked, []
        for notification, caller, again in waiting:
            try:
                if not self._is_gone(notification):
                    self._finish(notification, caller, again())
            except WouldBlockError:
                self._blocked.append((notification, caller, again))
                continue
            except OSError as error:
                self._respond(notification, error=error.errno or errno.EIO)
            caller.close()

    # --- responses --------------------------------------------------------------------------

    def _is_gone(self, notification: int) -> bool:
        try:
            fcntl.ioctl(self.listener, _IS_VALID, struct.pack("=Q", notification))
        except OSError:
            return True
        return False

    def _finish(self, notification: int, caller: Caller, result: Opened | int) -> None:
        value = self._add_descriptor(notification, result) if isinstance(result, Opened) else result
        # Before the response: a program that is open for writing here could not be executed.
        caller.close()
        self._respond(notification, value=value)

    def _add_descriptor(self, notification: int, opened: Opened) -> int:
        """Install a file as a descriptor of the command; EMFILE at the command's limit."""
        inherited = os.O_CLOEXEC if opened.close_on_exec else 0
        request = bytearray(_DESCRIPTOR.pack(notification, 0, opened.fd, 0, inherited))
        number: int = fcntl.ioctl(self.listener, _ADD_DESCRIPTOR, request)
        return number

    def _respond(
        self, notification: int, *, value: int = 0, error: int = 0, flags: int = 0
    ) -> None:
        with suppress(OSError):  # The caller may have been killed.
            reply = bytearray(_RESPONSE.pack(notification, value, -error, flags))
            fcntl.ioctl(self.listener, _ANSWER, reply)

    # --- paths ------------------------------------------------------------------------------

    def pin(self, caller: Caller, base: int, path: bytes, flags: int = 0) -> int:
        """Open the target of a path with O_PATH: no right to read or change it.

        Args:
            caller: Owner of the path.
            base: Descriptor that the path starts from.
            path: The path; empty for `base` itself.
            flags: Additional flags of open(2).
        """
        if not path:
            return base
        # Magic links of /proc would lead to files open in this process, not in the command.
        return caller.keep(_openat2(base, path, _PATH_ONLY | flags))

    def entry(self, caller: Caller, base: int, path: bytes) -> Entry:
        """Resolve the folder of a path and its last name."""
        bare = path.rstrip(b"/")
        head, slash, name = bare.rpartition(b"/")
        if name in (b"", b".", b".."):
            raise ContinueError  # The kernel rejects all of these.
        try:
            folder = self.pin(caller, base, head or b"/", os.O_DIRECTORY) if slash else base
            path = name + path[len(bare) :]
            where = self._path(folder)
        except OSError:
            raise ContinueError from None  # The kernel returns the right error.
        inner = self._beneath_root(where)
        parts = None if inner is None else (*inner, os.fsdecode(name))
        return Entry(folder, path, parts, is_scratch=self._is_scratch(where))

    def parts_of(self, fd: int) -> tuple[str, ...] | None:
        """Return the names from the root to an open file; None if it is not in the root."""
        return self._beneath_root(self._path(fd))

    def is_scratch(self, fd: int) -> bool:
        """True if an open file is in a folder for temporary files."""
        return self._is_scratch(self._path(fd))

    def _path(self, fd: int) -> bytes:
        return os.readlink(b"%d" % fd, dir_fd=self._folders.own)

    def _beneath_root(self, path: bytes) -> tuple[str, ...] | None:
        if self._is_scratch(path):
            return None
        if path == self._folders.root:
            return ()
        if not path.startswith(self._beneath):
            return None
        return tuple(os.fsdecode(path[len(self._beneath) :]).split("/"))

    def _is_scratch(self, path: bytes) -> bool:
        folders = self._folders.scratch
        return any(path == folder or path.startswith(folder + b"/") for folder in folders)

    def reopen(self, caller: Caller, fd: int, flags: int, mode: int = 0) -> int:
        """Open a pinned file for use."""
        return caller.keep(os.open(b"%d" % fd, flags, mode, dir_fd=self._folders.own))

    def change_mode(self, fd: int, mode: int) -> None:
        """Set the permissions of a pinned file."""
        os.chmod(b"%d" % fd, mode, dir_fd=self._folders.own)

    def link(self, fd: int, target: Entry) -> None:
        """Give a pinned file another name."""
        name, own = b"%d" % fd, self._folders.own
        os.link(
            *(name, target.name),
            src_dir_fd=own,
            dst_dir_fd=target.folder,
            follow_symlinks=True,
        )

    # --- decisions --------------------------------------------------------------------------

    def check_change(
        self, parts: Sequence[str], *, replaces: bool = False, content: bool = False
    ) -> None:
        """Raise PermissionError if the entry at `parts` is protected.

        Args:
            parts: Names from the root to the entry.
            replaces: True: the change removes or overwrites an existing entry.
            content: True: the command could then write any content to it.
        """
        if content and self.is_git_index(parts):
            self.refuse(parts, Refusal("git", "git"))
        refusal = self._protection.refusal(parts, self._exists, by_program=True, replaces=replaces)
        if refusal is not None:
            self.refuse(parts, refusal)

    def refuse(self, parts: Sequence[str], refusal: Refusal) -> None:
        """Record a refused change and raise its error."""
        if len(self.refusals) < _MAX_REFUSALS:
            self.refusals["/".join(parts), refusal.rule, refusal.entry] = None
        raise PermissionError(errno.EPERM, "protected")

    def git_folder(self, parts: Sequence[str] | None) -> tuple[str, ...] | None:
        """Return the innermost git folder that contains an entry, if any."""
        return None if parts is None else self._protection.git_folder(parts, self._exists)

    def is_git_index(self, parts: Sequence[str]) -> bool:
        """True if the entry is the index of a repository."""
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


def send_listener(near: socket, listener: int, scratch: Sequence[bytes]) -> None:
    """Send a listener to the process that will serve it, and close it here.

    Args:
        near: One end of a SOCK_SEQPACKET pair.
        listener: Listener of this process's filter.
        scratch: Folders for temporary files.
    """
    near.sendmsg([b"\0".join(scratch)], [(SOL_SOCKET, SCM_RIGHTS, struct.pack("=i", listener))])
    os.close(listener)


def receive_listener(near: socket) -> tuple[int, tuple[bytes, ...]] | None:
    """Receive a listener and its folders; None if the other side exited first."""
    data, rights, _, _ = near.recvmsg(3 * _PATH_MAX, CMSG_SPACE(4))
    if not rights:
        return None
    (listener,) = struct.unpack_from("=i", rights[0][2])
    return listener, tuple(data.split(b"\0"))


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
