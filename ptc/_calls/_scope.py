"""State that calls share: of a session (`Shared`), and of one caller in it (`Scope`)."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from .._core._arguments import nearest, parts_of, path_of
from .._dataclass import dataclass
from .._protected import liftable
from .._records._content import Attachment, AttachmentRef
from .._records._limits import Limits
from .._records._result import CallRecord, EventKind, Failure, RunResult
from .._schema._copy import copy_data
from .._tools._approval import Approver
from .._tools._context import ToolContext
from .._tools._environment import Environment
from .._tools._names import list_known
from .._tools._tool import Tool
from .._tools._untrusted import UntrustedMode
from ..artifacts._session_artifacts import SessionArtifacts
from ..errors import ToolError, UsageError
from ..journal._documents import Documents
from ..journal._viewers import Viewers
from ._attachments import AttachmentStore
from ._breaker import Circuit
from ._budget import Budget
from ._call import OpenCall
from ._deadlock import WaitGraph
from ._record_filter import RecordFilter
from ._recorder import RunRecorder
from ._result_cache import ResultCache
from ._timeout import CallTimeout

if TYPE_CHECKING:
    from ..models._open import OpenModels

__all__ = [
    "AfterSideEffect",
    "OnEvent",
    "RunScript",
    "Scope",
    "Shared",
    "validate_protected",
    "validate_unprotected",
]

AfterSideEffect: TypeAlias = Callable[[CallRecord], Awaitable[None]]
"""Called with the record of a call."""
OnEvent: TypeAlias = Callable[[EventKind, OpenCall, Any], None]
"""Subscriber: receives the kind of a `RunEvent`, the call, and data."""


class RunScript(Protocol):
    """Runs a script whose tools are those of a running tool call."""

    async def __call__(
        self, call: ToolContext, limits: Limits, options: Mapping[str, Any]
    ) -> RunResult: ...


@dataclass(slots=True)
class Shared:
    """State shared by all calls of a session."""

    root: Path
    """Folder that confines the tools."""
    known: Mapping[str, Tool]
    """All tools of the session. A tool outside of the allow-list is refused by another message than
    an unknown one."""
    attachments: AttachmentStore
    """Store of the files that tools make."""
    artifacts: SessionArtifacts
    """Store of values over their limit; it also finds attachments."""
    unprotected: frozenset[str] = frozenset()
    """Protected paths that the session has unprotected."""
    protected: frozenset[str] = frozenset()
    """Further protected files and folders, relative to the root."""
    environment: Environment = field(default_factory=Environment)
    """Values of the tools' ``env=``, and their redactor."""
    after_side_effect: AfterSideEffect | None = None
    """Called and awaited after a call with a side effect has succeeded."""
    approver: Approver | None = None
    """Decides on calls that require approval; None: they are rejected."""
    results: ResultCache = field(default_factory=ResultCache)
    """Results cached for the session."""
    circuits: dict[str, Circuit] = field(default_factory=dict)
    """Breakers by name of tool."""
    untrusted: UntrustedMode | None = None
    """Treatment of texts for a model by tools that declare none."""
    wait_graph: WaitGraph = field(default_factory=WaitGraph)
    """Deadlock detection among calls that wait for one another."""
    open_models: Callable[[], OpenModels] | None = None
    """Returns the language models for tools; None: there are none."""
    documents: Callable[[], Documents] | None = None
    """Opens the documents of the journal; None: there is no journal."""
    viewers: Viewers | None = None
    """Pages that show the runs of the journal; None: there is no journal."""
    run_script: RunScript | None = None
    """Runs a script for a tool; None: the session runs no scripts."""

    def circuit(self, tool: Tool) -> Circuit | None:
        """Return the breaker of a tool; None if it has none."""
        if tool.retry is None or tool.retry.breaker_threshold is None:
            return None
        return self.circuits.setdefault(tool.name, Circuit(tool.retry))


