"""A model for tests and samples: it says what it was told to say, and fails as it was told to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, Self, TypeAlias

import anyio.lowlevel

from .. import _json
from .._model_usage import ModelUsage
from ..errors import ModelError, UsageError
from ..models._model import MODES, Delta, Mode, ModelReply, ModelRequest

__all__ = ["Answer", "ScriptedModel", "cut", "lost"]

Answer: TypeAlias = "str | dict[str, Any] | list[Any] | ModelReply | Exception | AnswerFunction"
"""Text as the model writes it, JSON data that it writes as JSON, a whole reply, an error to raise,
or a function that gives one of them for a request."""
AnswerFunction: TypeAlias = Callable[[ModelRequest], Any]


def cut(text: str) -> ModelReply:
    """A reply that ended for want of room."""
    return ModelReply(text, finish="length")


def lost(text: str) -> ModelReply:
    """A reply whose connection was lost."""
    return ModelReply(text, finish=None)


class ScriptedModel:
    """A `ptc.models.Model` that answers from a list, in order.

    ::

        model = ScriptedModel('{"total": "12"', {"total": 12})
        async with Session(model=model) as session:
            ...
        assert "total" in model.requests[1].turns[-1].text

    In mode ``tool`` text and data are the arguments of a call; a `ModelReply` is given as it is, so
    that ``ModelReply("Sorry.")`` is text in every mode.

    Attributes:
        requests: What it was asked, in order.
    """

    def __init__(
        self,
        *answers: Answer,
        modes: Iterable[Mode] = MODES,
        name: str = "scripted",
        chunk_chars: int = 8,
    ) -> None:
        """Answer with `answers`, one a request; a request more is a `ModelError`.

        Args:
            *answers: What it says.
            modes: The modes it knows.
            name: What it is called.
            chunk_chars: How many characters a stream brings at a time.

        Raises:
            UsageError: If a mode is unknown or `chunk_chars` is not positive.
        """
        self._modes = tuple(modes)
        if unknown := set(self._modes) - set(MODES):
            msg = f"modes {', '.join(sorted(unknown))} are unknown; modes: {', '.join(MODES)}"
            raise UsageError(msg)
        if chunk_chars < 1:
            msg = f"chunk_chars is at least 1, not {chunk_chars}"
            raise UsageError(msg)
        self._answers: Iterator[Answer] = iter(answers)
        self._name = name
        self._chunk_chars = chunk_chars
        self.requests: list[ModelRequest] = []

    @classmethod
    def of(cls, function: AnswerFunction, **options: Any) -> Self:
        """A model that answers every request with what `function` gives for it."""
        made = cls(**options)
        made._answers = repeat(function)
        return made

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    def why_not(self, mode: Mode, schema: Mapping[str, Any]) -> str | None:
        """None for the modes it was made with."""
        return None if mode in self._modes else f"{self._name} does not know mode {mode}"

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Give the next answer."""
        return await self.stream(request, lambda _: None)

    async def stream(self, request: ModelRequest, tell: Callable[[Delta], None]) -> ModelReply:
        """Give the next answer, in chunks first.

        Raises:
            ModelError: If there is none left.
        """
        self.requests.append(request)
        answer = next(self._answers, None)
        if answer is None:
            msg = f"{self._name} was asked {len(self.requests)} times and has no answer left"
            raise ModelError(msg)
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        reply = self._reply(answer, request)
        for start in range(0, len(reply.answer), self._chunk_chars):
            tell(Delta(reply.answer[start : start + self._chunk_chars], bool(reply.arguments)))
            # Between chunks others run, as with a real stream.
            await anyio.lowlevel.checkpoint()
        return reply

    def _reply(self, answer: Any, request: ModelRequest) -> ModelReply:
        if isinstance(answer, ModelReply):
            return answer
        if not isinstance(answer, str):
            answer = _json.dumps(answer, what="answer").decode()
        asked = sum(len(turn.text) for turn in request.turns) + len(request.system)
        # About as many as real ones count: four characters are a token.
        usage = ModelUsage(requests=1, input_tokens=asked // 4, output_tokens=len(answer) // 4)
        if request.mode == "tool":
            return ModelReply(arguments=(answer,), usage=usage)
        return ModelReply(answer, usage=usage)
