"""Elements of a list over the wire of a provider's package."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import anyio
import pytest

from ptc import Session

pytest.importorskip("pydantic_ai", reason="pip install 'ptc-host[models]'")
pytest.importorskip("openai", reason="pip install 'ptc-host[models]'")


class EndlessServer:
    """Streams one element, and then waits until the client closes the connection."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self.is_closed = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            received = b""
            while b'"stream":true' not in received.replace(b" ", b""):
                received += connection.recv(65_536)
            function = {"name": "result", "arguments": '{"elements": [7, 8'}
            call = {"index": 0, "id": "c", "type": "function", "function": function}
            delta = {"role": "assistant", "tool_calls": [call]}
            chunk = {
                "id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": None}],
            }  # fmt: skip
            head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
            connection.sendall(f"{head}data: {json.dumps(chunk)}\n\n".encode())
            while connection.recv(65_536):
                pass
            self.is_closed.set()

    def close(self) -> None:
        """Accept nothing more."""
        self._listener.close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EndlessServer]:
    running = EndlessServer()
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    monkeypatch.setenv("OPENAI_BASE_URL", running.url)
    yield running
    running.close()


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_leaving_the_loop_closes_the_connection(server: EndlessServer) -> None:
    async with Session(model="openai-chat:gpt-4o") as session:
        with anyio.fail_after(30):
            async with session.stream_elements(int, "Count.", mode="tool") as numbers:
                async for number in numbers:
                    assert number == 7
                    break
            closed = await anyio.to_thread.run_sync(server.is_closed.wait, 10)
    assert closed
