"""What `_broker` does at each call that could change a file.

Rule 1: Both entries of a rename or a link are judged. Into the root from outside, and into a git
    folder, nothing comes but single files that are no links: a folder or a link could bring what
    its name does not tell. (test_nothing_protected_is_assembled_from_parts)
Rule 2: What the kernel would refuse anyway it refuses itself: such calls are continued, so that a
    program gets the error that it expects. (test_errors_are_those_of_the_kernel)
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import struct

from ..._protected import Refusal
from ..kernel import _libc
from ._broker import AT_FDCWD, Broker, Caller, ContinueError, Entry, Opened, ParkError

TYPE_CHECKING = False  # As `typing` says, which takes 3 ms to import.
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ._broker import Handler

__all__ = ["CALLS", "handlers"]

_MOST_LINKS = 40
"""Links followed in one path, as the kernel has it (path_resolution(7))."""
_MAX_FILE_BYTES = 8 << 30
"""As the command's own limit on the size of a file: `truncate` is made in this process."""

# AT_* and RENAME_* of include/uapi/linux/fcntl.h and fs.h
_SYMLINK_NOFOLLOW, _REMOVE_FOLDER, _SYMLINK_FOLLOW, _EMPTY_PATH = 0x100, 0x200, 0x400, 0x1000
_RENAME_EXCHANGE = 2
_TMPFILE = os.O_TMPFILE & ~os.O_DIRECTORY
_PERMISSIONS = 0o7777
_OF_AN_OPEN_FILE = os.O_APPEND | os.O_DIRECT | os.O_NOATIME | os.O_NONBLOCK | os.O_ASYNC
"""Flags that fcntl(F_SETFL) sets."""
_DECIDED = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
"""Flags that mean nothing any more once a file is pinned."""


def handlers(numbers: Mapping[str, int]) -> dict[int, Handler]:
    """What to do at each call, by the numbers of a machine."""
    return {numbers[name]: handler for name, handler in CALLS.items() if name in numbers}


