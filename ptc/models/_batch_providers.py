"""Batch APIs of OpenAI and Anthropic.

pydantic-ai encodes each request and decodes each answer, as it does for a request of its own. The
results are read here, line by line: they are data from outside, and a batch can have 100,000.

Rule 1: A line longer than `MAX_LINE_BYTES`, or damaged, costs its own request and no other.
    tests/models/test_batch.py::test_hostile_result_lines_cost_only_their_own_request
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_ai import exceptions
from pydantic_ai.models.batch import BatchResult, EncodedBatchRequest

from .._core._redact import SENT
from ..errors import ModelError
from ._batch import (
    Batch,
    BatchApi,
    BatchFailedError,
    BatchItem,
    BatchLine,
    NoResultError,
    UnrunError,
)
from ._model import ModelReply, ModelRequest
from ._providers import ProviderAsModel, model_error

if TYPE_CHECKING:
    from pydantic_ai.models import Model as ProviderModel

__all__ = ["open_batches"]

T = TypeVar("T")

MAX_LINE_BYTES = 16_777_216
"""Longest line of results. The longest answers of models have less than 1 MB."""
_MAX_PAGES = 100
"""Pages of 100 batches that are searched for a lost one."""
_CLOCK_SLACK_S = 3_600.0
"""Difference of the clocks here and at the provider."""
_STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""HTTP status by type of Anthropic's errors: https://platform.claude.com/docs/en/api/errors."""


def open_batches(adapter: ProviderAsModel, model: ProviderModel) -> BatchApi | None:
    """Return the batch API of `model`; None if it has none, or none that is supported here."""
    if getattr(model, "batch_max_requests", None) is None:
        return None
    known: dict[str, type[_ProviderBatches]] = {
        "OpenAIResponsesModel": _OpenAIBatches,
        "AnthropicModel": _AnthropicBatches,
    }
    made = known.get(type(model).__name__)
    return None if made is None else made(adapter, model)


