"""A server on this machine that speaks the batch APIs of OpenAI and Anthropic.

https://developers.openai.com/api/reference/resources/batches and
https://platform.claude.com/docs/en/api/messages/batches. It answers each request of a batch once,
when the batch is created, which is what would be paid for.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .fake_server import _APIS, Step

__all__ = ["BatchServer", "Line"]


@dataclass(frozen=True)
class Line:
    """Outcome of one request; the default is the number in the document."""

    step: Step | None = None
    status: int = 200
    """Status of a request that failed."""
    unrun: str | None = None
    """``expired`` or ``canceled``."""
    missing: bool = False
    raw: bytes | None = None
    """A line in place of the right one."""


@dataclass
class _Made:
    """A batch."""

    id: str
    items: list[dict[str, Any]]
    created: float
    metadata: dict[str, str]
    file: str = ""
    ended: bool = False
    failed: str | None = None
    expired: bool = False
    lines: dict[str, list[bytes]] = field(default_factory=dict)


@dataclass
class BatchServer:
    """Use it as a context manager."""

    react: Callable[[str, int], Line] = lambda _number, _tries: Line()
    """Makes the outcome from the number in the document and the number of its requests."""
    answered: Counter[str] = field(default_factory=Counter)
    """Requests that were answered, by the number in the document."""
    batches: list[_Made] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    """Method and path of each call."""
    hold: threading.Event | None = None
    """Batches end when it is set; None: at once."""
    create_hold: threading.Event | None = None
    """Calls that create a batch are answered when it is set."""
    on_create: Callable[[int], str | int | None] = lambda _count: None
    """Reaction to the creation number N: None, a status to refuse it with, ``"lost"`` to create it
    and close the connection, or ``"nothing"`` to only close the connection."""
    fail_calls: Callable[[str, int], int | None] = lambda _call, _count: None
    """Status to answer a GET with."""
    extra: list[bytes] = field(default_factory=list)
    """Lines at the head of all results."""
    forge: bytes | None = None
    """JSON in place of all answers."""
    fail_batch: Callable[[int], str | None] = lambda _count: None
    created: int = 0
    url: str = ""

    def __enter__(self) -> BatchServer:
        server = self

        class Handler(_Handler):
            made = server

        self._http = _Server(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def add(self, items: list[dict[str, Any]], *, in_file: bool) -> None:
        """Add a batch of somebody else, which has ended."""
        number = len(self.batches)
        name = f"file-{number}" if in_file else ""
        batch = _Made(f"other_{number}", items, time.time(), {}, name, ended=True)
        error = {"type": "expired"}
        batch.lines = {
            "output": [_line({"custom_id": i["custom_id"], "result": error}) for i in items],
            "error": [],
        }
        self.batches.append(batch)

    def requests(self) -> int:
        """Count the requests of all batches."""
        return sum(len(batch.items) for batch in self.batches)


class _Server(ThreadingHTTPServer):
    request_queue_size = 64


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    made: BatchServer

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    # --- routes -----------------------------------------------------------------------------

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        path = urlsplit(self.path).path
        self.made.calls.append(f"POST {path}")
        if path == "/v1/files":
            part = body.split(b'filename="', 1)[1].split(b"\r\n\r\n", 1)[1]
            name = f"file-{len(self.made.files)}"
            self.made.files[name] = part.split(b"\r\n--")[0]
            file = {"object": "file", "bytes": 1, "created_at": 1, "filename": "batch.jsonl"}
            self._json({**file, "id": name, "purpose": "batch", "status": "processed"})
        elif path == "/v1/batches":
            call = json.loads(body)
            assert call["endpoint"] == "/v1/responses"
            assert call["completion_window"] == "24h"
            lines = self.made.files[call["input_file_id"]].split(b"\n")
            items = [json.loads(line) for line in lines]
            assert all(item["url"] == call["endpoint"] for item in items)
            self._create(items, call.get("metadata") or {}, call["input_file_id"])
        else:
            assert path == "/v1/messages/batches"
            items = [
                {"custom_id": item["custom_id"], "body": item["params"]}
                for item in json.loads(body)["requests"]
            ]
            assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", item["custom_id"]) for item in items)
            self._create(items, {}, "")

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path, query = url.path, parse_qs(url.query)
        self.made.calls.append(f"GET {path}")
        count = self.made.calls.count(f"GET {path}")
        if (status := self.made.fail_calls(path, count)) is not None:
            self._error(status)
        elif path in ("/v1/batches", "/v1/messages/batches"):
            newest = list(reversed(self.made.batches))
            after = query.get("after", query.get("after_id", [""]))[0]
            names = [batch.id for batch in newest]
            start = names.index(after) + 1 if after else 0
            page = newest[start : start + 2]
            show = self._openai if path == "/v1/batches" else self._anthropic
            self._json({
                "object": "list", "data": [show(batch) for batch in page],
                "has_more": start + 2 < len(newest),
                "first_id": page[0].id if page else None, "last_id": page[-1].id if page else None,
            })  # fmt: skip
        elif path.endswith("/results"):
            self._send(b"\n".join(self._find(path.split("/")[-2]).lines["output"]))
        elif path.endswith("/content"):
            name, kind = path.split("/")[-2].rsplit("-", 1)
            self._send(b"\n".join(self._find(name).lines[kind]))
        else:
            batch = self._find(path.rsplit("/", 1)[1])
            self._end(batch)
            self._json(
                self._openai(batch) if path.startswith("/v1/batches") else self._anthropic(batch)
            )

    def do_DELETE(self) -> None:
        self.made.calls.append(f"DELETE {self.path}")
        name = self.path.rsplit("/", 1)[1]
        self.made.files.pop(name, None)
        self._json({"id": name, "object": "file", "deleted": True})

    # --- batches ----------------------------------------------------------------------------

    def _find(self, name: str) -> _Made:
        return next(batch for batch in self.made.batches if batch.id == name)

    def _create(self, items: list[dict[str, Any]], metadata: dict[str, str], file: str) -> None:
        server = self.made
        assert len({item["custom_id"] for item in items}) == len(items)
        with server.lock:
            server.created += 1
            count = server.created
        reaction = server.on_create(count)
        if isinstance(reaction, int):
            self._error(reaction)
            return
        batch = _Made(f"batch_{count}", items, time.time(), metadata, file)
        if reaction != "nothing":
            batch.failed = server.fail_batch(count)
            if batch.failed is None:
                self._answer(batch)
            server.batches.append(batch)
        if server.create_hold is not None:
            server.create_hold.wait(60)
        if reaction in ("lost", "nothing"):
            self.close_connection = True
            return
        self._json(self._openai(batch) if file else self._anthropic(batch))

    def _answer(self, batch: _Made) -> None:
        output: list[bytes] = list(self.made.extra)
        errors: list[bytes] = []
        # In another order than the requests.
        for item in reversed(batch.items):
            number = re.findall(r"Total: (\d+)", json.dumps(item["body"]))[0]
            with self.made.lock:
                self.made.answered[number] += 1
                tries = self.made.answered[number]
            line = self.made.react(number, tries)
            if line.unrun is not None:
                self.made.answered[number] -= 1
            if line.missing:
                continue
            answer = json.dumps({"total": int(number)})
            in_tool = bool(item["body"].get("tools"))
            step = line.step or (Step(args=answer) if in_tool else Step(text=answer))
            made = self._openai_line if batch.file else self._anthropic_line
            data = line.raw if line.raw is not None else made(item, line, step)
            failed = batch.file and (line.unrun or line.status != 200)
            (errors if failed else output).append(data)
        batch.lines = {"output": output, "error": errors}

    def _openai_line(self, item: dict[str, Any], line: Line, step: Step) -> bytes:
        base = {"id": "batch_req_1", "custom_id": item["custom_id"]}
        if line.unrun is not None:
            code = {"expired": "batch_expired", "canceled": "batch_cancelled"}[line.unrun]
            return _line({**base, "response": None, "error": {"code": code, "message": "no"}})
        body: Any = _APIS["/v1/responses"].whole(step, item["body"])
        if self.made.forge is not None:
            body = json.loads(self.made.forge)
        if line.status != 200:
            body = {"error": {"message": step.error, "type": "some_error", "code": None}}
        response = {"status_code": line.status, "request_id": "r", "body": body}
        return _line({**base, "response": response, "error": None})

    def _anthropic_line(self, item: dict[str, Any], line: Line, step: Step) -> bytes:
        result: dict[str, Any] = {"type": line.unrun}
        if line.status != 200:
            kind = {429: "rate_limit_error", 500: "api_error", 400: "invalid_request_error"}
            error = {"type": kind[line.status], "message": step.error}
            result = {"type": "errored", "error": {"type": "error", "error": error}}
        elif line.unrun is None:
            message = _APIS["/v1/messages"].whole(step, item["body"])
            if self.made.forge is not None:
                message = json.loads(self.made.forge)
            result = {"type": "succeeded", "message": message}
        return _line({"custom_id": item["custom_id"], "result": result})

    def _end(self, batch: _Made) -> None:
        batch.ended = batch.ended or self.made.hold is None or self.made.hold.is_set()

    def _openai(self, batch: _Made) -> dict[str, Any]:
        status = "in_progress"
        if batch.ended:
            status = "failed" if batch.failed else "expired" if batch.expired else "completed"
        total = len(batch.items)
        data: dict[str, Any] = {
            "id": batch.id, "object": "batch", "endpoint": "/v1/responses", "errors": None,
            "input_file_id": batch.file, "completion_window": "24h", "status": status,
            "created_at": int(batch.created), "metadata": batch.metadata,
            "request_counts": {"total": total, "completed": total * batch.ended, "failed": 0},
        }  # fmt: skip
        if batch.ended and batch.failed:
            error = {"code": batch.failed, "message": "too much", "param": None, "line": None}
            data["errors"] = {"object": "list", "data": [error]}
        elif batch.ended:
            data["output_file_id"] = f"{batch.id}-output"
            if batch.lines["error"]:
                data["error_file_id"] = f"{batch.id}-error"
        return data

    def _anthropic(self, batch: _Made) -> dict[str, Any]:
        total = len(batch.items)
        counts = dict.fromkeys(("errored", "canceled", "expired"), 0)
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(batch.created))
        return {
            "id": batch.id, "type": "message_batch", "created_at": created, "expires_at": created,
            "processing_status": "ended" if batch.ended else "in_progress",
            "request_counts": {**counts, "processing": 0 if batch.ended else total,
                               "succeeded": total if batch.ended else 0},
            "results_url": f"{self.made.url}/v1/messages/batches/{batch.id}/results"
            if batch.ended else None,
        }  # fmt: skip

    # --- bytes ------------------------------------------------------------------------------

    def _json(self, data: Any) -> None:
        self._send(json.dumps(data).encode())

    def _error(self, status: int) -> None:
        key = self.headers.get("authorization") or self.headers.get("x-api-key")
        error = {"type": "error", "error": {"type": "some_error", "message": f"no: {key}"}}
        self._send(json.dumps(error).encode(), status)

    def _send(self, data: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.send_header("retry-after-ms", "1")
        self.end_headers()
        self.wfile.write(data)


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data).encode()
