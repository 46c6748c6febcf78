"""Credentials that this process sent with a request are in nothing that comes of the answer."""

from __future__ import annotations

import base64
import json
import logging
import subprocess
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

import pytest

from ptc import RunEvent, Session, ToolContext, ToolError, tool
from ptc._core._credentials import mask
from ptc._core._redact import SENT, Redactor, SentCredentials, safe_text

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]
TOKEN = "tk+Zf9/aaBB=ccDD77"
PASSWORD = "pa55+Word/=x1"


@dataclass
class Request:
    """A request as httpx, requests and aiohttp have it on their errors."""

    url: str = "https://api.example/x"
    headers: dict[Any, Any] = field(default_factory=dict)


class RequestError(Exception):
    """An error of an HTTP library."""

    def __init__(self, text: str, **parts: Any) -> None:
        super().__init__(text)
        self.__dict__.update(parts)


class Response:
    def __init__(self, request: Request) -> None:
        self.request = request


class Unset:
    """httpx raises where there is no request."""

    @property
    def request(self) -> Request:
        raise RuntimeError


BEARER = Request(headers={"Authorization": f"Bearer {TOKEN}"})
BASIC = Request(
    headers={"authorization": "Basic " + base64.b64encode(f"user:{PASSWORD}".encode()).decode()}
)
ERRORS: dict[str, tuple[Any, str]] = {
    "a request": (lambda text: RequestError(text, request=BEARER), TOKEN),
    "the request of a response": (
        lambda text: RequestError(text, response=Response(BEARER)),
        TOKEN,
    ),
    "what aiohttp has": (lambda text: RequestError(text, request_info=BEARER), TOKEN),
    "bytes": (
        lambda text: RequestError(text, request=Request(headers={b"x-api-key": TOKEN.encode()})),
        TOKEN,
    ),
    "basic authentication": (lambda text: RequestError(text, request=BASIC), PASSWORD),
    "a cookie": (
        lambda text: RequestError(
            text, request=Request(headers={"Cookie": f"theme=dark; session={TOKEN}"})
        ),
        TOKEN,
    ),
    "a URL with a password": (
        lambda text: RequestError(
            text, request=Request(url=f"https://user:{quote(PASSWORD, safe='')}@api.example/")
        ),
        PASSWORD,
    ),
    "a URL with a key": (
        lambda text: RequestError(
            text, request=Request(url=f"https://api.example/?q=1&api_key={quote(TOKEN, safe='')}")
        ),
        TOKEN,
    ),
    "a group": (
        lambda text: ExceptionGroup("two", [ValueError(text), RequestError(text, request=BEARER)]),
        TOKEN,
    ),
    "a response without a request": (
        lambda text: RequestError(text, response=Unset(), request=BEARER),
        TOKEN,
    ),
}


@pytest.fixture(autouse=True)
def _sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = SentCredentials()
    for name in ("_values", "forms"):
        monkeypatch.setattr(SENT, name, getattr(fresh, name))


def text_of_error(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + str(vars(error))


HOWS = ("raised", "cause", "context", "noted", "in a ToolError")


@pytest.mark.parametrize("name", list(ERRORS))
async def test_credential_echoed_by_a_server_appears_nowhere(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    make, secret = ERRORS[name]
    text = f"401: you sent {secret}, that is {quote(secret, safe='')}"

    @tool
    async def ask(how: str) -> None:
        """Ask a server."""
        error = make(text)
        if how == "noted":
            error.add_note(text)
        if how == "cause":
            raise ValueError("no answer") from error
        try:
            raise error
        except Exception as caught:
            if how == "context":
                raise KeyError(text) from None
            if how == "in a ToolError":
                details: dict[str, Any] = {"said": [text, {text: 1}]}
                raise ToolError(f"refused: {text}", code="no", details=details) from caught
            raise

    events: list[RunEvent] = []
    source = f"""
async def run(ctx, inputs):
    for how in {HOWS}:
        try:
            await ctx.ask(how)
        except ToolError as error:
            ctx.emit([str(error), error.details])
    await ctx.ask("raised")
"""
    shown = []
    async with Session(tmp_path, tools=[ask], toolsets=(), journal=tmp_path / "j") as session:
        logging.getLogger("ptc").error("it failed: %s", text, exc_info=make(text))
        for how in HOWS:
            direct = await session.tool("ask", {"how": how})
            assert direct.error is not None
            shown += [text_of_error(direct.error), repr(direct), direct.text]
            # Of a group, the words are not its members'.
            assert "[secret" in direct.text or how == "cause" or name == "a group"
        result = await session.program(source=source, on_event=events.append)
    assert len(result.partial) == len(HOWS)
    shown += [repr(events), result.to_json().decode(), repr(result), caplog.text]
    shown += [file.read_bytes().decode("latin-1") for file in tmp_path.glob("j*")]
    for form in (secret, quote(secret, safe=""), json.dumps(secret)[1:-1]):
        assert form not in "".join(shown)
    assert "[secret" in caplog.text


async def test_error_without_a_secret_keeps_message_details_and_cause(
    tmp_path: Path,
) -> None:
    cause = ValueError("the cause")
    cause.add_note("a note")

    @tool
    async def refuse() -> None:
        """Refuse."""
        raise ToolError("the key is missing: token 5", code="no", details={"a": (1,)}) from cause

    async with Session(tmp_path, tools=[refuse], toolsets=()) as session:
        error = (await session.tool("refuse")).error
    assert error is not None
    assert (error.message, error.details) == ("the key is missing: token 5", {"a": (1,)})
    assert error.__cause__ is cause


async def test_credential_like_text_is_masked_in_errors_only(tmp_path: Path) -> None:
    header = "Authorization: Bearer abc.DEF-123456"

    @tool
    def fail(raising: bool) -> str:
        """Fail, or not."""
        if raising:
            command = [sys.executable, "-c", "raise SystemExit(3)", "-H", header]
            subprocess.run(command, check=True, capture_output=True)
        return header

    async with Session(tmp_path, tools=[fail], toolsets=()) as session:
        failed = await session.tool("fail", {"raising": True})
        value = (await session.tool("fail", {"raising": False})).value
    assert value == header
    assert failed.error is not None
    assert "Bearer [credential]" in failed.error.message
    assert "abc.DEF" not in text_of_error(failed.error)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Authorization: Bearer abcdef.123456", "Authorization: Bearer [credential]"),
        ("'authorization': 'Basic dXNlcjpwYXNz'", "'authorization': 'Basic [credential]'"),
        ("x-api-key: abcdef123, y", "x-api-key: [credential], y"),
        ("Cookie: a=1; session=xyz\nnext", "Cookie: [credential]\nnext"),
        ("https://user:secret@host/a", "https://user:[credential]@host/a"),
        ("https://h/?a=1&token=abc&b=2", "https://h/?a=1&token=[credential]&b=2"),
        ("Incorrect API key provided: sk-abcdefghijklmnop1", None),
        ("remote: ghp_abcdefghijklmnopqrstuvwxyz012345", None),
        ("unexpected token something in line 3", ""),
        ("basic authentication failed", ""),
        ("Bearer authentication is required", ""),
        ("the key 'name' is missing; sort by key=value", ""),
        ("see https://example.org/docs/token?page=2", ""),
        ("a cookie is needed", ""),
        ("no such secret", ""),
    ],
)
def test_known_credential_formats_are_masked(text: str, masked: str | None) -> None:
    if masked is None:
        assert mask(text) == text.rpartition(" ")[0] + " [credential]"
    else:
        assert mask(text) == (masked or text)


