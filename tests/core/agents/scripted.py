"""A model that answers each conversation by a script, and counts its requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest

pytest.importorskip("pydantic_ai", reason="child agents need the extra `models`")

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

__all__ = ["Script", "Turn", "returns_in"]

Turn: TypeAlias = "str | list[tuple[str, Any]] | Exception | Callable[[list[ModelMessage]], Any]"
"""A final text, tool calls, an error to raise, or a function of the messages that returns one."""


class Script:
    """Turns of the model by prompt: turn N answers request N of a conversation."""

    def __init__(self, **turns: Sequence[Turn]) -> None:
        self.turns = turns
        self.requests: Counter[tuple[str, int]] = Counter()
        """Number of requests, by prompt and number of the turn."""
        self.tools: dict[str, list[str]] = {}
        """Tools that were offered, by prompt."""
        self.instructions: dict[str, str] = {}
        self.model = FunctionModel(self._answer)

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompt = next(_prompts(messages))
        number = sum(isinstance(message, ModelResponse) for message in messages)
        self.requests[prompt, number] += 1
        self.tools[prompt] = [tool.name for tool in info.function_tools]
        self.instructions[prompt] = info.instructions or ""
        turn = self.turns[prompt][number]
        if callable(turn):
            turn = turn(messages)
            turn = await turn if hasattr(turn, "__await__") else turn
        if isinstance(turn, Exception):
            raise turn
        if isinstance(turn, str):
            return ModelResponse([TextPart(turn)])
        return ModelResponse([ToolCallPart(name, arguments) for name, arguments in turn])

    @property
    def repeated(self) -> list[tuple[str, int]]:
        """Requests that were sent more than once."""
        return [request for request, times in self.requests.items() if times > 1]


def _prompts(messages: list[ModelMessage]) -> Any:
    for message in messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                yield part.content


def returns_in(messages: list[ModelMessage]) -> list[str]:
    """Return the texts of tool results that a model read."""
    return [
        str(part.content)
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