def _signed(argument: int) -> int:
    """An argument that is a C int."""
    return (argument & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def _start(caller: Caller, dirfd: int, address: int) -> tuple[int, bytes]:
    """Where the path at an address of the command's memory starts, and the path."""
    path = caller.text(address)
    if not path:
        raise ContinueError  # ENOENT, or what else is wrong with the call.
    return caller.start(dirfd, path)


def _masked(caller: Caller, call: Callable[[], int | None]) -> int:
    """Make a new file as the command's umask says."""
    own = os.umask(caller.umask())
    try:
        return call() or 0
    finally:
        os.umask(own)


# --- opening --------------------------------------------------------------------------------------


def _open(
    broker: Broker, caller: Caller, dirfd: int, address: int, flags: int, mode: int
) -> Opened:
    if flags & os.O_PATH:
        raise ContinueError
    try:
        return _open_to_change(broker, caller, dirfd, address, flags, mode)
    except ContinueError:
        if flags & os.O_TRUNC and flags & os.O_ACCMODE not in (os.O_WRONLY, os.O_RDWR):
            # Landlock before ABI 3 takes that for reading.
            raise PermissionError(errno.EACCES, "truncating what is opened to be read") from None
        raise


def _open_to_change(
    broker: Broker, caller: Caller, dirfd: int, address: int, flags: int, mode: int
) -> Opened:
    base, path = _start(caller, dirfd, address)
    if flags & _TMPFILE:
        return _open_nameless(broker, caller, base, path, flags, mode)
    only_new = bool(flags & os.O_CREAT and flags & os.O_EXCL)
    follow = 0 if flags & os.O_NOFOLLOW or only_new else 1
    for _ in range(_MOST_LINKS):
        try:
            fd = broker.pin(caller, base, path, 0 if follow else os.O_NOFOLLOW)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise ContinueError from None
        except OSError:
            raise ContinueError from None
        else:
            if only_new:
                raise ContinueError
            return _open_pinned(broker, caller, fd, flags)
        entry = broker.entry(caller, base, path)
        mode_there = entry.mode()
        if mode_there is None:
            made = _create(broker, caller, entry, flags, mode)
            if made is not None:
                return made
        elif path.endswith(b"/"):
            raise ContinueError
        elif stat.S_ISLNK(mode_there) and follow:
            # A link to nothing: what is made is what it leads to.
            path, base = os.readlink(entry.name, dir_fd=entry.folder), entry.folder
        elif not follow:
            raise ContinueError
    raise OSError(errno.ELOOP, "too many links, or they change all the time")


def _open_pinned(broker: Broker, caller: Caller, fd: int, flags: int) -> Opened:
    kind = os.fstat(fd).st_mode
    is_pipe = stat.S_ISFIFO(kind)
    if not stat.S_ISREG(kind) and not is_pipe:
        raise ContinueError  # EISDIR, ELOOP, ENXIO; devices are for Landlock to judge.
    parts = broker.place(fd)
    if parts is None:
        raise ContinueError
    broker.judge(parts, replaces=True, content=True)

    def attempt() -> Opened:
        # Not to wait for a reader, or for the holder of a lease on the file.
        opened = broker.reopen(caller, fd, flags & ~_DECIDED | os.O_NONBLOCK | os.O_NOCTTY)
        return _as_asked(opened, flags)

    if not is_pipe or flags & os.O_NONBLOCK:
        return attempt()

    def wait() -> Opened:
        try:
            return attempt()
        except OSError as error:
            if error.errno == errno.ENXIO:
                raise ParkError(wait) from None
            raise

    return wait()


def _as_asked(fd: int, flags: int) -> Opened:
    fcntl.fcntl(fd, fcntl.F_SETFL, flags & _OF_AN_OPEN_FILE)
    return Opened(fd, flags)


def _create(broker: Broker, caller: Caller, entry: Entry, flags: int, mode: int) -> Opened | None:
    """Make a file; None if a link has come there meanwhile."""
    if entry.parts is None:
        raise ContinueError
    broker.judge(entry.parts, content=True)
    how = flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    try:
        fd = _masked(
            caller,
            lambda: os.open(entry.name, how, mode & _PERMISSIONS, dir_fd=entry.folder),
        )
    except OSError as error:
        if error.errno == errno.ELOOP and not flags & os.O_NOFOLLOW:
            return None
        raise
    return _as_asked(caller.keep(fd), flags)


def _open_nameless(
    broker: Broker, caller: Caller, base: int, path: bytes, flags: int, mode: int
) -> Opened:
    """O_TMPFILE: a file that has no name until it is linked."""
    folder = broker.pin(caller, base, path, os.O_DIRECTORY)
    parts = broker.place(folder)
    if parts is None:
        raise ContinueError
    broker.judge((*parts, "#"))
    opened = _masked(
        caller, lambda: broker.reopen(caller, folder, flags & ~_DECIDED, mode & _PERMISSIONS)
    )
    return Opened(opened, flags)


# --- names ----------------------------------------------------------------------------------------


def _new(broker: Broker, caller: Caller, dirfd: int, address: int) -> Entry:
    """A name in the root that is free and not protected."""
    entry = broker.entry(caller, *_start(caller, dirfd, address))
    if entry.parts is None or entry.mode() is not None:
        raise ContinueError
    broker.judge(entry.parts, content=True)
    return entry


def _mkdir(broker: Broker, caller: Caller, dirfd: int, address: int, mode: int) -> int:
    entry = _new(broker, caller, dirfd, address)
    return _masked(caller, lambda: os.mkdir(entry.name, mode & _PERMISSIONS, dir_fd=entry.folder))


def _mknod(broker: Broker, caller: Caller, dirfd: int, address: int, mode: int, device: int) -> int:
    entry = _new(broker, caller, dirfd, address)
    return _masked(caller, lambda: os.mknod(entry.name, mode, device=device, dir_fd=entry.folder))


def _symlink(broker: Broker, caller: Caller, target: int, dirfd: int, address: int) -> int:
    text = caller.text(target)
    entry = _new(broker, caller, dirfd, address)
    _refuse_in_git_folder(broker, entry)
    os.symlink(text, entry.name, dir_fd=entry.folder)
    return 0


def _refuse_in_git_folder(broker: Broker, entry: Entry) -> None:
    """A link there would have git itself write where it leads: its messages into its config."""
    if entry.parts is not None and broker.git_folder(entry.parts) is not None:
        broker.refuse(entry.parts, Refusal("git", "git"))


def _link(
    broker: Broker, caller: Caller, dirfd: int, address: int, to: int, to_address: int, flags: int
) -> int:
    if flags & _EMPTY_PATH:
        raise ContinueError
    base, path = _start(caller, dirfd, address)
    target = broker.entry(caller, *_start(caller, to, to_address))
    follow = bool(flags & _SYMLINK_FOLLOW)
    try:
        fd = broker.pin(caller, base, path, 0 if follow else os.O_NOFOLLOW)
    except OSError:
        raise ContinueError from None
    parts = broker.place(fd)
    if target.mode() is not None or not _is_ours(
        (parts is not None, broker.is_scratch(fd)), (target.parts is not None, target.is_scratch)
    ):
        raise ContinueError
    if parts is not None:
        # By another name of a protected file its content could be changed.
        broker.judge(parts, replaces=True, content=True)
    if target.parts is not None:
        broker.judge(target.parts, content=True)
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        _refuse_in_git_folder(broker, target)
        source = broker.entry(caller, base, path)
        os.link(
            *(source.name, target.name),
            src_dir_fd=source.folder,
            dst_dir_fd=target.folder,
            follow_symlinks=False,
        )
    else:
        broker.link(fd, target)
    return 0


def _is_ours(*ends: tuple[bool, bool]) -> bool:
    """True if one end is in the root, and each in the root or among the temporary files."""
    return any(in_root for in_root, _ in ends) and all(map(any, ends))


def _rename(
    broker: Broker, caller: Caller, dirfd: int, address: int, to: int, to_address: int, flags: int
) -> int:
    source = broker.entry(caller, *_start(caller, dirfd, address))
    target = broker.entry(caller, *_start(caller, to, to_address))
    ends = ((end.parts is not None, end.is_scratch) for end in (source, target))
    if source.mode() is None or not _is_ours(*ends):
        raise ContinueError
    for entry in (source, target):
        if entry.parts is not None:
            broker.judge(entry.parts, replaces=entry.mode() is not None)
    _check_move(broker, source, target)
    if flags & _RENAME_EXCHANGE and target.mode() is not None:
        _check_move(broker, target, source)
    if any(entry.parts and broker.is_git_index(entry.parts) for entry in (source, target)):
        return _move_index(broker, caller, source, target, flags)
    old, new = ctypes.create_string_buffer(source.name), ctypes.create_string_buffer(target.name)
    number = _RENAMEAT2[os.uname().machine]
    _libc.syscall(
        *(number, source.folder, ctypes.addressof(old), target.folder, ctypes.addressof(new)),
        flags,
    )
    return 0


_RENAMEAT2 = {"x86_64": 316, "aarch64": 276}


def _check_move(broker: Broker, source: Entry, target: Entry) -> None:
    if target.parts is None:
        return
    mode = source.mode() or 0
    if source.parts is None and stat.S_ISDIR(mode):
        # Whoever moves it copies it then, file by file.
        raise OSError(errno.EXDEV, "a folder from outside")
    folder = broker.git_folder(target.parts)
    if folder is None or stat.S_ISREG(mode):
        return
    if stat.S_ISLNK(mode) or broker.git_folder(source.parts) != folder:
        broker.refuse(target.parts, Refusal("git", "git"))


def _move_index(broker: Broker, caller: Caller, source: Entry, target: Entry, flags: int) -> int:
    """Move a file in place of a git index: a copy of it, which the command has not open."""
    from ._git_index import MAX_INDEX_BYTES, checked_index  # Most commands move none.

    if flags or target.parts is None or not broker.is_git_index(target.parts):
        raise PermissionError(errno.EPERM, "an index is moved by nobody")
    how = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    fd = caller.keep(os.open(source.name, os.O_RDONLY | how, dir_fd=source.folder))
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        broker.refuse(target.parts, Refusal("git", "git"))
    if status.st_size > MAX_INDEX_BYTES:
        raise OSError(errno.EFBIG, "too large")
    data = b""
    while part := os.read(fd, 1 << 24):
        data += part
    try:
        data = checked_index(data)
    except (ValueError, IndexError, struct.error):
        broker.refuse(target.parts, Refusal("git", "git"))
    name = b"%s.%d.ptc" % (target.name, os.getpid())
    new = caller.keep(
        os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | how, 0o600, dir_fd=target.folder)
    )
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(new, view) :]
        os.fchmod(new, stat.S_IMODE(status.st_mode) & 0o777)
        # By this time git tells which files it must look into.
        os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.rename(name, target.name, src_dir_fd=target.folder, dst_dir_fd=target.folder)
    except OSError:
        os.unlink(name, dir_fd=target.folder)
        raise
    os.unlink(source.name, dir_fd=source.folder)
    return 0


