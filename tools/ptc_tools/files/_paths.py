"""The path boundary: opens every file that a tool touches, beneath the session's root.

It handles paths and descriptors, never the content of files.

Rule 1: A path that leaves the root is refused in every spelling (`..`, absolute, both).
    test_a_path_that_leaves_the_root_is_refused
Rule 2: A link is followed only to a target beneath the root. One that leads out is refused, also
    if its target does not exist, if it is part of a chain, or in the middle of a path.
    test_a_link_that_leaves_the_root_is_refused
Rule 3: Check and use are one step: everything is opened relative to a descriptor of the root, by
    the kernel (openat2) or one component at a time without following links. Swapping a file for
    a link in between gains nothing.
    test_swapped_link_never_yields_content_from_outside
Rule 4: Opening never blocks and never touches a device: only regular files are opened for reading,
    and none on a file system that is the kernel's own interface (procfs, sysfs).
    test_non_regular_file_is_refused_without_blocking
    test_file_of_a_kernel_file_system_is_refused
Rule 5: Both implementations of opening give the same result.
    test_both_implementations_of_path_resolution_agree
Rule 6: A refusal reveals nothing about files outside the root, not even their existence.
    test_refusal_does_not_reveal_whether_an_outside_file_exists
Rule 7: A file is written at its resolved path; a dangling link is never written through.
    test_a_dangling_link_is_never_written_through
    test_swapped_link_never_causes_a_write_outside
Rule 8: A protected path is never written, under any path that leads to it.
    test_no_tool_changes_a_protected_path

Mounts beneath the root are part of it: only an administrator can create them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ptc import ToolError
from ptc._core._folder import Folder, PosixFolder, open_folder
from ptc._protected import Protection, explain

from ._path_errors import conflict_error, outside_error, quote, readable, refusal
from ._spelling import beneath
from ._syscalls import (
    RESOLVE_BENEATH,
    RESOLVE_NO_MAGICLINKS,
    RESOLVE_NO_SYMLINKS,
    has_openat2,
    is_kernels_own,
    openat2,
)
from ._walk import Walk, walk_path

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = [
    "MAX_PATH_BYTES",
    "Place",
    "Root",
    "Slot",
    "protection_of",
]

MAX_PATH_BYTES = 4096
"""PATH_MAX of Linux (limits.h): no system call takes a longer path."""

_LOOK = getattr(os, "O_PATH", 0) | getattr(os, "O_CLOEXEC", 0)
"""Flags of openat2 to open an entry without reading it."""
_ENTER = _LOOK | getattr(os, "O_DIRECTORY", 0)
# O_NONBLOCK: opening a FIFO would otherwise wait for a writer that may never come.
_READ = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_NONBLOCK", 0)
)
_BENEATH = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS


@dataclass(frozen=True, slots=True)
class Place:
    """A resolved path beneath the root, without links and ``..``."""

    path: str
    """Posix path relative to the root; ``""`` is the root itself."""
    is_folder: bool
    """False for a regular file."""

    def child(self, name: str) -> str:
        """Return the path of an entry of this folder."""
        return f"{self.path}/{name}" if self.path else name


@dataclass(slots=True)
class Slot:
    """An opened position in a folder beneath the root, with or without a file.

    A context manager: leaving it closes the descriptors.
    """

    path: str
    """Resolved path of the file: posix, relative to the root, no links, no ``..``."""
    folder: Folder
    """The nearest folder that exists."""
    missing: list[str]
    """Folders to create beneath it first."""
    name: str
    """Name of the file in the last of these folders."""
    fd: int | None
    """The existing regular file, opened for reading; None if there is none."""
    status: os.stat_result | None
    """Status of that file when it was opened."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.folder.close()
        self.release()

    def release(self) -> None:
        """Close the existing file, which Windows needs to replace it."""
        fd, self.fd = self.fd, None
        if fd is not None:
            os.close(fd)

    def make_folder(self) -> bool:
        """Create the first missing folder and enter it; False if it exists by now.

        Raises:
            OSError: If it cannot be created, or its name is not a folder.
        """
        name = self.missing[0]
        made = False
        # Another process may have created it first: then enter that folder.
        with suppress(FileExistsError):
            self.folder.make(name)
            made = True
        folder = self.folder.enter(name)
        self.folder.close()
        self.folder = folder
        del self.missing[0]
        return made


def protection_of(
    root: Path, unprotected: frozenset[str], protected: frozenset[str] = frozenset()
) -> Protection:
    """Return the table of protected paths for a root."""
    return _protection(root, unprotected, protected, os.path.expanduser("~"))


@lru_cache(maxsize=64)
def _protection(
    root: Path, unprotected: frozenset[str], protected: frozenset[str], home: str
) -> Protection:
    # The home of a user without one is the root of the file system, or stays "~".
    place = Path(home).resolve() if home.strip("/").strip("~") else None
    inner = place.relative_to(root).parts if place and place.is_relative_to(root) else None
    return Protection(unprotected, inner, sorted(protected))


