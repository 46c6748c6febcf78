"""Looking back at runs: recordings as fixtures, time travel."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptc import Session, UsageError, tool
from ptc.journal._journal import DecisionRow, PendingRow, RevertRow, RunRecord, RunRow
from ptc.testing import Recording

pytestmark = pytest.mark.anyio

SCRIPT = """
import asyncio, random
async def part(ctx, n):
    _mine = [n]
    row = await ctx.double(n=n)
    return row["twice"]
async def run(ctx, inputs):
    total, dice = 0, random.random()
    for n in inputs["numbers"]:
        total += await part(ctx, n)
    pair = await asyncio.gather(part(ctx, 100), part(ctx, 200))
    return [total, dice, pair]
"""


@tool
async def double(n: int) -> dict[str, int]:
    """Double."""
    return {"n": n, "twice": 2 * n}


async def recording(root: Path, source: str = SCRIPT) -> Recording:
    async with Session(root, tools=[double], toolsets=()) as session:
        result = await session.program(source=source, inputs={"numbers": [1, 2, 3]}, run_id="r")
        assert result.ok
        return await Recording.of(session.history, "r")


async def test_a_recording_replays_from_its_file_without_any_tool(tmp_path: Path) -> None:
    made = await recording(tmp_path)
    made.save(tmp_path / "run.json")
    loaded = Recording.load(tmp_path / "run.json")
    first, second = await loaded.replay(), await made.replay()
    original = made.recorded.run.result
    assert original is not None
    assert first.value == second.value
    assert first.value[0] == 12
    assert (str(first.value[1])).encode() in original
    assert loaded.to_json() == made.to_json()


async def test_changed_script_is_checked_against_the_recorded_calls(tmp_path: Path) -> None:
    made = await recording(tmp_path)
    same = SCRIPT.replace("total += await", "total -= await")
    assert (await made.replay(source=same)).unwrap()[0] == -12
    other = await made.replay(source=SCRIPT.replace("n=n)", "n=n + 1)"))
    assert other.error is not None
    assert other.error.code == "divergence"
    more = SCRIPT.replace("return [total", "await part(ctx, 7)\n    return [total")
    unknown = await made.replay(source=more)
    assert unknown.error is not None
    assert "this call is not in the recording" in unknown.error.message


@pytest.mark.parametrize("script", [SCRIPT, SCRIPT.replace("async def run", "async def run")])
async def test_time_travel_shows_the_variables_at_a_call(tmp_path: Path, script: str) -> None:
    made = await recording(tmp_path, script)
    result = await made.replay(until="2")
    assert result.status == "paused"
    (run, part) = result.frames
    assert (run.function, run.names["total"], run.names["n"]) == ("run", "6", "3")
    assert (part.function, part.names["n"], part.names["_mine"]) == ("part", "3", "[3]")
    with pytest.raises(UsageError, match="no result of a call '99'"):
        await made.replay(until="99")


async def test_time_travel_works_in_a_sync_script(tmp_path: Path) -> None:
    script = (
        "class Odd:\n    def __repr__(self):\n        raise ValueError\n"
        "def run(ctx, inputs):\n    odd, total = Odd(), 0\n"
        "    for n in inputs['numbers']:\n        total += ctx.double(n=n)['twice']\n"
        "    return total\n"
    )
    made = await recording(tmp_path, script)
    (frame,) = (await made.replay(until="2")).frames
    assert (frame.function, frame.line, frame.names["total"]) == ("run", 7, "6")
    assert "its repr failed: ValueError" in frame.names["odd"]


async def test_file_that_is_not_a_recording_is_refused(tmp_path: Path) -> None:
    for text in ("", "{}", "[1]", '{"format": 99}'):
        (tmp_path / "bad").write_text(text)
        with pytest.raises(UsageError, match=r"is not a recording|has format 99"):
            Recording.load(tmp_path / "bad")


def test_recording_contains_requests_decisions_and_reverts(tmp_path: Path) -> None:
    run = RunRow("r", "1", "s.py", b"{}", b"{}", 1, 0.5, 7, "cancelled", None, None, 9)
    made = Recording(
        RunRecord(
            run,
            (),
            (),
            (PendingRow("1", "approval", "ask", "f" * 64, b'{"arguments":{"n":1}}', 3),),
            (DecisionRow("1", "approval", "approve", b'{"n":2}', "ann", "less", 4),),
            (RevertRow("1", "failed", 2, "stuck", 5),),
        )
    )
    made.save(tmp_path / "run.json")
    assert Recording.load(tmp_path / "run.json") == made
