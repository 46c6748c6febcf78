"""A plain async function as a model."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeAlias, cast

from .._redact import SENT, Redactor, leads_to_secrets
from ..errors import ModelError, PtcError
from ._model import Delta, Mode, ModelReply, ModelRequest

__all__ = ["AskFunction", "FunctionAsModel", "is_ask_function"]

_REDACTOR = Redactor({})

AskFunction: TypeAlias = (
    Callable[[ModelRequest], Awaitable[str | ModelReply]]
    | Callable[[ModelRequest], AsyncIterator[str]]
)
"""Gets the request and gives the text of the answer, whole or, as an async generator, in parts."""


def is_ask_function(thing: Any) -> bool:
    """True for an async function or async generator function, or an object whose call is one."""
    called = thing if inspect.isroutine(thing) else getattr(thing, "__call__", None)  # noqa: B004  # an object whose call is async
    function = getattr(called, "func", called)
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


class FunctionAsModel:
    """Answers with what a function gives: in text, so that the schema is in the instructions."""

    def __init__(self, function: AskFunction) -> None:
        self._function = function

    @property
    def name(self) -> str:
        """The function's."""
        return str(getattr(self._function, "__name__", type(self._function).__name__))

    def why_not(self, mode: Mode, schema: Mapping[str, Any]) -> str | None:
        """A function knows of no tools and no schemas."""
        return None if mode == "prompt" else "a plain function answers in text"

    async def complete(self, request: ModelRequest) -> ModelReply:
        """As `stream`, telling nobody."""
        return await self.stream(request, lambda _: None)

    async def stream(self, request: ModelRequest, tell: Callable[[Delta], None]) -> ModelReply:
        """Call the function.

        Raises:
            ModelError: If it raises anything else, or gives no text.
        """
        try:
            said: Any = self._function(request)
            if inspect.isasyncgen(said):
                said = await _joined(cast("AsyncIterator[str]", said), tell)
            else:
                said = await cast("Awaitable[str | ModelReply]", said)
                if isinstance(said, ModelReply):
                    tell(Delta(said.answer, in_call=bool(said.arguments)))
                elif isinstance(said, str):
                    tell(Delta(said))
        except PtcError:
            raise
        except Exception as error:  # noqa: BLE001  # the function's own
            failure = self._failed(error)
        else:
            return self._checked(said)
        raise failure

    def _failed(self, error: Exception) -> ModelError:
        """What the function raised; raised outside of the `except`, it leads to no secret."""
        SENT.failed(error)
        text = _REDACTOR.error_text(f"{type(error).__name__}: {error}")
        made = ModelError(f"model {self.name} failed: {text}")
        if not leads_to_secrets(error, _REDACTOR):
            made.__cause__ = error
        return made

    def _checked(self, said: Any) -> ModelReply:
        if isinstance(said, ModelReply):
            return said
        if not isinstance(said, str):
            msg = f"model {self.name} gave {said!r:.80}: give text or a ModelReply"
            raise ModelError(msg)
        return ModelReply(said)


async def _joined(parts: AsyncIterator[str], tell: Callable[[Delta], None]) -> str:
    heard: list[str] = []
    async for part in parts:
        heard.append(part)
        tell(Delta(part))
    return "".join(heard)
