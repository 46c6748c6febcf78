"""A run whose tools changed since it was recorded is resumed only if somebody accepts that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import ChangedToolsError, Session, Tool, ToolContext, define_tool
from ptc._core import _json
from ptc.journal import Journal, open_journal

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}}
SOURCE = "async def run(ctx, inputs):\n    return await ctx.pay(n=1)\n"


class World:
    """Tools of one session: `pay` hangs until it is cancelled, if `hangs`."""

    def __init__(self, made: list[str], *, hangs: bool = False) -> None:
        self.made = made
        self.hanging = anyio.Event()
        self.hangs = hangs

    def tools(self, **options: Any) -> list[Tool]:
        async def pay(arguments: Any, ctx: ToolContext) -> int:
            self.made.append("pay")
            if self.hangs:
                self.hanging.set()
                await anyio.sleep_forever()
            return 1

        async def outer(arguments: Any, ctx: ToolContext) -> Any:
            return await ctx.call_tool("pay", n=2)

        async def unused(arguments: Any, ctx: ToolContext) -> int:
            return 1

        given: dict[str, Any] = {"side_effect": True, "schema": NUMBER, "about": "Pay.", **options}
        schema, about = given.pop("schema"), given.pop("about")
        unused_options = given.pop("unused", {})
        return [
            define_tool("pay", about, schema, pay, **given),
            define_tool("outer", "Call pay.", NUMBER, outer),
            define_tool("unused", "Nothing.", NUMBER, unused, **unused_options),
        ]


ALLOWED = ["pay", "outer", "unused"]


async def interrupt(tmp_path: Path, made: list[str], source: str = SOURCE) -> None:
    """Record a run whose `pay` is interrupted."""
    world = World(made, hangs=True)
    async with (
        Session(tmp_path, tools=world.tools(), toolsets=()) as session,
        anyio.create_task_group() as group,
    ):

        async def run() -> None:
            await session.program(source=source, run_id="r", allowed_tools=ALLOWED)

        group.start_soon(run)
        with anyio.fail_after(20):
            await world.hanging.wait()
        group.cancel_scope.cancel()


@pytest.mark.parametrize(
    "source", [SOURCE, "async def run(ctx, inputs):\n    return await ctx.outer(n=1)\n"]
)
async def test_tool_that_lost_its_side_effect_is_not_called_again_unasked(
    tmp_path: Path, source: str
) -> None:
    made = list[str]()
    await interrupt(tmp_path, made, source)
    changed = World(made).tools(side_effect=False)
    async with Session(tmp_path, tools=changed, toolsets=()) as session:
        before = await session.history.recorded("r")
        with pytest.raises(ChangedToolsError) as caught:
            await session.resume("r")
        assert caught.value.run_id == "r"
        assert "side_effect was True and is False" in caught.value.changes["pay"]
        assert "accept_changed_tools=True" in str(caught.value)
        with pytest.raises(ChangedToolsError):
            await session.program(source=source, run_id="r", allowed_tools=ALLOWED)
        assert await session.history.recorded("r") == before
        assert made == ["pay"]
        accepted = await session.resume("r", accept_changed_tools=True)
    assert accepted.ok
    assert made == ["pay", "pay"]


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({"schema": {"type": "object", "properties": {}}}, "its parameters changed"),
        ({"result_schema": {"type": "integer"}}, "the schema of its result changed"),
        ({"idempotent": True}, "idempotent was False and is True"),
        ({"about": "Pay some money.", "timeout_ms": 9_000, "tags": ["money"]}, ""),
        ({"unused": {"side_effect": True}}, ""),
    ],
)
async def test_only_changes_of_the_contract_of_used_tools_park_a_run(
    tmp_path: Path, options: dict[str, Any], change: str
) -> None:
    made = list[str]()
    await interrupt(tmp_path, made)
    async with Session(tmp_path, tools=World(made).tools(**options), toolsets=()) as session:
        if not change:
            assert (await session.resume("r")).status == "paused"
            return
        with pytest.raises(ChangedToolsError) as caught:
            await session.resume("r")
        assert caught.value.changes.keys() == {"pay"}
        assert change in caught.value.changes["pay"]


async def test_corrected_script_may_use_a_changed_tool_that_was_not_called(tmp_path: Path) -> None:
    made = list[str]()
    source = "async def run(ctx, inputs):\n    await ctx.pay(n=1)\n    await ctx.unused(n=1)\n"
    await interrupt(tmp_path, made, source)
    changed = World(made).tools(unused={"cache": True})
    async with Session(tmp_path, tools=changed, toolsets=()) as session:
        with pytest.raises(ChangedToolsError, match="unused: cache was False and is True"):
            await session.resume("r")
        result = await session.resume("r", source=source)
    assert result.status == "paused"


async def test_run_recorded_without_marks_resumes_as_before(tmp_path: Path) -> None:
    def without_marks(journal: Journal) -> Callable[..., Any]:
        start = journal.start_run

        def start_run(run: Any) -> Any:
            options = _json.loads(run.options)
            del options["marks"]
            return start(replace(run, options=_json.dumps(options)))

        return start_run

    made = list[str]()
    journal = open_journal(tmp_path / "journal.sqlite3")
    journal.start_run = without_marks(journal)  # type: ignore[method-assign]
    tools = World(made).tools(needs_approval=True)
    async with Session(tmp_path, tools=tools, toolsets=(), journal=journal) as session:
        paused = await session.program(source=SOURCE, run_id="r", allowed_tools=ALLOWED)
        assert paused.status == "paused"
    tools = World(made).tools(side_effect=False)
    async with Session(tmp_path, tools=tools, toolsets=(), journal=journal) as session:
        assert (await session.resume("r")).ok
    await journal.close()
