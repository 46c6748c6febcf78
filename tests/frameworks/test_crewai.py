"""CrewAI beyond the contract: its failures, its cache, its strict schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ptc import BlockingSession, tool, tool_from
from ptc_bindings import crewai as binding

from .peers.crewai import model_that_calls

crewai = pytest.importorskip("crewai", reason="pip install crewai")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


class Price(BaseModel):
    amount: float


def look_up(item: str) -> Price:
    """Look up a price."""
    return Price(amount=3.2)


def order(item: str) -> Any:
    """Order an item."""
    if item == "gold":
        return crewai.tools.ToolFailure(message="no gold", code="sold_out", retryable=True)
    return '{"ordered": ["tea"]}'


def test_tool_returns_data_and_its_failure_is_an_error(tmp_path: Path) -> None:
    make: Any = crewai.tools.tool
    tools = [make("Look up a price")(look_up), make("order", max_usage_count=2)(order)]
    made = tool_from(tools[0])
    assert (made.name, made.side_effect) == ("Look_up_a_price", True)
    assert made.result_schema is not None
    with BlockingSession(tmp_path, tools=tools, toolsets=(), workers=1) as session:
        names = ["Look_up_a_price", "order"]

        def call(name: str, item: str) -> Any:
            return session.tool(name, {"item": item}, allowed_tools=names)

        assert call("Look_up_a_price", "tea").unwrap() == {"amount": 3.2}
        assert call("order", "tea").unwrap() == {"ordered": ["tea"]}
        failed = call("order", "gold").error
        assert (failed.message, failed.code, failed.retryable) == ("no gold", "sold_out", True)
        # The count of uses includes the failure.
        exhausted = call("order", "tea").error
        assert exhausted.code == "usage_limit"
        assert "reached its usage limit of 2" in exhausted.message


COUNT: list[str] = []


@tool
def count(item: str, by: int = 1) -> int:
    """Count an item."""
    COUNT.append(item)
    return len(COUNT) * by


def test_results_are_not_cached_and_optional_arguments_may_be_null(tmp_path: Path) -> None:
    COUNT.clear()
    with BlockingSession(tmp_path, tools=[count], toolsets=(), workers=1) as session:
        tools = binding.as_tools(session, direct=True)
        seen: list[str] = []
        model = model_that_calls("count", {"item": "tea", "by": None}, seen, times=2)
        agent = crewai.Agent(role="r", goal="g", backstory="b", tools=tools, llm=model)
        task = crewai.Task(description="d", expected_output="o", agent=agent)
        crewai.Crew(agents=[agent], tasks=[task], cache=True).kickoff()
    assert seen == ["1", "2"]


def test_schemas_keep_their_meaning_when_all_properties_are_required(tmp_path: Path) -> None:
    from crewai.utilities.agent_utils import convert_tools_to_openai_schema

    with BlockingSession(tmp_path, tools=[count], toolsets=(), workers=1) as session:
        rows, *_ = convert_tools_to_openai_schema(binding.as_tools(session, direct=True))
    program, direct = [row["function"]["parameters"] for row in rows]
    assert list(program["properties"]) == program["required"] == ["source", "inputs"]
    assert program["properties"]["inputs"]["anyOf"][0]["type"] == "string"
    assert direct["required"] == ["item", "by"]
    assert {"type": "null"} in direct["properties"]["by"]["anyOf"]


def test_failure_is_a_failure_of_crewai(tmp_path: Path) -> None:
    with BlockingSession(tmp_path, tools=[count], toolsets=(), workers=1) as session:
        [program] = binding.as_tools(session)
        failed = program.run(source="1 / 0")
        assert isinstance(failed, crewai.tools.ToolFailure)
        assert "division by zero" in failed.message
        assert program.run(source="1 + 1", inputs=None) == "2"
        assert program.run(source="inputs['n'] + 1", inputs='{"n": 1}') == "2"
        assert "inputs" in program.run(source="1", inputs="no JSON").message
