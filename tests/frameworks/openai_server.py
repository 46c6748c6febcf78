"""A server on loopback that answers requests of the OpenAI SDK with prepared responses.

It refuses a request that OpenAI would refuse: `openai_rules`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .openai_rules import chat_problems, response_problems

Answer = Callable[[dict[str, Any]], dict[str, Any]]


class Recorded:
    """Requests that a server received, and its address."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[dict[str, Any]] = []

    def client(self) -> Any:
        from openai import AsyncOpenAI

        return AsyncOpenAI(api_key="key", base_url=self.url, max_retries=0)


@contextmanager
def serve(*answers: Answer) -> Iterator[Recorded]:
    """Answer the n-th request with the n-th function of its JSON body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            recorded.requests.append(body)
            problems = list((chat_problems if "messages" in body else response_problems)(body))
            if problems:
                data = json.dumps({"error": {"message": "; ".join(problems)}}).encode()
            else:
                data = json.dumps(answers[len(recorded.requests) - 1](body)).encode()
            self.send_response(400 if problems else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the output of the tests clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    recorded = Recorded(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
        yield recorded
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def response(*output: dict[str, Any]) -> Answer:
    """Answer a request of the Responses API."""
    return lambda body: {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": body["model"],
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def completion(*calls: dict[str, Any], text: str | None = None) -> Answer:
    """Answer a request of the Chat Completions API."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": text,
        "refusal": None,
        "annotations": [],
    }
    if calls:
        message["tool_calls"] = list(calls)
    return lambda body: {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
    }


def called(name: str, arguments: Any, call_id: str = "call_1", **more: Any) -> dict[str, Any]:
    """Make an item of a response that calls a function."""
    sent = arguments if isinstance(arguments, str) else json.dumps(arguments)
    item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name}
    return {**item, "arguments": sent, "status": "completed", **more}


def chat_called(name: str, arguments: Any, call_id: str = "call_1") -> dict[str, Any]:
    """Make a call of a completion."""
    sent = arguments if isinstance(arguments, str) else json.dumps(arguments)
    function = {"name": name, "arguments": sent}
    return {"id": call_id, "type": "function", "function": function}


def said(text: str = "done") -> dict[str, Any]:
    """Make an item of a response with text."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