class Root:
    """The session's root, opened. A context manager: leaving it closes the descriptor.

    Args:
        folder: Absolute and resolved.
        unprotected: Protected paths that may be written nevertheless.
        protected: Further protected files and folders, relative to the root.
        kernel_walk: False: never use openat2, as on a kernel without it (before 5.6).

    Raises:
        ToolError: ``not_found`` if the folder is gone.
    """

    def __init__(
        self,
        folder: Path,
        *,
        unprotected: frozenset[str] = frozenset(),
        protected: frozenset[str] = frozenset(),
        kernel_walk: bool = True,
    ) -> None:
        self.folder = folder
        self._unprotected = unprotected
        self._protected = protected
        self._kernel_walk = kernel_walk and has_openat2()
        try:
            self.top = open_folder(folder)
        except OSError as error:
            msg = f"the session's root cannot be opened: {error.strerror}; open a new session"
            raise ToolError(msg, code="not_found") from None
        self._device = None
        if isinstance(self.top, PosixFolder) and not is_kernels_own(self.top.fd):
            # None: the root is on such a file system; check each of its files.
            self._device = os.fstat(self.top.fd).st_dev

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.top.close()

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
        # The kernel's walk refuses some valid paths (a link with an absolute target beneath the
        # root, a folder renamed meanwhile) and gives no reason for the others. The component-wise
        # walk decides both.
        for _ in range(3):
            fd = self._open_walking(relative, path)
            if fd is not None:
                return fd
        raise conflict_error(path)

    def open_folder(self, path: str) -> tuple[Folder, Place]:
        """Open a folder for listing; the caller closes it. Raises as `open_file`."""
        with self._walk(self._relative(path), path) as walk:
            if walk.last is not None:
                msg = f"{quote(path)} is a file, not a folder; read it with read(path)"
                raise ToolError(msg, code="not_a_directory")
            return walk.folder.copy(), Place("/".join(walk.names), is_folder=True)

    def locate(self, path: str) -> Place:
        """Resolve `path` to a folder or a regular file. Raises as `open_file`."""
        with self._walk(self._relative(path), path) as walk:
            if walk.last is None:
                return Place("/".join(walk.names), is_folder=True)
            self._must_be_file(walk, path)
            return Place("/".join([*walk.names, walk.last]), is_folder=False)

    def open_exact(self, path: str) -> int | None:
        """Open a regular file by a path without links, relative to the root.

        For names that another program reported: None if there is no such file, or if the path
        has become a link since.
        """
        if self._kernel_walk:
            return self._open_beneath(path, _BENEATH | RESOLVE_NO_SYMLINKS)
        try:
            with self._walk(path, path, links=False) as walk:
                if walk.last is None:
                    return None
                self._must_be_file(walk, path)
                return self._open_regular(walk.last, walk.folder)
        except (ToolError, OSError):
            return None

    def has_exact(self, path: str) -> bool:
        """True if `open_exact` would open a file, as far as its status shows."""
        if self._kernel_walk:
            look = self._openat2(path, _LOOK, _BENEATH | RESOLVE_NO_SYMLINKS)
            if look is None:
                return False
            try:
                return self._is_readable(look)
            finally:
                os.close(look)
        fd = self.open_exact(path)
        if fd is not None:
            os.close(fd)
        return fd is not None

    def slot(self, path: str) -> Slot:
        """Open the position of a file that may not exist; the caller closes the slot.

        Links in the path are followed as for reading. Missing folders are not created yet.

        Raises:
            ToolError: As `open_file`, except that the file may be missing.
        """
        relative = self._relative(path)
        for _ in range(3):
            with self._enter(relative, path) as walk:
                slot = self._slot(walk, path)
                if slot is not None:
                    return slot
        raise conflict_error(path)

    def _walk(self, relative: str, path: str, *, links: bool = True, missing: bool = False) -> Walk:
        return walk_path(
            self.top,
            relative,
            path,
            lambda target: beneath(self.folder, target),
            links=links,
            missing=missing,
        )

    def _enter(self, relative: str, path: str) -> Walk:
        """Walk to the end of a path that may not exist."""
        folder, _, name = relative.rpartition("/")
        names = [part for part in folder.split("/") if part not in ("", ".")]
        if self._kernel_walk and name not in ("", ".", "..") and ".." not in names:
            # One call for all folders if none is a link, else the component-wise walk.
            fd = self._openat2(folder or ".", _ENTER, _BENEATH | RESOLVE_NO_SYMLINKS)
            if fd is not None:
                walk = Walk(PosixFolder(fd, folder), names)
                try:
                    if walk.down(name, path, missing=True) is None:
                        return walk
                except BaseException:
                    walk.close()
                    raise
                walk.close()
        return self._walk(relative, path, missing=True)

    def _slot(self, walk: Walk, path: str) -> Slot | None:
        """Open the slot at the end of `walk`; None if the entry changed meanwhile."""
        if (walk.last is None and not walk.missing) or walk.folder_meant:
            msg = f"{quote(path)} is a folder, not a file"
            raise ToolError(msg, code="not_a_file")
        names = walk.missing if walk.last is None else [walk.last]
        real = "/".join([*walk.names, *names])
        self._check_protected([*walk.names, *names])
        with ExitStack() as opened:
            folder = walk.folder.copy()
            opened.callback(folder.close)
            slot = Slot(real, folder, names[:-1], names[-1], None, None)
            if walk.last is not None:
                self._must_be_file(walk, path)
                try:
                    slot.fd = self._open_regular(walk.last, folder)
                except OSError as error:
                    raise refusal(error, path) from None
                if slot.fd is None:
                    return None
                slot.status = os.fstat(slot.fd)
            opened.pop_all()
        return slot

    def _check_protected(self, parts: Sequence[str]) -> None:
        """Raise ``protected_path`` if no tool may change the file at `parts`."""

        def exists(parts: Sequence[str]) -> bool:
            try:
                return self._exists(parts)
            except OSError:
                return False

        refused = protection_of(self.folder, self._unprotected, self._protected).refusal(
            parts, exists
        )
        if refused is not None:
            path = readable("/".join(parts))
            details: dict[str, object] = {"path": path, "rule": refused.rule}
            msg = explain(path, refused.rule, refused.entry)
            raise ToolError(msg, code="protected_path", details=details)

    def _exists(self, parts: Sequence[str]) -> bool:
        """True if there is an entry; `OSError` if it is not beneath the root."""
        if isinstance(self.top, PosixFolder):
            os.stat("/".join(parts) or ".", dir_fd=self.top.fd, follow_symlinks=False)
            return True
        with ExitStack() as opened:
            folder = self.top
            for name in parts[:-1]:
                folder = opened.enter_context(folder.enter(name))
            if parts:
                folder.status(parts[-1])
        return True

    def _relative(self, path: str) -> str:
        """Return `path` relative to the root, with links and ``..`` still unresolved."""
        if not path:
            msg = 'the path is empty; the root itself is "."'
            raise ToolError(msg, code="invalid_path")
        if "\0" in path:
            msg = f"path {quote(path)} has a NUL character, which file names cannot have"
            raise ToolError(msg, code="invalid_path")
        try:
            size = len(path.encode())
        except UnicodeEncodeError:
            msg = f"path {quote(path)} is not valid Unicode: it has a lone surrogate"
            raise ToolError(msg, code="invalid_path") from None
        if size > MAX_PATH_BYTES:
            msg = f"the path is {size:,} bytes long; a path has at most {MAX_PATH_BYTES:,}"
            raise ToolError(msg, code="invalid_path")
        inside = beneath(self.folder, path)
        if inside is None:
            raise outside_error(path)
        return inside

    def _openat2(self, relative: str, flags: int, resolve: int) -> int | None:
        """Open a path in the root by openat2; None if the kernel refuses."""
        if not isinstance(self.top, PosixFolder):
            raise AssertionError("openat2 is a call of Linux")
        return openat2(self.top.fd, os.fsencode(relative), flags, resolve)

    def _open_beneath(self, relative: str, resolve: int) -> int | None:
        """Open a regular file by openat2; None if the kernel refuses or it has another kind."""
        # Check an O_PATH descriptor first: opening some devices has effects (a watchdog, a tape).
        # The second check, on the descriptor to be read, is the one that protects.
        look = self._openat2(relative, _LOOK, resolve)
        if look is None:
            return None
        try:
            if not self._is_readable(look):
                return None
        finally:
            os.close(look)
        fd = self._openat2(relative, _READ, resolve)
        if fd is not None and not self._is_readable(fd):
            os.close(fd)
            return None
        return fd

    def _is_readable(self, fd: int) -> bool:
        """True for a regular file that is not part of the kernel's interface."""
        status = os.fstat(fd)
        trusted = status.st_dev == self._device or not is_kernels_own(fd)
        return stat.S_ISREG(status.st_mode) and trusted

    @staticmethod
    def _must_be_file(walk: Walk, path: str) -> None:
        """Refuse the end of the walk if it must not even be opened."""
        if not stat.S_ISREG(walk.mode):
            kind = _KINDS.get(stat.S_IFMT(walk.mode), "not a regular file")
            msg = f"{quote(path)} is {kind}; only regular files can be read and written"
            raise ToolError(msg, code="not_a_file")
        # Some of these block when they are read, consume data, or reveal facts about the host.
        if walk.kernels_own:
            msg = f"{quote(path)} is the kernel's own (procfs, sysfs or the like), not a file"
            raise ToolError(msg, code="not_a_file")

    def _open_regular(self, name: str, folder: Folder) -> int | None:
        """Open `name` if it is still a regular file; None if it has changed."""
        try:
            fd = folder.open(name, os.O_RDONLY)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOENT, errno.ENXIO):
                return None
            raise
        if not self._is_readable(fd):
            os.close(fd)
            return None
        return fd

    def _open_walking(self, relative: str, path: str) -> int | None:
        """Open a regular file component by component; None if it changed meanwhile."""
        with self._walk(relative, path) as walk:
            if walk.last is None:
                msg = f"{quote(path)} is a folder, not a file; list it with ls(path)"
                raise ToolError(msg, code="not_a_file")
            self._must_be_file(walk, path)
            try:
                return self._open_regular(walk.last, walk.folder)
            except OSError as error:
                raise refusal(error, path) from None


_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}