class _ProviderBatches(ABC):
    """Steps that are the same for all providers."""

    def __init__(self, adapter: ProviderAsModel, model: Any) -> None:
        self._adapter = adapter
        self._model = model
        self._client: Any = model.client
        self.max_requests: int = model.batch_max_requests
        self.max_bytes: int = model.batch_max_bytes

    async def encode(self, request: ModelRequest, custom_id: str) -> BatchItem:
        made = self._adapter.to_batch_request(request, custom_id)
        encoded = await self._call(self._model.batch_encode(made))
        size = self._model.batch_request_size(encoded)
        return BatchItem(custom_id, encoded.group, size, encoded)

    def decode(self, answer: str, request: ModelRequest) -> ModelReply:
        made = self._adapter.to_batch_request(request, "-")
        result = BatchResult(custom_id="-", status="succeeded", body=answer)
        try:
            return self._adapter.to_reply(self._model.batch_decode(result, made), request)
        except Exception as error:  # noqa: BLE001  # data from outside breaks parsers in any way
            failure = model_error(self._adapter.name, error)
            kind = type(error).__name__
        if failure is None:
            failure = NoResultError(
                f"{self._adapter.name}: the result in the batch is unreadable: {kind}"
            )
        raise failure

    async def results(self, batch_id: str) -> AsyncGenerator[BatchLine | None, None]:
        failure: ModelError | None = None
        try:
            async with aclosing(self._result_files(batch_id)) as files:
                async for chunks in files:
                    async with aclosing(_lines(chunks)) as lines:
                        async for line in lines:
                            yield None if line is None else self._parse(line)
        except ModelError as error:
            failure = error
        except Exception as error:  # noqa: BLE001  # the transport raises errors of its own
            failure = self._failure(error)
        if failure is not None:
            raise failure

    def _parse(self, line: bytes) -> BatchLine | None:
        try:
            data = json.loads(line)
            custom_id = data["custom_id"]
            return self._line(custom_id, data) if isinstance(custom_id, str) else None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    async def _list(self, batches: Any) -> AsyncGenerator[Any, None]:
        """Iterate over the batches of the account, the newest first."""
        page = await self._call(batches.list(limit=100))
        for _ in range(_MAX_PAGES):
            for batch in page.data:
                yield batch
            if not page.has_next_page():
                return
            page = await self._call(page.get_next_page())

    async def _call(self, request: Awaitable[T]) -> T:
        """Await a call of the provider's package, and convert its errors."""
        try:
            return await request
        except Exception as error:  # noqa: BLE001  # converted, or raised again
            failure = self._failure(error)
        raise failure

    def _failure(self, error: Exception) -> ModelError:
        """Convert an error of the provider's package. Raise the result outside `except`."""
        SENT.failed(error)
        status = getattr(error, "status_code", None)
        if isinstance(error, exceptions.AgentRunError | exceptions.UserError):
            converted: Exception = error
        elif isinstance(status, int):
            response = getattr(error, "response", None)
            converted = exceptions.ModelHTTPError(
                status,
                self._model.model_name,
                getattr(error, "body", None) or str(error),
                headers=getattr(response, "headers", None),
            )
        else:
            text = f"{type(error).__name__}: {error}"
            converted = exceptions.ModelAPIError(self._model.model_name, text)
        made = model_error(self._adapter.name, converted)
        assert made is not None  # noqa: S101  # it converts all errors of pydantic-ai
        return made

    def _line_error(self, status: int, body: object) -> ModelError:
        name = self._model.model_name
        made = model_error(self._adapter.name, exceptions.ModelHTTPError(status, name, body))
        assert made is not None  # noqa: S101  # it converts all errors of pydantic-ai
        return made

    def _unrun(self, custom_id: str, reason: str) -> BatchLine:
        msg = f"{self._adapter.name}: the request {reason} in the batch before the model ran it"
        return BatchLine(custom_id, None, UnrunError(msg, retryable=reason == "expired"))

    @abstractmethod
    def _result_files(self, batch_id: str) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Iterate over the files of results, each in chunks."""

    @abstractmethod
    def _line(self, custom_id: str, data: dict[str, Any]) -> BatchLine:
        """Read a line; raises what `_parse` catches."""

    @abstractmethod
    async def create(self, items: Sequence[BatchItem], name: str) -> str: ...

    @abstractmethod
    async def find(self, name: str, since: float, count: int) -> list[str]: ...

    @abstractmethod
    async def state(self, batch_id: str) -> Batch: ...

    @abstractmethod
    async def clean(self, batch_id: str) -> None: ...


class _OpenAIBatches(_ProviderBatches):
    """https://developers.openai.com/api/docs/guides/batch, endpoint /v1/responses."""

    _ENDPOINT = "/v1/responses"
    _ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
    _UNRUN = ("batch_expired", "batch_cancelled")

    async def create(self, items: Sequence[BatchItem], name: str) -> str:
        lines = b"\n".join(self._input_line(item.encoded) for item in items)
        client = self._client.with_options(max_retries=0)
        files = self._client.files
        # An upload that is sent again costs nothing: only the batch does.
        file = await self._call(files.create(file=("batch.jsonl", lines), purpose="batch"))
        failure: ModelError
        try:
            made = await self._call(
                client.batches.create(
                    input_file_id=file.id,
                    endpoint=self._ENDPOINT,
                    completion_window="24h",
                    metadata={"ptc": name},
                )
            )
            return str(made.id)
        except ModelError as error:
            failure = error
        if failure.status is not None and failure.status < 500:
            await self._delete(file.id)
        raise failure

    def _input_line(self, request: EncodedBatchRequest) -> bytes:
        # `body` is the JSON of `batch_encode`, which has no line breaks.
        head = {"custom_id": request.custom_id, "method": "POST", "url": self._ENDPOINT}
        return f'{json.dumps(head)[:-1]}, "body": {request.body}}}'.encode()

    async def find(self, name: str, since: float, count: int) -> list[str]:
        async with aclosing(self._list(self._client.batches)) as batches:
            # The newest come first.
            async for batch in batches:
                if (batch.metadata or {}).get("ptc") == name:
                    return [str(batch.id)]
                if batch.created_at < since - _CLOCK_SLACK_S:
                    break
        return []

    async def state(self, batch_id: str) -> Batch:
        batch = await self._call(self._client.batches.retrieve(batch_id))
        counts = batch.request_counts
        finished, total = (counts.completed + counts.failed, counts.total) if counts else (0, 0)
        unrun = batch.status if batch.status in ("expired", "cancelled") else None
        return Batch(batch.id, batch.status in self._ENDED, finished, total, unrun)

    async def _result_files(self, batch_id: str) -> AsyncGenerator[AsyncIterator[bytes], None]:
        batch = await self._call(self._client.batches.retrieve(batch_id))
        if batch.status == "failed":
            errors = (batch.errors and batch.errors.data) or []
            text = "; ".join(f"{error.code}: {error.message}" for error in errors[:5])
            over = any(error.code == "token_limit_exceeded" for error in errors)
            hint = "; lower concurrency, for smaller batches" if over else ""
            told = self._line_error(400, f"{text or 'no reason was reported'}{hint}")
            raise BatchFailedError(f"the batch failed: {told}", retryable=over)
        for file_id in (batch.output_file_id, batch.error_file_id):
            if file_id:
                content = self._client.files.with_streaming_response.content(file_id)
                async with content as response:
                    yield response.iter_bytes()

    def _line(self, custom_id: str, data: dict[str, Any]) -> BatchLine:
        response = data.get("response")
        if response:
            status = int(response["status_code"])
            if 200 <= status < 300:
                return BatchLine(custom_id, json.dumps(response["body"]))
            return BatchLine(custom_id, None, self._line_error(status, response.get("body")))
        error = data["error"]
        if error.get("code") in self._UNRUN:
            return self._unrun(custom_id, error["code"].removeprefix("batch_"))
        return BatchLine(custom_id, None, self._line_error(500, error))

    async def clean(self, batch_id: str) -> None:
        with suppress(ModelError):
            batch = await self._call(self._client.batches.retrieve(batch_id))
            if batch.input_file_id:
                await self._delete(batch.input_file_id)

    async def _delete(self, file_id: str) -> None:
        with suppress(ModelError):
            await self._call(self._client.files.delete(file_id))


