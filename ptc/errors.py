"""Every exception a caller of ptc can see. It imports nothing but plain data.

::

    PtcError
    ├── UsageError        the caller asked for something impossible: fix the call
    ├── SetupError        this machine cannot give what the session needs: fix the machine
    ├── ToolError         a tool refused or failed: decide, correct, or retry if `retryable`
    ├── RunError          `RunResult.unwrap()` on a run that did not complete
    ├── GenerationError   a model's answers do not conform: mend the schema, prompt or model
    ├── TruncatedError    a model's answer was cut: ask again with more room
    ├── ModelError        a model was not reached or refused: wait, or mend the request
    ├── JournalError      a recorded run is not there, cannot be read, or is driven by another
    └── SessionClosedError  the session is gone: open another

What a *script* did wrong is never an exception of the host: it is the outcome of the run,
`RunResult.status` and `RunResult.error`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ._layer import Layer
from ._model_usage import ModelUsage

__all__ = [
    "GenerationError",
    "JournalError",
    "ModelError",
    "PtcError",
    "RunError",
    "SessionClosedError",
    "SetupError",
    "ToolError",
    "TruncatedError",
    "UsageError",
]


class _Attempt(Protocol):
    """Facts of a `ptc.structured.Attempt`."""

    @property
    def text(self) -> str: ...
    @property
    def value(self) -> Any: ...
    @property
    def repairs(self) -> Sequence[Any]: ...
    @property
    def violations(self) -> Sequence[Any]: ...


class _RunResult(Protocol):
    """Facts of a `ptc.RunResult`."""

    @property
    def run_id(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def value(self) -> Any: ...
    @property
    def error(self) -> Any: ...
    @property
    def cut(self) -> Any: ...
    @property
    def partial(self) -> Sequence[Any]: ...
    @property
    def stdout(self) -> str: ...
    @property
    def stderr(self) -> str: ...
    @property
    def calls(self) -> Sequence[Any]: ...
    @property
    def usage(self) -> Any: ...
    @property
    def limits(self) -> Any: ...
    @property
    def warnings(self) -> Sequence[str]: ...


class PtcError(Exception):
    """Root of the tree. Never raised itself."""


class UsageError(PtcError):
    """Raised when a call is wrong before anything ran: unknown option, tool, path or type.

    The message says what was given, where, and what would be accepted.
    """


class SetupError(PtcError):
    """Raised when the machine lacks something the session needs, e.g. a layer of the jail.

    The message names the layer, why it is missing and the way out.

    Attributes:
        layers: What the probe found of every layer, where it came that far; else empty.
    """

    def __init__(self, message: str, *, layers: tuple[Layer, ...] = ()) -> None:
        super().__init__(message)
        self.layers = layers


class SessionClosedError(PtcError):
    """Raised when a closed or not yet opened session is used."""


class JournalError(PtcError):
    """Raised when a run is not in the journal, or the journal cannot be read or written.

    The message says where.
    """


class ToolError(PtcError):
    """Raised when a tool refused or failed. A script can catch it under the same name.

    A tool's function raises it to say *why* in a form a caller can act on. Any other exception
    of a tool becomes a `ToolError` with code ``internal``.

    Attributes:
        code: A short stable word: ``not_found``, ``invalid_arguments``, ``not_allowed``,
            ``limit_exceeded``, ``timeout``, ``cancelled``, ``internal`` or one of the tool's own.
        message: What happened, where, and the way out.
        tool: Name of the tool, filled in by the host; ``""`` until then.
        retryable: True if the same call may succeed later.
        details: JSON-able data for a program; never needed to understand the message.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "failed",
        tool: str = "",
        retryable: bool = False,
        details: dict[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        # Tools raise it: `ToolError(error)` is a mistake that must not become another one.
        self.message: str = message if isinstance(message, str) else str(message)
        self.code = code
        self.tool = tool
        self.retryable = retryable
        self.details: dict[str, object] = details or {}


class RunError(PtcError):
    """Raised by `RunResult.unwrap()` when the run did not complete. `result` holds all of it."""

    def __init__(self, result: _RunResult) -> None:
        message = result.status
        if result.error:
            message = f"{message}: {result.error.message}"
        elif result.cut:
            message = f"{message}, but the value is truncated; see RunResult.cut"
        super().__init__(message)
        self.result = result


class TruncatedError(PtcError):
    """Raised when a model's answer ended inside of its value: cut by a limit or a lost connection.

    The model made no mistake that it could be told of. Ask again, with more room for the answer.

    Attributes:
        text: All that came.
        attempts: The answers before it, of `generate_object`.
        usage: What was spent; None if no model was asked.
    """

    def __init__(self, message: str, *, text: str = "") -> None:
        super().__init__(message)
        self.text = text
        self.attempts: tuple[_Attempt, ...] = ()
        self.usage: ModelUsage | None = None


class GenerationError(PtcError):
    """Raised when no answer of a model conforms, and it is not asked again.

    Attributes:
        reason: ``attempts`` (all are used) or ``no_progress`` (twice the same violations).
        attempts: Every answer: its text, what was read of it, and what is wrong with it.
        usage: What was spent.
    """

    def __init__(
        self, message: str, *, reason: str, attempts: tuple[_Attempt, ...], usage: ModelUsage
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.attempts = attempts
        self.usage: ModelUsage | None = usage


class ModelError(PtcError):
    """Raised when a model could not be asked, or its provider refused or failed.

    Attributes:
        status: HTTP status, if there was one.
        retryable: True if the same request may succeed later.
        refused: True if the provider does not take such a request, whatever the prompt.
        lost: True if the request was sent and the connection broke before the reply's end.
        attempts: The answers before it, of `generate_object`.
        usage: What was spent; None if nothing is known.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        refused: bool = False,
        lost: bool = False,
    ) -> None:
        super().__init__(message)
        self.lost = lost
        self.status = status
        self.retryable = retryable
        self.refused = refused
        self.attempts: tuple[_Attempt, ...] = ()
        self.usage: ModelUsage | None = None
