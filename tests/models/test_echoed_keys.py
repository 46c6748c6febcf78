"""A gateway that echoes the key it was sent: it is in no error, event, record, log or answer."""

from __future__ import annotations

import base64
import html
import json
import logging
import os
import threading
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import pytest

from ptc import ModelError, RunEvent, Session
from ptc.models import ModelRequest

pytest.importorskip("pydantic_ai", reason="pip install 'ptc-host[models]'")

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning"),
]
KEY = "zq+Gateway/Key=0123456789&abcdefXYZ"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
MODELS = ("openai-chat:gpt-4o", "openai-responses:gpt-4o", "anthropic:claude-sonnet-4-5")


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(c):04x}" for c in text)


ECHOES: dict[str, Callable[[str], str]] = {
    "as it is": lambda key: key,
    "as a header": lambda key: f"Authorization: Bearer {key}",
    "URL-encoded": lambda key: quote(key, safe=""),
    "URL-encoded twice": lambda key: quote(quote(key, safe=""), safe=""),
    "in base64": lambda key: base64.b64encode(key.encode()).decode(),
    "as basic authentication": lambda key: base64.b64encode(f"user:{key}".encode()).decode(),
    "as JSON in JSON": lambda key: json.dumps({"headers": {"x": json.dumps({"k": key})}}),
    "as JSON with every character escaped": escaped,
    "as HTML": lambda key: f"<p>{html.escape(key)}</p>",
    "in hexadecimal": lambda key: key.encode().hex(),
    "on two lines": lambda key: f"{key[:17]}\n  {key[17:]}",
    "in capitals": lambda key: key.upper(),
    "behind much else": lambda key: "x" * 480 + key,
}


class Gateway(BaseHTTPRequestHandler):
    """Refuses each request with its key in the answer."""

    echo: Callable[[str], str] = staticmethod(lambda key: key)
    status = 401
    seen: ClassVar[list[str]] = []

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        key = self.headers.get("x-api-key") or self.headers["authorization"].partition(" ")[2]
        self.seen.append(key)
        said = f"Incorrect API key provided: {type(self).echo(key)}. Look at your account."
        data = json.dumps({"type": "error", "error": {"type": "auth", "message": said}}).encode()
        self.send_response(self.status, "Refused")
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Gateway]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Gateway) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        for provider, path in (("OPENAI", "/v1"), ("ANTHROPIC", "")):
            monkeypatch.setenv(f"{provider}_API_KEY", KEY)
            monkeypatch.setenv(f"{provider}_BASE_URL", f"{url}{path}")
        monkeypatch.setattr(Gateway, "seen", [])
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield Gateway
        server.shutdown()
        thread.join()