class _AnthropicBatches(_ProviderBatches):
    """https://platform.claude.com/docs/en/build-with-claude/batch-processing."""

    async def create(self, items: Sequence[BatchItem], name: str) -> str:
        made = await self._call(self._model.batch_create([item.encoded for item in items]))
        return str(made.id)

    async def find(self, name: str, since: float, count: int) -> list[str]:
        # A batch has no metadata. Its results have our custom ids, which nobody else can make.
        found: list[str] = []
        async with aclosing(self._list(self._client.beta.messages.batches)) as batches:
            async for batch in batches:
                if batch.created_at.timestamp() < since - _CLOCK_SLACK_S:
                    break
                if _total(batch.request_counts) == count:
                    found.append(str(batch.id))
        return found

    async def state(self, batch_id: str) -> Batch:
        batch = await self._call(self._client.beta.messages.batches.retrieve(batch_id))
        counts = batch.request_counts
        total = _total(counts)
        ended = batch.processing_status == "ended"
        return Batch(batch.id, ended, total - counts.processing, total)

    async def _result_files(self, batch_id: str) -> AsyncGenerator[AsyncIterator[bytes], None]:
        batches = self._client.beta.messages.batches
        batch = await self._call(batches.retrieve(batch_id))
        if not batch.results_url:
            raise self._line_error(404, "the results of the batch are no longer available")
        async with batches.with_streaming_response.results(batch_id) as response:
            yield response.iter_bytes()

    async def clean(self, batch_id: str) -> None:
        """Do nothing: the requests are no file, and end with the batch."""

    def _line(self, custom_id: str, data: dict[str, Any]) -> BatchLine:
        result = data["result"]
        kind = result["type"]
        if kind == "succeeded":
            return BatchLine(custom_id, json.dumps(result))
        if kind in ("canceled", "expired"):
            return self._unrun(custom_id, kind.replace("canceled", "cancelled"))
        body = result["error"]
        status = _STATUS_OF.get(body["error"].get("type"), 500)
        return BatchLine(custom_id, None, self._line_error(status, body))


def _total(counts: Any) -> int:
    found: int = (
        counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
    )
    return found


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes | None, None]:
    """Split into lines; None for each that is too long, which is skipped without being stored."""
    rest, skipping = bytearray(), False
    async for chunk in chunks:
        *ended, last = chunk.split(b"\n")
        for piece in ended:
            rest += piece
            if skipping or len(rest) > MAX_LINE_BYTES:
                yield None
            elif rest.strip():
                yield bytes(rest)
            rest, skipping = bytearray(), False
        if not skipping:
            rest += last
        if len(rest) > MAX_LINE_BYTES:
            rest, skipping = bytearray(), True
    if skipping:
        yield None
    elif rest.strip():
        yield bytes(rest)
