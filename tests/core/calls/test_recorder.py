"""The record of a call in the journal: its time, its promises, and never its content."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from ptc import Session, ToolContext, ToolError, define_tool
from ptc.errors import JournalError
from ptc.journal._journal import CallEnd, CallRow, RunRow
from ptc.journal._location import journal_of
from ptc.journal._sqlite import SqliteJournal

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

ANY = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.fixture
def anyio_backend() -> str:
    """The journal does not know on which event loop it is: one of them is enough here."""
    return "asyncio"


async def test_call_is_recorded_before_and_after_its_execution(tmp_path: Path) -> None:
    meanwhile: list[CallRow] = []
    keys: list[str | None] = []

    async def put(arguments: Mapping[str, Any], ctx: ToolContext) -> int:
        keys.append(ctx.idempotency_key)
        meanwhile.append((await session.history.recorded("r")).calls[ctx.seq - 1])
        if arguments["n"] == 2:
            raise ToolError("no", code="empty", details={"n": 2})
        if arguments["n"] == 3:
            await anyio.sleep_forever()
        return 7

    put_tool = define_tool("put", "Put.", ANY, put, side_effect=True, timeout_ms=300)
    source = """
import asyncio
async def run(ctx, inputs):
    return await asyncio.gather(
        ctx.put(n=1), ctx.put(n=2), ctx.put(n=3), ctx.put(n="x"), return_exceptions=True
    )
"""
    async with Session(tmp_path, tools=[put_tool], toolsets=()) as session:
        await session.program(source=source, allowed_tools=["put"], run_id="r")
        rows = (await session.history.recorded("r")).calls
    assert [row.path for row in rows] == ["1", "2", "3", "4"], "as they were made"
    assert [row.end and row.end.status for row in rows] == [
        "succeeded",
        "failed",
        "unknown",
        "not_started",
    ]
    assert [row.end for row in meanwhile] == [None] * 3, "it was there, and had no end"
    assert meanwhile == [row._replace(end=None) for row in rows[:3]]
    started = meanwhile[0]
    assert started == CallRow("1", "put", b'{"n":1}', keys[0] or "", True, 5, 1, started.at_ms)
    assert rows[0].end is not None
    assert rows[0].end.body == b"[true,true,7]"
    assert rows[1].end is not None
    assert b'"code":"empty"' in rows[1].end.body
    assert len(set(keys)) == 3


async def test_unrecordable_outcome_does_not_fail_the_call(tmp_path: Path) -> None:
    file = tmp_path / "journal"
    root = tmp_path / "root"
    root.mkdir()

    async def put(arguments: Mapping[str, Any]) -> int:
        with closing(sqlite3.connect(file)) as db, db:
            db.execute("ALTER TABLE calls RENAME TO gone")
        return 7

    put_tool = define_tool("put", "Put.", ANY, put, side_effect=True, idempotent=True)
    async with Session(root, tools=[put_tool], toolsets=(), journal=file) as session:
        source = "async def run(ctx, inputs):\n    return await ctx.put()\n"
        result = await session.program(source=source, allowed_tools=["put"], run_id="r")
        assert result.unwrap() == 7, "it was done"
        assert "the end of the run was not recorded" in result.warnings[0].message
        with closing(sqlite3.connect(file)) as db, db:
            db.execute("ALTER TABLE gone RENAME TO calls")
    async with Session(root, tools=[put_tool], toolsets=(), journal=file) as session:
        [row] = (await session.history.recorded("r")).calls
        assert row.end is None, "that it ended is not known, and nobody says that it failed"


async def test_content_written_to_files_is_not_in_the_journal(tmp_path: Path) -> None:
    source = """
async def run(ctx, inputs):
    await ctx.write("a.txt", inputs["text"])
    await ctx.edit("a.txt", old=inputs["text"], new=inputs["text"][::-1])
    try:
        await ctx.write("../b.txt", inputs["text"])
    except ToolError as error:
        return error.code
