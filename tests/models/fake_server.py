"""A server on this machine that speaks as OpenAI's and Anthropic's do, and fails as it is told to.

It serves ``/v1/chat/completions``, ``/v1/responses`` and ``/v1/messages``, whole and as server-sent
events, one `Step` a request.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Literal

__all__ = ["FakeServer", "Step"]


@dataclass(frozen=True)
class Step:
    """Reaction of the server to one request."""

    args: str | None = None
    """Arguments of a call of the tool that was offered."""
    text: str = ""
    thinking: str = ""
    finish: Literal["stop", "length"] = "stop"
    status: int = 200
    error: str = "the server said no"
    end: Literal["whole", "closed", "broken"] = "whole"
    """``closed``: the stream ends where it is, politely, without a reason. ``broken``: the
    connection does, inside of the body."""
    retry_after_ms: int = 1
    """Time to wait that a failure names."""


@dataclass
class Seen:
    """A request."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)
    """By name in small letters."""


@dataclass
class FakeServer:
    """Use it as a context manager; `requests` has what was asked."""

    steps: list[Step]
    react: Callable[[Seen], Step] | None = None
    """Makes the steps that `steps` lacks. It runs in the threads of the requests."""
    requests: list[Seen] = field(default_factory=list)
    url: str = ""

    def __enter__(self) -> FakeServer:
        server = self
        lock = threading.Lock()

        class Handler(_Handler):
            def next_step(self, seen: Seen) -> Step:
                with lock:
                    server.requests.append(seen)
                    if server.steps:
                        return server.steps.pop(0)
                return Step(status=418) if server.react is None else server.react(seen)

        self._http = _Server(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Server(ThreadingHTTPServer):
    # Many clients may connect at once.
    request_queue_size = 512


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def next_step(self, seen: Seen) -> Step:
        raise NotImplementedError

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        step = self.next_step(Seen(self.path, body, headers))
        api = _APIS[self.path.split("?")[0]]
        if step.status != 200:
            error = {"type": "error", "error": {"type": "some_error", "message": step.error}}
            self._send(step, json.dumps(error).encode())
        elif body.get("stream"):
            self._stream(api.events(step, body), step)
        else:
            self._send(step, json.dumps(api.whole(step, body)).encode())

    def _send(self, step: Step, data: bytes) -> None:
        self.send_response(step.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.send_header("retry-after-ms", str(step.retry_after_ms))
        self.end_headers()
        if step.end == "broken":
            data = data[: len(data) // 2]
            self.close_connection = True
        self.wfile.write(data)

    def _stream(self, events: Iterator[dict[str, Any] | None], step: Step) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events:
            if event is None:
                self._chunk(b"data: [DONE]\n\n")
                continue
            name = f"event: {event['type']}\n" if "type" in event else ""
            self._chunk(f"{name}data: {json.dumps(event)}\n\n".encode())
        if step.end == "broken":
            self.close_connection = True
        else:
            self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        """One chunk of RFC 9112, 7.1; the empty one is the last."""
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def _pieces(text: str) -> list[str]:
    return [text[start : start + 5] for start in range(0, len(text), 5)]


class _Chat:
    """https://platform.openai.com/docs/api-reference/chat."""

    usage: ClassVar = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}

    @staticmethod
    def _finish(step: Step) -> str:
        if step.finish == "length":
            return "length"
        return "tool_calls" if step.args is not None else "stop"

    @staticmethod
    def _base(body: dict[str, Any], kind: str) -> dict[str, Any]:
        return {"id": "c1", "object": kind, "created": 1, "model": body["model"]}

    def whole(self, step: Step, body: dict[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": step.text or None}
        if step.thinking:
            message["reasoning_content"] = step.thinking
        if step.args is not None:
            function = {"name": body["tools"][0]["function"]["name"], "arguments": step.args}
            message["tool_calls"] = [{"id": "t1", "type": "function", "function": function}]
        choice = {"index": 0, "message": message, "finish_reason": self._finish(step)}
        base = self._base(body, "chat.completion")
        return {**base, "choices": [choice], "usage": self.usage}

    def events(self, step: Step, body: dict[str, Any]) -> Iterator[dict[str, Any] | None]:
        base = self._base(body, "chat.completion.chunk")

        def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
            return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

        yield chunk({"role": "assistant", "content": ""})
        if step.thinking:
            yield chunk({"reasoning_content": step.thinking})
        for piece in _pieces(step.text):
            yield chunk({"content": piece})
        if step.args is not None:
            function = {"name": body["tools"][0]["function"]["name"], "arguments": ""}
            call = {"index": 0, "id": "t1", "type": "function", "function": function}
            yield chunk({"tool_calls": [call]})
            for piece in _pieces(step.args):
                yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        if step.end == "whole":
            yield chunk({}, self._finish(step))
            yield {**base, "choices": [], "usage": self.usage}
            yield None


class _Responses:
    """https://platform.openai.com/docs/api-reference/responses."""

    def _items(self, step: Step, body: dict[str, Any]) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        if step.thinking:
            summary = [{"type": "summary_text", "text": step.thinking}]
            items.append({"type": "reasoning", "id": "r1", "summary": summary})
        if step.text:
            content = [{"type": "output_text", "text": step.text, "annotations": []}]
            items.append(
                {
                    "type": "message",
                    "id": "m1",
                    "role": "assistant",
                    "status": "completed",
                    "content": content,
                }
            )
        if step.args is not None:
            items.append(
                {
                    "type": "function_call",
                    "id": "f1",
                    "call_id": "t1",
                    "name": body["tools"][0]["name"],
                    "arguments": step.args,
                    "status": "completed",
                }
            )
        return items

    def whole(self, step: Step, body: dict[str, Any]) -> dict[str, Any]:
        cut = step.finish == "length"
        return {
            "id": "resp1",
            "object": "response",
            "created_at": 1,
            "model": body["model"],
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": self._items(step, body),
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 10,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": 4,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 14,
            },
        }

    def events(self, step: Step, body: dict[str, Any]) -> Iterator[dict[str, Any] | None]:
        whole = self.whole(step, body)
        number = 0

        def event(kind: str, **more: Any) -> dict[str, Any]:
            nonlocal number
            number += 1
            return {"type": kind, "sequence_number": number, **more}

        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        yield event("response.created", response={**begun, "incomplete_details": None})
        for index, item in enumerate(whole["output"]):
            place = {"output_index": index, "item_id": item["id"]}
            if item["type"] == "message":
                opened = {**item, "content": [], "status": "in_progress"}
                yield event("response.output_item.added", output_index=index, item=opened)
                part = {"type": "output_text", "text": "", "annotations": []}
                yield event("response.content_part.added", content_index=0, part=part, **place)
                for piece in _pieces(step.text):
                    yield event(
                        "response.output_text.delta",
                        content_index=0,
                        delta=piece,
                        logprobs=[],
                        **place,
                    )
            elif item["type"] == "function_call":
                opened = {**item, "arguments": "", "status": "in_progress"}
                yield event("response.output_item.added", output_index=index, item=opened)
                for piece in _pieces(item["arguments"]):
                    yield event("response.function_call_arguments.delta", delta=piece, **place)
            else:
                yield event("response.output_item.added", output_index=index, item=item)
            if step.end == "whole":
                yield event("response.output_item.done", output_index=index, item=item)
        if step.end == "whole":
            yield event(f"response.{whole['status']}", response=whole)


class _Messages:
    """https://docs.anthropic.com/en/api/messages."""

    def _content(self, step: Step, body: dict[str, Any]) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        if step.thinking:
            blocks.append({"type": "thinking", "thinking": step.thinking, "signature": "s"})
        if step.text:
            blocks.append({"type": "text", "text": step.text})
        if step.args is not None:
            name = body["tools"][0]["name"]
            blocks.append({"type": "tool_use", "id": "t1", "name": name, "input": step.args})
        return blocks

    @staticmethod
    def _finish(step: Step) -> str:
        if step.finish == "length":
            return "max_tokens"
        return "tool_use" if step.args is not None else "end_turn"

    def whole(self, step: Step, body: dict[str, Any]) -> dict[str, Any]:
        content = self._content(step, body)
        for block in content:
            if block["type"] == "tool_use":
                block["input"] = json.loads(block["input"])
        return {
            "id": "msg1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": self._finish(step),
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 4},
        }

    def events(self, step: Step, body: dict[str, Any]) -> Iterator[dict[str, Any] | None]:
        begun = {
            "id": "msg1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 1},
        }
        yield {"type": "message_start", "message": begun}
        keys = {
            "thinking": ("thinking", "thinking_delta", "thinking"),
            "text": ("text", "text_delta", "text"),
            "tool_use": ("input", "input_json_delta", "partial_json"),
        }
        for index, block in enumerate(self._content(step, body)):
            field_name, delta_type, delta_key = keys[block["type"]]
            text = block[field_name]
            opened: dict[str, Any] = {
                **block,
                field_name: {} if block["type"] == "tool_use" else "",
            }
            yield {"type": "content_block_start", "index": index, "content_block": opened}
            for piece in _pieces(text):
                delta = {"type": delta_type, delta_key: piece}
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            if step.end == "whole":
                yield {"type": "content_block_stop", "index": index}
        if step.end == "whole":
            end = {"stop_reason": self._finish(step), "stop_sequence": None}
            yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 4}}
            yield {"type": "message_stop"}


_APIS: dict[str, _Chat | _Responses | _Messages] = {
    "/v1/chat/completions": _Chat(),
    "/v1/responses": _Responses(),
    "/v1/messages": _Messages(),
}
