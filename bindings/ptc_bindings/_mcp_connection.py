"""Connections to MCP servers: start, listing of tools, calls, and one new start after an end.

All of it runs in the event loop of `ptc_bindings.mcp_tools`.

Rule 1: a call that may have reached the server is never sent again.
    tests/bindings/test_mcp_tools.py::test_call_under_way_when_the_server_dies_is_not_repeated
Rule 2: the tools are listed once. What a server lists later changes nothing.
    tests/bindings/test_mcp_tools_hostile.py::test_tool_that_is_added_later_cannot_be_called
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from anyio.abc import TaskGroup

import ptc
from ptc._core._redact import Redactor

from ._mcp_oauth import oauth_of
from ._mcp_specs import ServerSpec
from ._mcp_text import clean_text
from ._mcp_transport import Tail, http_transport, process_transport

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp_types import CallToolResult, Tool

__all__ = ["Server"]

START_SECONDS = 30.0
"""Time in which a server must start, answer and list its tools."""
CALL_SECONDS = 3_600.0
"""Time-out of a call for which neither the tool nor the run has a shorter one."""
_RETRY_SECONDS = 5.0
"""Time after a failed start in which no other is tried."""
_CLOSE_SECONDS = 10.0
_MOST_PAGES = 100
_MOST_TOOLS = 1_000
_MOST_ERROR_CHARS = 2_000


class OnProgress(Protocol):
    """Receives the progress of a call."""

    async def __call__(
        self, progress: float, total: float | None, message: str | None
    ) -> None: ...  # as the SDK calls it


class _NotSent(Exception):
    """The server has not received the call."""


class Server:
    """One server: its present connection, and the next one after that ended."""

    def __init__(self, spec: ServerSpec, group: TaskGroup) -> None:
        """Create a server that is not connected.

        Args:
            spec: Its address.
            group: Runs its connections.
        """
        self.spec = spec
        self.redactor = Redactor(spec.secrets)
        # One for all connections: a new one of the same server has the tokens of the last.
        self._auth = spec.auth
        if spec.oauth is not None:
            self._auth = oauth_of(spec.url, spec.oauth, self._add_token)
        self._tokens: list[str] = []
        self._group = group
        self._link: _Link | None = None
        self._lock = anyio.Lock()
        self._failed_at = -_RETRY_SECONDS

    def _add_token(self, token: str) -> None:
        # The latest ones: a server that runs for months gets many.
        self._tokens = [token, *self._tokens[:7]]
        self.redactor = Redactor(
            {**self.spec.secrets, **{f"token {n}": t for n, t in enumerate(self._tokens)}}
        )

    async def open(self) -> list[Tool]:
        """Connect and list the tools.

        Raises:
            SetupError: If the server cannot be started, or does not answer correctly.
        """
        link = await self._connect()
        listed: list[Tool] = []
        try:
            with anyio.fail_after(START_SECONDS):
                listed = await link.list_tools()
        except TimeoutError:
            raise self._failure(link, f"it listed no tools in {START_SECONDS:g} s") from None
        except Exception as error:  # noqa: BLE001  # the SDK raises whatever a server provokes
            raise self._failure(link, describe(error)) from None
        return listed

    async def call(
        self, name: str, arguments: dict[str, Any], on_progress: OnProgress
    ) -> CallToolResult:
        """Call a tool. A server that has ended is started again, once for each call.

        Raises:
            ToolError: If the call fails, or its outcome is unknown.
        """
        for attempt in (1, 2):
            link = await self._live_link()
            try:
                return await link.call(name, arguments, on_progress)
            except _NotSent as error:
                link.stop()
                if attempt == 2:
                    msg = f"it cannot be reached, so the call was not made: {error}"
                    raise ptc.ToolError(msg, code="unavailable", retryable=True) from None
        raise AssertionError

    async def close(self) -> None:
        """End the connection, and the process of a command."""
        if self._link is not None:
            self._link.stop()
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await self._link.ended.wait()

    def error(self, text: str, code: str, *, retryable: bool = False) -> ptc.ToolError:
        """Build an error of a call, without secrets."""
        safe = self.redactor.error_text(clean_text(text, _MOST_ERROR_CHARS))
        msg = f"MCP server {self.spec.name!r}: {safe}"
        return ptc.ToolError(msg, code=code, retryable=retryable)

    async def _live_link(self) -> _Link:
        if self._link is not None and self._link.is_alive:
            return self._link
        async with self._lock:
            # Another call may have connected meanwhile.
            if self._link is not None and self._link.is_alive:
                return self._link
            if anyio.current_time() - self._failed_at < _RETRY_SECONDS:
                msg = "it ended and could not be started again; the call was not made"
                raise ptc.ToolError(msg, code="unavailable", retryable=True)
            try:
                return await self._connect()
            except ptc.SetupError as error:
                self._failed_at = anyio.current_time()
                msg = f"the call was not made: {error}"
                raise ptc.ToolError(msg, code="unavailable", retryable=True) from None

    async def _connect(self) -> _Link:
        if self._link is not None:
            self._link.stop()
            with anyio.move_on_after(_CLOSE_SECONDS):
                await self._link.ended.wait()
        link = self._link = _Link(self.spec, self._auth)
        self._group.start_soon(link.run)
        try:
            with anyio.fail_after(START_SECONDS):
                await link.ready.wait()
        except TimeoutError:
            link.stop()
            raise self._failure(link, f"it did not answer in {START_SECONDS:g} s") from None
        except BaseException:
            link.stop()
            raise
        if not link.is_alive:
            with anyio.move_on_after(1):
                await link.ended.wait()
            raise self._failure(link, link.reason)
        return link

    def _failure(self, link: _Link, reason: str) -> ptc.SetupError:
        text = f"MCP server {self.spec.name!r} ({self.spec.address}) does not work: {reason}"
        if link.tail.text:
            text += f"\nThe end of its standard error:\n{link.tail.text}"
        return ptc.SetupError(self.redactor.error_text(clean_text(text, 6_000)))


class _Link:
    """One connection, from its start to its end."""

    def __init__(self, spec: ServerSpec, auth: Any) -> None:
        self.tail = Tail()
        self.ready = anyio.Event()
        """Set when it is connected, or cannot be."""
        self.ended = anyio.Event()
        self.reason = ""
        """Reason of the end."""
        self._spec = spec
        self._auth = auth
        self._session: ClientSession | None = None
        self._stop = anyio.Event()
        self._calls: set[anyio.CancelScope] = set()
        self._session_unknown = False

    @property
    def is_alive(self) -> bool:
        """True while it is connected, as far as is known."""
        return self._session is not None and not self._stop.is_set()

    def stop(self, reason: str = "") -> None:
        """End it; calls under way have an unknown outcome."""
        self.reason = self.reason or reason
        self._stop.set()
        self.ready.set()
        for scope in self._calls:
            scope.cancel()

    async def run(self) -> None:
        """Connect, and stay connected until `stop` or an error."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._hold)
                await self._stop.wait()
                # Longer than the transport takes to end a process; nothing to wait for before.
                grace = 0.0 if self._session is None else _CLOSE_SECONDS
                group.cancel_scope.deadline = anyio.current_time() + grace
        except Exception as error:  # noqa: BLE001  # of the server, the network or the SDK
            self.reason = self.reason or describe(error)
        finally:
            self.stop()
            self.ended.set()

    async def _hold(self) -> None:
        try:
            async with self._client() as client:
                self._session = client.session
                self.ready.set()
                await self._stop.wait()
        finally:
            self.stop()

    def _client(self) -> AbstractAsyncContextManager[Any]:
        from mcp import Client

        if self._spec.connect is not None:
            return self._spec.connect()
        target = self._spec.server
        if self._spec.command:
            target = process_transport(self._spec, self.tail, self.stop)
        elif self._spec.url:
            target = http_transport(self._spec, self._lose_session, self._auth)
        # Nothing is declared that a server could ask for: no sampling, no forms, no roots.
        return Client(target, cache=None)

    def _lose_session(self) -> None:
        self._session_unknown = True

    async def list_tools(self) -> list[Tool]:
        """List all tools, page by page. Raises `ValueError` if there are too many."""
        from mcp_types import PaginatedRequestParams

        assert self._session is not None  # noqa: S101  # the caller awaited `ready`
        found: list[Tool] = []
        params = PaginatedRequestParams()
        for _ in range(_MOST_PAGES):
            page = await self._session.list_tools(params=params)
            found += page.tools
            if len(found) > _MOST_TOOLS:
                break
            if not page.next_cursor:
                return found
            params = PaginatedRequestParams(cursor=page.next_cursor)
        msg = f"it lists more than {_MOST_TOOLS:,} tools or {_MOST_PAGES} pages"
        raise ValueError(msg)

    async def call(
        self, name: str, arguments: dict[str, Any], on_progress: OnProgress
    ) -> CallToolResult:
        """Send a call, and wait for its result.

        Raises:
            _NotSent: If the server has not received it.
            ToolError: If it has, and fails, or ended.
        """
        if not self.is_alive:
            raise _NotSent(self.reason)
        self._session_unknown = False
        scope = anyio.CancelScope()
        self._calls.add(scope)
        try:
            with scope:
                return await self._send(name, arguments, on_progress)
        finally:
            self._calls.discard(scope)
        # The scope was cancelled by `stop`.
        raise await self._explain_end()

    async def _explain_end(self) -> Exception:
        """Return the error of a call during which the connection ended."""
        alone = len(self._calls) <= 1
        self.stop()
        with anyio.move_on_after(1, shield=True):
            await self.ended.wait()
        # Of several calls, it is unknown which one was refused.
        if alone and self.reason.startswith(_REFUSED):
            return _NotSent(self.reason)
        return _lost(self.reason)

    async def _send(
        self, name: str, arguments: dict[str, Any], on_progress: OnProgress
    ) -> CallToolResult:
        from mcp.shared.exceptions import MCPError
        from mcp_types import (
            CONNECTION_CLOSED,
            CallToolRequest,
            CallToolRequestParams,
            CallToolResult,
            InputRequiredResult,
        )
        from pydantic import TypeAdapter, ValidationError

        assert self._session is not None  # noqa: S101  # see `is_alive`
        try:
            # Not `call_tool`: it validates results with regular expressions of the server, which
            # can keep Python busy for ever, and it lists the tools again.
            result: Any = await self._session.send_request(
                CallToolRequest(params=CallToolRequestParams(name=name, arguments=arguments)),
                TypeAdapter(CallToolResult | InputRequiredResult),
                request_read_timeout_seconds=CALL_SECONDS,
                progress_callback=on_progress,
            )
        except MCPError as error:
            if self._session_unknown:
                raise _NotSent("it does not know the session any more") from None
            if error.error.code == CONNECTION_CLOSED:
                raise await self._explain_end() from None
            raise ptc.ToolError(str(error)) from None
        except (ValidationError, ValueError, RuntimeError) as error:
            msg = f"its answer is not a result of the protocol: {describe(error)}"
            raise ptc.ToolError(msg, code="bad_result") from None
        if isinstance(result, InputRequiredResult):
            msg = "it asks for input of a user during the call, which ptc does not support"
            raise ptc.ToolError(msg, code="unsupported")
        return result  # type: ignore[no-any-return]  # one of two types, by its validation


_REFUSED = "ConnectError"
"""Start of the reason of a connection that was refused, so that nothing was sent."""


def _lost(reason: str) -> ptc.ToolError:
    msg = (
        f"the connection ended during the call ({reason or 'closed'}), so it is unknown whether "
        "the call had an effect. It was not repeated: check the state before you do"
    )
    return ptc.ToolError(msg, code="connection_lost")


def describe(error: BaseException) -> str:
    """Describe an error, and the first one of a group, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return "the command or its folder does not exist"
    with suppress(ValueError):
        text = " ".join(str(error).split())[:500]
        return f"{type(error).__name__}: {text}" if text else type(error).__name__
    return type(error).__name__