def _unlink(broker: Broker, caller: Caller, dirfd: int, address: int, flags: int) -> int:
    entry = broker.entry(caller, *_start(caller, dirfd, address))
    if entry.parts is None or entry.mode() is None:
        raise ContinueError
    if flags & _REMOVE_FOLDER:
        # Programs try it with whatever folder may have become empty, git with its own.
        if _has_entries(entry):
            raise OSError(errno.ENOTEMPTY, "not empty")
        broker.judge(entry.parts)
        os.rmdir(entry.name, dir_fd=entry.folder)
    else:
        broker.judge(entry.parts, replaces=True)
        os.unlink(entry.name, dir_fd=entry.folder)
    return 0


def _has_entries(entry: Entry) -> bool:
    try:
        fd = os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=entry.folder)
    except OSError:
        return False
    try:
        return bool(os.listdir(fd))
    finally:
        os.close(fd)


# --- calls that Landlock does not cover, or not everywhere: never continued -----------------------


def _never_continued(handler: Handler) -> Handler:
    def handle(broker: Broker, caller: Caller, arguments: Sequence[int]) -> Opened | int:
        try:
            return handler(broker, caller, arguments)
        except ContinueError:
            raise FileNotFoundError(errno.ENOENT, "an empty path") from None

    return handle


