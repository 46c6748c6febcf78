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
    test_swapped_link_never_yields_content_from_outside
Rule 4: Opening never waits and never touches a device: only regular files are opened to be read,
    and none of a file system that is the kernel's own interface (procfs, sysfs).
    test_non_regular_file_is_refused_without_blocking
    test_file_of_a_kernel_file_system_is_refused
Rule 5: Both ways of opening give the same answer.
    test_both_implementations_of_path_resolution_agree
Rule 6: A refusal tells nothing about what is outside the root, not even whether it exists.
    test_refusal_does_not_reveal_whether_an_outside_file_exists
Rule 7: A file is written where its path really leads; a link to nothing is never written through.
    test_a_dangling_link_is_never_written_through
    test_swapped_link_never_causes_a_write_outside

Rule 8: What is protected is not written, wherever the path to it leads through.
    test_no_tool_changes_a_protected_path

What is mounted beneath the root is part of it: only an administrator can put it there.
"""

from __future__ import annotations

import difflib
import errno
import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ptc import ToolError
from ptc._protected import Protection, explain

from ._syscalls import (
    RESOLVE_BENEATH,
    RESOLVE_NO_MAGICLINKS,
    RESOLVE_NO_SYMLINKS,
    has_openat2,
    is_kernels_own,
    openat2,
)

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = [
    "MAX_PATH_BYTES",
    "Place",
    "Root",
    "Slot",
    "changing",
    "protection_of",
    "readable",
    "refusal",
    "shown",
]

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
_ENTER = _LOOK | os.O_DIRECTORY
_BENEATH = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS


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


@dataclass(slots=True)
class Slot:
    """A name in a folder beneath the root, opened: a file is there or may be put there.

    A context manager: leaving it closes what is open.
    """

    path: str
    """Where the file really is: posix, relative to the root, no links, no ``..``."""
    folder: int
    """Descriptor (O_PATH) of the nearest folder that exists."""
    missing: list[str]
    """Folders to be made beneath it first."""
    name: str
    """Name in the last of them."""
    fd: int | None
    """The regular file that is there, opened for reading; None if nothing is."""
    status: os.stat_result | None
    """Of that file, when it was opened."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self.folder)
        if self.fd is not None:
            os.close(self.fd)

    def make_folder(self) -> bool:
        """Make the first of the missing folders and go into it; False if it is there by now.

        Raises:
            OSError: If it cannot be made, or something else has its name.
        """
        name = self.missing[0]
        made = False
        # Where somebody was faster, what is there is entered if it is a folder.
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=self.folder)
            made = True
        fd = os.open(name, _LOOK | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self.folder)
        os.close(self.folder)
        self.folder = fd
        del self.missing[0]
        return made


