"""Open folders, whose entries are reached by name and never through a link.

Names have one component. On POSIX, calls are relative to a descriptor (openat(2)), so another
folder that gets the name of this one meanwhile is never used. Windows has no such calls: see
`_windows`.

Rule 1: an entry that is a link is opened by no method.
    tests/core/test_folder.py::test_no_method_goes_through_a_link
Rule 2: a folder stays the one that was opened, whatever gets its name.
    tests/core/test_folder.py::test_replaced_folder_is_not_used
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = [
    "Folder",
    "PosixFolder",
    "lock_file",
    "open_file",
    "open_folder",
    "pread",
    "pwrite",
    "sync_folder",
]

# Windows has none of these flags: its folders need none.
_CLOEXEC: Final[int] = getattr(os, "O_CLOEXEC", 0)
_NO_LINK: Final[int] = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT: Final[int] = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_LIST: Final[int] = os.O_RDONLY | _CLOEXEC | getattr(os, "O_DIRECTORY", 0)
_ENTER: Final[int] = getattr(os, "O_PATH", os.O_RDONLY) | _CLOEXEC | getattr(os, "O_DIRECTORY", 0)
"""With O_PATH, a folder can be entered that may not be listed; only Linux has it."""
_F_GETPATH: Final = 50
"""fcntl(2) of macOS: the path of a descriptor."""


class Folder(Protocol):
    """A folder that was opened. A context manager that closes it."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def place(self) -> str:
        """A path of the folder for another program; the folder may have moved when it is used."""
        ...

    def copy(self) -> Folder:
        """Return an object of its own for the same folder."""
        ...

    def close(self) -> None:
        """Give the folder back to the system."""

    def enter(self, name: str) -> Folder:
        """Open a folder in this one; `OSError` if it is missing, not a folder, or a link."""
        ...

    def status(self, name: str) -> os.stat_result:
        """Return the status of an entry; of a link, its own."""
        ...

    def target(self, name: str) -> str:
        """Return the target of a link."""
        ...

    def names(self) -> Iterator[str]:
        """Yield the names of the entries, in no order."""
        ...

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """Open an entry that is not a folder, and return its descriptor; `OSError` for a link.

        Args:
            name: Name of the entry.
            flags: Of `os.open`. It never waits, for instance for the writer of a pipe.
            mode: Permissions of a new file.
        """
        ...

    def make(self, name: str) -> None:
        """Create a folder; `FileExistsError` if there is an entry."""

    def remove(self, name: str) -> None:
        """Delete an entry that is not a folder."""

    def remove_folder(self, name: str) -> None:
        """Delete an empty folder."""

    def replace(self, name: str, new: str) -> None:
        """Give an entry another name; a file that has it is replaced in one step."""

    def link(self, name: str, new: str) -> None:
        """Give a file a second name; `FileExistsError` if there is an entry."""

    def touch(self, name: str) -> None:
        """Set the times of an entry to now."""

    def may_write(self, name: str) -> bool:
        """Return True if this user may change the contents of a file."""
        ...

    def flush(self) -> None:
        """Make new names survive a failure of the machine, where the system can (fsync(2))."""


