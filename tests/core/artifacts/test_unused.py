"""Values that no run refers to are deleted once they are old."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from ptc import Limits, Session
from ptc.artifacts import FolderArtifacts, delete_unused

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

LARGE = "async def run(ctx, inputs):\n    return ['value'] * 20_000\n"


def age(folder: Path, hours: float) -> None:
    stamp = time.time() - hours * 3_600
    for path in folder.rglob("*.*"):
        if path.is_file() and path.name != ".gitignore":
            os.utime(path, (stamp, stamp))


async def test_only_old_values_that_no_run_names_are_deleted(tmp_path: Path) -> None:
    now = time.time_ns() // 1_000_000
    async with Session(
        tmp_path, toolsets=(), journal=":memory:", limits=Limits(max_output_bytes=1_000)
    ) as session:
        result = await session.program(source=LARGE)
        named = await FolderArtifacts(session.artifacts).put(b"named by its handle", "text/plain")
        unused = await FolderArtifacts(session.artifacts).put(b"unused", "text/plain")
        journal = await session.history.open()
        journal.documents.change("note", lambda _: f"see {named.digest[:16]}")
        age(session.artifacts.folder, 3)
        assert await session.artifacts.delete_unused(journal, now - 4 * 3_600_000) == 0
        assert await session.artifacts.delete_unused(journal, now) == 1
        assert session.artifacts.read(unused.digest) is None
        assert session.artifacts.read(named.digest) is not None
        assert await session.artifacts.load(result)
        # Once its run is forgotten, a value is unused.
        assert await session.history.forget(0) == 1
        assert await session.artifacts.delete_unused(journal, now) == 1


async def test_young_value_is_not_deleted(tmp_path: Path) -> None:
    store = FolderArtifacts(tmp_path)
    async with Session(tmp_path, toolsets=(), journal=":memory:") as session:
        journal = await session.history.open()
        digest = (await store.put(b"on its way")).digest
        age(tmp_path, 1)
        assert await delete_unused(journal, store, 2**60) == 0
        age(tmp_path, 3)
        # Storing it again makes it young.
        await store.put(b"on its way")
        assert await delete_unused(journal, store, 2**60) == 0
        age(tmp_path, 3)
        assert await delete_unused(journal, store, 2**60) == 1
        assert not await store.exists(digest)


@pytest.mark.slow
async def test_values_in_the_database_of_a_journal_are_deleted_with_runs(
    tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptc.artifacts._unused._LEAST_AGE_MS", -1)
    options: dict[str, Any] = {"toolsets": (), "journal": postgres, "workers": 1}
    options["limits"] = Limits(max_output_bytes=1_000)
    digests: list[str] = []
    async with Session(tmp_path, **options) as session:
        for text in ("old", "new"):
            result = await session.program(source=LARGE.replace("value", text))
            assert result.cut is not None
            digests.append(result.cut.sha256)
    async with Session(tmp_path, **options, retention_runs=1) as session:
        await session.history.retention.first_pass()
        store = await session.artifacts.shared()
        assert store is not None
        assert [await store.exists(digest) for digest in digests] == [False, True]


async def test_values_of_other_journals_are_not_deleted_with_runs(tmp_path: Path) -> None:
    store = FolderArtifacts(tmp_path / "store")
    async with Session(tmp_path, toolsets=(), journal=":memory:", artifacts=store) as session:
        digest = (await store.put(b"of another journal")).digest
        age(tmp_path, 3)
        assert await session.artifacts.delete_with_runs(await session.history.open()) == 0
        assert await store.exists(digest)
