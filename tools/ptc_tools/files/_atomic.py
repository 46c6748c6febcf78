"""Atomic changes of files: a reader sees the old file or the new one, never a part.

Works on folders and names that `_paths` opened, and never resolves a path itself.

Rule 1: New content is written to another file of the same folder, flushed to disk and renamed.
    test_reader_never_sees_partial_content
Rule 2: Several changes are made together or not at all.
    test_failed_commit_is_rolled_back_completely
Rule 3: A file that another program changed meanwhile is not overwritten.
    test_concurrently_changed_file_is_left_alone
Rule 4: Changes of one file in this process are serialised.
    test_concurrent_edits_are_all_applied
"""

from __future__ import annotations

import os
import secrets
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptc import ToolError
from ptc._core._folder import Folder

from ._path_errors import conflict_error, quote, refusal
from ._paths import Root, Slot

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Transaction", "slots"]

_PERMISSIONS = 0o777
"""Permission bits that a changed file keeps. Set-user-ID and the like are cleared, as on a write
(chmod(2)): they vouched for the old content."""

_LOCKS = tuple(threading.Lock() for _ in range(64))
"""Locks of files, chosen by a hash of the path."""


@contextmanager
def slots(root: Root, paths: Sequence[str]) -> Iterator[list[Slot]]:
    """Open the slots of several files and lock them against other changes by this process.

    Raises:
        ToolError: As `Root.slot`.
    """
    for _ in range(3):
        with ExitStack() as opened:
            real = [opened.enter_context(root.slot(path)).path for path in paths]
        with ExitStack() as locked:
            # In a fixed order, to exclude a deadlock.
            for number in sorted({hash((root.folder, path)) % len(_LOCKS) for path in real}):
                locked.enter_context(_LOCKS[number])
            found = [locked.enter_context(root.slot(path)) for path in paths]
            if [slot.path for slot in found] == real:
                yield found
                return
    raise conflict_error(paths[0])


@dataclass(slots=True)
class _Step:
    """One change: `staged` replaces the file in the slot; None deletes it."""

    slot: Slot
    staged: str | None
    backup: str | None = None
    done: bool = False