def traces(text: str) -> list[str]:
    """Encodings of the key that are in `text`, or of the most of it."""
    plain = "".join(text.split()).casefold()
    found = []
    for name, encode in ECHOES.items():
        shown = "".join(encode(KEY).split()).casefold()
        # The first characters may be left of what was truncated.
        for part in (shown, shown[: len(shown) * 2 // 3][-20:] if len(shown) < 100 else shown):
            if part in plain:
                found.append(name)
    return found


def error_text(error: BaseException) -> str:
    """All text that an error leads to."""
    chain: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop()
        if each is not None and each not in chain:
            chain.append(each)
            todo += [each.__cause__, each.__context__]
    notes = [note for each in chain for note in getattr(each, "__notes__", ())]
    return "\n".join(
        [*map(str, chain), *map(repr, chain), *notes, *traceback.format_exception(error)]
    )


def journal_text(folder: Path) -> str:
    return "".join(
        file.read_bytes().decode("latin-1") for file in folder.rglob("*") if file.is_file()
    )


@pytest.mark.sample(2)
@pytest.mark.sample(5)
@pytest.mark.parametrize("echo", list(ECHOES))
async def test_an_echoed_key_does_not_reach_a_script_or_the_journal(
    gateway: type[Gateway],
    echo: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="ptc")
    monkeypatch.setattr(gateway, "echo", staticmethod(ECHOES[echo]))
    events: list[RunEvent] = []
    source = f"""
import traceback
async def run(ctx, inputs):
    try:
        await ctx.generate_object({SCHEMA!r}, "How many?")
    except ToolError as error:
        print(error)
        ctx.emit([str(error), error.details, traceback.format_exc()])
        raise
"""
    async with Session(tmp_path, model=MODELS[0], toolsets=()) as session:
        result = await session.program(source=source, on_event=events.append)
        question = {"schema": SCHEMA, "prompt": "How many?"}
        direct = await session.tool("generate_object", question)
    assert gateway.seen == [KEY, KEY]
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.code == "tool_error"
    assert "HTTP 401" in result.error.message
    assert direct.error is not None
    assert traces(result.to_json().decode()) == []
    assert traces(json.dumps(result.to_dict(), default=str)) == []
    assert traces("".join(map(repr, events))) == []
    assert traces(error_text(direct.error) + direct.text + repr(direct)) == []
    assert traces(journal_text(tmp_path)) == []
    assert traces(caplog.text) == []


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_echoed_key_does_not_reach_an_applications_exceptions(
    gateway: type[Gateway], name: str, *, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"on_partial": print} if streamed else {}
    async with Session(model=name) as session:
        for status in (400, 401, 403, 404):
            for echo in ("as it is", "URL-encoded", "as basic authentication", "on two lines"):
                monkeypatch.setattr(gateway, "echo", staticmethod(ECHOES[echo]))
                monkeypatch.setattr(gateway, "status", status)
                with pytest.raises(ModelError) as caught:
                    await session.generate_object(SCHEMA, "How many?", mode="tool", **options)
                assert f"HTTP {status}" in str(caught.value)
                assert traces(error_text(caught.value)) == []


async def test_echoed_key_of_a_model_object_is_masked(
    gateway: type[Gateway], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    url = os.environ["OPENAI_BASE_URL"]
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable)
    model = OpenAIChatModel("own", provider=OpenAIProvider(api_key=KEY, base_url=url))
    async with Session(tmp_path, model=model, toolsets=()) as session:
        result = await session.program(source=f"await ctx.generate_object({SCHEMA!r}, 'How many?')")
    assert gateway.seen == [KEY]
    assert result.error is not None
    # Named by the model that sent the key first: another test of this process may have.
    assert "[secret api_key of " in result.error.message
    assert traces(result.to_json().decode() + journal_text(tmp_path)) == []


async def test_echoed_key_of_a_model_function_is_masked(
    gateway: type[Gateway], tmp_path: Path
) -> None:
    httpx = pytest.importorskip("httpx", reason="pip install 'ptc-host[web]'")
    url = os.environ["ANTHROPIC_BASE_URL"]

    async def ask(request: ModelRequest) -> str:
        async with httpx.AsyncClient() as client:
            answer = await client.post(url, json={}, headers={"x-api-key": KEY})
            error = httpx.HTTPStatusError(
                f"401: {answer.text}", request=answer.request, response=answer
            )
            error.add_note(answer.text)
            raise error

    async with Session(tmp_path, model=ask, toolsets=()) as session:
        with pytest.raises(ModelError, match="failed: HTTPStatusError: 401") as caught:
            await session.generate_object(SCHEMA, "How many?")
        result = await session.program(source=f"await ctx.generate_object({SCHEMA!r}, 'How many?')")
    assert traces(error_text(caught.value)) == []
    assert traces(result.to_json().decode() + journal_text(tmp_path)) == []


async def test_key_in_a_model_answer_is_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from .fake_server import FakeServer, Step

    answer = json.dumps({"n": 1, "who": f"you sent {KEY}"})
    with FakeServer([Step(args=answer), Step(text=f"no, {KEY}"), Step(text="no")]) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        async with Session(tmp_path, model=MODELS[0], toolsets=()) as session:
            given = await session.generate_object(SCHEMA, "How many?")
            with pytest.raises(Exception, match=r"conform|JSON") as caught:
                await session.generate_object(SCHEMA, "How many?", max_repair_attempts=1)
    assert given.value["who"].startswith("you sent [secret api_key")
    assert traces(repr(given)) == []
    assert traces(error_text(caught.value) + repr(getattr(caught.value, "attempts", ""))) == []
