"""Runs whose script is not stored, and records that are damaged above the store."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ptc import DamagedRunError, EndedRunError, Session, Tool, ToolContext, define_tool, tool
from ptc.testing import Recording

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

SECRET = "hunter2"
SOURCE = f"""
async def run(ctx, inputs):
    password = '{SECRET}'
    await ctx.pay(n=1)
    1 / 0  # {SECRET}
"""


def pay_tool(made: list[Any], **options: Any) -> Tool:
    async def pay(arguments: Any, ctx: ToolContext) -> int:
        made.append(arguments)
        return 1

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    return define_tool("pay", "Pay.", schema, pay, side_effect=True, **options)


async def test_only_the_digest_of_a_script_is_stored(tmp_path: Path) -> None:
    made: list[Any] = []
    file = tmp_path / "state" / "journal.sqlite3"
    arguments: dict[str, Any] = {
        "tools": [pay_tool(made)],
        "toolsets": (),
        "journal": file,
        "store_source": False,
    }
    root = tmp_path / "root"
    root.mkdir()
    async with Session(root, **arguments) as session:
        failed = await session.program(source=SOURCE, run_id="r", allowed_tools=["pay"])
        assert failed.error is not None
        assert SECRET in failed.error.excerpt
        repeated = await session.program(source=SOURCE, run_id="r", allowed_tools=["pay"])
        assert repeated.status == "failed"
        for work in (session.resume("r"), session.retry("r")):
            with pytest.raises(EndedRunError, match="recorded without its script"):
                await work
        recording = await Recording.of(session.history, "r")
        with pytest.raises(EndedRunError, match="recorded without its script"):
            await recording.replay()
        assert json.loads(recording.to_json())["options"]["source_sha256"]
        assert (await session.history.run((await session.history.runs())[0].run_id)).source == ""
    for each in file.parent.iterdir():
        assert SECRET.encode() not in each.read_bytes(), each
    async with Session(root, **arguments) as session:
        fixed = SOURCE.replace("1 / 0", "return 2")
        assert (await session.resume("r", source=fixed)).value == 2
    assert len(made) == 1
    for each in file.parent.iterdir():
        assert SECRET.encode() not in each.read_bytes(), each


async def test_secret_in_inputs_is_stored_as_it_is_and_redacted_in_arguments(
    tmp_path: Path,
) -> None:
    class Keys(BaseModel):
        api_key: str

    @tool(env=Keys)
    def look(q: str) -> str:
        """Look."""
        return q

    env = {"api_key": "hunter2-hunter2"}
    source = "def run(ctx, inputs):\n    print(inputs['p'])\n    ctx.look(inputs['p'])\n"
    async with Session(tmp_path, tools=[look], toolsets=(), env=env) as session:
        inputs = {"p": env["api_key"]}
        assert (await session.program(source=source, inputs=inputs, run_id="r")).ok
        record = await session.history.recorded("r")
        assert json.loads(record.run.inputs) == inputs
        assert record.calls[0].arguments == b'{"q":"[secret api_key]"}'
        assert json.loads((await session.history.events("r"))[0].body) == "hunter2-hunter2\n"


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("options", b"{]", "options of a run"),
        ("options", b"[1]", "options of a run"),
        ("options", b"{}", "options cannot be read"),
        (
            "options",
            b'{"rules":false,"typed":false,"schema":null,"tools":3,"limits":{}}',
            "options",
        ),
        (
            "options",
            b'{"rules":false,"typed":false,"schema":null,"tools":{},"limits":{"timeout_ms":"x"}}',
            "limits cannot be read",
        ),
        ("result", b"{]", "result cannot be read"),
        ("result", b'{"status":7}', "result cannot be read"),
    ],
)
async def test_damaged_json_of_a_run_is_reported_as_damage(
    tmp_path: Path, column: str, value: bytes, words: str
) -> None:
    file, made = tmp_path / "state" / "journal.sqlite3", list[Any]()
    source = "async def run(ctx, inputs):\n    return await ctx.pay(n=1)\n"
    root = tmp_path / "root"
    root.mkdir()
    tools = [pay_tool(made, needs_approval=True)]
    async with Session(root, tools=tools, toolsets=(), journal=file) as session:
        paused = await session.program(source=source, run_id="r", allowed_tools=["pay"])
        assert paused.status == "paused"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"UPDATE runs SET {column}=?", (value,))  # noqa: S608  # our names
    async with Session(root, tools=tools, toolsets=(), journal=file) as session:
        with pytest.raises(DamagedRunError, match=words) as caught:
            await session.resume("r")
        assert "run 'r'" in str(caught.value)
    assert made == []


@pytest.mark.parametrize(
    ("table", "column", "words"),
    [("pending", "details", "details of a pending call"), ("verdicts", "value", "decision")],
)
async def test_damaged_json_of_a_request_is_reported_as_damage(
    tmp_path: Path, table: str, column: str, words: str
) -> None:
    file, made = tmp_path / "state" / "journal.sqlite3", list[Any]()
    source = "async def run(ctx, inputs):\n    return await ctx.pay(n=1)\n"
    root = tmp_path / "root"
    root.mkdir()
    tools = [pay_tool(made, needs_approval=True)]
    async with Session(root, tools=tools, toolsets=(), journal=file) as session:
        await session.program(source=source, run_id="r", allowed_tools=["pay"])
        if table == "verdicts":
            await session.approve("r", by="ann")
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {column}=x'7b5d'")  # noqa: S608  # our names
    async with Session(root, tools=tools, toolsets=(), journal=file) as session:
        with pytest.raises(DamagedRunError, match=words):
            await (session.approve("r", by="ann") if table == "pending" else session.resume("r"))
    assert made == []


async def test_damaged_event_is_reported_as_damage(tmp_path: Path) -> None:
    file = tmp_path / "state" / "journal.sqlite3"
    root = tmp_path / "root"
    root.mkdir()
    async with Session(root, toolsets=(), journal=file) as session:
        assert (await session.program(source="def run(ctx, inputs): print(1)", run_id="r")).ok
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE events SET body='text'")
    async with Session(root, toolsets=(), journal=file) as session:
        with pytest.raises(DamagedRunError, match="event"):
            await session.history.events("r")


async def test_resumed_run_lists_the_calls_below_recalled_nested_tools(tmp_path: Path) -> None:
    made: list[Any] = []

    async def inner(arguments: Any, ctx: ToolContext) -> Any:
        return await ctx.call_tool("pay", n=arguments["n"])

    async def outer(arguments: Any, ctx: ToolContext) -> Any:
        await ctx.call_tool("inner", n=1)
        return await ctx.call_tool("inner", n=2)

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = [
        pay_tool(made),
        define_tool("inner", "Pay.", schema, inner),
        define_tool("outer", "Pay twice.", schema, outer),
        define_tool("ask", "Ask.", schema, lambda arguments: 1, needs_approval=True),
    ]
    source = "async def run(ctx, inputs):\n    await ctx.outer(n=0)\n    await ctx.ask(n=0)\n"
    names = ["outer", "inner", "pay", "ask"]
    async with Session(tmp_path, tools=tools, toolsets=()) as session:
        first = await session.program(source=source, run_id="r", allowed_tools=names)
        assert first.status == "paused"
    async with Session(tmp_path, tools=tools, toolsets=()) as session:
        second = await session.approve("r", by="ann", resume=True)
    assert second.ok
    assert len(made) == 2
    done, recalled = first.calls[:5], second.calls[:5]
    assert [call.tool for call in recalled] == ["outer", "inner", "pay", "inner", "pay"]
    same = ("seq", "tool", "status", "arguments", "parent", "attempts")
    for before, after in zip(done, recalled, strict=True):
        assert all(getattr(before, name) == getattr(after, name) for name in same)
        assert abs(before.started_ms - after.started_ms) <= 50
