"""The promises of a store of artifacts, as checks that any store can run."""

from __future__ import annotations

import hashlib
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import anyio
import anyio.to_thread

from ..artifacts import ArtifactStore
from ..errors import ArtifactMissingError, UsageError

__all__ = ["ARTIFACT_CHECKS", "OpenArtifacts"]

OpenArtifacts: TypeAlias = Callable[[], ArtifactStore]
"""Opens the store under test, which is empty at first."""
_FUTURE_MS: Final = 4_000_000_000_000


def _require(condition: bool, promise: str) -> None:
    if not condition:
        raise AssertionError(promise)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@asynccontextmanager
async def _opened(open_store: OpenArtifacts) -> AsyncIterator[ArtifactStore]:
    store = await anyio.to_thread.run_sync(open_store)
    try:
        yield store
    finally:
        await store.close()


async def _raised(kind: type[Exception], work: Awaitable[Any], promise: str) -> None:
    try:
        await work
    except kind:
        return
    raise AssertionError(promise)


async def any_value_is_read_back(open_store: OpenArtifacts) -> None:
    """Store bytes and files of any size, and read them from any process, whole and in ranges."""
    large = bytes(range(256)) * 12_000
    async with _opened(open_store) as store, _opened(open_store) as other:
        for data in (b"", b"\0", b'{"a":1}', large):
            stored = await store.put(data, "application/json")
            found = (stored.digest, stored.size, stored.media_type)
            _require(
                found == (_digest(data), len(data), "application/json"), "a value is described"
            )
            for reader in (store, other):
                _require(await reader.get(stored.reference) == data, "a value is read back")
                _require(await reader.get(stored.digest, 1, 4) == data[1:4], "a range is read back")
            copy = io.BytesIO()
            await other.copy(stored.digest, copy)
            _require(copy.getvalue() == data, "a value is copied to a file")
        file = io.BytesIO(b"before" + large[5:])
        file.seek(6)
        stored = await store.put(file, "image/png")
        _require(stored.digest == _digest(large[5:]), "a file is stored from its position")
        part = await other.get(stored.digest, 1_048_570, 1_048_590)
        _require(part == large[1_048_575:1_048_595], "a range of several pieces is read back")


class _Pipe(io.RawIOBase):
    """A file that can be read once."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._data.readinto(buffer)


async def stream_is_stored(open_store: OpenArtifacts) -> None:
    """Store a file that cannot be read twice."""
    data = b"streamed" * 300_000
    async with _opened(open_store) as store:
        stored = await store.put(_Pipe(data))  # type: ignore[arg-type]  # as a pipe is
        _require(await store.get(stored.digest) == data, "a stream is read back")


async def equal_values_are_stored_once(open_store: OpenArtifacts) -> None:
    """Store one value from many tasks and processes at once, under one digest."""
    data = b"equal" * 500_000
    async with _opened(open_store) as store, _opened(open_store) as other:
        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon((store if number % 2 else other).put, data, "text/plain")
        await store.put(data, "application/json")
        found = await store.list_older(_FUTURE_MS)
        _require([row.digest for row in found] == [_digest(data)], "equal values are stored once")
        _require(await other.get(_digest(data)) == data, "the value is whole")


async def digest_is_never_a_path(open_store: OpenArtifacts) -> None:
    """Refuse every digest that is not 64 digits."""
    async with _opened(open_store) as store:
        digest = (await store.put(b"1")).digest
        wrong = [
            *(f"../{digest}", f"{digest[:2]}/{digest}", "..", "", f"/{digest}", f"{digest}.json"),
            *(
                digest[:63],
                f"{digest}0",
                digest.upper() + "A",
                f"{digest}\0",
                f"sha256:{digest}/..",
            ),
        ]
        for text in wrong:
            for work in (store.get, store.exists, store.delete):
                await _raised(UsageError, work(text), f"{text!r} is no digest")
        _require(await store.exists(f"sha256:{digest}"), "the value stays")


async def missing_value_is_reported(open_store: OpenArtifacts) -> None:
    """Report a value that is not there, before and after its deletion."""
    async with _opened(open_store) as store:
        digest = _digest(b"1")
        await _raised(ArtifactMissingError, store.get(digest), "a missing value is reported")
        await _raised(ArtifactMissingError, store.copy(digest, io.BytesIO()), "it is not copied")
        _require(not await store.exists(digest), "a missing value does not exist")
        _require(not await store.delete(digest), "a missing value is not deleted")
        await store.put(b"1")
        _require(await store.delete(digest), "a value is deleted")
        await _raised(ArtifactMissingError, store.get(digest), "a deleted value is missing")
        await store.put(b"1")
        _require(await store.get(digest) == b"1", "a deleted value is stored again")


async def values_are_found_by_the_start_of_their_digest(open_store: OpenArtifacts) -> None:
    """Find a value by 16 digits, and refuse fewer."""
    async with _opened(open_store) as store:
        stored = [await store.put(b"%d" % number) for number in range(5)]
        for row in stored:
            (found,) = await store.find(row.digest[:16])
            _require(found.digest == row.digest, "a value is found by the start of its digest")
        _require(not await store.find("0" * 16), "another start finds nothing")
        await _raised(UsageError, store.find(stored[0].digest[:15]), "a start has 16 digits")


async def old_values_are_listed_and_deleted(open_store: OpenArtifacts) -> None:
    """List values by age in pages, and delete only those that are old."""
    async with _opened(open_store) as store:
        digests = sorted([(await store.put(b"%d" % number)).digest for number in range(7)])
        first = await store.list_older(_FUTURE_MS, limit=4)
        rest = await store.list_older(_FUTURE_MS, after=first[-1].digest)
        listed = [row.digest for row in (*first, *rest)]
        _require(listed == digests, "values are listed by digest, in pages")
        _require(not await store.list_older(1), "young values are not listed")
        _require(not await store.delete(digests[0], before_ms=1), "a young value is not deleted")
        _require(await store.delete(digests[0], before_ms=_FUTURE_MS), "an old value is deleted")
        _require(not await store.exists(digests[0]), "it is gone")


ARTIFACT_CHECKS: Final = (
    any_value_is_read_back,
    digest_is_never_a_path,
    equal_values_are_stored_once,
    missing_value_is_reported,
    old_values_are_listed_and_deleted,
    stream_is_stored,
    values_are_found_by_the_start_of_their_digest,
)
"""The checks. Each is an async function of an `OpenArtifacts`, and raises `AssertionError`."""
