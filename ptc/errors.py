"""Every exception that a caller of ptc can see. Imports only plain data.

::

    PtcError
    ├── UsageError        the call is invalid: fix the call
    ├── SetupError        this machine lacks something that the session needs: fix the machine
    ├── ToolError         a tool refused or failed: decide, correct, or retry if `retryable`
    ├── RunError          `RunResult.unwrap()` on a run that did not complete
    ├── GenerationError   no answer of a model conforms: change the schema, prompt or model
    ├── ElementsChangedError  a streamed list changed after a repair: discard its elements
    ├── TruncatedError    a model's answer was truncated: retry with more room
    ├── ModelError        a model was not reached or refused: wait, or fix the request
    ├── JournalError      the journal cannot be opened, read or written: repair it
    │   ├── UnknownRunError   there is no such run: correct the id
    │   ├── BusyRunError      another process executes the run: wait for its end
    │   ├── EndedRunError     the run has ended, or was rolled back: start a new one
    │   ├── LeaseLostError    another process acquired the run: stop, it continues there
    │   ├── ChangedToolsError a tool of the run changed: check it, then accept the change
    │   ├── OtherEngineError  the run was started on another engine: resume it there
    │   ├── DamagedRunError   the record of the run is damaged: restore the journal
    │   └── QueueFullError    too many runs wait in the queue: submit later
    ├── ArtifactError     a stored value cannot be read or written: repair the store
    │   ├── ArtifactMissingError  it is not in the store: run the script again
    │   └── ArtifactDamagedError  its contents do not match its digest: restore it
    └── SessionClosedError  the session is closed: open another

An error in a *script* is never an exception of the host: it is the outcome of the run,
`RunResult.status` and `RunResult.error`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ._facts import Layer, ModelUsage

__all__ = [
    "ArtifactDamagedError",
    "ArtifactError",
    "ArtifactMissingError",
    "BusyRunError",
    "ChangedToolsError",
    "DamagedRunError",
    "ElementsChangedError",
    "EndedRunError",
    "GenerationError",
    "JournalError",
    "LeaseLostError",
    "ModelError",
    "OtherEngineError",
    "PtcError",
    "QueueFullError",
    "RunError",
    "SessionClosedError",
    "SetupError",
    "ToolError",
    "TruncatedError",
    "UnknownRunError",
    "UsageError",
    "WaitTimeoutError",
]


class _Attempt(Protocol):
    """Interface of `ptc.structured.Attempt`."""

    @property
    def text(self) -> str: ...
    @property
    def value(self) -> Any: ...
    @property
    def repairs(self) -> Sequence[Any]: ...
    @property
    def violations(self) -> Sequence[Any]: ...


class _RunResult(Protocol):
    """Interface of `ptc.RunResult`."""

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
    def warnings(self) -> Sequence[Any]: ...


class PtcError(Exception):
    """Root of the exception tree. Never raised itself."""


class UsageError(PtcError):
    """Raised when a call is invalid, before anything ran: unknown option, tool, path or type.

    The message names the argument, the value passed, and the accepted values.
    """


class SetupError(PtcError):
    """Raised when the machine lacks something that the session needs, e.g. a kernel layer.

    The message names the layer, the reason that it is missing, and a remedy.

    Attributes:
        layers: Result of the probe for every layer; empty if the probe did not run.
    """

    def __init__(self, message: str, *, layers: tuple[Layer, ...] = ()) -> None:
        super().__init__(message)
        self.layers = layers


class SessionClosedError(PtcError):
    """Raised when a session is used before it is opened or after it is closed."""


class JournalError(PtcError):
    """Raised when the journal cannot be opened, read or written; the message names it.

    A subclass says that the journal works and the requested run is the problem.
    """


class UnknownRunError(JournalError):
    """Raised when there is no run with the requested id in the journal."""


class BusyRunError(JournalError):
    """Raised when another process, or another task of this one, executes the requested run."""


class EndedRunError(JournalError):
    """Raised when the requested run cannot continue: it has ended, or was rolled back."""


class ChangedToolsError(JournalError):
    """Raised when tools of a run changed since it was recorded, so it was not resumed.

    Nothing was executed and the run stays as it was. Resume it with ``accept_changed_tools=True``
    after checking that no effect can be repeated.

    Attributes:
        run_id: The run.
        changes: The changes of each tool, in words.
    """

    def __init__(self, run_id: str, changes: Mapping[str, Sequence[str]]) -> None:
        listed = "; ".join(f"{name}: {', '.join(found)}" for name, found in changes.items())
        super().__init__(
            f"run {run_id!r} was not resumed, since its tools changed: {listed}. Restore them, or "
            "check that no effect can be repeated and resume it with accept_changed_tools=True "
            "(`ptc resume --accept-changed-tools`)"
        )
        self.run_id = run_id
        self.changes: dict[str, tuple[str, ...]] = {
            name: tuple(found) for name, found in changes.items()
        }


class OtherEngineError(JournalError):
    """Raised when a run was started on another engine than the one here, so it was not resumed.

    The engines execute different versions of Python, so a replay could take another path. Nothing
    was executed and the run stays as it was.

    Attributes:
        run_id: The run.
        recorded: Name and version of its engine.
        here: Name and version of the engine here.
    """

    def __init__(self, run_id: str, recorded: str, here: str) -> None:
        super().__init__(
            f"run {run_id!r} was not resumed: it was started on the engine {recorded}, and this "
            f"session has {here}. Resume it with engine={recorded.partition(' ')[0]!r} in the "
            "version that started it, or run its script again (`ptc run`, or `Session.retry`)"
        )
        self.run_id: str = run_id
        self.recorded: str = recorded
        self.here: str = here


class LeaseLostError(JournalError):
    """Raised when another process acquired the run, so this one can no longer record it."""


class WaitTimeoutError(PtcError, TimeoutError):
    """Raised when a run did not end in the time of `Session.wait`; the run continues."""


class DamagedRunError(JournalError):
    """Raised when the record of a run is damaged; the message names the damaged row."""


class ArtifactError(PtcError):
    """Raised when a store of artifacts cannot be read or written; the message names it."""


class ArtifactMissingError(ArtifactError):
    """Raised when a value is not in the store."""


class ArtifactDamagedError(ArtifactError):
    """Raised when the contents of a stored value do not match its digest."""


class QueueFullError(JournalError):
    """Raised when a run is not submitted because too many wait in the queue.

    Attributes:
        tenant: Tenant whose queue is full; None: the whole queue is.
        length: Runs that wait.
        limit: Most runs that may wait.
    """

    def __init__(self, message: str, *, tenant: str | None, length: int, limit: int) -> None:
        super().__init__(message)
        self.tenant = tenant
        self.length = length
        self.limit = limit


class ToolError(PtcError):
    """Raised when a tool refuses or fails. A script can catch it under the same name.

    Raise it in a tool's function to report a failure that the caller can act on. The host converts
    any other exception of a tool to a `ToolError` with code ``internal``.

    Attributes:
        code: A short stable word: ``not_found``, ``invalid_arguments``, ``not_allowed``,
            ``limit_exceeded``, ``timeout``, ``cancelled``, ``internal`` or a code of the tool.
        message: The failure, its location, and a suggested fix.
        tool: Name of the tool, set by the host; ``""`` until then.
        retryable: True if the same call may succeed later.
        details: JSON-able data for programs; never needed to understand the message.
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
        # A tool that passes an exception instead of text must not cause another error.
        self.message: str = message if isinstance(message, str) else str(message)
        self.code = code
        self.tool = tool
        self.retryable = retryable
        self.details: dict[str, object] = details or {}

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as data: JSON-able if `details` is."""
        names = ("message", "code", "tool", "retryable", "details")
        return {name: getattr(self, name) for name in names}


class RunError(PtcError):
    """Raised by `RunResult.unwrap()` if the run did not complete. `result` is the whole result."""

    def __init__(self, result: _RunResult) -> None:
        message = result.status
        if result.error:
            message = f"{message}: {result.error.message}"
        elif result.cut:
            message = f"{message}, but the value is truncated; see RunResult.cut"
        super().__init__(message)
        self.result = result


class TruncatedError(PtcError):
    """Raised when a model's answer was truncated by a token limit.

    The model made no mistake that a repair prompt could name. Retry with more room for the answer.

    Attributes:
        text: The text received.
        attempts: Earlier answers, of `generate_object`.
        usage: Tokens spent; None if no request was sent.
    """

    def __init__(self, message: str, *, text: str = "") -> None:
        super().__init__(message)
        self.text = text
        self.attempts: tuple[_Attempt, ...] = ()
        self.usage: ModelUsage | None = None


class GenerationError(PtcError):
    """Raised when no answer of a model conforms and no attempt is left.

    Attributes:
        reason: ``attempts`` (all are used) or ``no_progress`` (twice the same violations).
        attempts: Every answer, with its text, its parsed value and its violations.
        usage: Tokens spent; None if unknown.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        attempts: tuple[_Attempt, ...],
        usage: ModelUsage | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.attempts = attempts
        self.usage = usage


