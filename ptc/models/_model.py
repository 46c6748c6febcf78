"""The `Model` protocol: requests in one of three modes, replies and streamed deltas.

It knows nothing about the meaning of schemas, repair or providers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from .._dataclass import dataclass
from .._facts import ModelUsage
from .._records._content import Attachment

__all__ = [
    "MODES",
    "Delta",
    "Mode",
    "Model",
    "ModelReply",
    "ModelRequest",
    "ModelUsage",
    "Turn",
]

Mode: TypeAlias = Literal["tool", "native", "prompt"]
"""Method of requesting structured output from a model.

``tool``: force a call of one tool, whose arguments are the answer. ``native``: pass the schema in
the provider's parameter for structured output. ``prompt``: put the schema in the instructions.
"""
MODES: tuple[Mode, ...] = ("tool", "native", "prompt")
"""All modes, in the order in which ``auto`` tries them."""

Finish: TypeAlias = Literal["stop", "length", "refused"]
"""Reason why a reply ended. ``stop``: the model finished. ``length``: it reached the token limit.
``refused``: the model or a content filter refused to answer."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A reply of a model, without its reasoning."""

    text: str = ""
    """Text of the reply."""
    arguments: tuple[str, ...] = ()
    """Arguments of each tool call, as the model wrote them."""
    finish: Finish | None = "stop"
    """Reason why the reply ended; None if not reported: the connection may have been lost."""
    usage: ModelUsage = field(default_factory=lambda: ModelUsage(requests=1))
    raw: Any = field(default=None, repr=False)
    """The provider's own reply object, for the next turn."""

    @property
    def answer(self) -> str:
        """The arguments of the tool calls if there are any, else the text.

        Identical calls are merged. Different calls are joined by line breaks, and so are not a
        valid answer.
        """
        return "\n".join(dict.fromkeys(self.arguments)) if self.arguments else self.text


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation."""

    role: Literal["user", "model", "error"]
    """``error``: feedback on the previous reply; if that called the tool, the tool's result."""
    text: str
    """Its text; of a turn with files, the texts without them."""
    reply: ModelReply | None = None
    """The reply itself, for a turn of the ``model``."""
    parts: tuple[str | Attachment, ...] = ()
    """Texts and files in order, for a turn of the ``user`` with files; else empty."""

    @property
    def files(self) -> tuple[Attachment, ...]:
        """Files of the turn."""
        return tuple(part for part in self.parts if isinstance(part, Attachment))


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request to a model."""

    mode: Mode
    name: str
    """Name of the answer, and of the tool."""
    description: str
    """Description of the answer."""
    schema: Mapping[str, Any]
    """JSON Schema of the answer, an object; in mode ``prompt`` it is already part of `system`."""
    turns: tuple[Turn, ...]
    """The conversation, starting with a user's turn. Examples are turns of user and model."""
    system: str = ""
    """System instructions; may be empty."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """``max_tokens``, ``temperature`` and other settings of the provider."""
    max_retries: int | None = None
    """Times that the provider's package may send the request again. None: its own default."""
    idempotency_key: str | None = None
    """Key by which a provider or gateway that supports it recognizes a request it has answered."""


@dataclass(frozen=True, slots=True)
class Delta:
    """The next characters of a reply."""

    text: str
    in_call: bool = False
    """True for arguments of the first tool call."""


@runtime_checkable
class Model(Protocol):
    """Interface of a language model. Its methods may be called concurrently.

    A failed request raises `ModelError`. A model may also have an attribute `modes`, the order in
    which ``auto`` tries them, and a method ``why_not_file(media_type)``, which returns None for a
    file that it takes, and else a reason.
    """

    @property
    def name(self) -> str:
        """Name of the model in messages."""
        ...

    def why_not(self, mode: Mode, schema: Mapping[str, Any]) -> str | None:
        """Return in a few words why the model does not support `mode` with `schema`.

        Return None if it does, as far as is known without a request.
        """
        ...

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Send a request and return the whole reply.

        Raises:
            ModelError: If the request failed.
        """
        ...

    async def stream(self, request: ModelRequest, tell: Callable[[Delta], None]) -> ModelReply:
        """Send a request, call `tell` with each delta, and return the whole reply.

        Raises:
            ModelError: If the request failed or the reply did not finish.
        """
        ...