class PosixFolder(Folder):
    """A folder by its descriptor."""

    __slots__ = ("_path", "fd")

    def __init__(self, fd: int, path: str) -> None:
        """Take over the descriptor of a folder.

        Args:
            fd: The descriptor.
            path: Its path when it was opened, for systems that cannot tell it later.
        """
        self.fd = fd
        self._path = path

    @property
    def place(self) -> str:
        """As `Folder`; on Linux, the descriptor's own path, which is never another folder's."""
        if sys.platform == "linux":
            return f"/proc/self/fd/{self.fd}"
        with suppress(ImportError, OSError):
            import fcntl

            found = fcntl.fcntl(self.fd, getattr(fcntl, "F_GETPATH", _F_GETPATH), bytes(1_024))
            return os.fsdecode(found.rstrip(b"\0"))
        return self._path

    def copy(self) -> PosixFolder:
        """As `Folder`."""
        return PosixFolder(os.dup(self.fd), self._path)

    def close(self) -> None:
        """As `Folder`."""
        os.close(self.fd)

    def enter(self, name: str) -> PosixFolder:
        """As `Folder`."""
        fd = os.open(name, _ENTER | _NO_LINK, dir_fd=self.fd)
        return PosixFolder(fd, f"{self._path}/{name}")

    def status(self, name: str) -> os.stat_result:
        """As `Folder`."""
        return os.stat(name, dir_fd=self.fd, follow_symlinks=False)

    def target(self, name: str) -> str:
        """As `Folder`."""
        return os.readlink(name, dir_fd=self.fd)

    def names(self) -> Iterator[str]:
        """As `Folder`."""
        # A descriptor of its own: a duplicate would share the position of the listing.
        fd = os.open(".", _LIST, dir_fd=self.fd)
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
                    yield entry.name
        finally:
            os.close(fd)

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """As `Folder`."""
        return os.open(name, flags | _NO_LINK | _NO_WAIT | _CLOEXEC, mode, dir_fd=self.fd)

    def make(self, name: str) -> None:
        """As `Folder`."""
        os.mkdir(name, dir_fd=self.fd)

    def remove(self, name: str) -> None:
        """As `Folder`."""
        os.unlink(name, dir_fd=self.fd)

    def remove_folder(self, name: str) -> None:
        """As `Folder`."""
        os.rmdir(name, dir_fd=self.fd)

    def replace(self, name: str, new: str) -> None:
        """As `Folder`."""
        os.rename(name, new, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def link(self, name: str, new: str) -> None:
        """As `Folder`."""
        os.link(name, new, src_dir_fd=self.fd, dst_dir_fd=self.fd, follow_symlinks=False)

    def touch(self, name: str) -> None:
        """As `Folder`."""
        os.utime(name, dir_fd=self.fd, follow_symlinks=False)

    def may_write(self, name: str) -> bool:
        """As `Folder`."""
        return os.access(name, os.W_OK, dir_fd=self.fd, effective_ids=True, follow_symlinks=False)

    def flush(self) -> None:
        """As `Folder`."""
        fd = os.open(".", _LIST, dir_fd=self.fd)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def open_folder(path: str | Path) -> Folder:
    """Open a folder by its path, links in it followed; `OSError` if that fails."""
    if os.name == "nt":
        from ._windows import open_windows_folder

        return open_windows_folder(str(path))
    return PosixFolder(os.open(path, _LIST), str(path))


def open_file(path: Path, flags: int, mode: int = 0o666) -> int:
    """Open a file by its path, not through a link at its end, and without waiting.

    Links in the folders above it are followed.

    Raises:
        OSError: As `Folder.open`.
    """
    with open_folder(path.parent) as folder:
        return folder.open(path.name, flags, mode)


def sync_folder(path: Path) -> None:
    """Make new names in a folder survive a failure of the machine, as `Folder.flush`."""
    with open_folder(path) as folder:
        folder.flush()


def pread(fd: int, count: int, offset: int) -> bytes:
    """Read up to `count` bytes from a position; the file's own position does not count."""
    if os.name == "nt":
        from ._windows import pread as read_at

        return read_at(fd, count, offset)
    return os.pread(fd, count, offset)


def pwrite(fd: int, data: bytes | memoryview, offset: int) -> int:
    """Write at a position, and return how many bytes were written."""
    if os.name == "nt":
        from ._windows import pwrite as write_at

        return write_at(fd, data, offset)
    return os.pwrite(fd, data, offset)


def lock_file(fd: int) -> None:
    """Lock a file for this process until it is closed.

    Raises:
        BlockingIOError: If another process has locked it.
    """
    if os.name == "nt":
        from ._windows import lock_file as lock

        lock(fd)
        return
    import fcntl

    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
