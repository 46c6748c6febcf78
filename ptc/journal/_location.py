"""Location of the journal: one file for each root, in the user's state directory.

A journal has authority: an approval recorded in it lets a payment be made. So it lies where no
script can write it, or read the inputs of other runs.

Rule 1: The default lies outside the root. Otherwise, runs are recorded in memory.
    tests/core/journal/test_location.py::test_default_inside_root_falls_back_to_memory_with_warning
Rule 2: A file inside the root, by whatever path, is refused if the session has a tool with side
    effects.
    tests/core/journal/test_location.py::test_journal_inside_root_is_refused_beside_a_writer
Rule 3: The journals of other roots are protected paths, so a session whose root contains the state
    directory cannot change them.
    tests/core/journal/test_location.py::test_session_with_wider_root_cannot_change_other_journals
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from ..errors import JournalError, UsageError

__all__ = [
    "check_journal",
    "default_journal",
    "former_journal",
    "former_notice",
    "journal_of",
    "lies_in",
    "state_folder",
]

_log = logging.getLogger("ptc")
_FOLDER = "ptc-journals"
"""A name in the rule `state` of `ptc._protected`: no tool changes anything beneath it."""
_MAX_LINKS = 40
"""The kernel's own limit (path_resolution(7))."""


def journal_of(root: Path) -> Path:
    """Default journal of a root. Creates nothing.

    The file is named by the last part of the root's path, for people, and a digest of the whole.

    Args:
        root: Absolute and resolved.

    Raises:
        JournalError: If the user has no state directory.
    """
    name = re.sub(r"[^A-Za-z0-9]+", "-", root.name)[:40].strip("-") or "root"
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:24]
    return state_folder() / f"{name}-{digest}.sqlite3"


def state_folder() -> Path:
    """Folder of the journals in the user's state directory. Creates nothing.

    Raises:
        JournalError: If the user has no state directory.
    """
    # Imported here because it takes 3 to 6 ms, and many sessions never record a run.
    from platformdirs import user_state_path

    folder = user_state_path("ptc", appauthor=False)
    if not folder.is_absolute():
        msg = (
            f"the user's state directory {str(folder)!r} is not an absolute path: set HOME or "
            "XDG_STATE_HOME, or name a journal"
        )
        raise JournalError(msg)
    return folder / _FOLDER


def default_journal(root: Path, writers: Iterable[str]) -> Path:
    """Journal of a session that names none.

    Args:
        root: The session's, absolute and resolved.
        writers: Names of its tools with side effects.

    Raises:
        JournalError: If there are writers and the file would lie inside the root.
    """
    path = journal_of(root)
    names = list(writers)
    if names and lies_in(root, path):
        msg = (
            f"the user's state directory lies in the root {str(root)!r}, where {_some(names)} may "
            "change files. Choose a narrower root, or a journal outside it"
        )
        raise JournalError(msg)
    former = former_journal(root)
    if former is not None and not path.exists():
        _log.warning("%s", former_notice(former))
    return path


def check_journal(root: Path, path: Path, writers: Iterable[str]) -> None:
    """Reject a journal that a tool of the session could change.

    Args:
        root: The session's, absolute and resolved.
        path: Path of the journal.
        writers: Names of the session's tools with side effects.

    Raises:
        UsageError: If there are writers and the journal lies inside the root.
    """
    names = list(writers)
    if not names or not lies_in(root, path):
        return
    msg = (
        f"journal {str(path)!r} lies inside the root, where {_some(names)} may change files: a "
        "script could forge an approval. Name a file outside the root, or none "
        "(the default is in your state directory). Pass journal_in_root=True only if every script "
        "and command in this root may record an approval that nobody gave"
    )
    raise UsageError(msg)


def former_journal(root: Path) -> Path | None:
    """Journal that an earlier version left inside the root; None if there is none."""
    path = root / ".ptc" / "journal.sqlite3"
    return path if path.is_file() else None


def former_notice(former: Path) -> str:
    """Describe the location of an earlier version's journal, and how to use it."""
    import shlex

    return (
        f"an earlier version recorded runs in {former}. That file is no longer used, since scripts "
        f"could change it. `ptc runs --journal {shlex.quote(str(former))}` lists them. To resume "
        "one, add --journal-in-root, if you trust its contents. Delete the file once you "
        "no longer need it"
    )


def lies_in(root: Path, path: Path) -> bool:
    """Return True if `path`, or a link or folder on the way to it, lies in `root`.

    Folders are compared by device and inode, so other spellings and bind mounts are recognized.
    """
    try:
        own = root.stat()
    except OSError:
        return path.absolute().is_relative_to(root)
    todo = list(path.absolute().parts[:0:-1])
    here = Path(path.absolute().anchor)
    links = 0
    while todo:
        if _is_same(here, own):
            return True
        part = todo.pop()
        if part == "..":
            here = here.parent
            continue
        step = here / part
        try:
            target = os.readlink(step)
        except OSError:
            here = step
            continue
        links += 1
        if links > _MAX_LINKS:
            return True
        parts = Path(target).parts
        if os.path.isabs(target):
            here = Path(Path(target).anchor)
            parts = parts[1:]
        todo += parts[::-1]
    return _is_same(here, own)


def _is_same(folder: Path, own: os.stat_result) -> bool:
    try:
        status = folder.stat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and os.path.samestat(status, own)


def _some(names: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:3])
    return f"{shown} and others" if len(names) > 3 else shown
