"""Models of pydantic-ai: by object, by name, and what their profiles say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ptc import ModelError, Session, SetupError, UsageError
from ptc.models import ModelReply, open_model
from ptc.structured import Partial

pydantic_ai = pytest.importorskip("pydantic_ai", reason="pip install 'ptc-host[models]'")

from pydantic_ai.messages import (  # noqa: E402  # after the skip
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import (  # noqa: E402  # after the skip
    AgentInfo,
    DeltaThinkingCalls,
    DeltaThinkingPart,
    DeltaToolCall,
    DeltaToolCalls,
    FunctionModel,
)

pytestmark = pytest.mark.anyio

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
}


def model_calling(
    *answers: str,
) -> tuple[FunctionModel, list[tuple[list[ModelMessage], AgentInfo]]]:
    """A model that calls the tool with each of `answers` in turn, and what it was asked."""
    asked: list[tuple[list[ModelMessage], AgentInfo]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append((list(messages), info))
        thought = ThinkingPart('{"total": 99}')
        return ModelResponse([thought, ToolCallPart("result", answers[len(asked) - 1])])

    return FunctionModel(answer), asked


async def test_model_object_is_forced_to_call_the_tool_and_gets_errors_as_result() -> None:
    model, asked = model_calling('{"total": "x"}', '{"total": 3}')
    async with Session(model=model) as session:
        found = await session.generate_object(SCHEMA, "Read it.", system="Be exact.")
    assert (found.object, found.mode_used, found.usage.requests) == ({"total": 3}, "tool", 2)
    (tool,) = asked[0][1].output_tools
    assert (tool.name, tool.parameters_json_schema) == ("result", SCHEMA)
    assert not asked[0][1].allow_text_output
    question, answer, error = asked[1][0]
    assert isinstance(question, ModelRequest)
    call = answer.parts[-1]
    assert isinstance(call, ToolCallPart)
    assert question.instructions == "Be exact."
    (result,) = error.parts
    assert isinstance(result, ToolReturnPart)
    assert result.outcome == "retried"
    assert "/total" in str(result.content)
    assert result.tool_call_id == call.tool_call_id


async def test_malformed_arguments_are_repaired_and_reasoning_is_ignored() -> None:
    model, asked = model_calling("{'total': 3,}")
    async with Session(model=model) as session:
        found = await session.generate_object(SCHEMA, "Read it.")
    assert (found.object, len(asked)) == ({"total": 3}, 1)


async def test_model_without_forced_tool_choice_falls_back_to_another_mode() -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart('{"total": 4}')])

    profile: Any = {"supports_forced_tool_choice": False, "supports_json_schema_output": True}
    plainer: Any = {"supports_forced_tool_choice": False, "supports_json_schema_output": False}
    async with Session(model=FunctionModel(answer, profile=profile)) as session:
        native = await session.generate_object(SCHEMA, "Read it.")
        plain = await session.generate_object(
            SCHEMA,
            "Read it.",
            model=FunctionModel(answer, profile=plainer),
        )
    assert (native.mode_used, plain.mode_used) == ("native", "prompt")
    assert [f.mode for f in plain.fallbacks] == ["tool", "native"]
    assert "cannot be forced to call a tool" in plain.fallbacks[0].reason


async def test_arguments_are_streamed_and_reasoning_is_not() -> None:
    async def stream(
        messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[DeltaToolCalls | DeltaThinkingCalls]:
        yield {0: DeltaThinkingPart(content='{"total": 99}')}
        yield {1: DeltaToolCall(name="result", json_args="")}
        for part in ('{"total"', ": 12", "34}"):
            yield {1: DeltaToolCall(json_args=part)}

    partials: list[Partial] = []
    async with Session(model=FunctionModel(stream_function=stream)) as session:
        found = await session.generate_object(SCHEMA, "x", on_partial=partials.append)
    assert found.object == {"total": 1234}
    assert [partial.value for partial in partials] == [{"total": 1234}] * len(partials)


async def test_unknown_model_and_missing_key_have_different_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError, match=r"there is no model .*; write provider:name"):
        open_model("nobody:gpt-5")
    pytest.importorskip("openai")
    with pytest.raises(SetupError) as missing:
        open_model("openai:gpt-5")
    message = "model 'openai:gpt-5' needs a key: set OPENAI_API_KEY in the environment"
    assert str(missing.value) == message
    async with Session(model="openai:gpt-5") as session:
        with pytest.raises(SetupError, match="OPENAI_API_KEY"):
            await session.generate_object(SCHEMA, "x")
        result = await session.tool("generate_object", {"schema": SCHEMA, "prompt": "x"})
    assert result.error is not None
    assert "OPENAI_API_KEY" in result.error.message
    assert result.error.code == "setup"


async def test_provider_exception_is_raised_as_model_error() -> None:
    from pydantic_ai.exceptions import ModelHTTPError, UnexpectedModelBehavior, UserError

    def model(error: Exception) -> FunctionModel:
        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            raise error

        return FunctionModel(answer)

    body = {"error": {"message": "tool_choice is not supported"}}
    cases: list[tuple[Exception, bool, bool]] = [
        (ModelHTTPError(400, "m", body), True, False),
        (ModelHTTPError(404, "m", {"message": "No endpoints support tool use"}), True, False),
        (ModelHTTPError(404, "m", {"message": "no such model"}), False, False),
        (ModelHTTPError(401, "m", "key"), False, False),
        (ModelHTTPError(429, "m", "slow down"), False, True),
        (ModelHTTPError(503, "m", "down"), False, True),
        (UserError("not with this model"), True, False),
        (UnexpectedModelBehavior("odd"), False, False),
    ]
    async with Session() as session:
        for error, refused, retryable in cases:
            with pytest.raises(ModelError) as caught:
                await session.generate_object(SCHEMA, "x", mode="tool", model=model(error))
            assert (caught.value.refused, caught.value.retryable) == (refused, retryable), error
            assert caught.value.status == getattr(error, "status_code", None)


def test_reply_of_several_calls_deduplicates_arguments() -> None:
    assert ModelReply(arguments=("a", "b", "a")).answer == "a\nb"
    assert ModelReply("text").answer == "text"
