"""Every store keeps the promises of a store of artifacts."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ptc.artifacts import FolderArtifacts, PostgresArtifacts, S3Artifacts
from ptc.errors import ArtifactDamagedError, ArtifactError
from ptc.testing import ARTIFACT_CHECKS

pytestmark = pytest.mark.anyio

_NUMBERS = count()


@pytest.mark.parametrize("check", ARTIFACT_CHECKS, ids=lambda check: check.__name__)
async def test_folder_keeps_its_promise(check: Callable[..., Any], tmp_path: Path) -> None:
    await check(lambda: FolderArtifacts(tmp_path / "store"))


@pytest.mark.slow
@pytest.mark.parametrize("check", ARTIFACT_CHECKS, ids=lambda check: check.__name__)
async def test_postgresql_keeps_its_promise(check: Callable[..., Any], postgres: str) -> None:
    schema = f"artifacts_{next(_NUMBERS)}"
    await check(lambda: PostgresArtifacts(postgres, schema=schema))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("check", ARTIFACT_CHECKS, ids=lambda check: check.__name__)
async def test_s3_keeps_its_promise(
    check: Callable[..., Any], s3: Callable[[str], dict[str, Any]]
) -> None:
    bucket = f"bucket{next(_NUMBERS)}"
    options = s3(bucket)
    await check(lambda: S3Artifacts(f"s3://{bucket}/some/prefix", options=options))


async def test_damaged_value_is_reported_and_never_returned(tmp_path: Path) -> None:
    store = FolderArtifacts(tmp_path)
    digest = (await store.put(b"[1,2,3]", "application/json")).digest
    path = tmp_path / digest[:2] / f"{digest}.json"
    path.write_bytes(b"[9,9,9]")
    with pytest.raises(ArtifactDamagedError, match=f"sha256:{digest}"):
        await store.get(digest, 0, 1)
    with (tmp_path / "copy").open("wb") as file, pytest.raises(ArtifactDamagedError):
        await store.copy(digest, file)
    await store.put(b"[1,2,3]", "application/json")
    assert await store.get(digest) == b"[1,2,3]", "storing it again repairs it"


async def test_value_over_the_maximum_is_refused(tmp_path: Path) -> None:
    store = FolderArtifacts(tmp_path, max_bytes=10)
    with pytest.raises(ArtifactError, match="more than 10 bytes"):
        await store.put(b"x" * 11)
    assert await store.list_older(2**60) == []


async def test_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    store = FolderArtifacts(tmp_path)
    digest = (await store.put(b"1", "text/plain")).digest
    assert (tmp_path / digest[:2] / f"{digest}.txt").stat().st_mode & 0o777 == 0o600


def _put_for_ever(folder: Path) -> None:
    import asyncio

    async def put() -> None:
        store = FolderArtifacts(folder)
        for number in count():
            await store.put(b"%08d" % number * 100_000)

    asyncio.run(put())


@pytest.mark.slow
async def test_process_killed_during_put_leaves_no_torn_value(tmp_path: Path) -> None:
    for round_ in range(10):
        before = sum(1 for _ in tmp_path.rglob("*.bin"))
        process = multiprocessing.get_context("spawn").Process(
            target=_put_for_ever, args=(tmp_path,)
        )
        process.start()
        limit = time.monotonic() + 30
        while sum(1 for _ in tmp_path.rglob("*.bin")) < before + 3 * (round_ == 0):
            assert time.monotonic() < limit
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        store = FolderArtifacts(tmp_path)
        for row in await store.list_older(2**60):
            assert row.size == 800_000
            await store.get(row.digest)


_PUT_LARGE = r"""
import asyncio, re, sys
from pathlib import Path
from ptc.artifacts import FolderArtifacts, PostgresArtifacts

async def main(kind, place, file):
    store = FolderArtifacts(place) if kind == "folder" else PostgresArtifacts(place, schema="big")
    with open(file, "rb") as data:
        stored = await store.put(data)
    with open("/dev/null", "wb") as copy:
        await store.copy(stored.digest, copy)
    await store.close()
    # Not ru_maxrss, which counts the process that started this one.
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    print(stored.size, int(peak[1]) // 1024)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folder", "postgres"])
def test_value_of_one_gigabyte_is_never_in_memory(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = str(tmp_path) if kind == "folder" else request.getfixturevalue("postgres")
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(1 << 30)
    command = [sys.executable, "-W", "ignore", "-c", _PUT_LARGE, kind, place, str(large)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=110)
    size, megabytes = map(int, done.stdout.split())
    assert size == 1 << 30
    assert megabytes < 150