class ElementsChangedError(PtcError):
    """Raised by `stream_elements` if the accepted answer differs from the elements it yielded.

    That can happen only after an answer was lost, truncated or rejected and the model was asked
    again. Discard the elements, or ask again with `generate_object`.

    Attributes:
        elements: Number of elements that were yielded.
        attempts: Every answer, with its text, its parsed value and its violations; the last one
            conforms.
        usage: Tokens spent; None if unknown.
    """

    def __init__(self, message: str, *, elements: int) -> None:
        super().__init__(message)
        self.elements = elements
        self.attempts: tuple[_Attempt, ...] = ()
        self.usage: ModelUsage | None = None


class ModelError(PtcError):
    """Raised when a request to a model could not be sent, or its provider refused or failed.

    Attributes:
        status: HTTP status, if there was one.
        retryable: True if the same request may succeed later.
        refused: True if the provider does not support such a request, for any prompt.
        lost: True if the request was sent and the connection broke before the end of the reply.
        retry_after: Seconds that the provider asked to wait; None if it did not say.
        attempts: Earlier answers, of `generate_object`.
        usage: Tokens spent; None if unknown.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        refused: bool = False,
        lost: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.lost = lost
        self.retry_after = retry_after
        self.status = status
        self.retryable = retryable
        self.refused = refused
        self.attempts: tuple[_Attempt, ...] = ()
        self.usage: ModelUsage | None = None
