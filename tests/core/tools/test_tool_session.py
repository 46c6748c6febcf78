"""A session of tools stands alone: without scripts, workers and a journal."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from ptc import Limits, SessionClosedError, tool
from ptc._calls._attachments import AttachmentStore
from ptc._calls._direct import DirectCalls
from ptc._calls._scope import Shared
from ptc._core._lifetime import Lifetime
from ptc._session._tool_session import ToolSession, collect_tools
from ptc.artifacts import SessionArtifacts

pytestmark = pytest.mark.anyio


@tool
def price(item: str) -> int:
    """Price of an item."""
    return len(item)


async def test_direct_calls_need_neither_workers_nor_a_journal(tmp_path: Path) -> None:
    catalog, models = collect_tools([price], (), None)
    store = SessionArtifacts(tmp_path / "artifacts", tmp_path)
    attachments = AttachmentStore(SessionArtifacts(tmp_path / "attachments", tmp_path))
    shared = Shared(root=tmp_path, known=catalog.tools, attachments=attachments, artifacts=store)
    direct = DirectCalls(catalog, shared, Limits())
    session = ToolSession(catalog, models, tmp_path, direct)
    with pytest.raises(SessionClosedError, match="is not open"):
        await session.call(price, "tea")
    async with session:
        assert await session.call(price, "tea") == 3
        assert session.tool_names() == [row.name for row in session.search_tools("price")]
        assert not hasattr(session, "program")
    with pytest.raises(SessionClosedError, match="is closed"):
        await session.call(price, "tea")
    assert list(tmp_path.iterdir()) == []


async def test_second_close_waits_for_the_first_although_that_is_cancelled() -> None:
    lifetime, releasing, release = Lifetime(), anyio.Event(), anyio.Event()
    order: list[str] = []

    async def slow() -> None:
        releasing.set()
        await release.wait()
        order.append("released")

    async def second() -> None:
        await lifetime.close(slow)
        order.append("second")

    lifetime.open()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as others, anyio.create_task_group() as group:
            group.start_soon(lifetime.close, slow)
            await releasing.wait()
            assert not lifetime.is_open
            group.cancel_scope.cancel()
            others.start_soon(second)
            others.start_soon(_set, release)
    assert order == ["released", "second"]


async def _set(event: anyio.Event) -> None:
    event.set()
