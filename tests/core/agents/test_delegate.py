"""Child agents: their tools, results, failures and cancellation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from pydantic import BaseModel
from pydantic_ai.exceptions import ModelHTTPError

from ptc import Allow, Session, ToolContext, ToolError, UsageError, tool
from ptc.models._usage import measure_usage

from .scripted import Script, returns_in

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.shared_zygote,
    pytest.mark.usefixtures("nothing_left"),
]

SECRET = "hunter2-hunter2-hunter2"
TOTAL = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
    "additionalProperties": False,
}


@pytest.fixture(params=["asyncio"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """pydantic-ai's agent needs asyncio."""
    return str(request.param)


class Shop:
    """Tools, and what they did."""

    def __init__(self) -> None:
        self.bought: list[str] = []
        self.overlapped = False
        self._busy = 0

    def tools(self) -> list[Any]:
        @tool
        async def price(item: str) -> int:
            """Price of an item."""
            return len(item)

        @tool(side_effect=True)
        async def buy(ctx: ToolContext, item: str) -> str:
            """Buy an item."""
            self._busy += 1
            self.overlapped = self.overlapped or self._busy > 1
            await anyio.lowlevel.checkpoint()
            self._busy -= 1
            self.bought.append(item)
            return f"bought {item}"

        return [price, buy]


def session_of(script: Script, root: Path, shop: Shop | None = None, **options: Any) -> Session:
    tools = [] if shop is None else shop.tools()
    return Session(root, tools=tools, toolsets=(), model=script.model, workers=1, **options)


async def test_child_works_with_tools_and_answers_with_text(tmp_path: Path) -> None:
    script = Script(
        go=[
            [("price", {"item": "pear"}), ("price", {"item": "apple"})],
            lambda messages: f"prices {sorted(returns_in(messages))}",
        ]
    )
    async with session_of(script, tmp_path, Shop()) as session:
        with measure_usage() as meter:
            result = await session.task("general", "go", description="prices")
        assert (result.status, result.answer) == ("completed", "prices ['4', '5']")
        assert (result.usage.steps, result.usage.tool_calls) == (2, 2)
        assert result.usage.cost_usd is None
        assert (result.agent, result.description) == ("general", "prices")
        assert meter.total.requests == 2
        assert meter.total.input_tokens == result.usage.input_tokens > 0
        stored = Path(session.artifacts.folder).rglob(f"{result.transcript}*")
        messages = json.loads(next(path for path in stored if path.is_file()).read_bytes())
        assert [message["kind"] for message in messages] == ["request", "response"] * 2
        assert "You carry out one task" in script.instructions["go"]


async def test_child_has_no_tool_that_its_caller_lacks(tmp_path: Path) -> None:
    script = Script(go=["a"], look=["b"], rule=[[("price", {"item": "pear"})], str])
    shop = Shop()
    script.turns["rule"][1] = lambda messages: returns_in(messages)[0]  # type: ignore[index]  # a list
    async with session_of(script, tmp_path, shop) as session:
        # Without an allow-list: the tools without a side effect, and no further delegation.
        await session.task("general", "go")
        assert script.tools["go"] == ["price", "generate_object"]
        await session.task("general", "go", allowed_tools=["price", "buy"])
        assert script.tools["go"] == ["price", "buy"]
        await session.task("explore", "look", allowed_tools=["price", "buy", "task"])
        assert script.tools["look"] == ["price"]
        # Rules are inherited as rules.
        allowed = [Allow("price", item="apple")]
        found = await session.task("general", "rule", allowed_tools=allowed)
        assert found.answer.startswith("Error [not_allowed]")
        # A script passes its own list on.
        result = await session.program(
            source="(await ctx.task(agent='general', prompt='go')).answer",
            allowed_tools=["task", Allow("buy", item="apple")],
        )
        assert result.value == "a"
        assert script.tools["go"] == ["buy"]


async def test_call_can_restrict_the_tools_of_a_child_but_not_widen_them(tmp_path: Path) -> None:
    script = Script(go=["a"])
    async with session_of(script, tmp_path, Shop()) as session:
        arguments = {"agent": "general", "prompt": "go", "allowed_tools": ['price(item="pear")']}
        assert (await session.tool("task", arguments)).ok
        assert script.tools["go"] == ["price"]
        denied = await session.tool("task", arguments, allowed_tools=["task", "buy"])
        assert denied.error is not None
        assert denied.error.code == "not_allowed"


async def test_calls_with_an_effect_run_in_order_and_alone(tmp_path: Path) -> None:
    items = ["a", "b", "c"]
    script = Script(go=[[("buy", {"item": item}) for item in items], "done"])
    shop = Shop()
    async with session_of(script, tmp_path, shop) as session:
        await session.task("general", "go", allowed_tools=["buy"])
    assert shop.bought == items
    assert not shop.overlapped


async def test_failed_tool_is_text_for_the_child(tmp_path: Path) -> None:
    script = Script(
        go=[
            [("price", {"thing": "pear"}), ("price", "not json"), ("missing", {})],
            lambda messages: "\n".join(returns_in(messages)),
        ]
    )
    async with session_of(script, tmp_path, Shop()) as session:
        answer = (await session.task("general", "go")).answer
    assert "Error [invalid_arguments]: price: `item` is required" in answer
    assert "Unknown tool name: 'missing'" in answer


async def test_structured_answer_conforms_to_the_schema(tmp_path: Path) -> None:
    script = Script(
        go=[[("response", {"total": "nine"})], [("response", {"total": 9})]],
        never=["no", "no", "no", "no", "no", "no"],
    )
    async with session_of(script, tmp_path, Shop()) as session:
        result = await session.task("general", "go", output_schema=TOTAL)
        assert result.object == {"total": 9}
        assert result.usage.steps == 2
        with pytest.raises(ToolError) as failed:
            await session.task("general", "never", output_schema=TOTAL)
        assert failed.value.code == "not_conforming"

        class Total(BaseModel):
            total: int

        script.requests.clear()
        typed = await session.task("general", "go", output_schema=Total)
        assert typed.object == Total(total=9)