class Transaction:
    """Changes that are prepared one by one and made together by `commit`.

    A context manager: leaving it without `commit` rolls everything back.
    """

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._created: list[tuple[Folder, str]] = []
        """Folders created for the changes: the parent, and the name in it."""
        self._committed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for step in self._steps:
            for name in (step.staged, step.backup):
                if name is not None:
                    with suppress(OSError):
                        step.slot.folder.remove(name)
        for parent, name in reversed(self._created):
            if not self._committed:
                with suppress(OSError):  # Another process may have added a file to it.
                    parent.remove_folder(name)
            parent.close()

    def put(
        self, slot: Slot, data: bytes, *, like: Slot | None = None, executable: bool | None = None
    ) -> None:
        """Prepare `data` as the file at `slot`.

        Args:
            slot: Position of the file.
            data: The whole new content.
            like: File to copy permissions from. Default: the one it replaces.
            executable: True or False: set or clear the right to execute. None: leave it.

        Raises:
            ToolError: ``permission_denied`` or ``failed``.
        """
        try:
            _check_writable(slot)
            self._make_folders(slot)
            step = _Step(slot, f".ptc-{secrets.token_hex(8)}.tmp")
            self._steps.append(step)
            self._stage(step, data, (like or slot).status, executable)
        except OSError as error:
            raise refusal(error, slot.path, "write") from None

    def remove(self, slot: Slot) -> None:
        """Prepare the deletion of the file at `slot`."""
        self._steps.append(_Step(slot, None))

    def commit(self) -> None:
        """Make all changes.

        Raises:
            ToolError: ``failed`` (retryable) if a file changed since its slot was opened,
                ``permission_denied`` or ``failed``; then nothing has changed. ``half_done`` if
                a partial change could not be rolled back.
        """
        for step in self._steps:
            _check_unchanged(step.slot)
        alone = len(self._steps) == 1
        for step in self._steps:
            try:
                _apply(step, keep_backup=not alone)
            except OSError as error:
                self._undo()
                if isinstance(error, FileExistsError | FileNotFoundError):
                    raise conflict_error(step.slot.path) from None
                raise refusal(error, step.slot.path, "write") from None
        self._committed = True
        for step in self._steps:
            _flush(step.slot.folder)

    def _make_folders(self, slot: Slot) -> None:
        while slot.missing:
            parent, name = slot.folder.copy(), slot.missing[0]
            try:
                made = slot.make_folder()
            except OSError:
                parent.close()
                raise
            if made:
                _flush(parent)
                self._created.append((parent, name))
            else:
                parent.close()

    @staticmethod
    def _stage(
        step: _Step, data: bytes, like: os.stat_result | None, executable: bool | None
    ) -> None:
        # A new file gets its permissions from the umask. One that copies them from another file
        # is private until it has them.
        mode = 0o666 if like is None else 0o600
        if step.staged is None:
            raise AssertionError("nothing to stage")
        fd = step.slot.folder.open(step.staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if os.name != "nt":  # There, a file has the permissions of its folder.
                _set_permissions(fd, like, executable)
            os.fsync(fd)
        finally:
            os.close(fd)

    def _undo(self) -> None:
        left: list[str] = []
        for step in reversed(self._steps):
            if not step.done:
                continue
            folder, name = step.slot.folder, step.slot.name
            try:
                if step.backup is not None:
                    folder.replace(step.backup, name)
                    step.backup = None
                else:
                    folder.remove(name)
            except OSError:
                left.append(step.slot.path)
                step.backup = None  # Keep the backup: it may be the only copy of the file.
        if left:
            msg = (
                f"the changes failed midway and could not be rolled back for {', '.join(left)}. "
                "The previous files are beside them as .ptc-*.tmp"
            )
            raise ToolError(msg, code="half_done", details={"paths": [*left]})


def _set_permissions(fd: int, like: os.stat_result | None, executable: bool | None) -> None:
    if like is not None:
        own = os.fstat(fd)
        if (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid):
            with suppress(PermissionError):  # Only root may change the owner.
                os.fchown(fd, like.st_uid, like.st_gid)
        os.fchmod(fd, like.st_mode & _PERMISSIONS)
    if executable is not None:
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        # Give the right to execute to all that may read.
        os.fchmod(fd, mode | (mode & 0o444) >> 2 if executable else mode & ~0o111)


def _apply(step: _Step, *, keep_backup: bool) -> None:
    folder, name, staged = step.slot.folder, step.slot.name, step.staged
    step.slot.release()
    if step.slot.status is None:
        if staged is None:
            raise AssertionError("nothing to remove")
        # Unlike a rename, a link never replaces a file created meanwhile.
        folder.link(staged, name)
        step.done = True
        return
    backup = f".ptc-{secrets.token_hex(8)}.tmp"
    if staged is None:
        folder.replace(name, backup)
        step.backup, step.done = backup, True
        return
    if keep_backup:
        folder.link(name, backup)
        step.backup = backup
    folder.replace(staged, name)
    step.staged, step.done = None, True


def _check_writable(slot: Slot) -> None:
    if slot.status is None:
        return
    # A rename needs only permission for the folder, so check that of the file here.
    if not slot.folder.may_write(slot.name):
        msg = f"{quote(slot.path)}: permission denied; the host's user may not write it"
        raise ToolError(msg, code="permission_denied")


def _check_unchanged(slot: Slot) -> None:
    try:
        now = slot.folder.status(slot.name)
    except FileNotFoundError:
        now = None
    except OSError as error:
        raise refusal(error, slot.path, "write") from None
    before = slot.status
    if (now is None) != (before is None):
        raise conflict_error(slot.path)
    if now is not None and before is not None and _version(now) != _version(before):
        raise conflict_error(slot.path)


def _version(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _flush(folder: Folder) -> None:
    """Flush the names of a folder to disk if it can be opened and flushed."""
    with suppress(OSError):
        folder.flush()
