"""The final answer of an agent of pydantic-ai. Imports pydantic-ai: import it in functions only.

::

    agent = Agent(model, toolsets=[FinalAnswerToolset(final)], output_type=text_output(final),
                  retries={"output": UNBOUNDED})
    async with agent.iter(prompt) as run:
        async for node in run:
            if final.done:
                break

A text ends the agent's run by itself, if it is an answer.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic_ai import ModelRetry, RunContext, TextOutput
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

from ..errors import ToolError
from ._response import Again, FinalAnswer

__all__ = ["UNBOUNDED", "FinalAnswerToolset", "text_output"]

UNBOUNDED = 100
"""Retries of pydantic-ai for texts, beyond the bounds of every `FinalAnswer`."""


class FinalAnswerToolset(AbstractToolset[Any]):
    """The tool of a `FinalAnswer`. The loop around the agent ends once that is `done`.

    Feedback is `ToolFailed`, which does not use up a retry of pydantic-ai. An error that ends the
    conversation is raised by the agent's run.
    """

    def __init__(self, final: FinalAnswer) -> None:
        self._final = final

    @property
    def id(self) -> str | None:
        """Id for durable execution: none, since the answer belongs to one conversation."""
        return None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tool."""
        tool = self._final.tool
        definition = ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=dict(tool.parameters),
            # The calls of one turn are taken in their order.
            sequential=True,
        )
        return {
            tool.name: ToolsetTool(
                toolset=self, tool_def=definition, max_retries=0, args_validator=_AsWritten()
            )
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> str:
        """Take a call of the model.

        Raises:
            ToolFailed: With the feedback, if the model may call again.
            GenerationError: As for `FinalAnswer.take_call`.
        """
        try:
            action = self._final.take_call(tool_args["arguments"])
        except ToolError as error:
            raise ToolFailed(error.message) from error
        if isinstance(action, Again):
            raise ToolFailed(action.feedback)
        return "The answer was accepted."


def text_output(final: FinalAnswer) -> TextOutput[Any]:
    """Return the ``output_type`` that reads an answer from a text of the model.

    The output of the agent is then the value. An answer accepted by the tool has no output.
    """

    def read(text: str) -> Any:
        action = final.take_text(text)
        if isinstance(action, Again):
            raise ModelRetry(action.feedback)
        return action.value

    return TextOutput(read)


class _AsWritten:
    """Passes arguments on as the model wrote them: `FinalAnswer` validates and repairs them."""

    def validate_json(
        self,
        input: str | bytes | bytearray,
        *,
        allow_partial: bool | Literal["off", "on", "trailing-strings"] = False,
        **options: Any,
    ) -> dict[str, Any]:
        text = input if isinstance(input, str) else input.decode()
        return {"arguments": text}

    def validate_python(
        self,
        input: Any,
        *,
        allow_partial: bool | Literal["off", "on", "trailing-strings"] = False,
        **options: Any,
    ) -> dict[str, Any]:
        return {"arguments": input}