async def test_failed_child_raises_an_error_with_its_result(tmp_path: Path) -> None:
    script = Script(
        go=[
            [("price", {"item": "pear"})],
            ModelHTTPError(500, "m", {"error": {"message": "overloaded"}}),
        ]
    )
    async with session_of(script, tmp_path, Shop()) as session:
        with pytest.raises(ToolError, match=r"did not complete its task: .*overloaded") as failed:
            await session.task("general", "go")
        error = failed.value
        assert error.code == "model_failed"
        task: Any = error.details["task"]
        assert (task["status"], task["usage"]["steps"]) == ("failed", 2)
        assert task["transcript"]
        # A script can catch it.
        source = (
            "try:\n    await ctx.task(agent='general', prompt='go')\n"
            "except ToolError as e:\n    found = [e.code, e.details['task']['status']]\nfound"
        )
        result = await session.program(source=source, allowed_tools=["task", "price"])
        assert result.value == ["model_failed", "failed"], result.error


async def test_long_answer_is_truncated_with_a_mark(tmp_path: Path) -> None:
    script = Script(go=["x" * 10_000])
    async with session_of(script, tmp_path) as session:
        answer = (await session.task("general", "go")).answer
    assert len(answer) == 4_000
    assert "[truncated: the whole text has 10,000 characters" in answer


async def test_wrong_arguments_are_refused_with_the_nearest_name(tmp_path: Path) -> None:
    async with session_of(Script(), tmp_path) as session:
        with pytest.raises(ToolError, match=r"no agent 'explorer' .did you mean `explore`"):
            await session.task("explorer", "go")
        with pytest.raises(ToolError, match="max_stepz"):
            await session.task("explore", "go", max_stepz=3)  # type: ignore[call-overload]  # wrong
        result = await session.program(
            source="await ctx.task(agent='explorer', prompt='go')", allowed_tools=["task"]
        )
        assert result.error is not None
        assert "explore" in result.error.message


async def test_session_without_a_model_has_no_child_agents(tmp_path: Path) -> None:
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        assert "task" not in session.tool_names()
        with pytest.raises(UsageError, match="they need a model"):
            await session.task("explore", "go")


async def test_model_that_cannot_call_tools_is_refused(tmp_path: Path) -> None:
    async def own(request: object) -> str:
        return "{}"

    async with Session(tmp_path, toolsets=(), model=own, workers=1) as session:
        with pytest.raises(ToolError, match="agents need a model that calls tools") as refused:
            await session.task("explore", "go")
    assert refused.value.code == "setup"


async def test_cancelled_call_cancels_the_child_and_its_tools(tmp_path: Path) -> None:
    started, ended = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> None:
        """Never answer."""
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    script = Script(go=[[("wait", {})], "done"])
    async with Session(
        tmp_path, tools=[wait], toolsets=(), model=script.model, workers=1
    ) as session:
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(session.task, "general", "go")
                await started.wait()
                group.cancel_scope.cancel()
        assert ended.is_set()
        assert script.requests == {("go", 0): 1}


async def test_child_delegates_only_if_its_kind_allows_it(tmp_path: Path) -> None:
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "lead.md").write_text(
        "---\ndescription: Leads.\ntools: [price, task]\n---\nDelegate.\n"
    )
    script = Script(
        lead=[
            [("task", {"agent": "general", "prompt": "work"})],
            lambda messages: returns_in(messages)[0],
        ],
        work=["worked"],
    )
    root = tmp_path / "root"
    root.mkdir()
    async with session_of(script, root, Shop(), agents=agents) as session:
        result = await session.task("lead", "lead")
    assert result.answer == "worked"
    assert script.tools == {"lead": ["price", "task"], "work": ["price"]}
    assert result.usage.steps == 3


async def test_secret_of_a_tool_is_in_no_result_of_a_child(tmp_path: Path) -> None:
    class Secrets(BaseModel):
        key: str

    @tool(env=Secrets)
    async def leak(ctx: ToolContext) -> str:
        """Return the secret."""
        return f"the key is {ctx.env.key}"

    @tool(env=Secrets)
    async def look() -> int:
        """Change nothing."""
        return 1

    request = {"agent": "general", "prompt": "go"}
    script = Script(
        go=[[("leak", {})], lambda messages: f"{returns_in(messages)[0]} {SECRET}"],
        lead=[[("tasks", {"tasks": [request]})], lambda messages: returns_in(messages)[0]],
    )
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "lead.md").write_text("---\ndescription: L.\ntools: [task, tasks, leak]\n---\nL.\n")
    async with Session(
        tmp_path,
        tools=[leak, look],
        toolsets=(),
        model=script.model,
        env={"key": SECRET},
        agents=agents,
    ) as session:
        result = await session.task("lead", "lead")
        assert "the key is [secret" in result.answer
        assert SECRET not in str(result)
        (listed,) = await session.tasks([request])
        assert SECRET not in str(listed)
        assert listed.usage.steps == 2


def test_child_agents_under_trio_are_refused_with_the_reason(tmp_path: Path) -> None:
    async def delegate() -> None:
        async with session_of(Script(go=["a"]), tmp_path) as session:
            with pytest.raises(ToolError, match="child agents need asyncio"):
                await session.task("general", "go")
            handle = await session.task("general", "go", background=True)
            with pytest.raises(ToolError, match="child agents need asyncio"):
                await handle

    with start_blocking_portal("trio") as portal:
        portal.call(delegate)
