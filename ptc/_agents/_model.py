"""The model of a child agent: its requests are counted, and recorded as steps of the call.

Imports pydantic-ai: import it in functions only.

Rule 1: when a child is started again, a finished request is answered from the record. Requests are
    identified by agent, number and content, not by ids and times that differ between attempts.
    tests/core/agents/test_resume_agents.py::test_finished_model_requests_are_answered_from_the_record
Rule 2: no request is sent once a limit of the agent, or of one above it, is used up.
    tests/core/agents/test_limits.py::test_no_request_is_sent_over_the_limit_on_steps
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from .._core import _json
from .._facts import ModelUsage
from .._tools._context import ToolContext
from ..errors import ToolError
from ..models._providers import model_error
from ..models._usage import report_usage
from ._limits import Account

__all__ = ["RecordedModel"]

_STEP = "model"
"""Name of the steps in events, records and `RunResult.calls`."""
_MESSAGE_KEYS = ("kind", "instructions")
_PART_KEYS = ("part_kind", "tool_name", "content", "args", "outcome")


class RecordedModel(WrapperModel):
    """A model whose requests are steps of a tool call."""

    def __init__(self, wrapped: Model, ctx: ToolContext, agent: str, account: Account) -> None:
        """Wrap a model for one child.

        Args:
            wrapped: The model.
            ctx: Context of the call that the child is part of.
            agent: Kind of the agent.
            account: Account that is charged.
        """
        super().__init__(wrapped)
        self._ctx = ctx
        self._agent = agent
        self._account = account
        self._sent = 0

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the recorded response, or send the request and record its response.

        Raises:
            ToolError: ``limit_exceeded`` if the request may not be sent, ``model_failed`` if it
                fails.
        """
        self._account.reserve_step()
        self._sent += 1
        send = partial(self._send, messages, model_settings, model_request_parameters)
        data = await self._ctx.step(
            _STEP, send, agent=self._agent, number=self._sent, messages=_digest(messages)
        )
        (response,) = ModelMessagesTypeAdapter.validate_python([data])
        assert isinstance(response, ModelResponse)  # noqa: S101  # as it was recorded
        usage, cost = response.usage, response.usage.cost
        self._account.charge(
            usage.input_tokens, usage.output_tokens, None if cost is None else float(cost)
        )
        return response

    async def _send(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
    ) -> Any:
        try:
            response = await self.wrapped.request(messages, settings, parameters)
        except Exception as error:
            failure = model_error(self.model_id, error)
            if failure is None:
                raise
            why = ToolError(str(failure), code="model_failed", retryable=failure.retryable)
        else:
            _fill_cost(response)
            usage = response.usage
            report_usage(
                ModelUsage(
                    requests=1,
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                    cache_read_tokens=usage.cache_read_tokens,
                    cache_write_tokens=usage.cache_write_tokens,
                ),
                cost=None if usage.cost is None else float(usage.cost),
            )
            return ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]
        # Outside of `except`: the provider's error may contain the key.
        raise why


def _fill_cost(response: ModelResponse) -> None:
    """Set the price of a response, if its provider did not and it is known."""
    if response.usage.cost is not None or not response.model_name:
        return
    try:
        response.usage.cost = response.cost().total_price
    except (LookupError, ValueError):
        # No price is known: the cost stays None, which is not 0.
        return


def _digest(messages: list[ModelMessage]) -> str:
    """Return a digest of what a model reads of the messages."""
    rows = [_normalized(row) for row in ModelMessagesTypeAdapter.dump_python(messages, mode="json")]
    return hashlib.sha256(_json.dumps(rows, what="messages", sort_keys=True)).hexdigest()


def _normalized(message: Mapping[str, Any]) -> dict[str, Any]:
    parts = [{key: part[key] for key in _PART_KEYS if key in part} for part in message["parts"]]
    return {**{key: message.get(key) for key in _MESSAGE_KEYS}, "parts": parts}
