"""Interface of a provider's batch API, and the choice of one for a model.

A batch is a list of requests that the provider answers within a day, usually at half the price.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Protocol

from .._dataclass import dataclass
from ..errors import ModelError, UsageError
from ._model import Model, ModelReply, ModelRequest

__all__ = [
    "Batch",
    "BatchApi",
    "BatchFailedError",
    "BatchItem",
    "BatchLine",
    "NoResultError",
    "UnrunError",
    "open_batch_api",
]


@dataclass(frozen=True, slots=True)
class BatchItem:
    """A request in the form of the provider."""

    custom_id: str
    """Identifies the request among the results, which come in any order."""
    group: str
    """Requests of one batch have the same: the endpoint, the credential, flags of the API."""
    size: int
    """Bytes that it adds to a batch."""
    encoded: Any
    """The request, for `BatchApi.create`."""


@dataclass(frozen=True, slots=True)
class Batch:
    """State of a batch."""

    id: str
    ended: bool
    finished: int
    """Requests that have an outcome, as far as the provider reports it before the end."""
    total: int
    unrun: str | None = None
    """Reason that an ended batch has no result for some requests: ``expired`` or ``cancelled``."""


@dataclass(frozen=True, slots=True)
class BatchLine:
    """Result of one request. It is data of the provider, not validated yet."""

    custom_id: str
    answer: str | None
    """The provider's answer as JSON; None if the request failed."""
    error: ModelError | None = None


class NoResultError(ModelError):
    """Raised for a request whose batch ended with no result for it, or with an unreadable one."""


class UnrunError(ModelError):
    """Raised for a request that the model did not run: its batch expired or was cancelled."""


class BatchFailedError(ModelError):
    """Raised for a batch of which the provider ran no request."""


class BatchApi(Protocol):
    """Batches of one model. Its methods raise `ModelError`."""

    max_requests: int
    """Requests in a batch at most."""
    max_bytes: int
    """Bytes in a batch at most."""

    async def encode(self, request: ModelRequest, custom_id: str) -> BatchItem:
        """Convert a request. Nothing is sent."""
        ...

    async def create(self, items: Sequence[BatchItem], name: str) -> str:
        """Submit a batch once, without retries, and return its id.

        A failure that is not an HTTP status below 500 leaves it unknown whether the batch exists.
        """
        ...

    async def find(self, name: str, since: float, count: int) -> list[str]:
        """Return the ids of batches which may be the one that was submitted as `name`.

        Args:
            name: Name passed to `create`.
            since: Unix time before the submission.
            count: Number of its requests.
        """
        ...

    async def state(self, batch_id: str) -> Batch:
        """Return the state of a batch."""
        ...

    def results(self, batch_id: str) -> AsyncGenerator[BatchLine | None, None]:
        """Iterate over the results of an ended batch; None for a line that cannot be read.

        A batch of which the provider ran nothing raises `BatchFailedError`.
        """
        ...

    def decode(self, answer: str, request: ModelRequest) -> ModelReply:
        """Convert the answer to `request`.

        Raises:
            NoResultError: If it cannot be read.
        """
        ...

    async def clean(self, batch_id: str) -> None:
        """Delete the requests at the provider, if it stores them; failures are ignored."""
        ...


async def open_batch_api(model: Model) -> BatchApi:
    """Open the batch API of a model.

    Raises:
        UsageError: If it has none.
        SetupError: If the installed pydantic-ai is too old for batches.
    """
    opener = getattr(model, "open_batches", None)
    api: BatchApi | None = None if opener is None else await opener()
    if api is None:
        msg = (
            f"{model.name} has no batch API here; models that have one: openai:NAME (Responses "
            "API) and anthropic:NAME. Leave batch out, or choose another model"
        )
        raise UsageError(msg)
    return api
