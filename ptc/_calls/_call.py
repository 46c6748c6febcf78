"""A tool call while it is under way: what is known of it so far, and the record made of that."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from .. import _json
from .._records._content import AttachmentRef
from .._records._result import CallRecord, CallStatus
from .._redact import Redactor
from .._tools._tool import Tool, ToolCall
from .._tools._tool_result import ToolResult
from ..errors import ToolError

__all__ = ["Occurrences", "OpenCall", "bounded_arguments", "idempotency_key"]

_PREVIEW_CHARS = 200
_KEPT_BYTES = 1_024
"""JSON of arguments that is kept for the end of the run; more is made again."""
_RECORDED_BYTES = 65_536
"""JSON of arguments that is recorded whole."""


@dataclass(slots=True)
class OpenCall:
    """A call under way. It begins as it was asked and is filled in on its way through the host."""

    call: ToolCall
    parent: OpenCall | None = None
    """The call whose tool made this one; None if the script or the application did."""
    allowed: Mapping[str, Tool] | None = None
    """Tools that it and the calls its tool makes may use; None: those of the dispatch."""
    siblings: Occurrences | None = None
    """Calls among which equal ones are told apart; None: those of the run."""
    refusal: ToolError | None = None
    """Why it is not looked at any further; None: it goes its way."""
    status: CallStatus = "not_started"
    started: float = 0.0
    ended: float = 0.0
    result_bytes: int = 0
    error: ToolError | None = None
    side_effect: bool = False
    arguments: Any = None
    """As validated: what is approved, cached, recorded and executed. None until then."""
    attempt: int = 0
    """Number of the last try; 0: none was made."""
    cached: bool = False
    """True if the result came from the cache or from the same call under way."""
    cut_off: bool = False
    """True if it was stopped after it had begun: what it does may have been done."""
    begun: bool = True
    """False if it was cancelled before a thread could call its function: it had no effect."""
    children: int = 0
    """Calls that its tool has made."""
    attached: list[AttachmentRef] = field(default_factory=list)
    """Files that its tool has kept so far."""
    repeatable: bool = True
    """True if it may be made again by itself."""
    parked: bool = False
    """True if a call that its tool made waits for a decision: what the tool says counts no more."""
    known: bool = False
    """True if its outcome was recorded before, or decided."""
    said: ToolResult | None = None
    """What the function returned, if it was more than a value."""
    occurrence: int = 0
    """How many equal calls of its run came before it, from 1; 0: not counted yet."""
    digest: str = ""
    """Of tool and validated arguments; those of an approver, if it has given others."""
    tool: Tool | None = None
    """The tool, once it was looked up; None if there is none."""
    admitted: bool = False
    """True once it was looked up, validated and identified."""
    noted: bool = False
    """True if this host has recorded its start."""
    effects: dict[Any, ToolResult | None] = field(default_factory=dict)
    """Results of a direct call's nested effects that must not be repeated, by `chain`; None for an
    unknown outcome. A run has its record instead."""
    making: str = ""
    """Identity of the cached result that it makes, if any. See `NestedCalls.current_making`."""
    redactor: Redactor | None = None
    """What keeps secrets out of its record."""
    awaited: str = ""
    """Digest of the result that it makes or waits for in a cache."""
    weight: int = 0
    """Memory that the arguments take, in bytes, more or less; 0: that is not counted."""
    recorded: frozenset[str] | None = None
    """Arguments that a record has; of others, misspelt ones too, it has size and digest. None: all
    of them."""
    _preview: tuple[str, str] | None = field(default=None, repr=False)
    _sorted: bytes | None = field(default=None, repr=False)
    _path: str = field(default="", repr=False)
    _identity: str | None = field(default="", repr=False)
    _key: str = field(default="", repr=False)

    def above(self) -> Iterator[OpenCall]:
        """The calls whose tools led to this one, the nearest first."""
        call = self.parent
        while call is not None:
            yield call
            call = call.parent

    @property
    def place(self) -> tuple[int, ...]:
        """``(3,)``, or ``(3, 1)`` for the first call that the tool of call 3 made."""
        return tuple(map(int, self.path.split(".")))

    @property
    def path(self) -> str:
        """`place` as text: ``3.1``."""
        if not self._path:
            self._path = str(self.call.seq)
        return self._path

    @path.setter
    def path(self, path: str) -> None:
        self._path = path

    @property
    def seq(self) -> int:
        """Number of the call among those of its caller."""
        return int(self.path.rpartition(".")[2])

    @property
    def was_called(self) -> bool:
        """True if its function was called."""
        return self.started > 0 and self.begun

    @property
    def may_park(self) -> bool:
        """True if it may wait for days: the tools that asked for it can be begun again."""
        above = self.parent
        while above is not None:
            if not above.repeatable:
                return False
            above = above.parent
        return True

    @property
    def id(self) -> str:
        """Unique in the session."""
        return f"{self.call.run_id or 'direct'}.{self.path}"

    def record(self) -> CallRecord:
        """The call as a frozen record."""
        arguments, digest = self.preview()
        end = self.ended or (time.perf_counter() if self.started else 0.0)
        return CallRecord(
            seq=self.seq,
            tool=self.call.name,
            status=self.status,
            arguments=arguments,
            arguments_sha256=digest,
            duration_ms=round((end - self.started) * 1000, 3) if self.started else 0.0,
            result_bytes=self.result_bytes,
            error_code=self.error.code if self.error else None,
            error=_json.plain_text(self.error.message, 2_000) if self.error else None,
            line=self.call.line,
            parent=self.path.rpartition(".")[0] or None,
            attempts=self.attempt,
            cached=self.cached,
            attachments=self._kept(),
            exit_code=self.said.exit_code if self.said else None,
        )

    def _kept(self) -> tuple[AttachmentRef, ...]:
        found = self.said.attachments if self.said else tuple(self.attached)
        return tuple(ref for ref in found if isinstance(ref, AttachmentRef))

    def shown_arguments(self, arguments: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Arguments, its own if none are given, as a record may have them: no secret, no content.

        Raises:
            JsonError: If an argument has no JSON form.
        """
        shown = self.call.arguments if arguments is None else arguments
        if self.recorded is not None:
            shown = {k: v if k in self.recorded else _sized(v) for k, v in shown.items()}
        if self.redactor:
            shown = self.redactor.data(shown)
        return shown

    def sorted_arguments(self) -> bytes:
        """`shown_arguments` as sorted JSON: what is recorded, and what a digest is made of.

        Raises:
            JsonError: If an argument has no JSON form.
        """
        if self._sorted is not None:
            return self._sorted
        data = _json.dumps(self.shown_arguments(), what="arguments", sort_keys=True)
        if len(data) <= _KEPT_BYTES:
            self._sorted = data
        return data

    def preview(self) -> tuple[str, str]:
        """Arguments as a record shows them, and their digest; made once."""
        if self._preview is None:
            self._preview = _preview(self)
        return self._preview

    def release(self) -> None:
        """Let go of the arguments; what is made of them later is made now."""
        self.preview()
        if self.siblings is not None:
            self.identity()
        self.call, self.arguments = replace(self.call, arguments={}), None

    def fingerprint(self) -> str:
        """Digest of tool and validated arguments, 64 hex digits."""
        if not self.digest:
            self.digest = _json.sha256_of([self.call.name, self.arguments])
        return self.digest

    def identity(self) -> str | None:
        """Digest of the tool and the original arguments; None if they have no JSON form.

        The digest uses the validated arguments. For a nested call it uses those that the calling
        tool sent, which an upgrade of the called tool does not change. It is computed before an
        approver may replace the arguments or the tool's function may modify them.
        """
        if self._identity == "":
            self._identity = None
            sources = (self.arguments, self.call.arguments)
            for arguments in sources if self.parent is None else reversed(sources):
                if self._identity is None and arguments is not None:
                    with suppress(_json.JsonError):
                        self._identity = _json.sha256_of([self.call.name, arguments])
        return self._identity

    def chain(self) -> tuple[Any, ...]:
        """Identity of a nested call within its direct call."""
        if self.parent is None or self.siblings is None:
            return ()
        return (*self.parent.chain(), self.identity(), self.siblings.of(self))

    def key(self) -> str | None:
        """`idempotency_key`, computed once."""
        if not self._key:
            self._key = _key_of(self) or ""
        return self._key or None

    def keep_key(self, key: str) -> None:
        """Adopt the key that an earlier host used for this call."""
        self._key = key


