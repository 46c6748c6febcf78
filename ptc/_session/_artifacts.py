"""The artifacts of a session, from its arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from .._core._arguments import path_of
from ..artifacts._open import is_address, is_store
from ..artifacts._session_artifacts import SessionArtifacts, SharedStore
from ..artifacts._store import ArtifactStore
from ..journal._address import is_address as is_postgres
from ..journal._journal import Journal

if TYPE_CHECKING:
    from ..journal._postgres._journal import PostgresJournal

__all__ = ["ArtifactSource", "artifacts_of"]

ArtifactSource: TypeAlias = str | Path | ArtifactStore
"""Path of a folder, address of a store, or a store."""


def artifacts_of(
    root: Path,
    source: ArtifactSource | None,
    journal: object,
    open_journal: Callable[[], Awaitable[Journal]] | None,
) -> SessionArtifacts:
    """Configure the artifacts of a session; nothing is opened.

    Args:
        root: The session's root.
        source: ``artifacts`` of `Session`.
        journal: ``journal`` of `Session`. If it is in PostgreSQL, the artifacts are too by default.
        open_journal: Opens it. None: there is none.

    Raises:
        UsageError: If `source` is wrong.
    """
    folder = root / ".ptc" / "artifacts"
    shared: SharedStore = None
    if source is None:
        in_database = is_postgres(journal) or hasattr(journal, "server")
        if in_database and open_journal is not None:
            shared = _beside(open_journal)
    elif is_address(source):
        shared = str(source)
    elif is_store(source):
        shared = source
    else:
        folder = path_of("artifacts", source)  # type: ignore[arg-type]  # checked there
    made = SessionArtifacts(folder, root, shared)
    made.is_in_journal = source is None and shared is not None
    return made


def _beside(
    open_journal: Callable[[], Awaitable[Journal]],
) -> Callable[[], Awaitable[ArtifactStore]]:
    async def open_store() -> ArtifactStore:
        from ..artifacts._postgres import PostgresArtifacts

        return PostgresArtifacts.beside(cast("PostgresJournal", await open_journal()))

    return open_store
