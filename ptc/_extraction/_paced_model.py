"""A model whose requests keep the pace that all documents share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import anyio

from .._core._json import sha256_of
from .._facts import ModelUsage
from ..errors import ModelError
from ..models._model import MODES, Delta, Mode, Model, ModelReply, ModelRequest
from ._batches import Batches
from ._documents import SURROGATE
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
        batches: Batches | None = None,
    ) -> None:
        """Wrap `model`.

        Args:
            model: Sends the requests.
            pace: Shared by all requests to the model.
            budget: Counts what is spent.
            max_retries: Times that a request is sent again.
            timeout_ms: Time limit of one request.
            salt: Identifies the document and the settings in idempotency keys.
            batches: Sends the requests in batches, at no pace. None: each is sent by itself.
        """
        self._model = model
        self._pace = pace
        self._budget = budget
        self._max_retries = max_retries
        self._timeout_ms = timeout_ms
        self._salt = salt
        self._batches = batches
        self._asked: Counter[str] = Counter()
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
            StoppedError: If the extraction is stopping or the budget is used up, and this is the
                first request.
        """
        if self._batches is not None:
            return await self._complete_in_batch(self._batches, request)
        size = sum(tokens_of(turn.text) for turn in request.turns) + tokens_of(request.system)
        request = replace(request, max_retries=0, idempotency_key=self._key(request))
        expected = size + self._budget.answer_tokens
        for attempt in range(1, self._max_retries + 2):
            started = self.usage.requests > 0
            async with self._pace.admit(expected, started=started) as ticket:
                try:
                    with self._budget.request(size, started=started):
                        reply = await self._send(request)
                except ModelError as error:
                    # A lost answer has been paid for: the caller bounds how often it asks again.
                    if not error.retryable or error.lost or attempt > self._max_retries:
                        raise
                    delay = self._pace.fail(error, ticket, attempt)
                else:
                    reply = _checked(reply)
                    ticket.tokens = reply.usage.input_tokens + reply.usage.output_tokens
                    self._pace.succeed()
                    self._count(reply.usage)
                    return reply
            await self._pace.pause(delay, started=started)
        raise AssertionError  # pragma: no cover  # the last attempt returns or raises

    async def _complete_in_batch(self, batches: Batches, request: ModelRequest) -> ModelReply:
        key = self._key(request)
        for attempt in range(1, self._max_retries + 2):
            # The same ids come in the same order after a crash, and find the recorded results.
            number = self._asked[key]
            self._asked[key] += 1
            try:
                reply = await batches.ask(request, f"{key}-{number}")
            except ModelError as error:
                if not error.retryable or attempt > self._max_retries:
                    raise
                batches.retries += 1
            else:
                reply = _checked(reply)
                self._count(reply.usage)
                return reply
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
        # A cut answer is requested again with more room: that is another request.
        settings = {name: repr(value) for name, value in request.settings.items()}
        parts = (self._salt, self.name, request.mode, request.system, turns, settings)
        return sha256_of(parts)[:32]

    def _count(self, usage: ModelUsage) -> None:
        self.usage += usage
        cost = self._budget.spend(usage)
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost


def _checked(reply: ModelReply) -> ModelReply:
    """Return a reply without what neither a budget nor a row can hold."""
    usage = reply.usage
    if min(usage.input_tokens, usage.output_tokens) < 0:
        # A gateway that counts below zero would lift the budget.
        counts = (max(0, usage.input_tokens), max(0, usage.output_tokens))
        usage = replace(usage, input_tokens=counts[0], output_tokens=counts[1])
        reply = replace(reply, usage=usage)
    if not any(SURROGATE.search(text) for text in (reply.text, *reply.arguments)):
        return reply
    return replace(
        reply,
        text=SURROGATE.sub("\ufffd", reply.text),
        arguments=tuple(SURROGATE.sub("\ufffd", text) for text in reply.arguments),
        # The provider's own object has them, too.
        raw=None,
    )
