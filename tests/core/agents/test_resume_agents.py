"""Half-done child agents: after an approval, and after the death of their host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Session, ToolContext, tool

from .scripted import Script, returns_in

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.shared_zygote,
    pytest.mark.usefixtures("nothing_left"),
]

SOURCE = "(await ctx.task(agent='general', prompt='go')).answer"
ALLOWED = ["task", "tasks", "look", "pay"]


@pytest.fixture(params=["asyncio"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """pydantic-ai's agent needs asyncio."""
    return str(request.param)


class Till:
    """Tools, and what they did."""

    def __init__(self) -> None:
        self.looked = 0
        self.paid: list[int] = []

    def tools(self) -> list[Any]:
        @tool
        async def look() -> int:
            """Look."""
            self.looked += 1
            return self.looked

        @tool(side_effect=True, idempotent=True, needs_approval=True)
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        return [look, pay]


def session_of(script: Script, root: Path, till: Till, **options: Any) -> Session:
    return Session(
        root,
        tools=till.tools(),
        toolsets=(),
        model=script.model,
        workers=1,
        journal=root.parent / "journal",
        **options,
    )


def folder(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


PAY: Any = [
    [("look", {})],
    [("pay", {"amount": 3})],
    lambda messages: ", ".join(returns_in(messages)),
]


async def test_approval_inside_a_child_pauses_the_run_which_then_continues(tmp_path: Path) -> None:
    script, till = Script(go=PAY), Till()
    async with session_of(script, folder(tmp_path), till) as session:
        paused = await session.program(source=SOURCE, allowed_tools=ALLOWED)
        assert paused.status == "paused"
        (pending,) = paused.pending
        assert (pending.tool, pending.arguments) == ("pay", {"amount": 3})
        result = await session.approve(paused.run_id, by="ann", resume=True)
    assert result.value == "1, paid 3", result.error
    assert (till.looked, till.paid) == (1, [3])
    assert script.repeated == []
    tools = [call.tool for call in result.calls]
    assert tools == ["task", "model", "look", "model", "pay", "model"]


@pytest.mark.slow
async def test_rejected_call_is_an_error_that_the_child_reads(tmp_path: Path) -> None:
    script, till = Script(go=PAY), Till()
    async with session_of(script, folder(tmp_path), till) as session:
        paused = await session.program(source=SOURCE, allowed_tools=ALLOWED)
        result = await session.reject(paused.run_id, by="ann", comment="too much", resume=True)
    assert "too much" in result.value
    assert till.paid == []
    assert script.repeated == []


async def test_finished_model_requests_are_answered_from_the_record(tmp_path: Path) -> None:
    """Another process resumes: it sends only the requests that the first one had not finished."""
    first, second, till = Script(go=PAY), Script(go=PAY), Till()
    root = folder(tmp_path)
    async with session_of(first, root, till) as session:
        paused = await session.program(source=SOURCE, allowed_tools=ALLOWED)
        await session.history.approve(paused.run_id, by="ann")
    async with session_of(second, root, till) as session:
        result = await session.resume(paused.run_id)
    assert result.value == "1, paid 3"
    assert first.requests == {("go", 0): 1, ("go", 1): 1}
    assert second.requests == {("go", 2): 1}
    assert result.calls[0].status == "succeeded"


async def test_paused_task_suspends_tasks_and_the_finished_ones_are_not_repeated(
    tmp_path: Path,
) -> None:
    script, till = Script(go=PAY, look=[[("look", {})], "looked"]), Till()
    source = (
        "requests = [{'agent': 'general', 'prompt': p} for p in ('look', 'go')]\n"
        "[row.answer for row in await ctx.tasks(tasks=requests)]"
    )
    async with session_of(script, folder(tmp_path), till) as session:
        paused = await session.program(source=source, allowed_tools=ALLOWED)
        assert paused.status == "paused", paused.error
        result = await session.approve(paused.run_id, by="ann", resume=True)
    assert result.value[0] == "looked", result.error
    assert result.value[1].endswith("paid 3")
    assert till.paid == [3]
    assert till.looked == 2
    assert script.repeated == []


@pytest.mark.slow
async def test_recorded_direct_task_is_paused_and_resumed(tmp_path: Path) -> None:
    script, till = Script(go=PAY), Till()
    root = folder(tmp_path)
    async with session_of(script, root, till, record_direct_calls=True) as session:
        found = await session.tool(
            "task", {"agent": "general", "prompt": "go"}, allowed_tools=ALLOWED
        )
        assert found.error is not None
        assert found.error.code == "paused"
        run_id: Any = found.error.details["run_id"]
        result = await session.approve(run_id, by="ann", resume=True, allowed_tools=ALLOWED)
        assert result.value["answer"] == "1, paid 3", result.error
    assert (till.looked, till.paid) == (1, [3])
    assert script.repeated == []


@pytest.mark.slow
async def test_steps_of_a_finished_child_count_after_a_resume(tmp_path: Path) -> None:
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "lead.md").write_text(
        "---\ndescription: Leads.\ntools: [task, pay]\n---\nDelegate.\n"
    )
    script, till = (
        Script(
            lead=[
                [("task", {"agent": "general", "prompt": "look"})],
                [("pay", {"amount": 3})],
                "done",
            ],
            look=[[("look", {})], "looked"],
        ),
        Till(),
    )
    source = "(await ctx.task(agent='lead', prompt='lead')).usage.steps"
    async with session_of(script, folder(tmp_path), till, agents=agents) as session:
        paused = await session.program(source=source, allowed_tools=ALLOWED)
        assert paused.status == "paused", paused.error
        result = await session.approve(paused.run_id, by="ann", resume=True)
    # Two of its own before the pause, one after it, and two of the child, who did not run again.
    assert result.value == 5
    assert script.repeated == []


@pytest.mark.slow
async def test_nested_programs_and_children_do_not_deadlock_with_one_slot(tmp_path: Path) -> None:
    """A script, a child, a script of a tool of the child, and its child: one slot for all."""

    @tool(name="scripted", idempotent=True)
    async def scripted(ctx: ToolContext, depth: int) -> Any:
        """Run a script that delegates."""
        result = await ctx.program(
            "(await ctx.task(agent='lead', prompt=inputs['prompt'])).answer",
            {"prompt": f"depth {depth}"},
        )
        return result.unwrap()

    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "lead.md").write_text(
        "---\ndescription: Leads.\ntools: [task, scripted]\n---\nDelegate.\n"
    )
    turns: dict[str, Any] = {
        f"depth {depth}": [
            [("scripted", {"depth": depth + 1})],
            lambda messages: f"({returns_in(messages)[0]})",
        ]
        for depth in range(3)
    }
    script = Script(**turns, **{"depth 3": ["end"]})
    with anyio.fail_after(60):
        async with Session(
            folder(tmp_path),
            tools=[scripted],
            toolsets=(),
            model=script.model,
            agents=agents,
            workers=1,
            max_concurrent_runs=1,
        ) as session:
            result = await session.program(
                source=(
                    "r = await ctx.task(agent='lead', prompt='depth 0')\n[r.answer, r.usage.steps]"
                ),
                allowed_tools=["task", "scripted"],
            )
    # The steps of all children count for the first, through the scripts between them.
    assert result.value == ["(((end)))", 7], result.error
