"""The path boundary: every file that a tool touches is opened here, beneath the session's root.

It knows paths and descriptors; it knows nothing of what is read from them.

Rule 1: A path that leaves the root is refused, however it is spelled (`..`, absolute, both).
    test_a_path_that_leaves_the_root_is_refused
Rule 2: A link is followed only to a place beneath the root; one that leads out is refused, also
    when nothing is there, when it is one of a chain, or in the middle of a path.
    test_a_link_that_leaves_the_root_is_refused
Rule 3: What was checked is what is used: everything is opened relative to a descriptor of the
    root, by the kernel (openat2) or one component at a time without following links. Swapping a
    file for a link in between gains nothing.
    test_a_swapped_link_never_gives_content_from_outside
Rule 4: Opening never waits and never touches a device: only regular files are opened to be read.
    test_what_is_no_regular_file_is_refused_without_waiting
Rule 5: Both ways of opening give the same answer.
    test_both_ways_of_opening_agree
Rule 6: A refusal tells nothing about what is outside the root, not even whether it exists.
    test_a_refusal_does_not_tell_whether_the_outside_exists
"""

from __future__ import annotations

import ctypes
import difflib
import errno
import os
import stat
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from ptc import ToolError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

__all__ = ["MAX_PATH_BYTES", "Place", "Root", "readable", "shown"]

MAX_PATH_BYTES = 4096
"""PATH_MAX of Linux (limits.h): no system call takes a longer path."""

MAX_LINKS = 40
"""Links followed in one path, as the kernel has it (path_resolution(7))."""

