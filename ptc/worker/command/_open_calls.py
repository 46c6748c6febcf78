"""The broker's handler of the system calls that open a file."""

from __future__ import annotations

import errno
import fcntl
import os
import stat

from ._broker import Opened, WouldBlockError
from ._caller import PERMISSIONS, ContinueError, read_start, with_umask

TYPE_CHECKING = False  # `typing` takes 3 ms to import.
if TYPE_CHECKING:
    from ._broker import Broker
    from ._caller import Caller
    from ._folders import Entry

__all__ = ["open_file"]

_MAX_LINKS = 40
"""Links followed in one path, as in the kernel (path_resolution(7))."""
_TMPFILE = os.O_TMPFILE & ~os.O_DIRECTORY
_STATUS_FLAGS = os.O_APPEND | os.O_DIRECT | os.O_NOATIME | os.O_NONBLOCK | os.O_ASYNC
"""Flags that fcntl(F_SETFL) sets."""
_RESOLVED_FLAGS = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
"""Flags that have no effect on a pinned file."""


def open_file(
    broker: Broker, caller: Caller, dirfd: int, address: int, flags: int, mode: int
) -> Opened:
    """Open a file for the command, or create it."""
    if flags & os.O_PATH:
        raise ContinueError
    try:
        return _open_to_change(broker, caller, dirfd, address, flags, mode)
    except ContinueError:
        if flags & os.O_TRUNC and flags & os.O_ACCMODE not in (os.O_WRONLY, os.O_RDWR):
            # Landlock before ABI 3 treats that as reading.
            raise PermissionError(errno.EACCES, "O_TRUNC on a file opened for reading") from None
        raise


def _open_to_change(
    broker: Broker, caller: Caller, dirfd: int, address: int, flags: int, mode: int
) -> Opened:
    base, path = read_start(caller, dirfd, address)
    if flags & _TMPFILE:
        return _open_nameless(broker, caller, base, path, flags, mode)
    exclusive = bool(flags & os.O_CREAT and flags & os.O_EXCL)
    follow = not (flags & os.O_NOFOLLOW or exclusive)
    for _ in range(_MAX_LINKS):
        fd = _pin_existing(broker, caller, base, path, flags, follow=follow)
        if fd is not None:
            if exclusive:
                raise ContinueError
            return _open_pinned(broker, caller, fd, flags)
        entry = broker.folders.entry(caller, base, path)
        existing = entry.mode()
        if existing is None:
            created = _create(broker, caller, entry, flags, mode)
            if created is not None:
                return created
        elif path.endswith(b"/"):
            raise ContinueError
        elif stat.S_ISLNK(existing) and follow:
            # A dangling link: the file is created at its target.
            path, base = os.readlink(entry.name, dir_fd=entry.folder), entry.folder
        elif not follow:
            raise ContinueError
    raise OSError(errno.ELOOP, "too many links, or links that keep changing")


def _pin_existing(
    broker: Broker, caller: Caller, base: int, path: bytes, flags: int, *, follow: bool
) -> int | None:
    """Pin the file at a path; None if it does not exist and the call may create it."""
    try:
        return broker.folders.pin(caller, base, path, 0 if follow else os.O_NOFOLLOW)
    except FileNotFoundError:
        if flags & os.O_CREAT:
            return None
        raise ContinueError from None
    except OSError:
        raise ContinueError from None


def _open_pinned(broker: Broker, caller: Caller, fd: int, flags: int) -> Opened:
    kind = os.fstat(fd).st_mode
    is_pipe = stat.S_ISFIFO(kind)
    if not stat.S_ISREG(kind) and not is_pipe:
        raise ContinueError  # EISDIR, ELOOP, ENXIO; Landlock decides about devices.
    parts = broker.folders.parts_of(fd)
    if parts is None:
        raise ContinueError
    broker.check_change(parts, replaces=True, content=True)

    def attempt() -> Opened:
        # O_NONBLOCK: never wait for a reader, or for the holder of a lease on the file.
        opened = broker.folders.reopen(
            caller, fd, flags & ~_RESOLVED_FLAGS | os.O_NONBLOCK | os.O_NOCTTY
        )
        return _set_status_flags(opened, flags)

    if not is_pipe or flags & os.O_NONBLOCK:
        return attempt()

    def wait() -> Opened:
        try:
            return attempt()
        except OSError as error:
            if error.errno == errno.ENXIO:
                raise WouldBlockError(wait) from None
            raise

    return wait()


def _set_status_flags(fd: int, flags: int) -> Opened:
    fcntl.fcntl(fd, fcntl.F_SETFL, flags & _STATUS_FLAGS)
    return Opened(fd, flags)


def _create(broker: Broker, caller: Caller, entry: Entry, flags: int, mode: int) -> Opened | None:
    """Create a file; None if a link appeared in its place."""
    if entry.parts is None:
        raise ContinueError
    broker.check_change(entry.parts, content=True)
    how = flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    try:
        fd = with_umask(
            caller,
            lambda: os.open(entry.name, how, mode & PERMISSIONS, dir_fd=entry.folder),
        )
    except OSError as error:
        if error.errno == errno.ELOOP and not flags & os.O_NOFOLLOW:
            return None
        raise
    return _set_status_flags(caller.keep(fd), flags)


def _open_nameless(
    broker: Broker, caller: Caller, base: int, path: bytes, flags: int, mode: int
) -> Opened:
    """Open an O_TMPFILE, a file that has no name until it is linked."""
    folder = broker.folders.pin(caller, base, path, os.O_DIRECTORY)
    parts = broker.folders.parts_of(folder)
    if parts is None:
        raise ContinueError
    broker.check_change((*parts, "#"))
    opened = with_umask(
        caller,
        lambda: broker.folders.reopen(caller, folder, flags & ~_RESOLVED_FLAGS, mode & PERMISSIONS),
    )
    return Opened(opened, flags)
