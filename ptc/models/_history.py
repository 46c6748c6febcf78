"""The turns of a request as messages of pydantic-ai, with files as its own parts."""

from __future__ import annotations

from typing import cast

from pydantic_ai import messages

from .._records._content import Attachment
from ._model import ModelRequest, Turn

__all__ = ["write_history"]


def write_history(request: ModelRequest, system: str) -> list[messages.ModelMessage]:
    """Return the messages of a request, each of the user's with the instructions `system`."""
    found: list[messages.ModelMessage] = []
    calls: list[messages.ToolCallPart] = []
    for number, turn in enumerate(request.turns):
        if turn.role == "model":
            response = _response(request, turn, number)
            calls = [p for p in response.parts if isinstance(p, messages.ToolCallPart)]
            if response.parts:
                found.append(response)
            continue
        error = turn.role == "error"
        parts: list[messages.ModelRequestPart] = [
            messages.ToolReturnPart(
                call.tool_name,
                turn.text if error else _ACCEPTED,
                tool_call_id=call.tool_call_id,
                outcome="retried" if error else "success",
            )
            for call in calls
        ]
        if not error or not parts:
            parts.append(messages.UserPromptPart(_content(turn)))
        calls = []
        found.append(messages.ModelRequest(parts=parts, instructions=system or None))
    return found


_ACCEPTED = "The answer is accepted."
"""Result of the tool call of an example: providers require one."""


def _response(request: ModelRequest, turn: Turn, number: int) -> messages.ModelResponse:
    reply = turn.reply
    if reply is not None and reply.raw is not None:
        return cast("messages.ModelResponse", reply.raw)
    if reply is not None and reply.arguments and request.mode == "tool":
        call = messages.ToolCallPart(
            request.name, reply.arguments[0], tool_call_id=f"example_{number}"
        )
        return messages.ModelResponse(parts=[call])
    return messages.ModelResponse(parts=[messages.TextPart(turn.text)] if turn.text else [])


def _content(turn: Turn) -> str | list[messages.UserContent]:
    return [
        part if isinstance(part, str) else _binary_content(part) for part in turn.parts
    ] or turn.text


def _binary_content(file: Attachment) -> messages.BinaryContent:
    return messages.BinaryContent(cast("bytes", file.data), media_type=file.media_type)
