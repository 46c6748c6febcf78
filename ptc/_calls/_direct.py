"""Direct calls: those that an application makes without a script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio.lowlevel

from .._core._arguments import mapping_of, nearest
from .._records._result import EventKind, RunEvent
from .._tools._allow import AllowList
from .._tools._catalog import Catalog
from .._tools._tool import ToolCall
from .._tools._tool_result import ToolResult
from ..errors import UsageError
from ._call import OpenCall
from ._dispatch import Dispatch
from ._scope import OnEvent, Shared

__all__ = ["DirectCalls"]


class DirectCalls:
    """Direct calls of a session. They are not counted and not recorded."""

    def __init__(self, catalog: Catalog, shared: Shared, max_result_bytes: int) -> None:
        self._catalog = catalog
        self._shared = shared
        self._max_result_bytes = max_result_bytes
        self._made = 0
        self._dispatch = self._create_dispatch(None)

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        key: str | None = None,
        allowed: AllowList | None = None,
    ) -> OpenCall:
        """Prepare a call. Raises `UsageError` if the tool or an argument is invalid."""
        tools = self._catalog.tools
        if not isinstance(name, str) or name not in tools:
            known = ", ".join(tools) or "none"
            msg = f"there is no tool {name!r:.80}{nearest(name, tools)}; tools: {known}"
            raise UsageError(msg)
        if key is not None and not (isinstance(key, str) and key.strip()):
            msg = f"idempotency_key must be text that is not blank, not {key!r:.80}"
            raise UsageError(msg)
        validated = mapping_of("arguments", arguments, "a dict by parameter")
        self._made += 1
        request = ToolCall(name, validated, seq=self._made, key=key)
        return OpenCall(request, allowed=None if allowed is None else self._catalog.select(allowed))

    async def run(self, call: OpenCall) -> ToolResult:
        """Make a call. A failure is in the result."""
        # A cancelled caller makes no call, however short the tool.
        await anyio.lowlevel.checkpoint_if_cancelled()
        return await self._dispatch.run(call)

    async def run_watched(self, call: OpenCall, emit: Callable[[RunEvent], None]) -> RunEvent:
        """Make a call and report its events. Returns the last event, with the `ToolResult`."""

        def emit_call(kind: EventKind, about: OpenCall, data: Any) -> None:
            emit(RunEvent(kind, None, call=about.record(), value=data))

        dispatch = self._create_dispatch(emit_call)
        dispatch.emit("tool_started", call)
        outcome = await dispatch.run(call)
        dispatch.emit("tool_finished", call)
        return RunEvent("finished", None, call=call.record(), value=outcome)

    def _create_dispatch(self, on_event: OnEvent | None) -> Dispatch:
        return Dispatch(
            self._catalog.tools,
            self._shared,
            max_result_bytes=self._max_result_bytes,
            on_event=on_event,
        )