_MAX_SUGGESTED_FROM = 1_000
"""Names of a folder looked at for "did you mean"."""

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
# O_NONBLOCK: opening a FIFO would otherwise wait for a writer that may never come.
_LOOK = os.O_PATH | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path really leads, as names beneath the root: no links, no ``..``."""

    path: str
    """Posix path relative to the root; ``""`` is the root itself."""
    is_folder: bool
    """False: a regular file."""

    def child(self, name: str) -> str:
        """Path of an entry of this folder."""
        return f"{self.path}/{name}" if self.path else name


def readable(name: str) -> str:
    """A file's name as valid text: bytes that are not UTF-8 become U+FFFD."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class Root:
    """The session's root, opened. A context manager: leaving it closes the descriptor.

    Args:
        folder: Absolute and resolved.
        kernel_walk: False: never use openat2, as on a kernel that has none (before 5.6).

    Raises:
        ToolError: ``not_found`` if the folder is gone.
    """

    def __init__(self, folder: Path, *, kernel_walk: bool = True) -> None:
        self.folder = folder
        self._kernel_walk = kernel_walk and _has_openat2()
        try:
            self.fd = os.open(folder, _FOLDER)
        except OSError as error:
            msg = f"the session's root cannot be opened: {error.strerror}; open a new session"
            raise ToolError(msg, code="not_found") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self.fd)

    def open_file(self, path: str) -> int:
        """Open a regular file for reading; the caller closes the descriptor.

        Raises:
            ToolError: ``not_found``, ``outside_root``, ``not_a_file``, ``not_a_directory``,
                ``invalid_path`` or ``permission_denied``.
        """
        relative = self._relative(path)
        if self._kernel_walk:
            fd = self._open_beneath(relative, _BENEATH)
            if fd is not None:
                return fd
        # The kernel's walk refuses some paths that are fine (a link with an absolute target
        # beneath the root, a folder renamed meanwhile) and does not say what is wrong with the
        # others. The walk by hand decides both.
        for _ in range(3):
            fd = self._open_walking(relative, path)
            if fd is not None:
                return fd
        raise _changing(path)

    def open_folder(self, path: str) -> tuple[int, Place]:
        """Open a folder for listing; the caller closes the descriptor. Raises as `open_file`."""
        with self._walk(self._relative(path), path) as walk:
            if walk.last is not None:
                msg = f"{shown(path)} is a file, not a folder; read it with read(path)"
                raise ToolError(msg, code="not_a_directory")
            try:
                fd = os.open(".", _FOLDER, dir_fd=walk.fd)
            except OSError as error:
                raise _refusal(error, path) from None
            return fd, Place("/".join(walk.names), is_folder=True)

    def locate(self, path: str) -> Place:
        """Where `path` leads: a folder or a regular file. Raises as `open_file`."""
        with self._walk(self._relative(path), path) as walk:
            if walk.last is None:
                return Place("/".join(walk.names), is_folder=True)
            _must_be_regular(walk.mode, path)
            return Place("/".join([*walk.names, walk.last]), is_folder=False)

    def open_exact(self, path: str) -> int | None:
        """Open a regular file by a path without links, relative to the root.

        For names that another program reported: None where there is no such file, or where
        the path has become a link since.
        """
        if self._kernel_walk:
            return self._open_beneath(path, _BENEATH | _RESOLVE_NO_SYMLINKS)
        try:
            with self._walk(path, path, links=False) as walk:
                if walk.last is None or not stat.S_ISREG(walk.mode):
                    return None
                return _open_regular(walk.last, walk.fd)
        except (ToolError, OSError):
            return None

    def _relative(self, path: str) -> str:
        """`path` as text relative to the root; its links and ``..`` are not looked at yet."""
        if not path:
            msg = 'the path is empty; the root itself is "."'
            raise ToolError(msg, code="invalid_path")
        if "\0" in path:
            msg = f"path {shown(path)} has a NUL character, which no file name has"
            raise ToolError(msg, code="invalid_path")
        try:
            size = len(path.encode())
        except UnicodeEncodeError:
            msg = f"path {shown(path)} is not valid Unicode: it has a lone surrogate"
            raise ToolError(msg, code="invalid_path") from None
        if size > MAX_PATH_BYTES:
            msg = f"the path is {size:,} bytes long; a path has at most {MAX_PATH_BYTES:,}"
            raise ToolError(msg, code="invalid_path")
        inside = self._beneath(path)
        if inside is None:
            raise _outside(path)
        return inside

    def _beneath(self, path: str) -> str | None:
        """A path or a link's target as text relative to the root; None if absolute elsewhere."""
        if not path.startswith("/"):
            return path
        parts = [part for part in path.split("/") if part not in ("", ".")]
        own = [part for part in str(self.folder).split("/") if part]
        if parts[: len(own)] != own:
            return None
        slash = "/" if path.endswith(("/", "/.")) and parts != own else ""
        return "/".join(parts[len(own) :]) + slash or "."

    def _open_beneath(self, relative: str, resolve: int) -> int | None:
        """Open a regular file by openat2; None if the kernel refuses or it is something else."""
        raw = os.fsencode(relative)
        # A look first, so that no device is opened: opening some has effects (a watchdog, a
        # tape). The check that counts is the second one, on the descriptor that is read.
        look = _openat2(self.fd, raw, _LOOK, resolve)
        if look is None:
            return None
        try:
            if not stat.S_ISREG(os.fstat(look).st_mode):
                return None
        finally:
            os.close(look)
        fd = _openat2(self.fd, raw, _READ, resolve)
        if fd is not None and not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            return None
        return fd

    def _open_walking(self, relative: str, path: str) -> int | None:
        """Open a regular file by hand; None if it changed while it was opened."""
        with self._walk(relative, path) as walk:
            if walk.last is None:
                msg = f"{shown(path)} is a folder, not a file; list it with ls(path)"
                raise ToolError(msg, code="not_a_file")
            _must_be_regular(walk.mode, path)
            try:
                return _open_regular(walk.last, walk.fd)
            except OSError as error:
                raise _refusal(error, path) from None

    def _walk(self, relative: str, path: str, *, links: bool = True) -> _Walk:
        """Go down one name at a time, following no link but by hand.

        ``..`` goes back along the names that were walked, never by the kernel's ``..``, which
        leads out of the root when a folder is moved meanwhile.
        """
        walk = _Walk(self.fd)
        followed = 0
        todo = relative.split("/")[::-1]
        try:
            while todo:
                part = todo.pop()
                if walk.last is not None:
                    where = "/".join([*walk.names, walk.last])
                    msg = f"{shown(path)}: {shown(where)} is a file, so nothing is beneath it"
                    raise ToolError(msg, code="not_a_directory")
                if part in ("", "."):
                    continue
                if part == "..":
                    if not walk.names:
                        raise _outside(path)
                    walk.up(path)
                    continue
                target = walk.down(part, path)
                if target is None:
                    continue
                followed += 1
                inside = self._beneath(target)
                if not links or inside is None:
                    raise _outside(path)
                if followed > MAX_LINKS:
                    msg = f"{shown(path)}: more than {MAX_LINKS} links in a row, or a loop"
                    raise ToolError(msg, code="invalid_path")
                if target.startswith("/"):
                    walk.restart()
                todo += inside.split("/")[::-1]
        except BaseException:
            walk.close()
            raise
        return walk


