"""Storage of large values and files by their digest: the `ArtifactStore` protocol and its stores.

A session stores values over `Limits.max_output_bytes`, and attachments, in a folder. Pass a store
as ``Session(artifacts=store)`` to share them among machines; a session whose journal is in
PostgreSQL does so by default. A record refers to a value by its digest, never by a path.
"""

from typing import TYPE_CHECKING

from .._core._lazy import lazy_exports

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._folder import FolderArtifacts as FolderArtifacts
    from ._open import open_artifacts as open_artifacts
    from ._postgres import PostgresArtifacts as PostgresArtifacts
    from ._s3 import S3Artifacts as S3Artifacts
    from ._session_artifacts import SessionArtifacts as SessionArtifacts
    from ._store import ArtifactStore as ArtifactStore
    from ._store import StoredArtifact as StoredArtifact
    from ._unused import delete_unused as delete_unused

__all__ = [
    "ArtifactStore",
    "FolderArtifacts",
    "PostgresArtifacts",
    "S3Artifacts",
    "SessionArtifacts",
    "StoredArtifact",
    "delete_unused",
    "open_artifacts",
]

__getattr__: "Callable[[str], object]"
__dir__: "Callable[[], list[str]]"
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "_folder": ["FolderArtifacts"],
        "_open": ["open_artifacts"],
        "_postgres": ["PostgresArtifacts"],
        "_s3": ["S3Artifacts"],
        "_session_artifacts": ["SessionArtifacts"],
        "_store": ["ArtifactStore", "StoredArtifact"],
        "_unused": ["delete_unused"],
    },
)
