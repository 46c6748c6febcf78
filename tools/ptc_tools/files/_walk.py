"""A walk along a path beneath the root, one name at a time, without the kernel following a link."""

from __future__ import annotations

import difflib
import errno
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from ptc import ToolError
from ptc._core._folder import Folder

from ._path_errors import conflict_error, outside_error, quote, readable, refusal
from ._spelling import is_absolute
from ._syscalls import is_kernels_own_entry

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["MAX_LINKS", "Walk", "walk_path"]

MAX_LINKS = 40
"""Maximum number of links in one path, the limit of the kernel (path_resolution(7))."""

_MAX_SUGGESTED_FROM = 1_000
"""Names of a folder compared for "did you mean"."""

_CHANGES = 3
"""Attempts to enter a folder whose entry changes after each look."""
_CHANGED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL)


class Walk:
    """A walk beneath the root: its current folder, and the entry at which it ended."""

    def __init__(self, folder: Folder, names: list[str]) -> None:
        self.folder = folder
        """The current folder, closed by the walk."""
        self.names = names
        """Names from the root to that folder."""
        self.last: str | None = None
        """Entry of the folder at which the walk ended; None for the folder itself."""
        self.mode = 0
        """``st_mode`` of that entry when it was opened."""
        self.kernels_own = False
        """True if that entry belongs to the kernel's interface."""
        self.missing: list[str] = []
        """Names that do not exist, from that folder on."""
        self.folder_meant = False
        """True if the form of the path requires a folder, as with a slash at its end."""

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
        self.folder.close()

    def restart(self, root: Folder) -> None:
        """Go back to the root."""
        self._move(root.copy())
        self.names = []

    def up(self, root: Folder, path: str) -> None:
        """Go to the parent by walking to it again: one open folder serves any depth."""
        names, self.names = self.names[:-1], []
        self._move(root.copy())
        for name in names:
            if self.down(name, path) is not None or self.last is not None:
                raise conflict_error(path)

    def down(self, name: str, path: str, *, missing: bool = False) -> str | None:
        """Go to an entry. If it is a link, stay and return its target."""
        for _ in range(_CHANGES):
            try:
                mode = self.folder.status(name).st_mode
            except FileNotFoundError:
                if not missing:
                    raise self.no_such(name, path) from None
                self.missing = [name]
                return None
            except OSError as error:
                raise refusal(error, path) from None
            try:
                if stat.S_ISLNK(mode):
                    return self.folder.target(name)
                if stat.S_ISDIR(mode):
                    self._move(self.folder.enter(name))
                    self.names.append(name)
                else:
                    self.last, self.mode = name, mode
                    self.kernels_own = is_kernels_own_entry(self.folder, name)
                return None
            except OSError as error:
                if error.errno not in _CHANGED:
                    raise refusal(error, path) from None
        raise conflict_error(path)

    def _move(self, folder: Folder) -> None:
        self.folder.close()
        self.folder = folder

    def no_such(self, name: str, path: str) -> ToolError:
        """Create the error for a folder without `name`."""
        folder = "/".join(self.names) or "."
        close: list[str] = []
        try:
            names = [readable(n) for n in islice(self.folder.names(), _MAX_SUGGESTED_FROM)]
        except OSError:
            pass  # A folder that can be traversed but not listed has no names to suggest.
        else:
            close = difflib.get_close_matches(readable(name), names, n=3, cutoff=0.5)
        if close:
            hint = f"did you mean {' or '.join(repr(c) for c in close)}?"
        else:
            hint = f"ls({folder!r}) lists it"
        what = f"folder {quote(folder)} has no {quote(name)}"
        msg = f"{quote(path)} does not exist: {what}; {hint}"
        details: dict[str, object] = {"folder": readable(folder), "nearest": [*close]}
        return ToolError(msg, code="not_found", details=details)


def walk_path(
    root: Folder,
    relative: str,
    path: str,
    beneath: Callable[[str], str | None],
    *,
    links: bool = True,
    missing: bool = False,
) -> Walk:
    """Walk one name at a time; links are read and resolved here, not by the kernel.

    ``..`` goes back along the walked names, never through the kernel's ``..``, which leads out of
    the root if a folder is moved meanwhile.

    Args:
        root: The root.
        relative: The path to walk.
        path: The path for messages.
        beneath: Converts the target of a link to a path relative to the root; None: outside.
        links: False: refuse a link.
        missing: True: record missing names at the end of the path in the walk, except behind a
            link.
    """
    walk = Walk(root.copy(), [])
    walk.folder_meant = relative.rpartition("/")[2] in ("", ".", "..")
    try:
        _Steps(walk, root, path, beneath, links, missing, relative.split("/")[::-1]).run()
    except BaseException:
        walk.close()
        raise
    return walk


@dataclass(slots=True)
class _Steps:
    """The remaining steps of a walk."""

    walk: Walk
    root: Folder
    path: str
    beneath: Callable[[str], str | None]
    links: bool
    missing: bool
    todo: list[str]
    """Names to walk, the next one last."""
    followed: int = 0
    """Number of links so far."""
    linked: int = field(init=False)
    """Names from this index of `todo` on come from a link."""

    def run(self) -> None:
        """Walk until no name is left or one is missing."""
        walk = self.walk
        self.linked = len(self.todo) + 1
        while self.todo and not walk.missing:
            if len(self.todo) < self.linked:
                self.linked = len(self.todo) + 1
            part = self.todo.pop()
            if walk.last is not None:
                where = "/".join([*walk.names, walk.last])
                msg = f"{quote(self.path)}: {quote(where)} is a file, so nothing is beneath it"
                raise ToolError(msg, code="not_a_directory")
            if part == "..":
                self._up()
            elif part not in ("", "."):
                self._down(part)

    def _up(self) -> None:
        if not self.walk.names:
            raise outside_error(self.path)
        self.walk.up(self.root, self.path)

    def _down(self, part: str) -> None:
        missing = self.missing and len(self.todo) + 1 < self.linked
        target = self.walk.down(part, self.path, missing=missing)
        if self.walk.missing:
            rest = [name for name in self.todo[::-1] if name not in ("", ".")]
            if ".." in rest:
                raise self.walk.no_such(part, self.path)
            self.walk.missing += rest
        elif target is not None:
            self._follow(target)

    def _follow(self, target: str) -> None:
        self.followed += 1
        inside = self.beneath(target)
        if not self.links or inside is None:
            raise outside_error(self.path)
        if self.followed > MAX_LINKS:
            msg = f"{quote(self.path)}: more than {MAX_LINKS} links in a row, or a loop"
            raise ToolError(msg, code="invalid_path")
        if is_absolute(target):
            self.walk.restart(self.root)
        self.linked = min(self.linked, len(self.todo) + 1)
        self.todo += inside.split("/")[::-1]