class Occurrences:
    """Tells equal calls of one caller apart: the first, the second ...

    Digests are computed when the first key of a tool is wanted: most calls need none.
    """

    def __init__(self) -> None:
        self._calls: dict[str, list[OpenCall]] = {}
        self._counted: dict[str, Counter[str]] = {}

    def add(self, call: OpenCall) -> None:
        """Note a call, in the order they were made."""
        self._calls.setdefault(call.call.name, []).append(call)

    def of(self, call: OpenCall) -> int:
        """How many calls equal to `call` there were, itself included."""
        if not call.occurrence:
            waiting = self._calls.get(call.call.name, [])
            counted = self._counted.setdefault(call.call.name, Counter())
            for earlier in waiting:
                identity = earlier.identity() or ""
                counted[identity] += 1
                earlier.occurrence = counted[identity]
            waiting.clear()
        return call.occurrence


def idempotency_key(call: OpenCall) -> str | None:
    """Key of a logical call: run, calling execution, tool, arguments, number among equal calls.

    It does not depend on other calls, retries, or hosts. None for a direct call whose caller gave
    none, and where the arguments of the call or of a caller have no JSON form.
    """
    return call.key()


def _key_of(call: OpenCall) -> str | None:
    run_id = call.call.run_id
    if call.call.key is not None or run_id is None or call.siblings is None:
        return call.call.key
    identity = call.identity()
    if identity is None:
        return None
    above = None
    if call.parent is not None:
        # Calls made for a cached result belong to the result, not to the caller that came first.
        making = call.parent.making
        above = _json.sha256_of([run_id, "making", making]) if making else call.parent.key()
        if above is None:
            return None
    return _json.sha256_of([run_id, above, identity, call.siblings.of(call)])


