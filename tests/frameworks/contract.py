"""The contract of a framework's binding: a peer, the tools that it wraps, and what is expected.

`test_contract.py` asks each `Peer` for the same things. A peer is written with the framework's own
classes, and a model of the framework's own that answers without a network.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import anyio

import ptc

__all__ = [
    "AGENT_IN_A_THREAD",
    "PICTURE",
    "ROWS",
    "SECONDS",
    "TEXT",
    "Observed",
    "Peer",
    "World",
    "fail_with",
]

SECONDS = 60.0
"""Longest wait for anything."""
TEXT = "größer 日本 \U0001f680 \u202e \x7f"
"""Text that must arrive unchanged: several scripts, a direction mark, a control character."""
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""A PNG of one pixel."""
AGENT_IN_A_THREAD = "its agents run in a thread; closing the session cancels their runs"
"""Gap of frameworks without an event loop (tests/frameworks/test_session_calls.py)."""
ROWS = (
    "ok", "tool error", "limit", "approval", "cancel", "binary", "unicode", "big result",
    "concurrent",
)  # fmt: skip
"""Rows of the matrix, each for tools that come in and for tools that go out."""


@dataclass(slots=True)
class World:
    """Traces that the tools leave, for the test."""

    sent: list[str] = field(default_factory=list)
    started: threading.Event = field(default_factory=threading.Event)
    cancelled: threading.Event = field(default_factory=threading.Event)

    # A peer wraps these for the framework: bound methods, or functions of its own that call them.

    async def add(self, a: int, b: int) -> dict[str, int]:
        """Add two numbers.

        Args:
            a: The first number.
            b: The second number.
        """
        return {"sum": a + b}

    async def echo(self, text: str) -> str:
        """Return the text.

        Args:
            text: Any text.
        """
        return text

    async def big(self, size: int) -> str:
        """Return a text of many letters.

        Args:
            size: Number of letters.
        """
        return "x" * size

    async def send(self, to: str) -> str:
        """Send a message.

        Args:
            to: Receiver.
        """
        self.sent.append(to)
        return f"sent to {to}"

    async def wait(self) -> str:
        """Wait until the call is cancelled."""
        self.started.set()
        try:
            await anyio.sleep(SECONDS)
        except BaseException:
            self.cancelled.set()
            raise
        return "not cancelled"


@dataclass(frozen=True, slots=True)
class Observed:
    """The result of a call as the framework gave it to its model."""

    text: str
    """Text that the model reads: the parts joined, if there are several."""
    is_error: bool | None = None
    """True or False as the framework's message says; None: it has no such field."""
    images: int = 0
    """Images in the message."""


class Peer:
    """A framework under test. Subclass it in ``peers/<framework>.py`` as ``class Tested(Peer)``."""

    name: ClassVar[str]
    """Name in the table, such as ``LangChain``."""
    distribution: ClassVar[str]
    """Package whose version the table shows, such as ``langchain-core``."""
    extra: ClassVar[str] = ""
    """Extra of ptc that installs it. Empty: none."""
    gaps: ClassVar[Mapping[tuple[Literal["in", "out"], str], str]] = {}
    """Cells that the framework cannot have, with the reason; ``("in", "*")`` for a whole half."""
    own_approvals: ClassVar[bool] = False
    """True: a paused call becomes an approval of the framework, which `ask` answers."""

    def tools(self, world: World) -> Mapping[str, Any]:
        """Return tools of the framework by name.

        ``add``, ``echo``, ``big``, ``send``, ``wait`` wrap the methods of `world`. ``fail(reason)``
        fails as tools of the framework fail, with the reason in the text. ``picture()`` returns
        `PICTURE` in the framework's type for images. A tool may be missing if its row is a gap. If
        the framework has a flag for approvals, ``send`` has it.
        """
        raise NotImplementedError

    def is_picture(self, data: bytes) -> bool:
        """Return True for `PICTURE`, or for its pixels if the framework's type has no bytes."""
        return data == PICTURE

    async def ask(
        self,
        session: ptc.Session,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        allowed_tools: list[str],
        direct: bool = False,
        decision: Literal["approve", "reject"] = "approve",
        limits: ptc.Limits | None = None,
    ) -> Observed:
        """Let an agent of the framework call an exported tool once, and return what its model read.

        The framework's own model without a network requests the call, and ends the conversation
        when it has the result. Cancelling this coroutine cancels the agent.

        Args:
            session: Provides the tools, through the binding's ``as_tools``.
            tool: ``program`` or, with `direct`, the name of another tool.
            arguments: Arguments of the call.
            allowed_tools: Passed to ``as_tools``.
            direct: Passed to ``as_tools``.
            decision: Answer to an approval of the framework, if `own_approvals`.
            limits: Passed to ``as_tools``.
        """
        raise NotImplementedError


def fail_with(reason: str) -> str:
    """Raise an error, as a tool of an application does. For frameworks without a failure type."""
    raise RuntimeError(reason)
