"""smolagents beyond the contract: schemas, blocking sessions, code agents, threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ptc
from ptc import BlockingSession, Session, ToolError, UsageError, tool, tool_from
from ptc_bindings import smolagents as binding

from .peers.smolagents import model_that_calls

smolagents = pytest.importorskip("smolagents", reason="pip install smolagents")
Native: Any = smolagents.Tool

pytestmark = pytest.mark.slow


@tool
async def price(item: str, currency: str = "EUR") -> float:
    """Look up a price."""
    if item == "gold":
        raise ToolError("gold has no price", code="not_found")
    return {"EUR": 3.2, "USD": 3.5}[currency]


class Search(Native):
    name = "search"
    description = "Search."
    inputs: dict[str, Any] = {  # noqa: RUF012  # as the base class has it
        "query": {"type": "string", "description": "Text."},
        "filters": {
            "type": "array",
            "items": {"type": "any"},
            "description": "Filters.",
            "nullable": True,
        },
    }
    output_type = "string"

    def forward(self, query: str, filters: Any = None) -> str:
        return '{"found": ["a", "b"]}' if filters is None else f"{query} {filters}"


def test_schema_of_smolagents_becomes_json_schema_and_text_becomes_data(tmp_path: Path) -> None:
    made = tool_from(Search())
    assert made.parameters["properties"]["filters"] == {
        "type": ["array", "null"],
        "items": {},
        "description": "Filters.",
    }
    assert (made.parameters["required"], made.side_effect) == (["query"], True)
    with BlockingSession(tmp_path, tools=[Search()], toolsets=()) as session:
        found = session.tool("search", {"query": "x"}, allowed_tools=["search"])
        assert found.unwrap() == {"found": ["a", "b"]}
        found = session.tool("search", {"query": "x", "filters": [1]}, allowed_tools=["search"])
        assert found.unwrap() == "x [1]"


def test_tool_that_takes_an_image_is_refused() -> None:
    class Look(Native):
        name = "look"
        description = "Look."
        inputs: dict[str, Any] = {"picture": {"type": "image", "description": "It."}}  # noqa: RUF012
        output_type = "string"

        def forward(self, picture: Any) -> str:
            return ""

    with pytest.raises(UsageError, match="takes image in 'picture', which a script cannot pass"):
        tool_from(Look())


def test_agent_of_a_blocking_session_calls_tools(tmp_path: Path) -> None:
    with BlockingSession(tmp_path, tools=[price], toolsets=()) as session:
        tools = {item.name: item for item in binding.as_tools(session, direct=True)}
        model = model_that_calls(
            ("price", {"item": "tea", "currency": None}),
            ("price", {"item": "gold"}),
            ("program", {"source": "await ctx.price('tea') * 2"}),
        )
        agent = smolagents.ToolCallingAgent(tools=list(tools.values()), model=model)
        agent.run("start")
        first, second, third, *_ = agent.memory.get_full_steps()[1:]
        assert first["observations"] == "3.2"
        assert "Error [not_found]: gold has no price" in second["error"]["message"]
        assert third["observations"] == "{'value': 6.4}"
        # As a code agent calls it, with positions.
        assert tools["price"]("tea", "USD") == 3.5


def test_code_agent_uses_the_data(tmp_path: Path) -> None:
    base: Any = smolagents.Model

    class Scripted(base):
        def generate(self, messages: Any, **_: Any) -> Any:
            code = "final_answer(price('tea') + price(item='tea', currency='USD'))"
            return smolagents.ChatMessage(
                role=smolagents.MessageRole.ASSISTANT, content=f"<code>\n{code}\n</code>"
            )

    with BlockingSession(tmp_path, tools=[price], toolsets=()) as session:
        tools = binding.as_tools(session, direct=True, program=False)
        agent = smolagents.CodeAgent(tools=tools, model=Scripted())
        assert agent.run("start") == pytest.approx(6.7)


def test_combined_schema_is_described() -> None:
    schema = {"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "An id."}
    found = binding._input(schema, required=False)
    assert (found["type"], found["nullable"]) == ("any", True)
    assert found["description"].startswith('An id. JSON Schema: {"anyOf"')


@pytest.mark.anyio
async def test_agent_in_the_thread_of_the_session_is_refused(tmp_path: Path) -> None:
    async with Session(tmp_path, tools=[price], toolsets=()) as session:
        [program] = binding.as_tools(session)
        with pytest.raises(UsageError, match=r"await asyncio\.to_thread\(agent\.run"):
            program(source="1")


def test_session_outside_of_its_event_loop_is_refused(tmp_path: Path) -> None:
    session = Session(tmp_path, tools=[price], toolsets=())
    with pytest.raises(ptc.UsageError, match="a BlockingSession, or a Session in a running"):
        binding.as_tools(session)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
