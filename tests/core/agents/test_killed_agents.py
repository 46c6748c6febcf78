"""Hosts that are killed while a child agent works, at each step of their journal."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ptc import JournalError, Session, ToolContext, tool

from .scripted import Script, returns_in

ROOT = Path(__file__).parent.parent.parent.parent
SOURCE = """\
async def run(ctx, inputs):
    first = await ctx.pay(n=1)
    result = await ctx.task(agent="general", prompt="go")
    last = await ctx.put(n=4)
    return [first.square, result.answer, result.usage.steps, last.square]
"""
TURNS: Any = [
    [("look", {"n": 2}), ("pay", {"n": 2})],
    [("put", {"n": 3})],
    lambda messages: " ".join(returns_in(messages)),
]
ALLOWED = ["task", "look", "pay", "put"]
RUN = "r"


def log(folder: Path, row: list[Any]) -> None:
    """Append a row to the log of the requests to the model, in one piece."""
    file = os.open(folder / "requests", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, json.dumps(row).encode() + b"\n")
    finally:
        os.close(file)


async def finished_requests(session: Session) -> list[int]:
    """List the numbers of the requests whose responses are recorded."""
    try:
        rows = (await session.history.recorded(RUN)).calls
    except JournalError:
        return []
    return [
        json.loads(row.arguments)["number"]
        for row in rows
        if row.tool == "model" and row.end is not None and row.end.ok
    ]


async def drive(folder: Path) -> dict[str, Any]:
    """Start or resume the run, making the requested decisions, until it finishes."""
    _, host, steps, server_module = modules()
    server = server_module.Server(folder / "server")
    step, answer = steps.Steps.step, server_module.answer

    @tool
    async def look(n: int) -> dict[str, Any]:
        """Change nothing."""
        found: dict[str, Any] = answer("look", n)
        return found

    def effect(name: str, **options: Any) -> Any:
        @tool(name=name, side_effect=True, **options)
        async def make(ctx: ToolContext, n: int) -> dict[str, Any]:
            """Have an effect."""
            step()
            server.take(name, n, ctx.idempotency_key)
            step()
            made: dict[str, Any] = answer(name, n)
            return made

        return make

    script = Script(go=TURNS)
    sent = script.model.function
    assert sent is not None

    async def logged(messages: Any, info: Any) -> Any:
        number = 1 + sum(message.kind == "response" for message in messages)
        log(folder, ["sent", number, number in finished])
        step()
        response = sent(messages, info)
        step()
        return await response  # type: ignore[misc]  # `Script` answers asynchronously

    script.model.function = logged
    root = folder / "root"
    root.mkdir(exist_ok=True)
    tools = [look, effect("pay"), effect("put", uses_key=True)]
    async with Session(
        root, tools=tools, toolsets=(), model=script.model, workers=1, journal=folder / "journal"
    ) as session:
        finished = await finished_requests(session)
        result = await session.program(source=SOURCE, allowed_tools=ALLOWED, run_id=RUN)
        while result.status == "paused":
            await host.decide(session, RUN, server)
            result = await session.resume(RUN)
        await host.check_rows(session, RUN, result)
    comparable: dict[str, Any] = host.comparable(result)
    return comparable


def modules() -> tuple[Any, ...]:
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    names = ("durable_fork", "durable_host", "durable_steps", "durable_server")
    found = [importlib.import_module(f"tests.fuzz.{name}") for name in names]
    return tuple(found)


def check_killed(folder: Path, points: list[int] | None) -> int:
    """Kill hosts at these steps, each once, or at all; return the number of deaths."""
    fork, *_ = modules()
    straight = folder / "straight"
    straight.mkdir()
    assert fork.spawn(drive, straight, None) == "ended", (straight / "wrong").read_text()
    fork.warm_up(straight)
    outcome = fork.outcome_of(straight)
    assert outcome["status"] == "completed", outcome
    assert outcome["value"][2] == 3
    assert len((straight / "requests").read_text().splitlines()) == 3
    killed = 0
    for at in range(1, outcome["steps"] + 1) if points is None else points:
        place = folder / str(at)
        deaths, problems = fork.one(drive, [at], straight, place)
        assert not problems, f"killed at step {at}: {problems}"
        killed += deaths
        rows = [json.loads(row) for row in (place / "requests").read_text().splitlines()]
        assert not [row for row in rows if row[2]], f"killed at {at}: a finished request was sent"
        # One more at most: the request that was in flight.
        assert len(rows) <= 3 + deaths, f"killed at step {at}: {rows}"
    return killed


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_host_neither_repeats_nor_loses_a_half_done_child(
    tmp_path: Path,
) -> None:
    assert check_killed(tmp_path, None) > 50
