"""Transports to MCP servers that are not trusted: what they send is bounded before it is parsed.

The SDK's own transport for processes collects a line of any length, and passes the standard error
of the server on to ours.

Rule 1: a message of more than `MOST_BYTES` ends the connection.
    tests/bindings/test_mcp_tools_hostile.py::test_endless_message_ends_the_connection
Rule 2: a process has no variables of ours but a few harmless ones and those that are named.
    tests/bindings/test_mcp_tools.py::test_process_has_only_the_named_variables
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import Process

from ._mcp_specs import ServerSpec

__all__ = ["MOST_BYTES", "Tail", "http_transport", "process_transport"]

MOST_BYTES = 16 * 1024 * 1024
"""Bytes of one message."""
_TAIL_BYTES = 4_000
_CHUNK = 65_536
_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
_EXIT_SECONDS = 2.0
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""Windows has no other way to end a process."""
_CONNECT_SECONDS = 15.0
_SILENCE_SECONDS = 900.0


class Tail:
    """The end of what a server wrote to standard error."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, data: bytes) -> None:
        """Append `data`, and drop what is too old."""
        self._data = (self._data + data)[-_TAIL_BYTES:]

    @property
    def text(self) -> str:
        """The text so far."""
        return self._data.decode(errors="replace").strip()


@asynccontextmanager
async def process_transport(
    spec: ServerSpec, tail: Tail, on_end: Callable[[str], None]
) -> AsyncIterator[Any]:
    """Start the command of a server, and exchange messages over its standard streams.

    Args:
        spec: The server.
        tail: Receives its standard error.
        on_end: Called with the reason when it ends or sends something unacceptable.

    Raises:
        OSError: If the command cannot be started.
    """
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    process = await anyio.open_process(
        [spec.command, *spec.args],
        env={**inherited, **spec.env},
        cwd=spec.cwd,
        # Of its own, so that Ctrl-C in our terminal does not end it during a call, and so that
        # the processes that it starts can be ended with it.
        start_new_session=True,
    )
    # No await between here and the task group: a cancellation would leave the process behind.
    to_client, inbox = anyio.create_memory_object_stream[Any](0)
    outbox, from_client = anyio.create_memory_object_stream[Any](0)

    async def read() -> None:
        async with to_client:
            reason = "it closed its standard output"
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async for line in _lines(process):
                    if line is None:
                        reason = f"it sent a message of more than {MOST_BYTES:,} bytes"
                        break
                    try:
                        message: Any = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        continue  # a line that was printed by mistake
                    await to_client.send(SessionMessage(message))
            on_end(reason)

    async def write() -> None:
        assert process.stdin is not None  # noqa: S101  # a pipe by default
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            async for item in from_client:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(text.encode() + b"\n")
            return
        on_end("it closed its standard input")
        to_client.close()

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(write)
        group.start_soon(_read_errors, process, tail)
        try:
            yield inbox, outbox
        finally:
            with anyio.CancelScope(shield=True):
                await _stop(process)
            group.cancel_scope.cancel()
            for stream in (to_client, inbox, outbox, from_client):
                stream.close()


async def _lines(process: Process) -> AsyncIterator[bytes | None]:
    """Yield lines of standard output; None, and nothing more, for one that is too long."""
    assert process.stdout is not None  # noqa: S101  # a pipe by default
    parts: list[bytes] = []
    size = 0
    with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        while True:
            head, *rest = (await process.stdout.receive(_CHUNK)).split(b"\n")
            for following in rest:
                yield b"".join([*parts, head])
                parts, size, head = [], 0, following
            parts.append(head)
            size += len(head)
            if size > MOST_BYTES:
                yield None
                return


async def _read_errors(process: Process, tail: Tail) -> None:
    assert process.stderr is not None  # noqa: S101  # a pipe by default
    with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        while True:
            tail.add(await process.stderr.receive(_CHUNK))


async def _stop(process: Process) -> None:
    """Close standard input, then end the process and those that it started."""
    assert process.stdin is not None  # noqa: S101  # a pipe by default
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.aclose()
    for number in (None, signal.SIGTERM, _KILL):
        if number is not None:
            _signal(process, number)
        with anyio.move_on_after(_EXIT_SECONDS):
            # Not wait(): it also waits for the end of pipes that a child may have inherited.
            while process.returncode is None:  # noqa: ASYNC110  # nothing signals it
                await anyio.sleep(0.01)
            break
    # Processes that it left behind.
    _signal(process, _KILL)
    # anyio closes a process only after its pipes, which an orphan may hold open.
    with anyio.move_on_after(_EXIT_SECONDS):
        await process.aclose()


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "nt":  # It has no process groups: children that were left behind live on.
            process.kill()
        else:
            os.killpg(process.pid, number)


@asynccontextmanager
async def http_transport(
    spec: ServerSpec, on_unknown_session: Callable[[], None], auth: Any
) -> AsyncIterator[Any]:
    """Connect to the URL of a server.

    Args:
        spec: The server.
        on_unknown_session: Called when the server does not know the session of a request, as after
            its restart. It has not executed the request then.
        auth: Authenticates requests: an ``httpx2.Auth``, or None.
    """
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def check(response: Any) -> None:
        if response.status_code == 404 and "mcp-session-id" in response.request.headers:
            on_unknown_session()
        # A few bytes could expand to gigabytes, and we accept no encoding.
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.StreamError("a response is compressed although that was not accepted")
        if "text/event-stream" not in response.headers.get("content-type", ""):
            response.stream = _Bounded(response.stream)

    class _Bounded(httpx2.AsyncByteStream):
        """Body of a response that is not a stream of events, whose events the SDK bounds."""

        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in self._stream:
                size += len(chunk)
                if size > MOST_BYTES:
                    msg = f"a response has more than {MOST_BYTES:,} bytes"
                    raise httpx2.StreamError(msg)
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    timeout = httpx2.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS)
    headers = {"Accept-Encoding": "identity", **spec.headers}
    async with (
        httpx2.AsyncClient(
            auth=auth, headers=headers, timeout=timeout, event_hooks={"response": [check]}
        ) as client,
        streamable_http_client(
            spec.url, http_client=client, max_sse_event_size=MOST_BYTES
        ) as streams,
    ):
        yield streams
