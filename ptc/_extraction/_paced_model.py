"""A model whose requests keep the pace that all documents share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import anyio

from .._core._json import sha256_of
from .._facts import ModelUsage
from ..errors import ModelError
from ..models._model import MODES, Delta, Mode, Model, ModelReply, ModelRequest
from ._pacing import Pace
from ._spending import Budget, tokens_of

__all__ = ["PacedModel"]


class PacedModel:
    """The model as one document sees it: paced, retried, and counted.

    Retries of the provider's package are switched off: it would wait for each request by itself.
    Each request has an idempotency key made of its content, so that an answer which was lost, or
    was in flight when this process was killed, need not be paid for again.
    """

    def __init__(
        self,
        model: Model,
        pace: Pace,
        budget: Budget,
        *,
        max_retries: int,
        timeout_ms: int,
        salt: str,
    ) -> None:
        """Wrap `model`.

        Args:
            model: Sends the requests.
            pace: Shared by all requests to the model.
            budget: Counts what is spent.
            max_retries: Times that a request is sent again.
            timeout_ms: Time limit of one request.
            salt: Identifies the document and the settings in idempotency keys.
        """
        self._model = model
        self._pace = pace
        self._budget = budget
        self._max_retries = max_retries
        self._timeout_ms = timeout_ms
        self._salt = salt
        self.usage = ModelUsage()
        self.cost: float | None = None

    @property
    def name(self) -> str:
        """Name of the wrapped model."""
        return self._model.name

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The wrapped model's order of modes: local servers prefer grammars to tools."""
        return getattr(self._model, "modes", MODES)

    def why_not(self, mode: Mode, schema: Mapping[str, Any]) -> str | None:
        """Ask the wrapped model."""
        return self._model.why_not(mode, schema)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Send a request when its turn comes, and again after failures that may pass.

        Raises:
            ModelError: If it still fails.
            StoppedError: If the extraction is stopping, and this is the first request.
        """
        size = sum(tokens_of(turn.text) for turn in request.turns) + tokens_of(request.system)
        request = replace(request, max_retries=0, idempotency_key=self._key(request))
        expected = size + self._budget.answer_tokens
        for attempt in range(1, self._max_retries + 2):
            started = self.usage.requests > 0
            async with self._pace.admit(expected, started=started) as ticket:
                try:
                    reply = await self._send(request)
                except ModelError as error:
                    # A lost answer has been paid for: the caller bounds how often it asks again.
                    if not error.retryable or error.lost or attempt > self._max_retries:
                        raise
                    delay = self._pace.fail(error, ticket, attempt)
                else:
                    ticket.tokens = reply.usage.input_tokens + reply.usage.output_tokens
                    self._pace.succeed()
                    self._count(reply.usage)
                    return reply
            await self._pace.pause(delay, started=started)
        raise AssertionError  # pragma: no cover  # the last attempt returns or raises

    async def stream(self, request: ModelRequest, tell: Callable[[Delta], None]) -> ModelReply:
        """Send a request and report the answer at once: nobody reads a part of it."""
        reply = await self.complete(request)
        tell(Delta(reply.answer, in_call=bool(reply.arguments)))
        return reply

    async def _send(self, request: ModelRequest) -> ModelReply:
        with anyio.move_on_after(self._timeout_ms / 1000):
            return await self._model.complete(request)
        msg = f"{self.name} did not answer within timeout_ms={self._timeout_ms:,}"
        raise ModelError(msg, retryable=True, lost=True)

    def _key(self, request: ModelRequest) -> str:
        turns = [turn.text for turn in request.turns]
        parts = (self._salt, self.name, request.mode, request.system, turns)
        return sha256_of(parts)[:32]

    def _count(self, usage: ModelUsage) -> None:
        self.usage += usage
        cost = self._budget.spend(usage)
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost
