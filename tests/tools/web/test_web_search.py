"""`web_search`: three engines with their response formats, on the loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ptc import Session, ToolError, UsageError
from ptc_tools import (
    Brave,
    SearchHit,
    SearchProvider,
    SearXNG,
    Tavily,
    search_provider_from_environment,
    web_search_tool,
)

from ..conftest import Call
from .web_server import Web, serve_web

pytestmark = pytest.mark.anyio

KEY = "SECRET-key"
HITS = [
    SearchHit("One & two", "https://example.org/1", "about it"),
    SearchHit("Second", "https://example.org/2", ""),
]


@pytest.fixture
def web() -> Iterator[Web]:
    with serve_web() as server:
        yield server


def _reply(value: Any) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()


async def test_searxng_is_queried_and_its_results_are_parsed(call: Call, web: Web) -> None:
    web.routes["/base/search"] = _reply({
        "query": "a b", "number_of_results": 0, "answers": [], "unresponsive_engines": [],
        "results": [
            {"url": HITS[0].url, "title": "One &amp; two", "content": "about it", "engine": "x",
             "parsed_url": ["https", "example.org", "/1"], "score": 1.0, "category": "general"},
            {"url": HITS[1].url, "title": "Second", "content": None, "engines": ["x"]},
            {"url": "javascript:evil()", "title": "no"},
        ],
    })  # fmt: skip
    tool = web_search_tool(SearXNG(web.url("/base/")))
    assert await call(tool, query="a b & c") == HITS
    (request,) = web.requests
    assert request.method == "GET"
    query = parse_qs(urlsplit(request.path).query)
    assert query == {"q": ["a b & c"], "format": ["json"]}
    assert await call(tool, query="x", limit=1) == HITS[:1]


async def test_brave_is_queried_and_its_results_are_parsed(call: Call, web: Web) -> None:
    web.routes["/res/v1/web/search"] = _reply({
        "type": "search", "query": {"original": "q"}, "mixed": {},
        "web": {"type": "search", "results": [
            {"title": "One &amp; <strong>two</strong>", "url": HITS[0].url,
             "description": "about <strong>it</strong>", "age": "1 day ago"},
            {"title": "Second", "url": HITS[1].url},
        ]},
    })  # fmt: skip
    tool = web_search_tool(Brave(KEY, base_url=web.url("")))
    assert await call(tool, query="q", limit=7) == HITS
    (request,) = web.requests
    assert request.headers["x-subscription-token"] == KEY
    assert parse_qs(urlsplit(request.path).query) == {"q": ["q"], "count": ["7"]}
    web.routes["/res/v1/web/search"] = _reply({"type": "search", "query": {}})
    assert await call(tool, query="nothing") == []


async def test_tavily_is_queried_and_its_results_are_parsed(call: Call, web: Web) -> None:
    web.routes["/search"] = _reply({
        "query": "q", "answer": None, "images": [], "response_time": 0.5, "request_id": "1",
        "results": [
            {"title": "One & two", "url": HITS[0].url, "content": "about it", "score": 0.9,
             "raw_content": None},
            {"title": "Second", "url": HITS[1].url, "content": "", "score": 0.1},
        ],
    })  # fmt: skip
    tool = web_search_tool(Tavily(KEY, base_url=web.url("")))
    assert await call(tool, query="q", limit=5) == HITS
    (request,) = web.requests
    assert request.method == "POST"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert json.loads(request.body) == {"query": "q", "max_results": 5}


@pytest.mark.parametrize(
    ("reply", "words", "retryable"),
    [
        ((401, {}, KEY.encode()), "the key is not accepted", False),
        ((429, {}, b""), "too many requests", True),
        ((500, {}, b""), "returned status 500", True),
        ((302, {"Location": "http://127.0.0.1:9/"}, b""), "returned status 302", False),
        ((200, {}, b"<html>"), "did not return JSON", False),
        ((200, {}, b"[" * 100_000), "did not return JSON", False),
        ((200, {}, b'{"web": 5}'), "unknown shape", False),
        ((200, {}, b"[]"), "unknown shape", False),
        ((200, {}, b" " * 5_000_000), "more than", False),
    ],
)
async def test_search_failure_is_reported_without_the_key(
    call: Call, web: Web, reply: Any, words: str, retryable: bool
) -> None:
    web.routes["/res/v1/web/search"] = reply
    with pytest.raises(ToolError) as caught:
        await call(web_search_tool(Brave(KEY, base_url=web.url(""))), query="q")
    error = caught.value
    assert (error.code, error.retryable) == ("search_failed", retryable)
    assert words in error.message
    assert KEY not in error.message + str(error.details)
    assert len(web.requests) == 1


async def test_key_echoed_by_an_engine_is_masked(tmp_path: Path, web: Web) -> None:
    row = {"title": f"You sent {KEY}", "url": f"https://example.org/?k={KEY}", "content": KEY}
    web.routes["/search"] = _reply({"results": [row]})
    web.routes["/res/v1/web/search"] = _reply({"web": {"results": [row]}})
    for engine in (Tavily(KEY, base_url=web.url("")), Brave(KEY, base_url=web.url(""))):
        async with Session(tmp_path, tools=[web_search_tool(engine)], toolsets=()) as session:
            result = await session.tool("web_search", {"query": "q"})
        assert KEY not in repr(result) + result.text
        assert result.value[0]["title"].startswith("You sent [secret ")
        assert "\n1. You sent [secret " in result.text


async def test_unreachable_engine_is_reported_as_retryable(call: Call) -> None:
    with pytest.raises(ToolError) as caught:
        await call(web_search_tool(Tavily(KEY, base_url="http://127.0.0.1:9")), query="q")
    assert caught.value.retryable
    assert KEY not in str(caught.value)


def test_repr_of_a_search_provider_contains_no_key() -> None:
    assert KEY not in repr(Brave(KEY)) + repr(Tavily(KEY))


def test_environment_selects_the_search_engine() -> None:
    find = search_provider_from_environment
    assert find({}) is None
    assert find({"BRAVE_API_KEY": " "}) is None
    assert find({"SEARXNG_URL": "http://x"}) == SearXNG("http://x")
    assert find({"BRAVE_API_KEY": "b", "TAVILY_API_KEY": "t"}) == Brave("b")
    assert find({"TAVILY_API_KEY": "t"}) == Tavily("t")


async def test_custom_search_provider_is_accepted(call: Call) -> None:
    class Mine:
        async def search(self, query: str, limit: int) -> list[SearchHit]:
            return HITS * limit

    assert isinstance(Mine(), SearchProvider)
    assert len(await call(web_search_tool(Mine()), query="q", limit=3)) == 3
    with pytest.raises(UsageError):
        web_search_tool(object())  # type: ignore[arg-type]  # that is the test


@pytest.mark.parametrize("arguments", [
    {"query": ""}, {"query": " "}, {"query": "x" * 401}, {"limit": 0}, {"limit": 21},
    {"timeout_ms": 0},
])  # fmt: skip
async def test_web_search_refuses_arguments_out_of_range(
    call: Call, arguments: dict[str, Any]
) -> None:
    with pytest.raises(ToolError) as caught:
        await call(web_search_tool(Brave(KEY)), **{"query": "q", **arguments})
    assert caught.value.code == "invalid_arguments"
