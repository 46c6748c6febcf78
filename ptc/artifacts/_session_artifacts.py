"""Artifacts of a session: files on this machine, and copies in a store that machines share.

Rule 1: a value reaches the shared store before the record of its run refers to it, or the run has a
    warning.
    tests/core/artifacts/test_sessions.py::test_lost_store_warns_and_keeps_the_value_here
Rule 2: a path in a record is read only if the contents match the digest in the record.
    tests/core/artifacts/test_sessions.py::test_path_of_an_earlier_version_is_read_if_it_matches
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import anyio

from .._core._clock import now_ms
from .._records._artifacts import LocalArtifacts
from .._records._content import AttachmentRef
from .._records._result import Cut, RunResult, RunWarning
from .._records._stored_file import StoredFile, digest_of_handle
from ..errors import ArtifactError, ArtifactMissingError, UsageError
from ..journal._journal import Journal
from ._folder import FolderArtifacts
from ._open import open_artifacts
from ._store import CHUNK_BYTES, ArtifactStore, suffix_of, type_of
from ._unused import delete_unused

__all__ = ["SessionArtifacts", "SharedStore"]

SharedStore: TypeAlias = str | ArtifactStore | Callable[[], Awaitable[ArtifactStore]] | None
"""Address of a store, a store, which stays open, or a function that opens one; None: none."""
_T = TypeVar("_T")
_log = logging.getLogger("ptc")


class SessionArtifacts(LocalArtifacts):
    """Values of a session: files in a folder, and copies in a shared store if there is one.

    The methods that `LocalArtifacts` has wait for a disk; call them in threads.
    """

    def __init__(self, folder: Path, root: Path | None = None, shared: SharedStore = None) -> None:
        """Nothing is opened or created.

        Args:
            folder: Folder of the files; with a shared store, its cache.
            root: The session's root.
            shared: The shared store.
        """
        super().__init__(folder, root)
        self._source = shared
        self.is_in_journal: bool = False
        """True if the shared store is part of the journal, and holds values of its runs only."""
        self._opened: ArtifactStore | None = None
        self._lock = threading.Lock()
        self._unsent: dict[str, None] = {}

    # --- for people ---------------------------------------------------------------------------

    async def load(self, value: str | Cut | AttachmentRef | RunResult) -> bytes:
        """Return a stored value, verified.

        ::

            whole = json.loads(await session.artifacts.load(result))

        Args:
            value: A result whose value was truncated, an attachment, or a reference.

        Raises:
            UsageError: If the value of the result was not truncated.
            ArtifactMissingError: If it is stored neither here nor in the shared store.
            ArtifactDamagedError: If its contents do not match its digest.
        """
        digest, subject = _named(value)
        try:
            return await self._load(digest)
        except ArtifactMissingError as error:
            cut = value.cut if isinstance(value, RunResult) else value
            if isinstance(cut, Cut) and (old := await self._load_old(cut)) is not None:
                return old
            msg = (
                f"{subject}{error}. It was deleted, or stored on another machine: run the script "
                "again, or use the artifacts= of the session that stored it"
            )
            raise type(error)(msg) from error

    async def _load(self, digest: str) -> bytes:
        await self.fetch(digest)
        own = FolderArtifacts(self)
        found = await own.find(digest, 1)
        if not found:
            where = self._opened or own
            raise ArtifactMissingError(f"{where.label} has no value sha256:{digest}")
        parts = []
        for start in range(0, max(1, found[0].size), _PART_BYTES):
            parts.append(await own.get(digest, start, start + _PART_BYTES))
        return b"".join(parts)

    async def _load_old(self, cut: Cut) -> bytes | None:
        """Read the file that an earlier version recorded by its path, if it matches the digest."""
        path = Path(cut.artifact)
        if not path.is_absolute() or not path.name.startswith(cut.sha256):
            return None
        old = FolderArtifacts(path.parent)
        try:
            return await old.get(cut.sha256) if path.parent.is_dir() else None
        except ArtifactMissingError:
            return None

    # --- the shared store ---------------------------------------------------------------------

    async def shared(self) -> ArtifactStore | None:
        """Open the shared store on first use; None if there is none.

        Raises:
            ArtifactError: If it cannot be opened.
        """
        if self._opened is None and self._source is not None:
            source = self._source
            if isinstance(source, str):
                self._opened = await anyio.to_thread.run_sync(open_artifacts, source)
            else:
                self._opened = await source() if callable(source) else source
        return self._opened

    def store(
        self, cut: Cut, pieces: Callable[[], Iterable[bytes]], suffix: str, *, again: bool = False
    ) -> None:
        """As `LocalArtifacts.store`; `send` copies the value to the shared store."""
        super().store(cut, pieces, suffix, again=again)
        if self._source is not None:
            with self._lock:
                self._unsent[cut.sha256] = None

    async def send(self) -> list[RunWarning]:
        """Copy new values to the shared store, which takes their files.

        Returns:
            A warning if values could not be copied. The next call tries again.
        """
        if not self._unsent:
            return []
        with anyio.CancelScope(shield=True):
            try:
                store = await self.shared()
                while store is not None and self._unsent:
                    await self._send_one(store, next(iter(self._unsent)))
            except (ArtifactError, OSError) as error:
                message = (
                    f"{len(self._unsent)} stored values of this session are in {self.folder} only, "
                    f"and other machines cannot read them: {error}. They are copied with the next "
                    "run of this session"
                )
                _log.warning("%s", message)
                return [RunWarning("artifact_not_shared", message)]
        return []

    async def _send_one(self, store: ArtifactStore, digest: str) -> None:
        file = await anyio.to_thread.run_sync(super().open, digest)
        if file is None:
            self._forget(digest)
            msg = f"the value sha256:{digest} is missing in {self.folder}, or damaged"
            raise ArtifactError(msg)
        with file, file.reader() as data:
            await store.put(data, type_of(file.name))
        self._forget(digest)

    async def delete_unused(self, journal: Journal, before_ms: int) -> int:
        """Delete old values that no run in the journal refers to, here and in the shared store.

        As `ptc.artifacts.delete_unused`, which returns and raises the same.
        """
        deleted = await delete_unused(journal, FolderArtifacts(self), before_ms)
        store = await self.shared()
        if store is not None:
            deleted += await delete_unused(journal, store, before_ms)
        return deleted

    async def delete_with_runs(self, journal: Journal) -> int:
        """Delete the values in the journal's own store that no run refers to any more.

        Another store may hold the values of other journals; nothing is deleted there.
        """
        store = await self.shared() if self.is_in_journal else None
        return 0 if store is None else await delete_unused(journal, store, now_ms())

    def _forget(self, digest: str) -> None:
        with self._lock:
            self._unsent.pop(digest, None)

    def open(self, handle: str) -> StoredFile | None:
        """As `LocalArtifacts.open`; a value that is not here comes from the shared store.

        Raises:
            OSError: If it cannot be read.
            ArtifactError: If the shared store cannot be read, or its value is damaged.
        """
        found = super().open(handle)
        if found is None and self._source is not None and digest_of_handle(handle):
            _wait(lambda: self.fetch(handle))
            found = super().open(handle)
        return found

    async def fetch(self, handle: str) -> None:
        """Copy a value from the shared store to this machine, unless it is here.

        Raises:
            ArtifactError: If the store cannot be read, or its value is damaged.
            OSError: If the folder cannot be written.
        """
        digest = digest_of_handle(handle)
        if digest is None:
            msg = f"there is no value {handle!r:.80}: a reference is sha256:DIGEST"
            raise UsageError(msg)
        here = await anyio.to_thread.run_sync(super().open, digest)
        if here is not None:
            here.close()
            return
        store = await self.shared()
        found = [] if store is None else await store.find(digest, 2)
        if store is None or len(found) != 1:
            return
        plain = found[0].digest
        from tempfile import TemporaryFile

        with TemporaryFile() as data:
            whole = await store.copy(plain, data)
            cut, suffix = Cut(whole.size, plain, ""), suffix_of(whole.media_type)

            def keep() -> None:
                if self.is_damaged(plain):
                    self.remove(plain)
                LocalArtifacts.store(self, cut, lambda: _pieces(data), suffix)

            await anyio.to_thread.run_sync(keep)

    async def close(self) -> None:
        """Send what was not sent, and close the shared store if the session opened it."""
        await self.send()
        if self._opened is not None and isinstance(self._source, str):
            with anyio.CancelScope(shield=True):
                await self._opened.close()


_PART_BYTES = 32 << 20


def _named(value: str | Cut | AttachmentRef | RunResult) -> tuple[str, str]:
    """Return the digest of a value, and its description for an error."""
    if isinstance(value, RunResult):
        if value.cut is None:
            msg = f"the value of run {value.run_id!r} was not truncated: it is `result.value`"
            raise UsageError(msg)
        return value.cut.sha256, f"the whole value of run {value.run_id!r}: "
    if isinstance(value, Cut):
        return value.sha256, ""
    if isinstance(value, AttachmentRef):
        return value.id, f"attachment {value.name!r:.80}: "
    return digest_of_handle(value) or value, ""


def _pieces(file: Any) -> Iterable[bytes]:
    file.seek(0)
    while piece := file.read(CHUNK_BYTES):
        yield piece


def _wait(work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine to its end in a thread of its own, with an event loop of its own."""
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(anyio.run(work))
        except BaseException as error:  # noqa: BLE001  # raised to the waiting thread
            errors.append(error)

    thread = threading.Thread(target=run, name="ptc-fetch")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