class _Walk:
    """A walk beneath the root: the folder it is in, and the entry it ended at."""

    def __init__(self, root: int) -> None:
        self._root = root
        self.fd = os.dup(root)
        """The folder the walk is in."""
        self.names: list[str] = []
        """Names from the root to that folder."""
        self.last: str | None = None
        """Entry of it where the walk ended; None: at the folder itself."""
        self.mode = 0
        """``st_mode`` of that entry when it was looked at."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        os.close(self.fd)

    def restart(self) -> None:
        """Back to the root."""
        self._move(os.dup(self._root))
        self.names = []

    def up(self, path: str) -> None:
        """To the folder before, by walking to it again: one descriptor serves any depth."""
        names, self.names = self.names[:-1], []
        self._move(os.dup(self._root))
        for name in names:
            if self.down(name, path) is not None or self.last is not None:
                raise _changing(path)

    def down(self, name: str, path: str) -> str | None:
        """To an entry. If it is a link, stay and give its target."""
        try:
            fd = os.open(name, _LOOK | os.O_NOFOLLOW, dir_fd=self.fd)
        except FileNotFoundError:
            raise self._missing(name, path) from None
        except OSError as error:
            raise _refusal(error, path) from None
        with ExitStack() as opened:
            opened.callback(os.close, fd)
            mode = os.fstat(fd).st_mode
            if stat.S_ISLNK(mode):
                # Of the descriptor, not of the name: this very link, whatever is there by now.
                return os.readlink("", dir_fd=fd)
            if stat.S_ISDIR(mode):
                opened.pop_all()
                self._move(fd)
                self.names.append(name)
            else:
                self.last, self.mode = name, mode
        return None

    def _move(self, fd: int) -> None:
        os.close(self.fd)
        self.fd = fd

    def _missing(self, name: str, path: str) -> ToolError:
        folder = "/".join(self.names) or "."
        close: list[str] = []
        try:
            fd = os.open(".", _FOLDER, dir_fd=self.fd)
        except OSError:
            pass  # A folder that may be passed through but not listed has no names to suggest.
        else:
            try:
                with os.scandir(fd) as entries:
                    names = [readable(e.name) for e in islice(entries, _MAX_SUGGESTED_FROM)]
            finally:
                os.close(fd)
            close = difflib.get_close_matches(readable(name), names, n=3, cutoff=0.5)
        if close:
            hint = f"did you mean {' or '.join(repr(c) for c in close)}?"
        else:
            hint = f"ls({folder!r}) shows what is there"
        what = f"folder {shown(folder)} has no {shown(name)}"
        msg = f"{shown(path)} does not exist: {what}; {hint}"
        details: dict[str, object] = {"folder": readable(folder), "nearest": [*close]}
        return ToolError(msg, code="not_found", details=details)


def _open_regular(name: str, folder: int) -> int | None:
    """Open `name` if it is a regular file still; None if it has become something else."""
    try:
        fd = os.open(name, _READ | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOENT, errno.ENXIO):
            return None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    return fd


_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def _must_be_regular(mode: int, path: str) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no regular file")
        msg = f"{shown(path)} is {kind}; only regular files can be read"
        raise ToolError(msg, code="not_a_file")


def shown(path: str) -> str:
    """A path in a message: quoted, and short enough to leave the rest readable."""
    return repr(path if len(path) <= 200 else f"{path[:100]}...{path[-80:]}")


def _outside(path: str) -> ToolError:
    msg = (
        f"{shown(path)} leads outside the session's root; give a path beneath it, "
        'like "src/main.py"; the root itself is "."'
    )
    return ToolError(msg, code="outside_root")


def _changing(path: str) -> ToolError:
    msg = f"{shown(path)} changed while it was being opened; try again"
    return ToolError(msg, code="failed", retryable=True)


def _refusal(error: OSError, path: str) -> ToolError:
    """What the system said, in the words of this boundary."""
    if error.errno in (errno.EACCES, errno.EPERM):
        msg = f"{shown(path)}: permission denied; the host's user may not read it"
        return ToolError(msg, code="permission_denied")
    if error.errno == errno.ENAMETOOLONG:
        msg = f"{shown(path)}: a name in it is too long; most systems stop at 255 bytes"
        return ToolError(msg, code="invalid_path")
    busy = error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR)
    msg = f"{shown(path)} cannot be opened: {error.strerror}"
    return ToolError(msg, code="failed", retryable=busy)


# openat2(2), Linux 5.6. Not in the `os` module up to Python 3.14.
_SYS_OPENAT2 = 437
"""One number on every architecture but alpha (include/uapi/asm-generic/unistd.h)."""
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_BENEATH = _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS


class _OpenHow(ctypes.Structure):
    """``struct open_how`` of linux/openat2.h."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _openat2(folder: int, path: bytes, flags: int, resolve: int) -> int | None:
    """A descriptor, or None if the kernel refused."""
    how = _OpenHow(flags=flags, mode=0, resolve=resolve)
    fd: int = _libc().syscall(
        ctypes.c_long(_SYS_OPENAT2),
        ctypes.c_int(folder),
        ctypes.c_char_p(path),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    return fd if fd >= 0 else None


@lru_cache(maxsize=1)
def _has_openat2() -> bool:
    """False before Linux 5.6, and where a filter of the host's own forbids the call."""
    if sys.platform != "linux":
        return False
    at_cwd = -100  # AT_FDCWD
    fd = _openat2(at_cwd, b".", _LOOK, _RESOLVE_BENEATH)
    if fd is None:
        return False
    os.close(fd)
    return True
