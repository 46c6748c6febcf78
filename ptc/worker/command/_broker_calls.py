"""The broker's handlers of the system calls that could change a file.

`_open_calls` handles those that open one.

Rule 1: Both entries of a rename or a link are checked. Only single files that are not links may
    move into the root from outside, or into a git folder: a folder or a link could bring content
    that its name does not show. (test_nothing_protected_is_assembled_from_parts)
Rule 2: A call that the kernel would reject is continued, so that the program gets the error that
    it expects. (test_errors_are_those_of_the_kernel)
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct

from ..._protected import Refusal
from ..kernel import _libc
from ._caller import AT_FDCWD, PERMISSIONS, ContinueError, read_start, with_umask
from ._open_calls import open_file

TYPE_CHECKING = False  # `typing` takes 3 ms to import.
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ._broker import Broker, Handler, Opened
    from ._caller import Caller
    from ._folders import Entry

__all__ = ["CALLS", "handlers"]

_MAX_FILE_BYTES = 8 << 30
"""Equals the command's own file size limit, since this process makes its `truncate` calls."""

# AT_* and RENAME_* of include/uapi/linux/fcntl.h and fs.h
_SYMLINK_NOFOLLOW, _REMOVE_FOLDER, _SYMLINK_FOLLOW, _EMPTY_PATH = 0x100, 0x200, 0x400, 0x1000
_RENAME_EXCHANGE = 2


def handlers(numbers: Mapping[str, int]) -> dict[int, Handler]:
    """Return the handlers by the system call numbers of a machine."""
    return {numbers[name]: handler for name, handler in CALLS.items() if name in numbers}


def _signed(argument: int) -> int:
    """Convert an argument to a C int."""
    return (argument & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


# --- names ----------------------------------------------------------------------------------------


def _new_entry(broker: Broker, caller: Caller, dirfd: int, address: int) -> Entry:
    """Resolve a new name in the root; it must be free and not protected."""
    entry = broker.folders.entry(caller, *read_start(caller, dirfd, address))
    if entry.parts is None or entry.mode() is not None:
        raise ContinueError
    broker.check_change(entry.parts, content=True)
    return entry


def _mkdir(broker: Broker, caller: Caller, dirfd: int, address: int, mode: int) -> int:
    entry = _new_entry(broker, caller, dirfd, address)
    return with_umask(caller, lambda: os.mkdir(entry.name, mode & PERMISSIONS, dir_fd=entry.folder))


def _mknod(broker: Broker, caller: Caller, dirfd: int, address: int, mode: int, device: int) -> int:
    entry = _new_entry(broker, caller, dirfd, address)
    return with_umask(
        caller, lambda: os.mknod(entry.name, mode, device=device, dir_fd=entry.folder)
    )


def _symlink(broker: Broker, caller: Caller, target: int, dirfd: int, address: int) -> int:
    text = caller.read_string(target)
    entry = _new_entry(broker, caller, dirfd, address)
    _check_link_target(broker, entry)
    os.symlink(text, entry.name, dir_fd=entry.folder)
    return 0


def _check_link_target(broker: Broker, entry: Entry) -> None:
    """Stop a link that would redirect git's own writes, e.g. its messages into its config."""
    if entry.parts is not None and broker.git_folder(entry.parts) is not None:
        broker.refuse(entry.parts, Refusal("git", "git"))


def _link(
    broker: Broker, caller: Caller, dirfd: int, address: int, to: int, to_address: int, flags: int
) -> int:
    if flags & _EMPTY_PATH:
        raise ContinueError
    base, path = read_start(caller, dirfd, address)
    target = broker.folders.entry(caller, *read_start(caller, to, to_address))
    follow = bool(flags & _SYMLINK_FOLLOW)
    try:
        fd = broker.folders.pin(caller, base, path, 0 if follow else os.O_NOFOLLOW)
    except OSError:
        raise ContinueError from None
    parts = broker.folders.parts_of(fd)
    if target.mode() is not None or not _is_brokered_move(
        (parts is not None, broker.folders.is_scratch(fd)),
        (target.parts is not None, target.is_scratch),
    ):
        raise ContinueError
    if parts is not None:
        # A second name of a protected file would allow changing its content.
        broker.check_change(parts, replaces=True, content=True)
    if target.parts is not None:
        broker.check_change(target.parts, content=True)
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        _check_link_target(broker, target)
        source = broker.folders.entry(caller, base, path)
        os.link(
            *(source.name, target.name),
            src_dir_fd=source.folder,
            dst_dir_fd=target.folder,
            follow_symlinks=False,
        )
    else:
        broker.folders.link(fd, target)
    return 0


def _is_brokered_move(*ends: tuple[bool, bool]) -> bool:
    """True if one end is in the root, and each end in the root or in a scratch folder."""
    return any(in_root for in_root, _ in ends) and all(map(any, ends))


def _rename(
    broker: Broker, caller: Caller, dirfd: int, address: int, to: int, to_address: int, flags: int
) -> int:
    source = broker.folders.entry(caller, *read_start(caller, dirfd, address))
    target = broker.folders.entry(caller, *read_start(caller, to, to_address))
    ends = ((end.parts is not None, end.is_scratch) for end in (source, target))
    if source.mode() is None or not _is_brokered_move(*ends):
        raise ContinueError
    for entry in (source, target):
        if entry.parts is not None:
            broker.check_change(entry.parts, replaces=entry.mode() is not None)
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
        # On EXDEV programs copy the folder, file by file.
        raise OSError(errno.EXDEV, "a folder from outside")
    folder = broker.git_folder(target.parts)
    if folder is None or stat.S_ISREG(mode):
        return
    if stat.S_ISLNK(mode) or broker.git_folder(source.parts) != folder:
        broker.refuse(target.parts, Refusal("git", "git"))


def _move_index(broker: Broker, caller: Caller, source: Entry, target: Entry, flags: int) -> int:
    """Replace a git index by a checked copy of a file, which the command does not have open."""
    from ._git_index import MAX_INDEX_BYTES, sanitize_index  # Most commands move no index.

    if flags or target.parts is None or not broker.is_git_index(target.parts):
        raise PermissionError(errno.EPERM, "an index may not be moved away")
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
        data = sanitize_index(data)
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
        # git compares files with this time to decide which to read.
        os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.rename(name, target.name, src_dir_fd=target.folder, dst_dir_fd=target.folder)
    except OSError:
        os.unlink(name, dir_fd=target.folder)
        raise
    os.unlink(source.name, dir_fd=source.folder)
    return 0


def _unlink(broker: Broker, caller: Caller, dirfd: int, address: int, flags: int) -> int:
    entry = broker.folders.entry(caller, *read_start(caller, dirfd, address))
    if entry.parts is None or entry.mode() is None:
        raise ContinueError
    if flags & _REMOVE_FOLDER:
        # Programs try to remove any folder that may be empty, git also its own.
        if _has_entries(entry):
            raise OSError(errno.ENOTEMPTY, "not empty")
        broker.check_change(entry.parts)
        os.rmdir(entry.name, dir_fd=entry.folder)
    else:
        broker.check_change(entry.parts, replaces=True)
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


# --- calls that Landlock does not cover on every kernel: never continued --------------------------


def _fail_on_continue(handler: Handler) -> Handler:
    def handle(broker: Broker, caller: Caller, arguments: Sequence[int]) -> Opened | int:
        try:
            return handler(broker, caller, arguments)
        except ContinueError:
            raise FileNotFoundError(errno.ENOENT, "an empty path") from None

    return handle


def _truncate(broker: Broker, caller: Caller, address: int, length: int) -> int:
    if length >> 63:
        raise OSError(errno.EINVAL, "negative")
    fd = broker.folders.pin(caller, *read_start(caller, AT_FDCWD, address))
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, "not a file")
    parts = broker.folders.parts_of(fd)
    if parts is not None:
        broker.check_change(parts, replaces=True, content=True)
    elif not broker.folders.is_scratch(fd):
        raise PermissionError(errno.EACCES, "outside")
    opened = broker.folders.reopen(caller, fd, os.O_WRONLY | os.O_NONBLOCK)
    if length > _MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, "too large")
    os.ftruncate(opened, length)
    return 0


