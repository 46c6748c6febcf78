"""Folders in which a command may change files, and the entries in them."""

from __future__ import annotations

import ctypes
import os
import struct

from ..kernel import _libc
from ._caller import FOLDER, PATH_ONLY, ContinueError

TYPE_CHECKING = False  # `typing` takes 3 ms to import.
if TYPE_CHECKING:
    from ._caller import Caller

__all__ = ["Entry", "Folders"]

_OPENAT2, _NO_MAGIC_LINKS = 437, 2


class Folders:
    """The folders in which a command may change files, and /proc descriptors for lookups."""

    __slots__ = ("_beneath", "own", "proc", "root", "scratch")

    def __init__(self, root: bytes) -> None:
        """Open /proc, which must belong to the namespace that this process was started in."""
        self.root = root
        self._beneath = root.rstrip(b"/") + b"/"
        self.scratch: tuple[bytes, ...] = ()
        """Folders for temporary files, which the command changes without the broker."""
        self.proc = os.open("/proc", FOLDER)
        self.own = os.open("/proc/self/fd", FOLDER)

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
        return caller.keep(_openat2(base, path, PATH_ONLY | flags))

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
        return os.readlink(b"%d" % fd, dir_fd=self.own)

    def _beneath_root(self, path: bytes) -> tuple[str, ...] | None:
        if self._is_scratch(path):
            return None
        if path == self.root:
            return ()
        if not path.startswith(self._beneath):
            return None
        return tuple(os.fsdecode(path[len(self._beneath) :]).split("/"))

    def _is_scratch(self, path: bytes) -> bool:
        folders = self.scratch
        return any(path == folder or path.startswith(folder + b"/") for folder in folders)

    def reopen(self, caller: Caller, fd: int, flags: int, mode: int = 0) -> int:
        """Open a pinned file for use."""
        return caller.keep(os.open(b"%d" % fd, flags, mode, dir_fd=self.own))

    def change_mode(self, fd: int, mode: int) -> None:
        """Set the permissions of a pinned file."""
        os.chmod(b"%d" % fd, mode, dir_fd=self.own)

    def link(self, fd: int, target: Entry) -> None:
        """Give a pinned file another name."""
        name, own = b"%d" % fd, self.own
        os.link(
            *(name, target.name),
            src_dir_fd=own,
            dst_dir_fd=target.folder,
            follow_symlinks=True,
        )


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


def _openat2(base: int, path: bytes, flags: int) -> int:
    name = ctypes.create_string_buffer(path)
    how = ctypes.create_string_buffer(struct.pack("=3Q", flags, 0, _NO_MAGIC_LINKS), 24)
    return _libc.syscall(_OPENAT2, base, ctypes.addressof(name), ctypes.addressof(how), 24)
