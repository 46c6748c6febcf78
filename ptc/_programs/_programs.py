"""Saved programs of a session: loaded when it is created, saved and deleted while it is open."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Self

from .._core._arguments import path_of
from .._tools._catalog import Catalog
from ..errors import UsageError
from ..journal._journal import RunRecord
from ._save import SaveRequest, draft_program
from ._saved import RECORD, SavedProgram, refused, validate_program_name
from ._store import ProgramStore
from ._tool import create_tool

__all__ = ["FOLDER", "SavedPrograms", "program_store"]

FOLDER: Final = ".ptc/programs"
"""Default folder below the root: a protected path, which no tool can change."""
_TOOLSET: Final = "programs"


def program_store(root: Path, folder: str | Path | None) -> ProgramStore:
    """Return the store of a root.

    Args:
        root: Absolute path of the root.
        folder: Another folder than the default.

    Raises:
        UsageError: If `folder` is not a path.
    """
    chosen = root / FOLDER if folder is None else path_of("programs", folder)
    return ProgramStore(Path(os.path.abspath(chosen)))


class SavedPrograms:
    """Saved programs whose tools are in a catalog."""

    def __init__(self, root: Path, store: ProgramStore, catalog: Catalog) -> None:
        """Keep programs of `store` as tools of `catalog`; nothing is read."""
        self.store = store
        # The default is a protected path, unless a link leads elsewhere.
        is_covered = store.folder.resolve() == root / FOLDER
        self.protected: tuple[Path, ...] = () if is_covered else (store.folder,)
        """Folders to protect from tools."""
        self._catalog = catalog
        catalog.declare_toolset(_TOOLSET)
        self.by_name: dict[str, SavedProgram] = {}
        """The newest versions."""

    @classmethod
    def of_session(cls, root: Path, folder: str | Path | None, catalog: Catalog) -> Self:
        """Load the programs of a session. This executes none of them.

        Raises:
            UsageError: If a file is not as it was written, or a tool has the name of a program.
        """
        made = cls(root, program_store(root, folder), catalog)
        for program in made.store.load_newest():
            made._check_name(program.name, f"rename the tool, or run `{_delete(program.name)}`")
            made._add(program)
        return made

    def save(self, recorded: RunRecord, request: SaveRequest) -> SavedProgram:
        """Save a run as the next version of a program, and add its tool.

        Raises:
            UsageError: If the run, the name or an option cannot be saved.
        """
        self._check_name(validate_program_name(request.name), "choose another name")
        draft = draft_program(recorded, request, self._catalog, self.by_name)
        program = self.store.save(draft)
        self._add(program)
        return program

    def delete(self, name: str, version: int | None = None) -> list[int]:
        """Delete a version of a program, or all of them; the newest one left becomes the tool.

        Returns:
            The deleted versions.

        Raises:
            UsageError: If there is none, or a file of the version that is left was changed.
        """
        deleted = self.store.delete(name, version)
        if self.store.versions(name):
            self._add(self.store.load(name))
        elif self.by_name.pop(name, None) is not None:
            self._catalog.remove(name)
        return deleted

    def _add(self, program: SavedProgram) -> None:
        try:
            tool = create_tool(program, self.store, self._catalog.tools)
        except UsageError as error:
            raise refused(program.folder / RECORD, str(error)) from None
        self._catalog.put(tool, _TOOLSET)
        self.by_name[program.name] = program

    def _check_name(self, name: str, remedy: str) -> None:
        """Raise `UsageError` if a tool or a namespace that is no saved program has the name."""
        if name in self.by_name:
            return
        for other in self._catalog.tools:
            if name == other.partition(".")[0]:
                kind = "tool" if name == other else f"namespace of the tool {other!r}"
                msg = f"{name!r} cannot be a saved program: there is a {kind} of that name; "
                raise UsageError(msg + remedy)


def _delete(name: str) -> str:
    return f"ptc programs delete {name}"