def _chmod(broker: Broker, caller: Caller, dirfd: int, address: int, mode: int, flags: int) -> int:
    if flags & _EMPTY_PATH and not caller.read_string(address):
        return _fchmod(broker, caller, dirfd, mode)
    follow = 0 if not flags & _SYMLINK_NOFOLLOW else os.O_NOFOLLOW
    fd = broker.folders.pin(caller, *read_start(caller, dirfd, address), follow)
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        raise OSError(errno.EOPNOTSUPP, "a link has no permissions")
    return _change_mode(broker, fd, mode)


def _fchmod(broker: Broker, caller: Caller, number: int, mode: int) -> int:
    return _change_mode(broker, caller.descriptor(number), mode)


def _change_mode(broker: Broker, fd: int, mode: int) -> int:
    parts = broker.folders.parts_of(fd)
    if parts is not None:
        broker.check_change(parts)
    # Outside the root all mounts are read-only, for this process too; otherwise the filter rejects
    # these calls, see `_filter.build`.
    broker.folders.change_mode(fd, mode & PERMISSIONS)
    return 0


# --- the table ------------------------------------------------------------------------------------

_CREAT = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
_HERE = AT_FDCWD

CALLS: dict[str, Handler] = {
    "open": lambda b, c, a: open_file(b, c, _HERE, a[0], _signed(a[1]), a[2]),
    "creat": lambda b, c, a: open_file(b, c, _HERE, a[0], _CREAT, a[1]),
    "openat": lambda b, c, a: open_file(b, c, _signed(a[0]), a[1], _signed(a[2]), a[3]),
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
    "truncate": _fail_on_continue(lambda b, c, a: _truncate(b, c, a[0], a[1])),
    "chmod": _fail_on_continue(lambda b, c, a: _chmod(b, c, _HERE, a[0], a[1], 0)),
    "fchmod": lambda b, c, a: _fchmod(b, c, _signed(a[0]), a[1]),
    "fchmodat": _fail_on_continue(lambda b, c, a: _chmod(b, c, _signed(a[0]), a[1], a[2], 0)),
    "fchmodat2": _fail_on_continue(
        lambda b, c, a: _chmod(b, c, _signed(a[0]), a[1], a[2], _signed(a[3]))
    ),
}
"""Handlers by system call name. Landlock rejects any other call that changes names."""