def _truncate(broker: Broker, caller: Caller, address: int, length: int) -> int:
    if length >> 63:
        raise OSError(errno.EINVAL, "negative")
    fd = broker.pin(caller, *_start(caller, AT_FDCWD, address))
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, "not a file")
    parts = broker.place(fd)
    if parts is not None:
        broker.judge(parts, replaces=True, content=True)
    elif not broker.is_scratch(fd):
        raise PermissionError(errno.EACCES, "outside")
    opened = broker.reopen(caller, fd, os.O_WRONLY | os.O_NONBLOCK)
    if length > _MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, "too large")
    os.ftruncate(opened, length)
    return 0


def _chmod(broker: Broker, caller: Caller, dirfd: int, address: int, mode: int, flags: int) -> int:
    if flags & _EMPTY_PATH and not caller.text(address):
        return _fchmod(broker, caller, dirfd, mode)
    follow = 0 if not flags & _SYMLINK_NOFOLLOW else os.O_NOFOLLOW
    fd = broker.pin(caller, *_start(caller, dirfd, address), follow)
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        raise OSError(errno.EOPNOTSUPP, "a link has no permissions")
    return _change_mode(broker, fd, mode)


def _fchmod(broker: Broker, caller: Caller, number: int, mode: int) -> int:
    return _change_mode(broker, caller.descriptor(number), mode)


def _change_mode(broker: Broker, fd: int, mode: int) -> int:
    parts = broker.place(fd)
    if parts is not None:
        broker.judge(parts)
    # Outside of the root all mounts are read-only, for this process too: else the filter refuses
    # these calls, see `_filter.build`.
    broker.change_mode(fd, mode & _PERMISSIONS)
    return 0


# --- the table ------------------------------------------------------------------------------------

_CREAT = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
_HERE = AT_FDCWD

CALLS: dict[str, Handler] = {
    "open": lambda b, c, a: _open(b, c, _HERE, a[0], _signed(a[1]), a[2]),
    "creat": lambda b, c, a: _open(b, c, _HERE, a[0], _CREAT, a[1]),
    "openat": lambda b, c, a: _open(b, c, _signed(a[0]), a[1], _signed(a[2]), a[3]),
    "mkdir": lambda b, c, a: _mkdir(b, c, _HERE, a[0], a[1]),
    "mkdirat": lambda b, c, a: _mkdir(b, c, _signed(a[0]), a[1], a[2]),
    "mknod": lambda b, c, a: _mknod(b, c, _HERE, a[0], a[1] & 0xFFFF, a[2] & 0xFFFFFFFF),
    "mknodat": lambda b, c, a: _mknod(b, c, _signed(a[0]), a[1], a[2] & 0xFFFF, a[3] & 0xFFFFFFFF),
    "symlink": lambda b, c, a: _symlink(b, c, a[0], _HERE, a[1]),
    "symlinkat": lambda b, c, a: _symlink(b, c, a[0], _signed(a[1]), a[2]),
    "link": lambda b, c, a: _link(b, c, _HERE, a[0], _HERE, a[1], 0),
    "linkat": lambda b, c, a: _link(b, c, _signed(a[0]), a[1], _signed(a[2]), a[3], _signed(a[4])),
    "rename": lambda b, c, a: _rename(b, c, _HERE, a[0], _HERE, a[1], 0),
    "renameat": lambda b, c, a: _rename(b, c, _signed(a[0]), a[1], _signed(a[2]), a[3], 0),
    "renameat2": lambda b, c, a: _rename(
        b, c, _signed(a[0]), a[1], _signed(a[2]), a[3], _signed(a[4])
    ),
    "unlink": lambda b, c, a: _unlink(b, c, _HERE, a[0], 0),
    "unlinkat": lambda b, c, a: _unlink(b, c, _signed(a[0]), a[1], _signed(a[2])),
    "rmdir": lambda b, c, a: _unlink(b, c, _HERE, a[0], _REMOVE_FOLDER),
    "truncate": _never_continued(lambda b, c, a: _truncate(b, c, a[0], a[1])),
    "chmod": _never_continued(lambda b, c, a: _chmod(b, c, _HERE, a[0], a[1], 0)),
    "fchmod": lambda b, c, a: _fchmod(b, c, _signed(a[0]), a[1]),
    "fchmodat": _never_continued(lambda b, c, a: _chmod(b, c, _signed(a[0]), a[1], a[2], 0)),
    "fchmodat2": _never_continued(
        lambda b, c, a: _chmod(b, c, _signed(a[0]), a[1], a[2], _signed(a[3]))
    ),
}
"""By the kernel's names. What is not here and changes names is refused by Landlock."""
