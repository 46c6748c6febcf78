"""The folder of saved programs: ``<folder>/<name>/<version>/`` with a script and its record.

Reading executes nothing. The files are read without following links: in a folder that scripts may
write, the target of a link could change after it was checked.

Rule 1: no name leads out of the folder, and no link in it is followed.
    tests/core/programs/test_store.py::test_link_in_the_folder_is_refused
Rule 2: a version is written once, whole or not at all, and never changed.
    tests/core/programs/test_store.py::test_versions_saved_at_once_get_different_numbers
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from .._core._arguments import nearest
from .._core._folder import open_file, sync_folder
from .._core._owner import check_owner
from .._records._limits import MAXIMA
from ..errors import UsageError
from ._saved import RECORD, SOURCE, SavedProgram, decode, encode, validate_program_name

__all__ = ["ProgramStore"]

_VERSION = re.compile(r"[1-9][0-9]{0,5}")
_MOST_RECORD_BYTES: Final = 4_194_304
_MOST_TRIES: Final = 100
_REMEDY: Final = "its programs cannot be trusted: take the folder over, or delete it"


class ProgramStore:
    """The saved programs of a folder, which need not exist."""

    def __init__(self, folder: Path) -> None:
        """Name the folder; nothing is read."""
        self.folder = folder

    def names(self) -> list[str]:
        """List the programs that have a version.

        Raises:
            UsageError: If the folder has another folder or a link in it, or cannot be read.
        """
        found = []
        for name in self._list(self.folder):
            try:
                validate_program_name(name)
            except UsageError as error:
                where = self.folder / name
                msg = f"{where} is no saved program: {error}. Move it out of the folder"
                raise UsageError(msg) from None
            if self.versions(name):
                found.append(name)
        return found

    def versions(self, name: str) -> list[int]:
        """List the versions of a program, the oldest first; none if there is no such program.

        Raises:
            UsageError: If a folder beneath it is no version.
        """
        folder = self.folder / validate_program_name(name)
        found = self._list(folder)
        for version in found:
            if not _VERSION.fullmatch(version):
                msg = f"{folder / version} is no version of a program; move it out of the folder"
                raise UsageError(msg)
        return sorted(map(int, found))

    def load_newest(self) -> list[SavedProgram]:
        """Load the newest version of each program.

        Raises:
            UsageError: If a file is not as it was written.
        """
        return [self.load(name) for name in self.names()]

    def load(self, name: str, version: int | None = None) -> SavedProgram:
        """Load a version of a program; None: the newest.

        Raises:
            UsageError: If there is none, or a file is not as it was written.
        """
        known = self._versions_of(name)
        chosen = known[-1] if version is None else version
        if chosen not in known:
            listed = ", ".join(map(str, known))
            msg = f"saved program {name!r} has no version {version!r}; versions: {listed}"
            raise UsageError(msg)
        folder = self.folder / name / str(chosen)
        record = _read(folder / RECORD, _MOST_RECORD_BYTES)
        return decode(record, _read(folder / SOURCE, MAXIMA["max_source_bytes"]), folder)

    def save(self, draft: SavedProgram) -> SavedProgram:
        """Write a program as the next version of its name.

        Returns:
            The program as it was read again, with its version and folder.

        Raises:
            UsageError: If it cannot be written.
        """
        name = validate_program_name(draft.name)
        above = self.folder / name
        try:
            for part in (self.folder, above):
                part.mkdir(parents=True, exist_ok=True)
            self._list(above)
            for _ in range(_MOST_TRIES):
                version = max(self.versions(name), default=0) + 1
                if self._write(replace(draft, version=version, folder=above / str(version))):
                    return self.load(name, version)
        except OSError as error:
            msg = f"saved program {name!r}: {above} cannot be written: {error.strerror or error}"
            raise UsageError(msg) from None
        msg = f"saved program {name!r}: others save it all the time; try again"
        raise UsageError(msg)

    def delete(self, name: str, version: int | None = None) -> list[int]:
        """Delete a version of a program, or all of them; works for damaged ones, too.

        Returns:
            The deleted versions.

        Raises:
            UsageError: If there is no such program or version.
        """
        known = self._versions_of(name)
        if version is not None and version not in known:
            listed = ", ".join(map(str, known))
            msg = f"saved program {name!r} has no version {version!r}; versions: {listed}"
            raise UsageError(msg)
        chosen = known if version is None else [version]
        above = self.folder / name
        try:
            from shutil import rmtree

            for number in chosen:
                # Renamed first: a folder of which half is deleted would be a damaged version.
                doomed = above / f".deleted-{secrets.token_hex(4)}"
                (above / str(number)).rename(doomed)
                rmtree(doomed)
            with suppress(OSError):
                above.rmdir()
        except OSError as error:
            msg = f"saved program {name!r}: it cannot be deleted: {error.strerror or error}"
            raise UsageError(msg) from None
        return chosen

    def _versions_of(self, name: str) -> list[int]:
        known = self.versions(name)
        if not known:
            names = self.names()
            listed = ", ".join(names) or "none"
            msg = f"there is no saved program {name!r}{nearest(name, names)}; programs: {listed}"
            raise UsageError(msg)
        return known

    def _list(self, folder: Path) -> list[str]:
        """List the folders in a folder, in order; files and names with a dot do not count.

        Raises:
            UsageError: If one is a link, or the folder cannot be read.
        """
        found = []
        try:
            if folder != self.folder and folder.is_symlink():
                raise _link(folder)
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if entry.is_symlink():
                        raise _link(Path(entry.path))
                    if entry.is_dir(follow_symlinks=False):
                        found.append(entry.name)
        except FileNotFoundError:
            return []
        except OSError as error:
            msg = f"{folder} cannot be read: {error.strerror or error}"
            raise UsageError(msg) from None
        return sorted(found)

    def _write(self, program: SavedProgram) -> bool:
        """Write a version; False if its number is in use."""
        above = program.folder.parent
        draft = above / f".draft-{secrets.token_hex(4)}"
        draft.mkdir()
        try:
            source = program.source.encode()
            record = encode(program)
            decode(record, source, program.folder)
            for name, data in ((SOURCE, source), (RECORD, record)):
                with (draft / name).open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
            try:
                draft.rename(program.folder)
            except OSError:
                if program.folder.exists():
                    return False
                raise
        finally:
            from shutil import rmtree

            rmtree(draft, ignore_errors=True)
        for folder in (above, self.folder):
            sync_folder(folder)
        return True


def _link(path: Path) -> UsageError:
    return UsageError(f"{path} is a link; saved programs are not read through links: delete it")


def _read(path: Path, most: int) -> bytes:
    """Read a regular file of this user. Raises `UsageError`."""
    try:
        fd = open_file(path, os.O_RDONLY)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{path} is not a regular file")
            check_owner(path, status, _REMEDY)
            data = file.read(most + 1)
    except OSError as error:
        if path.is_symlink():
            raise _link(path) from None
        version = path.parent
        msg = (
            f"{path} cannot be read: {error.strerror or error}. Restore it, or delete the version "
            f"with `ptc programs delete {version.parent.name} --version {version.name}`"
        )
        raise UsageError(msg) from None
    if len(data) > most:
        raise UsageError(f"{path} has more than {most:,} bytes")
    return data
