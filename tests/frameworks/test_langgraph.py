"""`ptc_bindings.langchain` in LangGraph: approvals, and nodes that are executed again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import ptc
from ptc import Session
from ptc_bindings.langchain import as_tools

pytest.importorskip("langchain", reason="pip install 'ptc-host[langchain]'")

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from .peers.langchain import (
    CONFIG,
    Sender,
    agent_of,
    open_session,
    scripted_model,
    tool_messages,
)

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SEND = "async def run(ctx, inputs):\n    return await ctx.send(inputs['to'])"
SLOW = "async def run(ctx, inputs):\n    await ctx.sleep(1)\n    return 42"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def sender() -> Sender:
    return Sender()


async def test_each_call_is_approved_edited_or_rejected_in_order(
    tmp_path: Path, sender: Sender
) -> None:
    source = """
import asyncio
async def run(ctx, inputs):
    first = await asyncio.gather(ctx.send('ann'), ctx.send('ben'))
    try:
        return first, await ctx.send('eve')
    except ToolError as error:
        return first, str(error)
"""
    answers: list[Any] = [
        "approve",
        {"decisions": [{"type": "edit", "edited_action": {"name": "send", "args": {"to": 3}}}]},
        {"type": "edit", "edited_action": {"name": "send", "args": {"to": "bob"}}},
        {"type": "reject", "message": "not today"},
    ]
    asked = []
    async with open_session(tmp_path, sender.tool()) as session:
        agent = agent_of(session, InMemorySaver(), ("program", {"source": source}))
        state = await agent.ainvoke({"messages": [("user", "?")]}, CONFIG)
        for answer in answers:
            [question] = state["__interrupt__"]
            action = question.value["action_requests"][0]
            asked.append((action["name"], action["args"], question.value.get("problem", "")))
            state = await agent.ainvoke(Command(resume=answer), CONFIG)
    assert [args["to"] for _, args, _ in asked] == ["ann", "ben", "ben", "eve"]
    assert "got 3" in asked[2][2]
    assert sorted(sender.sent) == ["ann", "bob"]  # they run at the same time
    [message] = tool_messages(state)
    assert message.artifact["data"]["value"][0] == ["sent to ann", "sent to bob"]
    assert "not today" in message.content


async def test_answer_for_a_call_that_was_decided_elsewhere_is_ignored(
    tmp_path: Path, sender: Sender
) -> None:
    source = (
        "async def run(ctx, inputs):\n    await ctx.send('ann')\n    return await ctx.send('ben')"
    )
    async with open_session(tmp_path, sender.tool()) as session:
        agent = agent_of(session, InMemorySaver(), ("program", {"source": source}))
        state = await agent.ainvoke({"messages": [("user", "?")]}, CONFIG)
        run_id = state["__interrupt__"][0].value["run_id"]
        await session.approve(run_id, by="an operator", resume=True)
        state = await agent.ainvoke(Command(resume="approve"), CONFIG)
        assert sender.sent == ["ann"], "the answer decided another call"
        assert state["__interrupt__"][0].value["action_requests"][0]["args"] == {"to": "ben"}


async def test_approval_of_a_program_does_not_approve_its_calls(
    tmp_path: Path, sender: Sender
) -> None:
    async with open_session(tmp_path, sender.tool()) as session:
        agent: Any = create_agent(
            scripted_model(("program", {"source": SEND, "inputs": {"to": "ann"}})),
            as_tools(session, allowed_tools=["send"]),
            checkpointer=InMemorySaver(),
            middleware=[HumanInTheLoopMiddleware(interrupt_on={"program": True})],
        )
        names = []
        state = await agent.ainvoke({"messages": [("user", "?")]}, CONFIG)
        while "__interrupt__" in state:
            [question] = state["__interrupt__"]
            names.append(question.value["action_requests"][0]["name"])
            assert sender.sent == []
            answer: Any = Command(resume={"decisions": [{"type": "approve"}]})
            state = await agent.ainvoke(answer, CONFIG)
    assert (names, sender.sent) == (["program", "send"], ["ann"])


async def test_answer_is_not_used_for_a_run_without_its_record(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, sender: Sender
) -> None:
    records = tmp_path_factory.mktemp("records")
    saver, call = InMemorySaver(), ("program", {"source": SEND, "inputs": {"to": "ann"}})
    for name in ("first", "second"):
        async with open_session(tmp_path, sender.tool(), journal=records / name) as session:
            agent = agent_of(session, saver, call)
            given: Any = (
                {"messages": [("user", "?")]} if name == "first" else Command(resume="approve")
            )
            state = await agent.ainvoke(given, CONFIG)
    [message] = tool_messages(state)
    assert sender.sent == []
    assert "record is lost" in message.content


def graph_of(session: Session) -> Any:
    """Return a graph that executes all calls of a message in one task."""
    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode(as_tools(session, allowed_tools=session.tool_names())))
    builder.add_edge(START, "tools")
    builder.add_edge("tools", END)
    return builder.compile(checkpointer=InMemorySaver())


def calls_of(*programs: tuple[str, str]) -> AIMessage:
    calls = [
        {"name": "program", "args": {"source": source, "inputs": {"to": to}}, "id": to}
        for source, to in programs
    ]
    return AIMessage("", tool_calls=calls)


async def test_parallel_runs_of_one_task_are_not_mixed(tmp_path: Path, sender: Sender) -> None:
    async with open_session(tmp_path, sender.tool()) as session:
        graph = graph_of(session)
        message = calls_of((SEND, "ann"), (SEND, "ben"))
        state = await graph.ainvoke({"messages": [message]}, CONFIG)
        while "__interrupt__" in state:
            state = await graph.ainvoke(Command(resume="approve"), CONFIG)
    # The first run may have asked before the second one existed; its answer counts for neither.
    assert sender.sent == []
    assert "The run is paused" in tool_messages(state)[0].content


async def test_run_beside_one_without_requests_is_approved(tmp_path: Path, sender: Sender) -> None:
    async def sleep(seconds: float) -> None:
        """Sleep."""
        await asyncio.sleep(seconds)

    async with open_session(tmp_path, sender.tool(), ptc.tool(sleep), workers=2) as session:
        graph = graph_of(session)
        message = calls_of((SEND, "ann"), (SLOW, "ben"))
        state = await graph.ainvoke({"messages": [message]}, CONFIG)
        assert len(state["__interrupt__"]) == 1
        state = await graph.ainvoke(Command(resume="approve"), CONFIG)
    contents = [message.content for message in tool_messages(state)]
    assert (contents, sender.sent) == (["sent to ann", "42"], ["ann"])


async def test_parallel_calls_of_an_agent_are_approved_each(tmp_path: Path, sender: Sender) -> None:
    async with open_session(tmp_path, sender.tool()) as session:
        tools = as_tools(session, allowed_tools=["send"])
        model = scripted_model()
        model.messages = iter([calls_of((SEND, "ann"), (SEND, "ben")), AIMessage("done")])
        agent: Any = create_agent(model, tools, checkpointer=InMemorySaver())
        state = await agent.ainvoke({"messages": [("user", "?")]}, CONFIG)
        answers = {
            question.id: "approve"
            if question.value["action_requests"][0]["args"]["to"] == "ben"
            else "reject"
            for question in state["__interrupt__"]
        }
        state = await agent.ainvoke(Command(resume=answers), CONFIG)
    assert sender.sent == ["ben"]
    assert [message.status for message in tool_messages(state)] == ["error", "success"]


async def test_node_that_is_repeated_after_a_crash_does_not_repeat_the_run(tmp_path: Path) -> None:
    counted: list[int] = []

    def count() -> int:
        """Count."""
        counted.append(1)
        return len(counted)

    crashes = iter([True, False])
    async with open_session(
        tmp_path, ptc.tool(side_effect=True, idempotent=True)(count)
    ) as session:
        [program] = as_tools(session, allowed_tools=["count"])

        async def node(state: MessagesState) -> dict[str, Any]:
            call = {"name": "program", "args": {"source": "await ctx.count()"}, "id": "1"}
            message = await program.ainvoke({**call, "type": "tool_call"})
            if next(crashes):
                raise OSError("the machine went away")
            return {"messages": [message]}

        builder = StateGraph(MessagesState)
        builder.add_node("node", node)
        builder.add_edge(START, "node")
        graph: Any = builder.compile(checkpointer=InMemorySaver())
        with pytest.raises(OSError, match="went away"):
            await graph.ainvoke({"messages": []}, CONFIG)
        state = await graph.ainvoke(None, CONFIG)
    assert (tool_messages(state)[0].content, counted) == ("1", [1])


async def test_run_that_was_cancelled_with_its_graph_is_resumed(tmp_path: Path) -> None:
    started: list[str] = []
    reached, release = asyncio.Event(), asyncio.Event()

    async def step(name: str) -> str:
        """Make a step."""
        started.append(name)
        if name == "second":
            reached.set()
            await release.wait()
        return name

    source = "[await ctx.step('first'), await ctx.step('second')]"
    async with open_session(tmp_path, ptc.tool(step)) as session:
        graph = graph_of(session)
        message = calls_of((source, ""))
        task = asyncio.create_task(graph.ainvoke({"messages": [message]}, CONFIG))
        await asyncio.wait_for(reached.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release.set()
        state = await graph.ainvoke(None, CONFIG)
    assert tool_messages(state)[0].content == '["first","second"]'
    assert started == ["first", "second", "second"]
