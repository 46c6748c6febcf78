"""`tasks`: several children at once, one result for each; and tasks in the background."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Allow, BlockingSession, Session, SessionClosedError, ToolError, tool
from ptc._agents._task_tools import TaskRequest

from .scripted import Script, returns_in

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.shared_zygote,
    pytest.mark.usefixtures("nothing_left"),
]


@pytest.fixture(params=["asyncio"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """pydantic-ai's agent needs asyncio."""
    return str(request.param)


@tool
async def wait() -> None:
    """Never answer."""
    await anyio.sleep_forever()


def session_of(script: Script, root: Path, **options: Any) -> Session:
    return Session(root, tools=[wait], toolsets=(), model=script.model, workers=1, **options)


def request(prompt: str, **more: Any) -> dict[str, Any]:
    return {"agent": "explore", "prompt": prompt, **more}


async def test_failed_task_does_not_lose_the_finished_ones(tmp_path: Path) -> None:
    script = Script(a=["A"], b=[RuntimeError("broken")], c=[[("wait", {})]], d=["D"])
    requests: list[Any] = [
        request("a", description="first"),
        request("b"),
        request("c", timeout_ms=100),
        TaskRequest(agent="explore", prompt="d"),
        {"agent": "explroe", "prompt": "d"},
    ]
    with anyio.fail_after(20):
        async with session_of(script, tmp_path) as session:
            results = await session.tasks(requests)
    assert [result.status for result in results] == [
        "completed",
        "failed",
        "limit_exceeded",
        "completed",
        "failed",
    ]
    assert [result.answer for result in results] == ["A", "", "", "D", ""]
    codes = [result.error and result.error.code for result in results]
    assert codes[1:] == ["internal", "timeout", None, "invalid_arguments"]
    assert results[0].description == "first"


async def test_children_are_nested_calls_and_the_text_lists_each(tmp_path: Path) -> None:
    script = Script(a=["A"], b=["B"])
    async with session_of(script, tmp_path) as session:
        result = await session.program(
            source="await ctx.tasks(tasks=inputs['tasks'])",
            inputs={"tasks": [request("a"), request("b")]},
            allowed_tools=["tasks", "task"],
        )
        assert [row["answer"] for row in result.value] == ["A", "B"]
        assert sorted(call.tool for call in result.calls) == [
            "model",
            "model",
            "task",
            "task",
            "tasks",
        ]
        direct = await session.tool("tasks", {"tasks": [request("a"), request("b")]})
        assert direct.text.startswith("2 of 2 tasks completed\n\n=== 1 (explore)\nA\n\n=== 2")


async def test_rules_on_task_apply_to_tasks(tmp_path: Path) -> None:
    script = Script(a=["A"])
    async with session_of(script, tmp_path) as session:
        allowed: list[Any] = ["tasks", Allow("task", agent="explore")]
        arguments = {"tasks": [request("a"), {"agent": "general", "prompt": "a"}]}
        found = (await session.tool("tasks", arguments, allowed_tools=allowed)).unwrap()
        assert [result.ok for result in found] == [True, False]
        assert found[1].error.code == "not_allowed"
        alone = await session.tool("tasks", arguments, allowed_tools=["tasks"])
        assert alone.error is not None
        assert "allow task, too" in alone.error.message


@pytest.mark.slow
async def test_tasks_run_at_once_up_to_the_limit(tmp_path: Path) -> None:
    running, most = 0, 0

    async def turn(_: object) -> str:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        await anyio.sleep(0.01)
        running -= 1
        return "A"

    script = Script(a=[turn])
    async with session_of(script, tmp_path) as session:
        await session.tasks([request("a")] * 5, max_concurrency=2)
        assert most == 2


# --- in the background ----------------------------------------------------------------------


async def test_handle_returns_the_result_when_it_is_awaited(tmp_path: Path) -> None:
    allowed = anyio.Event()

    async def turn(_: object) -> str:
        await allowed.wait()
        return "A"

    script = Script(a=[turn], b=[RuntimeError("broken")])
    with anyio.fail_after(20):
        async with session_of(script, tmp_path) as session:
            handle = await session.task("explore", "a", background=True)
            running: str = handle.status
            assert running == "running"
            allowed.set()
            assert (await handle).answer == (await handle).answer == "A"
            assert handle.status == "completed"
            handle.cancel()
            assert handle.status == "completed"
            failed = await session.task("explore", "b", background=True)
            with pytest.raises(ToolError, match="broken"):
                await failed
            assert failed.status == "failed"


async def test_cancelled_handle_cancels_the_running_calls(tmp_path: Path) -> None:
    script = Script(a=[[("wait", {})]])
    with anyio.fail_after(20):
        async with session_of(script, tmp_path) as session:
            handle = await session.task("explore", "a", background=True)
            while not script.requests:
                await anyio.sleep(0.001)
            handle.cancel()
            with pytest.raises(ToolError) as cancelled:
                await handle
            assert (cancelled.value.code, handle.status) == ("cancelled", "cancelled")


async def test_closing_the_session_cancels_its_tasks(tmp_path: Path) -> None:
    script = Script(a=[[("wait", {})]])
    with anyio.fail_after(20):
        async with session_of(script, tmp_path) as session:
            handle = await session.task("explore", "a", background=True)
            while not script.requests:
                await anyio.sleep(0.001)
        assert handle.status == "cancelled"
        with pytest.raises(SessionClosedError):
            await session.task("explore", "a", background=True)


@pytest.mark.slow
async def test_call_that_a_script_does_not_await_is_a_task_in_the_background(
    tmp_path: Path,
) -> None:
    script = Script(a=["A"], b=["B"])
    source = (
        "import asyncio\n"
        "first = asyncio.create_task(ctx.task(agent='explore', prompt='a'))\n"
        "second = await ctx.task(agent='explore', prompt='b')\n"
        "[(await first).answer, second.answer]"
    )
    async with session_of(script, tmp_path) as session:
        result = await session.program(source=source, allowed_tools=["task"])
    assert result.value == ["A", "B"], result.error


def test_blocking_session_delegates_tasks(tmp_path: Path) -> None:
    script = Script(a=["A"], b=[[("wait", {})]])
    with BlockingSession(tmp_path, tools=[wait], toolsets=(), model=script.model) as session:
        assert session.task("explore", "a").answer == "A"
        assert [result.answer for result in session.tasks([request("a")])] == ["A"]
        handle = session.task("explore", "a", background=True)
        assert handle.result().answer == "A"
        assert handle.status == "completed"
        slow = session.task("explore", "b", background=True)
        slow.cancel()
        with pytest.raises(ToolError, match="cancelled"):
            slow.result()


@pytest.mark.slow
async def test_parent_reads_the_failure_of_a_child(tmp_path: Path) -> None:
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "lead.md").write_text("---\ndescription: Leads.\ntools: [task]\n---\nDelegate.\n")
    script = Script(
        lead=[[("task", request("b"))], lambda messages: returns_in(messages)[0]],
        b=[RuntimeError("broken")],
    )
    async with session_of(script, tmp_path, agents=agents) as session:
        answer = (await session.task("lead", "lead")).answer
    assert answer.startswith("Error [internal]: the agent 'explore' did not complete its task")