def readable(name: str) -> str:
    """A file's name as valid text: bytes that are not UTF-8 become U+FFFD."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def protection_of(root: Path, unprotected: frozenset[str]) -> Protection:
    """The table of protected paths for a root."""
    return _protection(root, unprotected, os.path.expanduser("~"))


@lru_cache(maxsize=64)
def _protection(root: Path, unprotected: frozenset[str], home: str) -> Protection:
    # The home of a user without one is the root of the file system, or stays "~".
    place = Path(home).resolve() if home.strip("/").strip("~") else None
    inner = place.relative_to(root).parts if place and place.is_relative_to(root) else None
    return Protection(unprotected, inner)


class Root:
    """The session's root, opened. A context manager: leaving it closes the descriptor.

    Args:
        folder: Absolute and resolved.
        unprotected: Protected paths that may be written all the same.
        kernel_walk: False: never use openat2, as on a kernel that has none (before 5.6).

    Raises:
        ToolError: ``not_found`` if the folder is gone.
    """

    def __init__(
        self,
        folder: Path,
        *,
        unprotected: frozenset[str] = frozenset(),
        kernel_walk: bool = True,
    ) -> None:
        self.folder = folder
        self._unprotected = unprotected
        self._kernel_walk = kernel_walk and has_openat2()
        try:
            self.fd = os.open(folder, _FOLDER)
        except OSError as error:
            msg = f"the session's root cannot be opened: {error.strerror}; open a new session"
            raise ToolError(msg, code="not_found") from None
        device = os.fstat(self.fd).st_dev
        # None: the root is the kernel's own; no file of it is taken on trust.
        self._device = None if is_kernels_own(self.fd) else device

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
        raise changing(path)

    def open_folder(self, path: str) -> tuple[int, Place]:
        """Open a folder for listing; the caller closes the descriptor. Raises as `open_file`."""
        with self._walk(self._relative(path), path) as walk:
            if walk.last is not None:
                msg = f"{shown(path)} is a file, not a folder; read it with read(path)"
                raise ToolError(msg, code="not_a_directory")
            try:
                fd = os.open(".", _FOLDER, dir_fd=walk.fd)
            except OSError as error:
                raise refusal(error, path) from None
            return fd, Place("/".join(walk.names), is_folder=True)

    def locate(self, path: str) -> Place:
        """Where `path` leads: a folder or a regular file. Raises as `open_file`."""
        with self._walk(self._relative(path), path) as walk:
            if walk.last is None:
                return Place("/".join(walk.names), is_folder=True)
            self._must_be_file(walk, path)
            return Place("/".join([*walk.names, walk.last]), is_folder=False)

    def open_exact(self, path: str) -> int | None:
        """Open a regular file by a path without links, relative to the root.

        For names that another program reported: None where there is no such file, or where
        the path has become a link since.
        """
        if self._kernel_walk:
            return self._open_beneath(path, _BENEATH | RESOLVE_NO_SYMLINKS)
        try:
            with self._walk(path, path, links=False) as walk:
                if walk.last is None:
                    return None
                self._must_be_file(walk, path)
                return self._open_regular(walk.last, walk.fd)
        except (ToolError, OSError):
            return None

    def has_exact(self, path: str) -> bool:
        """True if `open_exact` would open a file, as far as one can see without opening it."""
        if self._kernel_walk:
            look = openat2(self.fd, os.fsencode(path), _LOOK, _BENEATH | RESOLVE_NO_SYMLINKS)
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
        """Where a file at `path` is or would be; the caller closes the slot.

        Links in the path are followed as for reading. Folders that do not exist are not made yet.

        Raises:
            ToolError: As `open_file`, but a file that does not exist is no error.
        """
        relative = self._relative(path)
        for _ in range(3):
            with self._enter(relative, path) as walk:
                slot = self._slot(walk, path)
                if slot is not None:
                    return slot
        raise changing(path)

    def _enter(self, relative: str, path: str) -> _Walk:
        """Walk to the end of a path that need not exist."""
        folder, _, name = relative.rpartition("/")
        names = [part for part in folder.split("/") if part not in ("", ".")]
        if self._kernel_walk and name not in ("", ".", "..") and ".." not in names:
            # One call for the folders, where none is a link; else by hand.
            fd = openat2(
                self.fd, os.fsencode(folder or "."), _ENTER, _BENEATH | RESOLVE_NO_SYMLINKS
            )
            if fd is not None:
                walk = _Walk(fd, names)
                try:
                    if walk.down(name, path, missing=True) is None:
                        return walk
                except BaseException:
                    walk.close()
                    raise
                walk.close()
        return self._walk(relative, path, missing=True)

    def _slot(self, walk: _Walk, path: str) -> Slot | None:
        """None if what is there changed while it was opened."""
        if (walk.last is None and not walk.missing) or walk.folder_meant:
            msg = f"{shown(path)} is a folder, not a file"
            raise ToolError(msg, code="not_a_file")
        names = walk.missing if walk.last is None else [walk.last]
        real = "/".join([*walk.names, *names])
        self._check_protected([*walk.names, *names])
        with ExitStack() as opened:
            folder = os.dup(walk.fd)
            opened.callback(os.close, folder)
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
                os.stat("/".join(parts) or ".", dir_fd=self.fd, follow_symlinks=False)
            except OSError:
                return False
            return True

        refused = protection_of(self.folder, self._unprotected).refusal(parts, exists)
        if refused is not None:
            path = readable("/".join(parts))
            details: dict[str, object] = {"path": path, "rule": refused.rule}
            msg = explain(path, refused.rule, refused.entry)
            raise ToolError(msg, code="protected_path", details=details)

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
        look = openat2(self.fd, raw, _LOOK, resolve)
        if look is None:
            return None
        try:
            if not self._is_readable(look):
                return None
        finally:
            os.close(look)
        fd = openat2(self.fd, raw, _READ, resolve)
        if fd is not None and not self._is_readable(fd):
            os.close(fd)
            return None
        return fd

    def _is_readable(self, fd: int) -> bool:
        """True for a regular file that is not the kernel's own."""
        status = os.fstat(fd)
        trusted = status.st_dev == self._device or not is_kernels_own(fd)
        return stat.S_ISREG(status.st_mode) and trusted

    @staticmethod
    def _must_be_file(walk: _Walk, path: str) -> None:
        """Refuse what the walk ended at if it must not even be opened."""
        if not stat.S_ISREG(walk.mode):
            kind = _KINDS.get(stat.S_IFMT(walk.mode), "no regular file")
            msg = f"{shown(path)} is {kind}; only regular files can be read and written"
            raise ToolError(msg, code="not_a_file")
        # Some of these wait when they are read, take something away, or tell of the host.
        if walk.kernels_own:
            msg = f"{shown(path)} is the kernel's own (procfs, sysfs or the like), not a file"
            raise ToolError(msg, code="not_a_file")

    def _open_regular(self, name: str, folder: int) -> int | None:
        """Open `name` if it is a regular file still; None if it has become something else."""
        try:
            fd = os.open(name, _READ | os.O_NOFOLLOW, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOENT, errno.ENXIO):
                return None
            raise
        if not self._is_readable(fd):
            os.close(fd)
            return None
        return fd

    def _open_walking(self, relative: str, path: str) -> int | None:
        """Open a regular file by hand; None if it changed while it was opened."""
        with self._walk(relative, path) as walk:
            if walk.last is None:
                msg = f"{shown(path)} is a folder, not a file; list it with ls(path)"
                raise ToolError(msg, code="not_a_file")
            self._must_be_file(walk, path)
            try:
                return self._open_regular(walk.last, walk.fd)
            except OSError as error:
                raise refusal(error, path) from None

    def _walk(
        self, relative: str, path: str, *, links: bool = True, missing: bool = False
    ) -> _Walk:
        """Go down one name at a time, following no link but by hand.

        ``..`` goes back along the names that were walked, never by the kernel's ``..``, which
        leads out of the root when a folder is moved meanwhile.

        Args:
            relative: The path to walk.
            path: What it is called in messages.
            links: False: a link ends the walk.
            missing: True: names at the end that do not exist are noted in the walk, but not those
                that a link leads to.
        """
        walk = _Walk(os.dup(self.fd), [])
        walk.folder_meant = relative.rpartition("/")[2] in ("", ".", "..")
        followed = 0
        todo = relative.split("/")[::-1]
        linked = len(todo) + 1
        """Parts from this height of `todo` on come from a link."""
        try:
            while todo:
                if len(todo) < linked:
                    linked = len(todo) + 1
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
                    walk.up(self.fd, path)
                    continue
                target = walk.down(part, path, missing=missing and len(todo) + 1 < linked)
                if walk.missing:
                    rest = [part for part in todo[::-1] if part not in ("", ".")]
                    if ".." in rest:
                        raise walk.no_such(part, path)
                    walk.missing += rest
                    break
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
                    walk.restart(self.fd)
                linked = min(linked, len(todo) + 1)
                todo += inside.split("/")[::-1]
        except BaseException:
            walk.close()
            raise
        return walk


