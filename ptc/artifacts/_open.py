"""Open a store of artifacts by its folder or its address."""

from __future__ import annotations

from pathlib import Path
from typing import TypeGuard

from ..journal._address import is_address as is_postgres
from ._store import ArtifactStore

__all__ = ["is_address", "is_store", "open_artifacts"]


def is_address(text: object) -> bool:
    """True if `text` is the address of a service rather than the path of a folder."""
    return isinstance(text, str) and (text.startswith("s3://") or is_postgres(text))


def is_store(value: object) -> TypeGuard[ArtifactStore]:
    """True if `value` implements `ArtifactStore`."""
    return all(callable(getattr(value, name, None)) for name in ("put", "copy", "list_older"))


def open_artifacts(source: str | Path) -> ArtifactStore:
    """Open a store.

    Args:
        source: Path of a folder; ``s3://bucket/prefix`` (extra ``ptc-host[s3]``); or
            ``postgresql://user@host/database`` (extra ``ptc-host[postgres]``).

    Raises:
        SetupError: If the package for a service is not installed.
        ArtifactError: If it cannot be opened.
    """
    if is_postgres(source):
        from ._postgres import PostgresArtifacts

        return PostgresArtifacts(str(source))
    if is_address(source):
        from ._s3 import S3Artifacts

        return S3Artifacts(str(source))
    from ._folder import FolderArtifacts

    return FolderArtifacts(source)