@pytest.mark.parametrize(
    "text",
    [
        "a" * 60_000, "://" * 20_000, "bearer " * 8_000, "cookie:" * 8_000, "?key=" * 12_000,
        "authorization: " * 4_000, "sk-" * 20_000, "\\" * 60_000, "%41" * 20_000, "&amp;" * 12_000,
        "authorization:" + " " * 50_000, "basic " + " " * 50_000, "://" + "a" * 60_000,
    ],
    ids=range(13),
)  # fmt: skip
def test_masking_is_fast_on_adversarial_text(text: str) -> None:
    # Linear: a quadratic search of these takes minutes, and the test its time-out.
    Redactor({"K": TOKEN}).error_text(text)


def test_long_text_is_searched_for_secrets() -> None:
    redactor = Redactor({"K": TOKEN})
    rows = [{"n": n, "text": "x" * 20} for n in range(5_000)]
    assert redactor.value(rows) is rows
    rows[4_000]["text"] = f"so {TOKEN}"
    assert redactor.value(rows)[4_000] == {"n": 4_000, "text": "so [secret K]"}
    assert TOKEN not in redactor.text("x" * 100_000 + quote(TOKEN))


def test_remembered_credentials_are_bounded_to_the_most_recent() -> None:
    sent = SentCredentials()
    for n in range(100):
        sent.remember("key", f"credential-{n:03}")
        sent.remember("key", "credential-000")
    assert len(sent._values) == 32
    assert sent.forms.replace("credential-000 credential-099") == "[secret key] [secret key]"
    assert sent.forms.replace("credential-050") == "credential-050"
    sent.remember("short", "12345")
    assert sent.forms.replace("12345") == "12345"


def test_malformed_request_causes_no_error() -> None:
    sent = SentCredentials()
    sent.request("http://[", [(None, None), ("authorization", "Basic !!!"), ("cookie", ";;=")])
    with HTTPError("http://u:pw123456@h", 401, "no", {}, None) as error:  # type: ignore[arg-type]  # as some make it
        sent.failed(error)
    for parts in ({"request": 5}, {"request": Request(headers=7)}, {"response": None}):  # type: ignore[arg-type]  # not headers
        sent.failed(RequestError("x", **parts))
    assert safe_text("plain") == "plain"


async def test_successful_run_is_searched_for_sent_credentials(tmp_path: Path) -> None:
    SENT.remember("gateway", TOKEN)
    partials: list[Any] = []

    @tool
    async def page(ctx: ToolContext) -> dict[str, str]:
        """Give a page."""
        ctx.output(f"part: {TOKEN}")
        ctx.progress(1, message=TOKEN)
        ctx.log("said", text=TOKEN)
        return {"text": f"you sent {TOKEN}"}

    async with Session(tmp_path, tools=[page], toolsets=()) as session:
        result = await session.program(
            source="return_ = await ctx.page()\nprint(return_)\nreturn_",
            on_event=lambda event: partials.append(repr(event)),
        )
    assert result.value == {"text": "you sent [secret gateway]"}
    assert TOKEN not in "".join(partials) + result.to_json().decode()
