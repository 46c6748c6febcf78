"""A small pet store on loopback, and the OpenAPI document that describes it."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON = "application/json"
KEY = "key-0123456789abcdef"
PASSWORD = "password-0123456789"


@dataclass
class Seen:
    """A request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    status: int = 200
    body: bytes = b""
    kind: str = JSON
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Store:
    """The server: its address, the requests, and special answers by path."""

    url: str
    seen: list[Seen] = field(default_factory=list)
    answers: dict[str, Callable[[Seen], Answer]] = field(default_factory=dict)

    @property
    def last(self) -> Seen:
        return self.seen[-1]

    def reply(self, path: str, body: Any = None, status: int = 200, **headers: str) -> None:
        """Answer requests to a path with JSON."""
        data = json.dumps(body).encode()
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[path] = lambda _: Answer(status, data, headers=names)


def echo(request: Seen) -> Answer:
    """Return the request itself, as a careless server would."""
    row = {
        "method": request.method,
        "target": request.target,
        "headers": request.headers,
        "body": request.body.decode(),
    }
    return Answer(body=json.dumps(row).encode())


@contextmanager
def run_store() -> Iterator[Store]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # headers and body in one packet

        def answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            # `items` of a message has each header as it was sent, also twice.
            headers = {name.lower(): value for name, value in self.headers.items()}
            seen = Seen(self.command, self.path, headers, self.rfile.read(size))
            store.seen.append(seen)
            path = self.path.partition("?")[0]
            reply = store.answers.get(path, echo)(seen)
            if reply.status == 0:  # the connection ends without an answer
                self.close_connection = True
                return
            self.send_response(reply.status)
            if reply.kind:
                self.send_header("Content-Type", reply.kind)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a client may leave before it has read everything

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    store = Store(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def zipped(data: bytes) -> Answer:
    return Answer(body=gzip.compress(data), headers={"Content-Encoding": "gzip"})


def ok(schema: Any = None) -> dict[str, Any]:
    content = {JSON: {"schema": schema}} if schema is not None else {}
    return {"200": {"description": "ok", "content": content}}


def json_body(schema: Any, *, required: bool = True) -> dict[str, Any]:
    return {"required": required, "content": {JSON: {"schema": schema}}}


def parameter(place: str, name: str, schema: Any = None, **more: Any) -> dict[str, Any]:
    more = {"required": True, **more} if place == "path" else more
    return {"in": place, "name": name, "schema": schema or {"type": "string"}, **more}


PET = {"$ref": "#/components/schemas/Pet"}
STRINGS = {"type": "array", "items": {"type": "string"}}


def document(url: str) -> dict[str, Any]:
    """The store, version 3.0.3."""
    pet_id = parameter("path", "petId", {"type": "integer"})
    return {
        "openapi": "3.0.3",
        "info": {"title": "Pet store", "version": "1"},
        "servers": [{"url": f"{url}/v1"}],
        "security": [{"api_key": []}],
        "paths": {
            "/pets": {
                "get": {
                    "operationId": "listPets",
                    "summary": "List pets.",
                    "parameters": [
                        parameter("query", "limit", {"type": "integer", "default": 20}),
                        parameter("query", "tags", STRINGS),
                        parameter("query", "ids", STRINGS, explode=False),
                        parameter("query", "where", {"type": "object"}, style="deepObject"),
                        parameter("header", "X-Request-ID"),
                        parameter("cookie", "theme"),
                        parameter("header", "X-Key"),
                    ],
                    "responses": ok({"type": "array", "items": PET}),
                },
                "post": {
                    "operationId": "addPet",
                    "description": "Add a pet.",
                    "requestBody": json_body(PET),
                    "responses": ok(PET),
                },
            },
            "/pets/{petId}": {
                "parameters": [pet_id],
                "get": {"operationId": "getPet", "responses": ok(PET)},
                "head": {"operationId": "hasPet", "responses": ok()},
                "put": {"operationId": "replacePet", "requestBody": json_body(PET)},
                "patch": {
                    "x-side-effect": False,
                    "x-readOnlyHint": True,
                    "requestBody": json_body(
                        {"type": "object", "properties": {"name": {"default": "x"}}}
                    ),
                },
                "delete": {"operationId": "deletePet", "security": [{"login": []}]},
            },
            "/files/{name}": {
                "get": {"operationId": "getFile", "parameters": [parameter("path", "name")]},
            },
            "/login": {
                "post": {
                    "operationId": "login",
                    "security": [],
                    "requestBody": {
                        "required": True,
                        "content": {
                            "application/x-www-form-urlencoded": {
                                "schema": {
                                    "type": "object",
                                    "required": ["user"],
                                    "properties": {"user": {"type": "string"}, "roles": STRINGS},
                                }
                            }
                        },
                    },
                }
            },
            "/pets/{id}/copy": {
                "post": {
                    "operationId": "copyPet",
                    "parameters": [parameter("path", "id"), parameter("query", "class")],
                    "requestBody": json_body(
                        {
                            "type": "object",
                            "required": ["id"],
                            "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
                        },
                        required=False,
                    ),
                }
            },
            "/notes": {"post": {"operationId": "add_notes", "requestBody": json_body(STRINGS)}},
            "/photo": {"post": {"operationId": "upload", "requestBody": _upload()}},
        },
        "components": {
            "schemas": {
                "Pet": {
                    "type": "object",
                    "required": ["id", "name"],
                    "properties": {
                        "id": {"type": "integer", "readOnly": True},
                        "name": {"type": "string", "minLength": 1},
                        "tag": {"type": "string", "nullable": True, "enum": ["cat", "dog"]},
                        "age": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
                        "parent": PET,
                        "pin": {"type": "string", "writeOnly": True},
                    },
                }
            },
            "securitySchemes": {
                "api_key": {"type": "apiKey", "in": "header", "name": "X-Key"},
                "query_key": {"type": "apiKey", "in": "query", "name": "key"},
                "cookie_key": {"type": "apiKey", "in": "cookie", "name": "session"},
                "login": {"type": "http", "scheme": "basic"},
                "token": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _upload() -> dict[str, Any]:
    return {"required": True, "content": {"multipart/form-data": {"schema": {"type": "object"}}}}
