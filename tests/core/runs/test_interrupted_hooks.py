"""An effect whose function has ended has a known outcome, also if what follows is interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, BinaryIO

import anyio
import pytest

from ptc import Attachment, CallRecord, Limits, Retry, Session, Tool, ToolContext, ToolResult, tool
from ptc.artifacts import FolderArtifacts, StoredArtifact

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops, pytest.mark.shared_zygote]

SOURCE = "async def run(ctx, inputs):\n    return await ctx.{}(n=1)\n"


class World:
    """A tool with an effect, tools that call it, and a hook that never returns."""

    def __init__(self, **options: Any) -> None:
        self.made: list[int] = []
        self.hooked = anyio.Event()

        @tool(side_effect=True, **options)
        async def pay(n: int, ctx: ToolContext) -> dict[str, int]:
            """Pay."""
            self.made.append(n)
            return {"paid": n}

        @tool(retry=Retry(max_retries=1, backoff_ms=0), timeout_ms=100)
        async def outer(n: int, ctx: ToolContext) -> Any:
            """Pay in a tool."""
            return await ctx.call_tool("pay", n=n)

        @tool(needs_approval=True)
        async def gate() -> int:
            """Wait for an approval."""
            return 1

        self.tools: list[Tool] = [pay, outer, gate]

    async def hook(self, call: CallRecord) -> None:
        self.hooked.set()
        await anyio.sleep_forever()

    def session(self, root: Path, **options: Any) -> Session:
        tools, journal = self.tools, root.parent / "journal.db"
        return Session(root, tools=tools, toolsets=(), journal=journal, workers=1, **options)

    def hooked_session(self, root: Path, **options: Any) -> Session:
        return self.session(root, after_side_effect=self.hook, **options)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


async def outcomes(session: Session, run_id: str) -> list[Any]:
    """Return tool, status and body of each recorded call."""
    recorded = await session.history.recorded(run_id)
    return [(r.tool, r.end and r.end.status, r.end and r.end.body) for r in recorded.calls]


PAID = ("pay", "succeeded", b'[true,true,{"paid":1}]')


async def expect_completed(world: World, root: Path, run_id: str, **options: Any) -> None:
    """Resume a run: it completes, and the effect was made once."""
    async with world.session(root) as session:
        assert PAID in await outcomes(session, run_id)
        result = await session.resume(run_id, **options)
        assert result.unwrap() == {"paid": 1}
    assert world.made == [1]


@pytest.mark.parametrize("idempotent", [False, True])
async def test_effect_is_recorded_as_made_if_the_run_times_out_in_the_hook(
    root: Path, idempotent: bool
) -> None:
    world = World(idempotent=idempotent)
    async with world.hooked_session(root) as session:
        with anyio.fail_after(20):
            result = await session.program(
                source=SOURCE.format("pay"),
                allowed_tools=["pay"],
                run_id="r",
                limits=Limits(timeout_ms=300),
            )
        assert (result.status, result.calls[0].status) == ("timed_out", "succeeded")
    await expect_completed(world, root, "r", limits=Limits(timeout_ms=20_000))


async def cancel_in_hook(world: World, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            await world.hooked.wait()
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("name", ["pay", "outer"])
@pytest.mark.parametrize("idempotent", [False, True])
async def test_effect_is_recorded_as_made_if_the_run_is_cancelled_in_the_hook(
    root: Path, name: str, idempotent: bool
) -> None:
    world = World(idempotent=idempotent)
    async with world.hooked_session(root) as session:

        async def work() -> None:
            source = SOURCE.format(name)
            await session.program(source=source, allowed_tools=["pay", "outer"], run_id="r")

        await cancel_in_hook(world, work)
    await expect_completed(world, root, "r")


async def test_effect_of_a_tool_is_not_repeated_if_the_tool_times_out_in_the_hook(
    root: Path,
) -> None:
    world = World()
    async with world.hooked_session(root) as session:
        with anyio.fail_after(20):
            result = await session.program(
                source=SOURCE.format("outer"), allowed_tools=["pay", "outer"]
            )
        assert result.unwrap() == {"paid": 1}
        assert result.calls[0].attempts == 2
        assert PAID in await outcomes(session, result.run_id)
    assert world.made == [1]


async def test_script_that_cancels_its_call_in_the_hook_can_be_resumed(root: Path) -> None:
    world = World()
    source = """
import asyncio

async def run(ctx, inputs):
    paying = asyncio.create_task(ctx.pay(n=1))
    await asyncio.wait([paying], timeout=0.2)
    paying.cancel()
    await ctx.gate()
    return paying.cancelled()
"""
    async with world.hooked_session(root) as session:
        with anyio.fail_after(20):
            paused = await session.program(source=source, allowed_tools=["pay", "gate"])
        assert (paused.status, paused.calls[0].status) == ("paused", "succeeded")
        assert PAID in await outcomes(session, paused.run_id)
    async with world.session(root) as session:
        result = await session.approve(paused.run_id, by="ann", resume=True)
        assert result.unwrap() is True
    assert world.made == [1]


async def test_recorded_direct_call_that_is_cancelled_in_the_hook_is_recorded_as_made(
    root: Path,
) -> None:
    world = World()
    async with world.hooked_session(root, record_direct_calls=True) as session:

        async def work() -> None:
            await session.tool("pay", {"n": 1})

        await cancel_in_hook(world, work)
        ((run_id, status),) = [(r.run_id, r.status) for r in await session.history.runs()]
        assert status == "cancelled"
    await expect_completed(world, root, run_id)


class StuckStore(FolderArtifacts):
    """A shared store whose first value is never taken."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.sending = asyncio.Event()

    async def put(
        self, data: bytes | BinaryIO, media_type: str = "application/octet-stream"
    ) -> StoredArtifact:
        if not self.sending.is_set():
            self.sending.set()
            await anyio.sleep_forever()
        return await super().put(data, media_type)


# Only a task of asyncio that is cancelled interrupts it. The zygote of the module needs the scope.
@pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module")
async def test_effect_is_recorded_as_made_if_it_is_cancelled_while_its_files_are_sent(
    root: Path, tmp_path: Path
) -> None:
    world = World()

    @tool(side_effect=True)
    async def draw(n: int, ctx: ToolContext) -> ToolResult:
        """Draw a picture."""
        world.made.append(n)
        picture = Attachment("picture.svg", "image/svg+xml", b"<svg/>")
        return ToolResult(value={"paid": n}, attachments=(picture,))

    world.tools.append(draw)
    store = StuckStore(tmp_path / "shared")
    async with world.session(root, artifacts=store, record_direct_calls=True) as session:
        call = asyncio.create_task(session.tool("draw", {"n": 1}))
        await asyncio.wait_for(store.sending.wait(), 20)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(call, 20)
        ((run_id,),) = [[run.run_id] for run in await session.history.runs()]
        assert await outcomes(session, run_id) == [("draw", *PAID[1:])]
    assert world.made == [1]
