"""A model for tests and samples with scripted answers and failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, Self, TypeAlias

import anyio.lowlevel

from .._core import _json
from ..errors import ModelError, UsageError
from ..models._model import MODES, Delta, Mode, ModelReply, ModelRequest, ModelUsage

__all__ = ["Answer", "ScriptedModel", "cut", "lost"]

Answer: TypeAlias = "str | dict[str, Any] | list[Any] | ModelReply | Exception | AnswerFunction"
"""Text to return as it is, data to return as JSON, a whole reply, an error to raise, or a function
that returns one of these for a request."""
AnswerFunction: TypeAlias = Callable[[ModelRequest], Any]


def cut(text: str) -> ModelReply:
    """Create a reply that was truncated by the token limit."""
    return ModelReply(text, finish="length")


def lost(text: str) -> ModelReply:
    """Create a reply that ended with a lost connection."""
    return ModelReply(text, finish=None)


class ScriptedModel:
    """A `ptc.models.Model` that returns its answers in order.

    ::

        model = ScriptedModel('{"total": "12"', {"total": 12})
        async with Session(model=model) as session:
            ...
        assert "total" in model.requests[1].turns[-1].text

    In mode ``tool``, text and data become the arguments of a tool call. A `ModelReply` is returned
    unchanged, so ``ModelReply("Sorry.")`` is text in every mode.

    Attributes:
        requests: The requests it received, in order.
    """

    def __init__(
        self,
        *answers: Answer,
        modes: Iterable[Mode] = MODES,
        name: str = "scripted",
        chunk_chars: int = 8,
    ) -> None:
        """Answer each request with the next of `answers`; then raise `ModelError`.

        Args:
            *answers: The answers, one per request.
            modes: Supported modes.
            name: Name of the model.
            chunk_chars: Characters per streamed chunk.

        Raises:
            UsageError: If a mode is unknown or `chunk_chars` is not positive.
        """
        self._modes = tuple(modes)
        if unknown := set(self._modes) - set(MODES):
            msg = f"modes {', '.join(sorted(unknown))} are unknown; modes: {', '.join(MODES)}"
            raise UsageError(msg)
        if chunk_chars < 1:
            msg = f"chunk_chars must be at least 1, not {chunk_chars}"
            raise UsageError(msg)
        self._answers: Iterator[Answer] = iter(answers)
        self._name = name
        self._chunk_chars = chunk_chars
        self.requests: list[ModelRequest] = []

    @classmethod
    def of(cls, function: AnswerFunction, **options: Any) -> Self:
        """Create a model that answers every request with the result of `function`."""
        model = cls(**options)
        model._answers = repeat(function)
        return model

    @property
    def name(self) -> str:
        """Name of the model."""
        return self._name

    def why_not(self, mode: Mode, schema: Mapping[str, Any]) -> str | None:
        """Return None for supported modes, else a reason."""
        return None if mode in self._modes else f"{self._name} does not support mode {mode}"

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the next answer."""
        return await self.stream(request, lambda _: None)

    async def stream(self, request: ModelRequest, tell: Callable[[Delta], None]) -> ModelReply:
        """Report the next answer in chunks, then return it.

        Raises:
            ModelError: If no answer is left.
        """
        self.requests.append(request)
        answer = next(self._answers, None)
        if answer is None:
            msg = (
                f"{self._name} received {len(self.requests)} requests and has no answer left; "
                "pass it more answers"
            )
            raise ModelError(msg)
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        reply = self._reply(answer, request)
        for start in range(0, len(reply.answer), self._chunk_chars):
            tell(Delta(reply.answer[start : start + self._chunk_chars], bool(reply.arguments)))
            # Let other tasks run between chunks, as with a real stream.
            await anyio.lowlevel.checkpoint()
        return reply

    def _reply(self, answer: Any, request: ModelRequest) -> ModelReply:
        if isinstance(answer, ModelReply):
            return answer
        if not isinstance(answer, str):
            answer = _json.dumps(answer, what="answer").decode()
        prompt_chars = sum(len(turn.text) for turn in request.turns) + len(request.system)
        # An estimate of real token counts: four characters per token.
        usage = ModelUsage(
            requests=1, input_tokens=prompt_chars // 4, output_tokens=len(answer) // 4
        )
        if request.mode == "tool":
            return ModelReply(arguments=(answer,), usage=usage)
        return ModelReply(answer, usage=usage)
