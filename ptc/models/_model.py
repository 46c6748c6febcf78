"""What a model is to ptc: it is asked for an answer, in one of three ways, and gives a reply.

It knows nothing of schemas' meaning, of repair or of providers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from .._model_usage import ModelUsage

__all__ = [
    "MODES",
    "Delta",
    "Mode",
    "Model",
    "ModelReply",
    "ModelRequest",
    "Turn",
]

Mode: TypeAlias = Literal["tool", "native", "prompt"]
"""How a model is brought to answer in a form.

``tool``: it is made to call one tool, whose arguments are the answer. ``native``: the provider has
a parameter for the schema of the answer. ``prompt``: the schema stands in the instructions.
"""
MODES: tuple[Mode, ...] = ("tool", "native", "prompt")
"""All of them, in the order in which ``auto`` tries them."""

Finish: TypeAlias = Literal["stop", "length", "refused"]
"""``stop``: it had said all. ``length``: it had no more room. ``refused``: it, or a filter of its
provider, will not answer this."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What a model said, without what it thought."""

    text: str = ""
    """Its text."""
    arguments: tuple[str, ...] = ()
    """Arguments of each call of the tool that it made, as it wrote them."""
    finish: Finish | None = "stop"
    """Why it ended; None if nobody said: the connection may have been lost."""
    usage: ModelUsage = field(default_factory=lambda: ModelUsage(requests=1))
    raw: Any = field(default=None, repr=False)
    """The reply in the provider's own form, for the turn after it."""

    @property
    def answer(self) -> str:
        """The arguments of its calls if it made any, else its text.

        Calls that say the same are one; others stand beneath each other, and so are no answer.
        """
        return "\n".join(dict.fromkeys(self.arguments)) if self.arguments else self.text


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation."""

    role: Literal["user", "model", "error"]
    """``error``: what is wrong with the reply before; if that called the tool, its result."""
    text: str
    reply: ModelReply | None = None
    """Of a ``model``'s turn, the reply itself."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a model is asked."""

    mode: Mode
    name: str
    """What the answer is called: the tool's name."""
    description: str
    """What the answer is."""
    schema: Mapping[str, Any]
    """JSON Schema of the answer, an object; in mode ``prompt`` it is in `system` already."""
    turns: tuple[Turn, ...]
    """The conversation; the first is a user's."""
    system: str = ""
    """Instructions; empty: none."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """``max_tokens``, ``temperature`` and what else the provider takes."""


@dataclass(frozen=True, slots=True)
class Delta:
    """The next characters of a reply."""

    text: str
    in_call: bool = False
    """True if they are arguments of the first call of the tool."""


@runtime_checkable
class Model(Protocol):
    """Something that answers. Its methods may be called many times at once.

    What goes wrong on the way is a `ModelError`.
    """

    @property
    def name(self) -> str:
        """What it is called in messages."""
        ...

    def why_not(self, mode: Mode, schema: Mapping[str, Any]) -> str | None:
        """Why it cannot answer by `schema` in a mode, in a few words.

        None if it can, as far as it knows without being asked.
        """
        ...

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Ask, and wait for the whole reply.

        Raises:
            ModelError: If no reply came.
        """
        ...

    async def stream(self, request: ModelRequest, tell: Callable[[Delta], None]) -> ModelReply:
        """Ask, and tell what comes as it comes; give the whole reply at the end.

        Raises:
            ModelError: If the reply did not come to its end.
        """
        ...
