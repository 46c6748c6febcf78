"""Answers to the ``tool_use`` blocks of Claude's messages. It imports no SDK: messages are data.

Rule 1: each ``tool_use`` block has one ``tool_result`` block, and the reply has nothing else.
    tests/frameworks/test_anthropic.py::test_reply_has_a_result_for_each_block_and_nothing_else
Rule 2: a call of hosted code ends before that code stops waiting for it.
    tests/frameworks/test_anthropic.py::test_hosted_call_ends_before_the_container_expires
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import anyio

import ptc
from ptc._core import _json
from ptc._runs._program_tool import PROGRAM
from ptc.models import ModelUsage

from ._export import Direct, ExportedTool, Exports
from ._previews import PREVIEW_CHARS
from ._reply import Preview, Reply

__all__ = ["HOSTED", "ToolUses", "content_of"]

HOSTED = "code_execution_20260521"
"""Version of the hosted code execution; its calls have a caller of this or an earlier version."""
_HOSTED_SECONDS = 230.0
"""Hosted code stops waiting for a result after about four minutes."""
_MARGIN_SECONDS = 10.0
"""Time to send the reply before the container expires."""
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def content_of(reply: Reply) -> Any:
    """Return the content of a ``tool_result``: text, or blocks if there are images."""
    images = [image for image in reply.images if image.media_type in _IMAGES]
    if not images:
        return reply.text
    blocks: list[Any] = [{"type": "text", "text": reply.text}]
    for image in images:
        source = {"type": "base64", "media_type": image.media_type, "data": image.data}
        blocks.append({"type": "image", "source": source})
    return blocks


class ToolUses:
    """Tools of a session for a loop of your own over Anthropic's Messages API.

    ::

        uses = ToolUses(session)
        while True:
            message = await client.messages.create(tools=uses.params, messages=messages, ...)
            messages.append({"role": "assistant", "content": message.content})
            reply = await uses.answer(message)
            if reply is None:
                break
            messages.append(reply)
    """

    def __init__(
        self,
        session: ptc.Session,
        *,
        allowed_tools: Iterable[str | ptc.Allow] | None = None,
        direct: Direct = False,
        program: bool = True,
        limits: ptc.Limits | None = None,
        preview_chars: int | None = PREVIEW_CHARS,
        hosted: bool = False,
    ) -> None:
        """Select tools of an open session.

        Args:
            session: Makes the calls.
            allowed_tools: Tools that scripts and direct calls may use. None: the session's default.
            direct: Tools that are also offered one by one: their names, or True for all allowed.
            program: True: offer scripts.
            limits: Limits of each run. None: the session's.
            preview_chars: Characters of a result that the model reads whole;
                `get_tool_response`, if allowed, reads the rest. None: previews only over
                ``limits.max_output_bytes``.
            hosted: True: the tools are for code that Anthropic executes. Results are JSON text, and
                whole.

        Raises:
            UsageError: If a name is unknown, or a direct tool is not allowed.
        """
        limits = limits or session.limits
        if hosted:
            # The model does not read these results, so that they need no previews.
            limits = replace(limits, max_output_bytes=limits.max_tool_result_bytes)
        self._hosted = hosted
        self._exports = Exports(
            session,
            allowed_tools=allowed_tools,
            direct=direct,
            program=program,
            limits=limits,
            preview_chars=None if hosted else preview_chars,
        )
        self.params: list[Any] = [self._param(item) for item in self._exports]
        """Definitions for ``tools=``."""
        self.model_usage: ModelUsage = ModelUsage()
        """Tokens that models of the called tools have spent so far."""

    async def answer(self, message: Any) -> dict[str, Any] | None:
        """Make the calls of a message at once, and return the user's message with their results.

        A script of a message runs once: after a crash, the same message resumes its run or returns
        its result. So do a decision and ``session.resume(run_id)`` if it is paused.

        Args:
            message: A `Message` or `BetaMessage` of the SDK.

        Returns:
            None if the message has no ``tool_use`` block, or has stopped for another reason, such
            as ``max_tokens``: its calls may be incomplete.
        """
        blocks = [block for block in message.content if block.type == "tool_use"]
        if not blocks or message.stop_reason != "tool_use":
            return None
        results: list[dict[str, Any]] = [{} for _ in blocks]

        async def make(index: int) -> None:
            results[index] = await self._answer(blocks[index], message)

        async with anyio.create_task_group() as group:
            for index in range(len(blocks)):
                group.start_soon(make, index)
        return {"role": "user", "content": results}

    async def _answer(self, block: Any, message: Any) -> dict[str, Any]:
        caller = getattr(block, "caller", None)
        programmatic = caller is not None and caller.type.startswith("code_execution_")
        seconds = _seconds_left(message) if programmatic else None
        row: dict[str, Any] = {"type": "tool_result", "tool_use_id": block.id}
        reply = None
        with anyio.move_on_after(seconds):
            reply = await self._exports.call(block.name, block.input, run_id=_run_id(block))
        if reply is None:
            text = f"Error [timeout]: {block.name} was cancelled after {seconds:.0f} s, before the "
            return row | {"content": f"{text}container expires; request less", "is_error": True}
        self.model_usage += reply.model_usage
        if not programmatic:
            return row | {"content": content_of(reply)} | _error_flag(reply.is_error)
        if reply.is_error or reply.pending:
            # The code gets an exception: a pause has no value, and it cannot wait for a person.
            return row | {"content": reply.text} | _error_flag(True)
        data = _value(self._exports[block.name], reply)
        return row | {"content": _json.dumps(data).decode()}

    def _param(self, item: ExportedTool) -> dict[str, Any]:
        row: dict[str, Any] = {"name": item.name, "description": item.description}
        row["input_schema"] = dict(item.parameters)
        if not self._hosted:
            return row
        row["description"] += f"\n\n{_result_text(item)}"
        return row | {"allowed_callers": [HOSTED]}


def _run_id(block: Any) -> str:
    """Return the id of the run for a block; the API gives each block an id of its own."""
    return f"anthropic-{hashlib.sha256(str(block.id).encode()).hexdigest()[:32]}"


def _error_flag(is_error: bool) -> dict[str, bool]:
    return {"is_error": True} if is_error else {}


def _seconds_left(message: Any) -> float:
    """Return the time in which a call of hosted code must end."""
    container = getattr(message, "container", None)
    if container is None:
        return _HOSTED_SECONDS
    left: float = (container.expires_at - datetime.now(UTC)).total_seconds() - _MARGIN_SECONDS
    return max(0.0, min(left, _HOSTED_SECONDS))


def _value(item: ExportedTool, reply: Reply) -> Any:
    """Return the value of a tool for hosted code."""
    if isinstance(reply.data, Preview):
        return reply.data.to_dict()
    # A tool that requires approval was called by a script of one line.
    wrapped = item.source_name != PROGRAM and reply.run is not None
    return reply.data["value"] if wrapped else reply.data


def _result_text(item: ExportedTool) -> str:
    schema = None if item.needs_approval else item.result_schema
    shape = "" if schema is None else f" Its JSON Schema: {_json.dumps(dict(schema)).decode()}"
    return f"The result is JSON text: parse it with json.loads.{shape}"
