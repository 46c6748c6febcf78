"""Values of runs that another machine reads: another folder, with the same store."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from ptc import Attachment, Limits, Session, ToolContext, define_tool
from ptc._records._result import Cut
from ptc.artifacts import FolderArtifacts, S3Artifacts, StoredArtifact
from ptc.errors import ArtifactDamagedError, ArtifactError, ArtifactMissingError, UsageError

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

SCRIPT = """
async def run(ctx, inputs):
    first = await ctx.draw()
    await ctx.pay(n=1)
    return ["value"] * 20_000
"""
WHOLE = ["value"] * 20_000


async def draw(arguments: dict[str, Any], ctx: ToolContext) -> int:
    ctx.attach(Attachment("chart.png", "image/png", b"\x89PNG chart"))
    return 1


async def pay(arguments: dict[str, Any]) -> str:
    return "paid"


def session_in(root: Path, **options: Any) -> Session:
    root.mkdir(exist_ok=True)
    number = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = [
        define_tool("draw", "Draw.", {"type": "object"}, draw),
        define_tool(
            "pay", "Pay.", number, pay, side_effect=True, idempotent=True, needs_approval=True
        ),
    ]
    limits = Limits(max_output_bytes=1_000)
    return Session(root, tools=tools, toolsets=(), limits=limits, **options)


async def run_on_two_machines(tmp_path: Path, **options: Any) -> None:
    """Pause a run on one machine, and resume, show and read it on two others."""
    async with session_in(tmp_path / "one", **options) as one:
        paused = await one.program(source=SCRIPT, allowed_tools=["draw", "pay"])
        assert paused.status == "paused"
        assert paused.warnings == ()
        (chart,) = paused.attachments
    async with session_in(tmp_path / "two", **options) as two:
        await two.approve(paused.run_id, by="ann")
        done = await two.resume(paused.run_id, allowed_tools=["draw", "pay"])
        assert done.status == "completed", done.error
        assert done.cut is not None
        assert done.cut.artifact == f"sha256:{done.cut.sha256}"
        assert json.loads(await two.artifacts.load(done)) == WHOLE
        assert await two.artifacts.load(f"sha256:{chart.id}") == b"\x89PNG chart"
    async with session_in(tmp_path / "three", **options) as three:
        row = await three.history.run(paused.run_id)
        assert row.result is not None
        recorded = json.loads(row.result)["cut"]
        assert recorded["artifact"] == f"sha256:{done.cut.sha256}"
        assert json.loads(await three.artifacts.load(recorded["artifact"])) == WHOLE
        # As `get_tool_response` opens it, by its handle.
        found = three.artifacts.open(done.cut.sha256[:16])
        assert found is not None
        found.close()


async def test_run_is_resumed_elsewhere_with_a_shared_folder(tmp_path: Path) -> None:
    journal = tmp_path / "journal.sqlite3"
    await run_on_two_machines(
        tmp_path, journal=journal, artifacts=FolderArtifacts(tmp_path / "shared")
    )


@pytest.mark.slow
async def test_run_is_resumed_elsewhere_with_postgresql(
    tmp_path: Path,
    postgres: str,
) -> None:
    await run_on_two_machines(tmp_path, journal=postgres)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
async def test_run_is_resumed_elsewhere_with_s3(
    tmp_path: Path,
    s3: Callable[[str], dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = s3("runs")
    journal = tmp_path / "journal.sqlite3"
    store = S3Artifacts("s3://runs/objects", options=options)
    await run_on_two_machines(tmp_path, journal=journal, artifacts=store)
    for name, key in (
        ("AWS_ENDPOINT_URL", "endpoint"),
        ("AWS_ACCESS_KEY_ID", "access_key_id"),
        ("AWS_SECRET_ACCESS_KEY", "secret_access_key"),
        ("AWS_REGION", "region"),
    ):
        monkeypatch.setenv(name, options[key])
    (tmp_path / "by-address").mkdir()
    await run_on_two_machines(
        tmp_path / "by-address", journal=journal, artifacts="s3://runs/by-address"
    )


class LostStore(FolderArtifacts):
    """A store that cannot be reached for a while."""

    lost = True

    async def put(
        self, data: bytes | BinaryIO, media_type: str = "application/octet-stream"
    ) -> StoredArtifact:
        if self.lost:
            msg = "the store cannot be reached"
            raise ArtifactError(msg)
        return await super().put(data, media_type)


LARGE = "async def run(ctx, inputs):\n    return ['value'] * 20_000\n"


async def test_lost_store_warns_and_keeps_the_value_here(tmp_path: Path) -> None:
    store = LostStore(tmp_path / "shared")
    async with session_in(tmp_path / "one", artifacts=store) as session:
        result = await session.program(source=LARGE)
        assert result.status == "completed"
        (warning,) = [row for row in result.warnings if row.code == "artifact_not_shared"]
        assert "cannot be reached" in warning.message
        assert json.loads(await session.artifacts.load(result)) == WHOLE
        store.lost = False
    # Closing the session tries again.
    assert result.cut is not None
    assert await store.exists(result.cut.sha256)


async def test_missing_value_names_its_run_and_a_remedy(tmp_path: Path) -> None:
    store = FolderArtifacts(tmp_path / "shared")
    async with session_in(tmp_path / "one", artifacts=store) as session:
        result = await session.program(source=LARGE)
    assert result.cut is not None
    await store.delete(result.cut.sha256)
    async with session_in(tmp_path / "two", artifacts=store) as session:
        with pytest.raises(ArtifactMissingError, match=f"{result.run_id}.*run the script again"):
            await session.artifacts.load(result)
        with pytest.raises(UsageError, match="reference"):
            await session.artifacts.load("../../etc/passwd")


async def test_damaged_copy_in_the_store_is_reported(tmp_path: Path) -> None:
    store = FolderArtifacts(tmp_path / "shared")
    async with session_in(tmp_path / "one", artifacts=store) as session:
        result = await session.program(source=LARGE)
    (stored,) = (tmp_path / "shared").rglob("*.json")
    stored.write_bytes(b"[]")
    async with session_in(tmp_path / "two", artifacts=store) as session:
        with pytest.raises(ArtifactDamagedError, match="does not match"):
            await session.artifacts.load(result)


async def test_path_of_an_earlier_version_is_read_if_it_matches(tmp_path: Path) -> None:
    async with session_in(tmp_path / "one") as session:
        result = await session.program(source=LARGE)
        assert result.cut is not None
        digest = result.cut.sha256
        path = tmp_path / f"{digest}.json"
        path.write_bytes(session.artifacts.path(digest).read_bytes())
    old = replace(result, cut=Cut(result.cut.bytes, digest, str(path)))
    async with session_in(tmp_path / "two") as session:
        assert json.loads(await session.artifacts.load(old)) == WHOLE
        path.write_bytes(b"[]")
        with pytest.raises(ArtifactError):
            await session.artifacts.load(old)
        path.unlink()
        with pytest.raises(ArtifactMissingError, match=result.run_id):
            await session.artifacts.load(old)
