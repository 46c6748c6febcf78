"""Direct calls: those that an application makes without a script."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel

from .._core._arguments import mapping_of, nearest, parts_of
from .._records._limits import Limits
from .._records._result import EventKind, RunEvent
from .._schema._copy import copy_data, is_flat
from .._tools._allow import Allow, AllowList
from .._tools._catalog import Catalog
from .._tools._names import list_known
from .._tools._reach import Reach
from .._tools._tool import Tool, ToolCall
from .._tools._tool_result import ToolResult
from ..errors import SessionClosedError, ToolError, UsageError
from ._call import OpenCall
from ._call_journal import CallJournal
from ._dispatch import Dispatch
from ._execution import RunMemory
from ._recorder import SuspendedError
from ._scope import Shared
from ._subscribers import EventSink, join_subscribers
from ._timeout import CallTimeout

__all__ = ["DirectCalls", "HostTool"]

HostTool: TypeAlias = Callable[[AllowList | None, EventSink | None], Tool]
"""Creates a tool that applications may call, and scripts and other tools may not.

It receives the allow-list of the call, and the subscriber of a streamed one."""


class DirectCalls:
    """Direct calls of a session, under the limits of one call. They are not counted."""

    def __init__(
        self,
        catalog: Catalog,
        shared: Shared,
        limits: Limits,
        *,
        on_event: EventSink | None = None,
        host_tools: Mapping[str, HostTool] | None = None,
        journal: CallJournal | None = None,
    ) -> None:
        """Prepare to make calls.

        Args:
            catalog: Tools of the session.
            shared: State that its calls share.
            limits: Limits of a call: its time, and the size of its result.
            on_event: Receives the events of all calls.
            host_tools: Tools of the host itself. They have their own limits, and give way to a tool
                of the session that has the same name.
            journal: Records the calls of the session's tools. None: they are not recorded.
        """
        self._catalog = catalog
        self._shared = shared
        self._limits = limits
        self._on_event = on_event
        own = {} if host_tools is None else host_tools
        self._host_tools = {name: own[name] for name in own if name not in catalog.tools}
        self._journal = journal
        self._recording: set[anyio.CancelScope] = set()
        self._idle: anyio.Event | None = None
        self._memory = RunMemory()
        self._call_timeout = CallTimeout(limits.tool_timeout_ms)
        self._made = 0
        self._dispatch = self._create_dispatch(on_event)

    async def run(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        key: str | None = None,
        allowed: AllowList | None = None,
    ) -> ToolResult:
        """Make a call. A failure is in the result.

        Raises:
            UsageError: If the tool or an argument is invalid.
        """
        if allowed is not None:
            # Read twice, and may be a generator.
            allowed = parts_of("allowed_tools", allowed, "a list of names of tools")
        call = self._open(name, arguments, key, allowed, None)
        if name in self._host_tools:
            return await _run(self._create_dispatch(self._on_event, host_tool=True), call)
        if self._journal is None:
            return await _run(self._dispatch, call)
        return await self._run_recorded(self._journal, self._on_event, call, allowed)

    async def stream(
        self, name: str, arguments: Mapping[str, Any] | None, emit: EventSink
    ) -> RunEvent:
        """Make a call and report its events. Returns the last event, with the `ToolResult`.

        Raises:
            UsageError: If the tool or an argument is invalid.
        """
        call = self._open(name, arguments, None, None, emit)
        subscriber = join_subscribers(self._on_event, emit)
        if name in self._host_tools or self._journal is None:
            dispatch = self._create_dispatch(subscriber, host_tool=name in self._host_tools)
            outcome = await _run(dispatch, call)
        else:
            outcome = await self._run_recorded(self._journal, subscriber, call, None)
        return RunEvent("finished", call.call.run_id, call=call.record(), value=outcome)

    async def close(self) -> None:
        """Cancel the recorded calls, and wait until their end is recorded."""
        for scope in self._recording:
            scope.cancel()
        if self._recording:
            self._idle = anyio.Event()
            await self._idle.wait()

    async def _run_recorded(
        self,
        journal: CallJournal,
        on_event: EventSink | None,
        call: OpenCall,
        allowed: AllowList | None,
    ) -> ToolResult:
        """Make a call and record it; `close` cancels it.

        Raises:
            JournalError: If its record cannot be created.
            SessionClosedError: If the session was closed during the call.
        """
        scope = anyio.CancelScope()
        self._recording.add(scope)
        try:
            with scope:
                return await self._record(journal, on_event, call, allowed)
        finally:
            self._recording.discard(scope)
            if not self._recording and self._idle is not None:
                self._idle.set()
        msg = f"the session was closed during the call of {call.call.name}"
        raise SessionClosedError(msg)

    async def _record(
        self,
        journal: CallJournal,
        on_event: EventSink | None,
        call: OpenCall,
        allowed: AllowList | None,
    ) -> ToolResult:
        await anyio.lowlevel.checkpoint_if_cancelled()
        dispatch = self._create_dispatch(on_event)
        dispatch.admit(call)
        catalog = self._catalog
        table = catalog.table_of_all() if allowed is None else catalog.table(allowed)
        has_rules = any(isinstance(entry, Allow) for entry in allowed or ())
        dispatch.recorder = recorder = journal.start(call, table, has_rules=has_rules)
        result: ToolResult | None = None
        began = time.perf_counter()
        try:
            result = made = await _run(dispatch, call)
            ok, body = dispatch.answer(call, made)
            dispatch.record(call, ok, body, round(time.perf_counter() - began, 6))
            return made
        except SuspendedError:
            run_id = call.call.run_id
            msg = (
                f"{call.call.name} is awaiting a decision in run {run_id}: decide with "
                f"session.approve({run_id!r}, by=..., resume=True)"
            )
            return ToolResult(call.call.name, error=_paused(msg, call))
        finally:
            with anyio.CancelScope(shield=True):
                if result is None and not recorder.pending:
                    dispatch.record_cancellation(call)
                await journal.finish(
                    recorder, result, [call, *dispatch.calls_below(1, call.call.run_id)]
                )

    def _open(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        key: str | None,
        allowed: AllowList | None,
        emit: EventSink | None,
    ) -> OpenCall:
        """Prepare a call. Raises `UsageError` if the tool or an argument is invalid."""
        tools = self._catalog.tools
        host_tool = self._host_tools.get(name) if isinstance(name, str) else None
        if host_tool is None and (not isinstance(name, str) or name not in tools):
            names = [*tools, *self._host_tools]
            msg = f"there is no tool {name!r:.80}{nearest(name, names)}; tools: {list_known(names)}"
            raise UsageError(msg)
        if key is not None and not (isinstance(key, str) and key.strip()):
            msg = f"idempotency_key must be text that is not blank, not {key!r:.80}"
            raise UsageError(msg)
        own = mapping_of("arguments", arguments, "a dict by parameter")
        if not is_flat(own):
            own = copy_data(own)
        if host_tool is None and self._journal is not None:
            # A run of its own, in which it is the first call.
            request = ToolCall(name, own, seq=1, run_id=uuid.uuid4().hex, key=key)
        else:
            self._made += 1
            request = ToolCall(name, own, seq=self._made, key=key)
        if host_tool is not None:
            return OpenCall(request, reach=Reach({name: host_tool(allowed, emit)}))
        return OpenCall(
            request, reach=None if allowed is None else Reach(self._catalog.table(allowed).tools)
        )

    def _create_dispatch(self, on_event: EventSink | None, *, host_tool: bool = False) -> Dispatch:
        return Dispatch(
            self._catalog.tools,
            self._shared,
            limits=self._limits,
            call_timeout=None if host_tool else self._call_timeout,
            on_event=None if on_event is None else partial(_emit, on_event),
            memory=self._memory,
        )


async def _run(dispatch: Dispatch, call: OpenCall) -> ToolResult:
    # A cancelled caller makes no call, however short the tool.
    await anyio.lowlevel.checkpoint_if_cancelled()
    if dispatch.on_event is None:
        return dispatch.bound(call, await dispatch.run(call))
    dispatch.emit("tool_started", call)
    try:
        return dispatch.bound(call, await dispatch.run(call))
    finally:
        dispatch.emit("tool_finished", call)


def _emit(on_event: EventSink, kind: EventKind, call: OpenCall, data: Any) -> None:
    on_event(RunEvent(kind, call.call.run_id, call=call.record(), value=data))


def _paused(message: str, call: OpenCall) -> ToolError:
    details: dict[str, object] = {"run_id": call.call.run_id}
    return ToolError(message, code="paused", tool=call.call.name, details=details)