def bounded_arguments(call: OpenCall, arguments: Mapping[str, Any] | None = None) -> bytes:
    """Sorted JSON of arguments as recorded: whole, or cut with size and digest.

    Args:
        call: Whose they are.
        arguments: Others in place of its own.
    """
    try:
        if arguments is None:
            data = call.sorted_arguments()
        else:
            shown = call.shown_arguments(arguments)
            data = _json.dumps(shown, what="arguments", sort_keys=True)
    except _json.JsonError as error:
        return _json.dumps({"not_json": str(error)})
    if len(data) <= _RECORDED_BYTES:
        return data
    preview = data[:_PREVIEW_CHARS].decode(errors="ignore")
    digest = hashlib.sha256(data).hexdigest()
    cut = {"truncated": True, "bytes": len(data), "sha256": digest, "preview": preview}
    return _json.dumps(cut)


def _sized(value: Any) -> Any:
    """What a record has of a value it does not have."""
    if value is None or isinstance(value, bool):
        return value
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else _json.dumps(value)
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _preview(call: OpenCall) -> tuple[str, str]:
    try:
        arguments = call.shown_arguments()
        text = _json.dumps(arguments, what="arguments").decode()
        digest = hashlib.sha256(call.sorted_arguments()).hexdigest()
    except _json.JsonError as error:
        return f"(not JSON: {error})"[:_PREVIEW_CHARS], ""
    return (text if len(text) <= _PREVIEW_CHARS else text[: _PREVIEW_CHARS - 1] + "…"), digest
