"""Limits of child agents: steps, tokens, cost, tool calls and time, also of their parents."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage

from ptc import Session, ToolError, UsageError, tool
from ptc._agents._limits import Account, TaskLimits

from .scripted import Script, Turn, returns_in

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture(params=["asyncio"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """pydantic-ai's agent needs asyncio."""
    return str(request.param)


@tool
async def price(item: str) -> int:
    """Price of an item."""
    return len(item)


LOOK: Turn = [("price", {"item": "pear"})]


def session_of(script: Script, root: Path, *tools: Any, **options: Any) -> Session:
    return Session(
        root, tools=[price, *tools], toolsets=(), model=script.model, workers=1, **options
    )


async def failure(session: Session, **options: Any) -> tuple[str, str, dict[str, Any]]:
    """Return code and message of a failing task, and its result."""
    with pytest.raises(ToolError) as failed:
        await session.task("general", "go", **options)
    task: Any = failed.value.details["task"]
    return failed.value.code, failed.value.message, task


async def test_no_request_is_sent_over_the_limit_on_steps(tmp_path: Path) -> None:
    script = Script(go=[LOOK, LOOK, LOOK, "done"])
    async with session_of(script, tmp_path) as session:
        code, message, task = await failure(session, max_steps=2)
        assert code == "limit_exceeded"
        assert "max_steps of the agent is 2" in message
        assert (task["status"], task["usage"]["steps"]) == ("limit_exceeded", 2)
        assert sum(script.requests.values()) == 2
        assert (await session.task("general", "go", max_steps=4)).ok


async def test_interim_text_of_a_stopped_child_is_its_answer(tmp_path: Path) -> None:
    def partial(_: object) -> Any:
        return [("price", {"item": "pear"})]

    script = Script(go=[partial, partial])
    said = FunctionModel(
        lambda messages, info: ModelResponse(
            [TextPart("So far: nothing."), ToolCallPart("price", {"item": "pear"})]
        )
    )
    async with Session(tmp_path, tools=[price], toolsets=(), model=said) as session:
        _, _, task = await failure(session, max_steps=1)
    assert task["answer"] == "So far: nothing."
    assert not script.requests


async def test_tokens_and_cost_are_limited(tmp_path: Path) -> None:
    def answer(messages: Any, info: Any) -> ModelResponse:
        usage = RequestUsage(input_tokens=900, output_tokens=100)
        usage.cost = Decimal("0.25") if priced else None
        return ModelResponse([ToolCallPart("price", {"item": "pear"})], usage=usage)

    priced = True
    async with Session(
        tmp_path, tools=[price], toolsets=(), model=FunctionModel(answer)
    ) as session:
        _, message, task = await failure(session, max_tokens=2_500)
        assert "max_tokens of the agent is 2,500" in message
        assert task["usage"]["steps"] == 3
        assert task["usage"]["cost_usd"] == 0.75
        _, message, task = await failure(session, max_cost_usd=0.5)
        assert "max_cost_usd of the agent is 0.5" in message
        assert (task["usage"]["steps"], task["warnings"]) == (2, [])
        priced = False
        _, _, task = await failure(session, max_cost_usd=0.5, max_steps=3)
        assert task["usage"]["cost_usd"] is None
        assert "max_cost_usd could not be enforced" in task["warnings"][0]


async def test_tool_calls_are_limited_and_the_child_can_still_answer(tmp_path: Path) -> None:
    script = Script(go=[LOOK, LOOK, lambda messages: returns_in(messages)[-1]])
    async with session_of(script, tmp_path) as session:
        result = await session.task("general", "go", max_tool_calls=1)
    assert result.answer.startswith("Error [limit_exceeded]")


async def test_time_is_limited_and_the_running_call_is_cancelled(tmp_path: Path) -> None:
    ended = anyio.Event()

    @tool
    async def wait() -> None:
        """Never answer."""
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    script = Script(go=[[("wait", {})], "done"])
    with anyio.fail_after(10):
        async with session_of(script, tmp_path, wait) as session:
            code, message, task = await failure(session, timeout_ms=100)
            assert ended.is_set()
    assert (code, task["status"]) == ("timeout", "limit_exceeded")
    assert "timeout_ms is 100" in message
    assert task["transcript"]


async def test_limits_of_the_kind_are_only_lowered_by_the_call(tmp_path: Path) -> None:
    agents = tmp_path / "agents"
    agents.mkdir()
    text = "---\ndescription: Short.\nlimits: {max_steps: 2}\n---\nDo.\n"
    (agents / "general.md").write_text(text)
    script = Script(go=[LOOK] * 9)
    async with session_of(script, tmp_path, agents=agents) as session:
        _, _, task = await failure(session, max_steps=5)
        assert task["usage"]["steps"] == 2
        _, _, task = await failure(session, max_steps=1)
        assert task["usage"]["steps"] == 1


async def test_child_cannot_use_more_than_its_parent_has_left(tmp_path: Path) -> None:
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "lead.md").write_text(
        "---\ndescription: Leads.\ntools: [task, tasks, price]\n---\nDelegate.\n"
    )
    call = {"agent": "general", "prompt": "work"}
    script = Script(
        lead=[
            [("tasks", {"tasks": [call, call], "max_concurrency": 1})],
            lambda messages: returns_in(messages)[0],
        ],
        work=[LOOK, LOOK, "worked"],
    )
    async with session_of(script, tmp_path, agents=agents) as session:
        result = await session.task("lead", "lead", max_steps=20)
        assert result.answer.startswith("2 of 2 tasks completed")
        assert result.usage.steps == 8
        with pytest.raises(ToolError) as failed:
            await session.task("lead", "lead", max_steps=5)
        task: Any = failed.value.details["task"]
        assert task["usage"]["steps"] == 5
        assert "max_steps of the agent is 5" in failed.value.message


def test_wrong_limits_are_refused() -> None:
    with pytest.raises(UsageError, match=r"unknown limit 'steps' .did you mean `max_steps`"):
        TaskLimits.from_mapping({"steps": 3})
    with pytest.raises(UsageError, match="timeout_ms must be an integer from 1 to 86,400,000"):
        TaskLimits(timeout_ms=True)
    assert TaskLimits(max_cost_usd=2).lower({"max_cost_usd": None}).max_cost_usd == 2
    assert TaskLimits().lower({"max_cost_usd": 0.1, "max_steps": 999}) == TaskLimits(
        max_cost_usd=0.1
    )


def test_request_is_charged_to_every_account_or_to_none() -> None:
    above = Account(TaskLimits(max_steps=2))
    account = Account(TaskLimits(max_steps=9), above)
    account.reserve_step()
    account.reserve_step()
    with pytest.raises(ToolError, match="max_steps of the agent above it is 2"):
        account.reserve_step()
    assert (account.steps, above.steps) == (2, 2)
    account.charge(10, 5, None)
    assert (above.input_tokens, above.output_tokens, above.usage.cost_usd) == (10, 5, None)
