"""The final answer of an agent of pydantic-ai, with a scripted model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="agents need ptc-host[pydantic-ai]")

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from ptc import FinalAnswer, GenerationError
from ptc._agents._response_toolset import UNBOUNDED, FinalAnswerToolset, text_output

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """pydantic-ai's agent needs asyncio."""
    return "asyncio"


Turn = str | list[Any]
"""A text, or the arguments of the calls of one turn."""


async def run_agent(final: FinalAnswer, *turns: Turn) -> list[str]:
    """Run an agent whose model answers with `turns`; return the feedback that it received."""
    left: Iterator[Turn] = iter(turns)
    received: list[str] = []

    def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            received.extend(str(getattr(part, "content", "")) for part in messages[-1].parts)
        turn = next(left)
        if isinstance(turn, str):
            return ModelResponse(parts=[TextPart(turn)])
        return ModelResponse(parts=[ToolCallPart("response", arguments) for arguments in turn])

    agent = Agent(
        FunctionModel(answer),
        toolsets=[FinalAnswerToolset(final)],
        output_type=text_output(final),
        retries={"output": UNBOUNDED},
    )
    async with agent.iter("Go.") as run:
        async for _ in run:
            if final.done:
                break
    assert next(left, None) is None, "the model was not asked for its last turns"
    return received


@pytest.mark.anyio
async def test_agent_ends_with_the_first_call_that_conforms() -> None:
    final = FinalAnswer(SCHEMA)
    assert await run_agent(final, ["{'total': 1,}", {"total": 2}]) == []
    assert final.value == {"total": 1}


@pytest.mark.anyio
async def test_agent_passes_feedback_on_calls_and_texts_to_its_model() -> None:
    final = FinalAnswer(SCHEMA)
    received = await run_agent(final, "Done.", [{"total": "many"}], "Done.", '{"total": 5}')
    assert final.value == {"total": 5}
    assert ["no final answer yet" in text for text in received] == [True, False, True]
    assert '"many" is not of type "integer"' in received[1]


@pytest.mark.anyio
async def test_agent_ends_with_an_error_when_nothing_conforms() -> None:
    final = FinalAnswer(SCHEMA, max_repair_attempts=0)
    with pytest.raises(GenerationError, match="does not conform"):
        await run_agent(final, [{"total": "many"}])