class _Walk:
    """A walk beneath the root: the folder it is in, and the entry it ended at."""

    def __init__(self, fd: int, names: list[str]) -> None:
        self.fd = fd
        """The folder the walk is in. The walk closes it."""
        self.names = names
        """Names from the root to that folder."""
        self.last: str | None = None
        """Entry of it where the walk ended; None: at the folder itself."""
        self.mode = 0
        """``st_mode`` of that entry when it was looked at."""
        self.kernels_own = False
        """True if that entry is no file but the kernel's interface."""
        self.missing: list[str] = []
        """Names that do not exist, from that folder on."""
        self.folder_meant = False
        """True if the path ends so that it can only mean a folder."""

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

    def restart(self, root: int) -> None:
        """Back to the root."""
        self._move(os.dup(root))
        self.names = []

    def up(self, root: int, path: str) -> None:
        """To the folder before, by walking to it again: one descriptor serves any depth."""
        names, self.names = self.names[:-1], []
        self._move(os.dup(root))
        for name in names:
            if self.down(name, path) is not None or self.last is not None:
                raise changing(path)

    def down(self, name: str, path: str, *, missing: bool = False) -> str | None:
        """To an entry. If it is a link, stay and give its target."""
        try:
            fd = os.open(name, _LOOK | os.O_NOFOLLOW, dir_fd=self.fd)
        except FileNotFoundError:
            if not missing:
                raise self.no_such(name, path) from None
            self.missing = [name]
            return None
        except OSError as error:
            raise refusal(error, path) from None
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
                self.last, self.mode, self.kernels_own = name, mode, is_kernels_own(fd)
        return None

    def _move(self, fd: int) -> None:
        os.close(self.fd)
        self.fd = fd

    def no_such(self, name: str, path: str) -> ToolError:
        """What to raise where the folder has no `name`."""
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


_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def shown(path: str) -> str:
    """A path in a message: quoted, and short enough to leave the rest readable."""
    return repr(path if len(path) <= 200 else f"{path[:100]}...{path[-80:]}")


def _outside(path: str) -> ToolError:
    msg = (
        f"{shown(path)} leads outside the session's root; give a path beneath it, "
        'like "src/main.py"; the root itself is "."'
    )
    return ToolError(msg, code="outside_root")


def changing(path: str) -> ToolError:
    """What to raise where another program interferes."""
    msg = f"{shown(path)} changed meanwhile; look at it and try again"
    return ToolError(msg, code="failed", retryable=True)


def refusal(error: OSError, path: str, verb: str = "read") -> ToolError:
    """What the system said, in the words of this boundary."""
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        msg = f"{shown(path)}: permission denied; the host's user may not {verb} it"
        return ToolError(msg, code="permission_denied")
    if error.errno == errno.ENAMETOOLONG:
        msg = f"{shown(path)}: a name in it is too long; most systems stop at 255 bytes"
        return ToolError(msg, code="invalid_path")
    busy = error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR)
    msg = f"{shown(path)} cannot be {'written' if verb == 'write' else 'opened'}: {error.strerror}"
    return ToolError(msg, code="failed", retryable=busy)