"""
    # The script and its inputs are recorded: a replay needs them. So the script makes the text.
    made = source.replace('inputs["text"]', '"".join(map(chr, range(65, 91)))')
    async with Session(tmp_path) as session:
        result = await session.program(source=made, allowed_tools=["write", "edit"], run_id="r")
        assert (result.status, result.value) == ("completed", "outside_root"), result.error
        rows = (await session.history.recorded("r")).calls
        place = journal_of(tmp_path)
        files = [path for path in place.parent.iterdir() if path.name.startswith(place.name)]
        data = b"".join(path.read_bytes() for path in files)
    assert [row.tool for row in rows] == ["write", "edit", "write"]
    assert b'"bytes":26,"sha256":"d6ec6898de87ddac' in rows[0].arguments
    assert b"a.txt" in data
    assert bytes(range(65, 91)) not in data
    assert bytes(range(90, 64, -1)) not in data


async def test_failure_with_unserializable_details_is_recorded(tmp_path: Path) -> None:
    circle: dict[str, Any] = {}
    circle["circle"] = circle

    async def look(arguments: Mapping[str, Any]) -> None:
        raise ToolError("lone \ud800", code="odd", details=circle)

    look_tool = define_tool("look", "Look.", ANY, look)
    async with Session(tmp_path, tools=[look_tool], toolsets=()) as session:
        source = "async def run(ctx, inputs):\n    await ctx.look()\n"
        result = await session.program(source=source, allowed_tools=["look"], run_id="r")
        assert result.status == "failed"
        [row] = (await session.history.recorded("r")).calls
    assert row.end is not None
    assert b'"code":"odd"' in row.end.body
    assert b'"left_out"' in row.end.body


async def test_tool_using_its_key_is_called_again_automatically_on_resume(tmp_path: Path) -> None:
    keys: list[str | None] = []
    reached = anyio.Event()

    async def pay(arguments: Mapping[str, Any], ctx: ToolContext) -> int:
        keys.append(ctx.idempotency_key)
        if len(keys) == 1:
            reached.set()
            await anyio.sleep_forever()
        return 7

    pay_tool = define_tool("pay", "Pay.", ANY, pay, side_effect=True, uses_key=True)
    source = "async def run(ctx, inputs):\n    return await ctx.pay(n=1)\n"
    async with Session(tmp_path, tools=[pay_tool], toolsets=()) as session:
        async with anyio.create_task_group() as group:

            async def run() -> None:
                await session.program(source=source, allowed_tools=["pay"], run_id="r")

            group.start_soon(run)
            with anyio.fail_after(20):
                await reached.wait()
            group.cancel_scope.cancel()
        assert (await session.resume("r")).unwrap() == 7
    assert len(keys) == 2
    assert keys[0] == keys[1] is not None


async def test_approved_call_that_fails_is_recorded_as_failed(tmp_path: Path) -> None:
    def broken(arguments: Mapping[str, Any]) -> str:
        raise RuntimeError

    async def ask(arguments: Mapping[str, Any]) -> None:
        raise ToolError("no", code="empty")

    ask_tool = define_tool(
        "ask", "Ask.", ANY, ask,
        side_effect=True, idempotent=True, needs_approval=True,
        approval_prompt=broken, approval_defaults={"n": 3},
    )  # fmt: skip
    source = """
async def run(ctx, inputs):
    codes = []
    for _ in range(2):
        try:
            await ctx.ask(n=1)
        except ToolError as error:
            codes.append(error.code)
    return codes
"""
    async with Session(tmp_path, tools=[ask_tool], toolsets=()) as session:
        paused = await session.program(source=source, allowed_tools=["ask"], run_id="r")
        [waiting] = paused.pending
        assert waiting.prompt == "(approval_prompt failed: RuntimeError)"
        assert waiting.defaults == {"n": 3}
        await session.history.approve("r", by="ann", comment="fine")
        again = await session.resume("r")
        assert [p.call for p in again.pending] == ["2"], "the same once more is asked about anew"
        await session.history.approve("r", by="ann")
        assert (await session.resume("r")).unwrap() == ["empty", "empty"]
        recorded = await session.history.recorded("r")
        assert await session.history.pending("r") == ()
    assert [row.end and row.end.status for row in recorded.calls] == ["failed", "failed"]
    assert (recorded.decisions[0].by, recorded.decisions[0].comment) == ("ann", "fine")
    assert all(decision.at_ms for decision in recorded.decisions)


@pytest.mark.parametrize(("effects", "lines"), [(0, 0), (1, 1), (5, 5), (6, 6)])
async def test_warning_lists_at_most_five_completed_effects(
    tmp_path: Path, effects: int, lines: int
) -> None:
    async with Session(tmp_path, toolsets=(), journal=":memory:") as session:
        journal = session.history.journal
        lease = journal.start_run(RunRow("r", "1", "s.py", b"{}", b"{}", 1, 0.0, 1))
        for number in range(1, effects + 3):
            effect = number <= effects
            path = str(number)
            end = CallEnd("succeeded", True, b"[true,false,1]", 2, 0.1)
            journal.append(lease, CallRow(path, "put", b"{}", "", effect, 1, 1, 1, end=end))
        refused = str(effects + 3)
        end = CallEnd("not_started", False, b"[false,false,{}]", 2, 0.1)
        journal.append(lease, CallRow(refused, "put", b"{}", "", True, 1, 0, 1, end=end))
        journal.end_run(lease, "failed", b"{}", 3)
        warning = await session.history.warning_of("r")
        with pytest.raises(JournalError, match="there is no run"):
            await session.history.warning_of("s")
    listed = [line for line in str(warning).splitlines() if line.startswith("- ")]
    assert len(listed) == lines
    assert (warning is None) is (effects == 0)
    assert listed[5:] == (["- ...and 1 more"] if effects == 6 else [])


@pytest.mark.slow
async def test_script_waits_while_the_journal_is_behind(tmp_path: Path) -> None:
    asked = 0

    async def large(_arguments: Mapping[str, Any]) -> str:
        nonlocal asked
        asked += 1
        if asked == 1:
            journal._db.lock.acquire()  # a disk that takes its time
        return "x" * (4 << 20)

    large_tool = define_tool("large", "Give much.", ANY, large)
    source = "def run(ctx, inputs):\n    return sum(len(ctx.large(n=n)) for n in range(20))"
    async with Session(tmp_path, tools=[large_tool], toolsets=()) as session:
        found = session.history.journal
        assert isinstance(found, SqliteJournal)
        journal = found
        results = []
        held = 0

        async def run() -> None:
            results.append(await session.program(source=source, run_id="r"))

        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(run)
                try:
                    while not journal._writer._barriers:  # nobody waits for the writer yet
                        await anyio.sleep(0.001)
                    held = asked
                    assert journal.behind
                finally:
                    journal._db.lock.release()
        rows = (await session.history.recorded("r")).calls
    assert held in (8, 9), "32 MiB, and what was under way"
    assert results[0].value == 20 * (4 << 20)
    assert len(rows) == asked == 20