@dataclass(slots=True)
class Scope:
    """Tools, limits, record and subscriber of one caller: a run, or an application."""

    tools: Mapping[str, Tool]
    """Allow-list of the caller."""
    shared: Shared
    environment: Environment
    """Values of the tools' ``env=`` for this caller."""
    limits: Limits
    """Limits of the run, or of a direct call."""
    budget: Budget | None = None
    """Remaining calls; None: they are not counted."""
    call_timeout: CallTimeout | None = None
    """Time of one call with all its attempts; None: only the tool's own time-out applies."""
    discovery: Callable[[], Mapping[str, Tool]] | None = None
    """Creates the tools of `ctx` itself, on first use."""
    on_event: OnEvent | None = None
    """Subscriber; None: no events are sent."""
    recorder: RunRecorder | None = None
    """Recorder of the run; None: nothing is recorded."""
    on_killed: Callable[[Failure], None] | None = None
    """Finishes the run, because the process of a script that a tool ran was killed; None: no run.
    """
    _discovered: Mapping[str, Tool] | None = None
    _filters: dict[str, RecordFilter] = field(default_factory=dict)
    """By name of tool; ``""`` for tools without `unrecorded` parameters."""

    def tools_for(self, call: OpenCall) -> Mapping[str, Tool]:
        """Return the allow-list of a call."""
        return self.tools if call.reach is None else call.reach.tools

    def find_tool(self, call: OpenCall) -> Tool:
        """Look up the tool of a call.

        Raises:
            ToolError: ``not_allowed`` or ``unknown_tool``.
        """
        name, tools = call.call.name, self.tools_for(call)
        tool = tools.get(name)
        if tool is None and self.discovery is not None:
            if self._discovered is None:
                self._discovered = self.discovery()
            tool = self._discovered.get(name)
        if tool is not None:
            return tool
        allowed = list_known(tools)
        if name in self.shared.known:
            msg = f"tool {name!r} is not allowed in this run; allowed: {allowed}"
            raise ToolError(msg, code="not_allowed", tool=name)
        msg = f"there is no tool {name!r}{nearest(name, tools)}; allowed: {allowed}"
        raise ToolError(msg, code="unknown_tool", tool=name)

    def protect_record(self, call: OpenCall) -> None:
        """Set up redaction of a call, before its first record is made."""
        # Any tool of the session: a refused call is recorded too.
        tool = self.shared.known.get(call.call.name)
        name = tool.name if tool is not None and tool.unrecorded else ""
        found = self._filters.get(name)
        if found is None:
            names = frozenset(tool.parameter_names) - tool.unrecorded if tool and name else None
            found = self._filters[name] = RecordFilter(self.environment.redactor, names)
        call.record_filter = found

    def emit(self, kind: EventKind, call: OpenCall, data: Any = None) -> None:
        """Send an event to the subscriber, who may modify its data."""
        if self.on_event is not None:
            self.protect_record(call)
            self.on_event(kind, call, copy_data(data))

    def store(self, item: Attachment | AttachmentRef) -> AttachmentRef:
        """Store an attachment, or validate a reference to one.

        Raises:
            ToolError: ``attachment_failed`` or ``bad_attachment``.
        """
        store = self.shared.attachments
        if isinstance(item, AttachmentRef):
            item = store.validate(item)
        elif not isinstance(item, Attachment):
            msg = f"an attachment must be an Attachment or AttachmentRef, not {item!r:.80}"
            raise ToolError(msg, code="bad_attachment")
        text = self.environment.redactor.text
        safe = replace(item, name=text(item.name)[:255], description=text(item.description))
        return safe if isinstance(safe, AttachmentRef) else store.save(safe)


def validate_unprotected(names: Iterable[str]) -> frozenset[str]:
    """Return `names` if each is a protected path that a session may lift.

    Raises:
        UsageError: If one is not.
    """
    lifted = frozenset(parts_of("unprotected", names, "a list of names"))
    known = liftable() if lifted else ()
    for name in lifted:
        if name not in known:
            msg = f"unprotected: {name!r} is not a protected path{nearest(name, known)}"
            raise UsageError(f"{msg}; docs/security.md lists them")
    return lifted


def validate_protected(root: Path, paths: Iterable[str | Path]) -> frozenset[str]:
    """Return the paths that lie in `root`, relative to it; also those that links lead to.

    Args:
        root: Absolute and resolved.
        paths: Files and folders, which need not exist. Relative ones are relative to `root`.

    Raises:
        UsageError: If one is not a path, or is the root.
    """
    found: set[str] = set()
    for path in parts_of("protected", paths, "a list of paths"):
        plain = Path(os.path.normpath(root / path_of("protected", path)))
        parent = plain.parent.resolve() / plain.name
        for place in {plain, parent, plain.resolve()}:
            if place == root:
                msg = "protected: the root itself cannot be protected; use tools that only read"
                raise UsageError(msg)
            if place.is_relative_to(root):
                found.add(place.relative_to(root).as_posix())
    return frozenset(found)
