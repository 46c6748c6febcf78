"""Broker that makes a confined command's file changes, except to protected paths.

The command itself cannot change anything in the root: Landlock grants it read access only. Its
filter (`_filter`) stops each call that could make a change and notifies the listener served here,
in the launcher, outside the command. The broker performs the changes that the table of protected
paths (`ptc._protected`) allows (`_broker_calls`); an opened file becomes a descriptor of the
command.

Rule 1: A path is read from the command's memory once. Its target is opened, checked under the
    kernel's own name for it, and used by descriptor (`_folders`), so concurrent changes by the
    command have no effect. (test_changing_a_path_during_its_check_bypasses_nothing)
Rule 2: Calls outside the root are not brokered: the kernel continues the call as the command made
    it, under the command's own confinement. The command may have changed the call by then, and
    gains nothing, since Landlock lets no call change the root. Calls that Landlock does not cover
    are never continued. (test_without_the_broker_a_command_changes_nothing_in_the_root)
Rule 3: The broker never waits for the command: no call here blocks.
    (test_fifo_or_lease_does_not_block_the_launcher)

See seccomp_unotify(2). A command starts in milliseconds, so this module imports little.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct

# The C module: the Python module on top of it takes 8 ms to import.
from _socket import CMSG_SPACE, SCM_RIGHTS, SOL_SOCKET
from contextlib import suppress

from ..._protected import Refusal
from ._caller import FOLDER, PATH_MAX, Caller, ContinueError

TYPE_CHECKING = False  # `typing` takes 3 ms to import.
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from ..._protected import Protection
    from ._folders import Folders

    Handler: TypeAlias = Callable[["Broker", "Caller", Sequence[int]], "Opened | int"]

__all__ = ["Broker", "Opened", "WouldBlockError", "receive_listener", "send_listener"]

# include/uapi/linux/seccomp.h; the same numbers on x86-64 and aarch64.
_RECEIVE, _ANSWER, _IS_VALID, _ADD_DESCRIPTOR = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
_SET_FLAGS, _WAKE_ON_SAME_CPU = 0x40082104, 1
_CONTINUE = 1
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
"""id, thread, flags; then struct seccomp_data: number, architecture, instruction, arguments."""
_RESPONSE = struct.Struct("=QqiI")
_DESCRIPTOR = struct.Struct("=QIIII")

_MAX_REFUSALS = 20
"""Maximum number of refusals reported; a program may retry a change a thousand times."""


class WouldBlockError(Exception):
    """Raised if an open would block; the argument is the function that retries it."""


class Opened:
    """An open file that becomes a descriptor of the command."""

    __slots__ = ("close_on_exec", "fd")

    def __init__(self, fd: int, flags: int) -> None:
        self.fd = fd
        self.close_on_exec = bool(flags & os.O_CLOEXEC)


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
        self.folders = folders
        self._protection = protection
        self._handlers = handlers
        self._root = os.open(folders.root, FOLDER)
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
            caller = Caller(self.folders.proc, thread)
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
    data, rights, _, _ = near.recvmsg(3 * PATH_MAX, CMSG_SPACE(4))
    if not rights:
        return None
    (listener,) = struct.unpack_from("=i", rights[0][2])
    return listener, tuple(data.split(b"\0"))
