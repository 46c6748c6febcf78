"""Adapter from an async function to a model."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeAlias, cast

from .._core._redact import SENT, Redactor, leads_to_secrets
from ..errors import ModelError, PtcError
from ._model import Delta, Mode, ModelReply, ModelRequest

__all__ = ["FunctionAsModel", "ModelFunction", "is_model_function"]

_REDACTOR = Redactor({})

ModelFunction: TypeAlias = (
    Callable[[ModelRequest], Awaitable[str | ModelReply]]
    | Callable[[ModelRequest], AsyncIterator[str]]
)
"""Takes the request and returns the answer's text; an async generator yields it in parts."""


def is_model_function(thing: Any) -> bool:
    """True for an async function or async generator function, or an object whose call is one."""
    called = thing if inspect.isroutine(thing) else getattr(thing, "__call__", None)  # noqa: B004  # an object whose call is async
    function = getattr(called, "func", called)
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


class FunctionAsModel:
    """A model that calls a function. It answers in text, so the schema goes in the prompt."""

    def __init__(self, function: ModelFunction) -> None:
        self._function = function

    @property
    def name(self) -> str:
        """Name of the function."""
        return str(getattr(self._function, "__name__", type(self._function).__name__))

    def why_not(self, mode: Mode, schema: Mapping[str, Any]) -> str | None:
        """Support mode ``prompt`` only: a function has no tools and no schemas."""
        return None if mode == "prompt" else "a function model answers in text only"

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Call the function and return its whole answer."""
        return await self.stream(request, lambda _: None)

    async def stream(self, request: ModelRequest, tell: Callable[[Delta], None]) -> ModelReply:
        """Call the function and report its answer.

        Raises:
            ModelError: If it raises an error that is not a `PtcError`, or does not return text.
        """
        try:
            answer: Any = self._function(request)
            if inspect.isasyncgen(answer):
                answer = await _collect(cast("AsyncIterator[str]", answer), tell)
            else:
                answer = await cast("Awaitable[str | ModelReply]", answer)
                if isinstance(answer, ModelReply):
                    tell(Delta(answer.answer, in_call=bool(answer.arguments)))
                elif isinstance(answer, str):
                    tell(Delta(answer))
        except PtcError:
            raise
        except Exception as error:  # noqa: BLE001  # the function's own
            failure = self._wrap_error(error)
        else:
            return self._to_reply(answer)
        raise failure

    def _wrap_error(self, error: Exception) -> ModelError:
        """Wrap the function's error. Raise it outside `except`, so that it chains no secret."""
        SENT.failed(error)
        text = _REDACTOR.error_text(f"{type(error).__name__}: {error}")
        failure = ModelError(f"model {self.name} failed: {text}")
        if not leads_to_secrets(error, _REDACTOR):
            failure.__cause__ = error
        return failure

    def _to_reply(self, answer: Any) -> ModelReply:
        if isinstance(answer, ModelReply):
            return answer
        if not isinstance(answer, str):
            msg = f"model {self.name} returned {answer!r:.80}; return a string or a ModelReply"
            raise ModelError(msg)
        return ModelReply(answer)


async def _collect(parts: AsyncIterator[str], tell: Callable[[Delta], None]) -> str:
    chunks: list[str] = []
    async for part in parts:
        chunks.append(part)
        tell(Delta(part))
    return "".join(chunks)
