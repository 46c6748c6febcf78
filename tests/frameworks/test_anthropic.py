"""Anthropic's SDK: tools of each kind, a loop of one's own, and hosted programs."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ptc import (
    Decision,
    ImageContent,
    Limits,
    ModelError,
    Session,
    ToolContext,
    ToolError,
    ToolResult,
    UsageError,
    tool,
)
from ptc.testing import ScriptedModel
from ptc_bindings.anthropic import ToolUses, as_tools, run_hosted

from .peers.anthropic import message_of

pytest.importorskip("anthropic", reason="pip install 'ptc-host[models]'")

import httpx2  # after the check that it is installed
from anthropic import Anthropic, AsyncAnthropic, BadRequestError
from anthropic.lib.tools import BetaBuiltinFunctionTool, beta_async_tool, beta_tool
from anthropic.lib.tools import ToolError as SdkToolError

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.shared_zygote]

Code = Generator[Any, Any, Any]
"""A hosted program: yields lists of calls, and receives their results."""
HOSTED = "code_execution_20260120"
"""The caller that responses name, whichever version the request declared."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The SDK needs asyncio."""
    return "asyncio"


def session(root: Path, *tools: Any, **options: Any) -> Session:
    return Session(root, tools=tools, toolsets=(), workers=1, **options)


@tool(name="shop.price")
async def price(item: str) -> dict[str, float]:
    """Look up a price."""
    if item == "gold":
        raise ToolError("gold has no price", code="not_found")
    return {"price": 3.2}


@tool
async def letters(count: int) -> str:
    """Return letters."""
    return "ü" * count


@tool
def draw() -> ToolResult:
    """Draw."""
    image = ImageContent(base64.b64encode(b"png").decode(), "image/png")
    return ToolResult.success("drawn", content=[image])


@tool(side_effect=True, idempotent=True, needs_approval=True)
def send(to: str) -> str:
    """Send a message."""
    return f"sent to {to}"


ALL = ["shop.price", "letters", "draw", "send"]

# --- in -----------------------------------------------------------------------------------------


async def call(root: Path, thing: Any, name: str, **arguments: Any) -> Any:
    async with session(root, thing) as opened:
        return (await opened.tool(name, arguments)).unwrap()


async def test_failures_are_tool_errors(tmp_path: Path) -> None:
    @beta_tool
    def by_blocks() -> str:
        """Fail."""
        raise SdkToolError([{"type": "text", "text": "no such"}, {"type": "text", "text": "order"}])

    @beta_async_tool
    async def by_exception(count: int) -> str:
        """Fail."""
        raise LookupError(f"no row {count}")

    @beta_tool(input_schema={"type": "object", "properties": {"count": {}}})
    def by_arguments(count: int) -> str:
        """Fail."""
        return str(count)

    with pytest.raises(ToolError, match="no such order") as caught:
        await call(tmp_path, by_blocks, "by_blocks")
    assert caught.value.code == "failed"
    with pytest.raises(ToolError, match="LookupError: no row 7"):
        await call(tmp_path, by_exception, "by_exception", count=7)
    # The schema accepts it, and the function's hint does not.
    with pytest.raises(ToolError, match="count: Input should be a valid integer") as caught:
        await call(tmp_path, by_arguments, "by_arguments", count="x")
    assert caught.value.code == "invalid_arguments"


async def test_blocks_are_data(tmp_path: Path) -> None:
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
    text = {"type": "text", "media_type": "text/plain", "data": "plain"}

    @beta_tool
    def read() -> Any:
        """Read."""
        yield {"type": "text", "text": '{"rows": [1]}'}
        yield {"type": "document", "source": pdf}
        yield {"type": "document", "source": text}
        yield {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}

    rows, file, plain, link = await call(tmp_path, read, "read")
    assert (rows, plain) == ({"rows": [1]}, "plain")
    assert (file["mime_type"], file["size_bytes"]) == ("application/pdf", 5)
    assert link["source"]["url"] == "https://example.org/a.png"


def test_tools_without_a_schema_are_refused(tmp_path: Path) -> None:
    class Memory(BetaBuiltinFunctionTool):
        def to_dict(self) -> Any:
            return {"type": "memory_20250818", "name": "memory"}

        def call(self, input: object) -> str:
            return ""

    with pytest.raises(UsageError, match=r"Memory of anthropic is not a tool .* beta_tool"):
        session(tmp_path, Memory())
    with pytest.raises(UsageError, match="AsyncAnthropic of anthropic is not a tool"):
        session(tmp_path, AsyncAnthropic(api_key="none"))


# --- a loop of one's own ------------------------------------------------------------------------


def received(*blocks: dict[str, Any], **more: Any) -> Any:
    """A message as the SDK parses it."""
    from anthropic.types.beta import BetaMessage

    return BetaMessage.model_validate(message_of(*blocks, **more))


def use(number: object, name: str, caller: str | None = None, **arguments: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments}
    if caller is not None:
        block["caller"] = {"type": caller, "tool_id": "srvtoolu_1"}
    return block


async def test_reply_has_a_result_for_each_block_and_nothing_else(tmp_path: Path) -> None:
    async with session(tmp_path, price, draw, send) as opened:
        uses = ToolUses(opened, allowed_tools=["shop.price", "draw", "send"], direct=True)
        names = ["program", "shop__price", "draw", "send"]
        assert [row["name"] for row in uses.params] == names
        assert all(set(row) == {"name", "description", "input_schema"} for row in uses.params)
        source = "async def run(ctx, inputs):\n    return (await ctx.shop.price('tea')).price"
        message = received(
            {"type": "text", "text": "I look."},
            use(1, "program", source=source),
            use(2, "shop__price", item="gold"),
            use(3, "draw"),
            use(4, "send", to="ann"),
            use(5, "unknown"),
        )
        reply = await uses.answer(message)
        assert await uses.answer(received({"type": "text", "text": "Done."})) is None
        truncated = received(use(1, "send", to="ann"), stop_reason="max_tokens")
        assert await uses.answer(truncated) is None, "a call may lack arguments"
    assert reply is not None
    assert reply["role"] == "user"
    rows = {row.pop("tool_use_id"): row for row in reply["content"]}
    assert rows["toolu_1"] == {"type": "tool_result", "content": "3.2"}
    assert (rows["toolu_2"]["is_error"], "[not_found]" in rows["toolu_2"]["content"]) == (
        True,
        True,
    )
    text, image = rows["toolu_3"]["content"]
    assert (text["type"], image["source"]["media_type"]) == ("text", "image/png")
    assert ("is_error" in rows["toolu_4"], "paused" in rows["toolu_4"]["content"]) == (False, True)
    assert rows["toolu_5"]["is_error"]


async def test_message_that_is_answered_again_makes_no_call_again(tmp_path: Path) -> None:
    calls: list[str] = []

    @tool(side_effect=True, idempotent=False)
    async def order(ctx: ToolContext, item: str) -> str:
        """Order."""
        calls.append(item)
        return f"ordered {item}"

    lines = ["first = await ctx.order('tea')", "return [first, await ctx.send('ann')]"]
    source = "async def run(ctx, inputs):\n" + "".join(f"    {line}\n" for line in lines)
    message = received(use(1, "program", source=source))
    async with session(tmp_path, order, send) as opened:
        uses = ToolUses(opened, allowed_tools=["order", "send"])
        paused = await uses.answer(message)
        assert paused is not None
        assert "paused" in paused["content"][0]["content"]
        [call] = await opened.pending()
        await opened.approve(call.run_id, by="ben", resume=True)
        for _ in range(2):
            reply = await uses.answer(message)
            assert reply is not None
            assert reply["content"][0]["content"] == '["ordered tea","sent to ann"]'
    assert calls == ["tea"]


async def test_runner_refuses_the_wrong_client(tmp_path: Path) -> None:
    async with session(tmp_path, price) as opened:
        with pytest.raises(TypeError, match="async tool"):
            Anthropic(api_key="none").beta.messages.tool_runner(
                model="m",
                max_tokens=1,
                messages=[],
                tools=as_tools(opened),  # type: ignore[arg-type]  # wrong on purpose
            )
        with pytest.raises(UsageError, match="async client"):
            await run_hosted(Anthropic(api_key="none"), opened, messages=[])


# --- hosted programs ------------------------------------------------------------------------------


class HostedApi:
    """The Messages API with hosted code: a generator that yields calls and receives results.

    It refuses what the service refuses.
    """

    def __init__(self, code: Callable[[], Code], seconds: float = 300) -> None:
        self.code = code()
        self.seconds = seconds
        self.requests: list[Any] = []
        self.pending: list[str] = []

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        self.requests.append(body)
        problem = self._problem(body)
        if problem:
            error = {"type": "invalid_request_error", "message": problem}
            return httpx2.Response(400, json={"type": "error", "error": error})
        return httpx2.Response(200, json=self._next(body))

    def _problem(self, body: Any) -> str:
        if all(tool["name"] != "code_execution" for tool in body["tools"]):
            return "code execution is missing"
        if not self.pending:
            return ""
        if body.get("container") not in ("container_1", {"id": "container_1", "skills": []}):
            return "container_id is required when there are pending tool uses"
        if body["tools"] != self.requests[0]["tools"]:
            return "other tools"
        results = body["messages"][-1]["content"]
        if any(row["type"] != "tool_result" for row in results):
            return "only tool_result blocks are allowed"
        if [row["tool_use_id"] for row in results] != self.pending:
            return "a result is missing"
        return "" if all(isinstance(row["content"], str) for row in results) else "only text"

    def _next(self, body: Any) -> dict[str, Any]:
        last = body["messages"][-1]
        results = last["content"] if self.pending else None
        self.pending = []
        try:
            calls = self.code.send(results)
        except StopIteration as end:
            return message_of({"type": "text", "text": json.dumps(end.value)})
        expires = datetime.now(UTC) + timedelta(seconds=self.seconds)
        container = {"id": "container_1", "expires_at": expires.isoformat()}
        if calls == "pause":
            return message_of({"type": "text", "text": ""}, stop_reason="pause_turn")
        # The service gives each block an id of its own.
        blocks = [use(uuid.uuid4().hex, name, HOSTED, **given) for name, given in calls]
        self.pending = [block["id"] for block in blocks]
        return message_of(*blocks, container=container)


@asynccontextmanager
async def hosted_client(api: HostedApi) -> AsyncIterator[AsyncAnthropic]:
    async with (
        httpx2.AsyncClient(transport=httpx2.MockTransport(api)) as http,
        AsyncAnthropic(api_key="none", http_client=http, max_retries=0) as client,
    ):
        yield client


async def run(opened: Session, api: HostedApi, **options: Any) -> Any:
    request: dict[str, Any] = {
        "model": "claude-fake",
        "max_tokens": 100,
        "allowed_tools": ALL,
    } | options
    async with hosted_client(api) as client:
        messages = [{"role": "user", "content": "go"}]
        return await run_hosted(client, opened, messages=messages, **request)


async def test_hosted_program_calls_tools_of_the_session(tmp_path: Path) -> None:
    def code() -> Code:
        first = yield [("shop__price", {"item": "tea"}), ("letters", {"count": 100_000})]
        price_row, text = [json.loads(row["content"]) for row in first]
        yield "pause"
        second = yield [("shop__price", {"item": "gold"}), ("draw", {})]
        return [price_row["price"], len(text), second[0].get("is_error"), second[1]["content"]]

    api = HostedApi(code)
    async with session(tmp_path, price, letters, draw, send) as opened:
        done = await run(opened, api, container={"skills": []}, system="Be brief.")
    assert json.loads(done.message.content[0].text) == [3.2, 100_000, True, '"drawn"']
    assert (done.container, done.usage.requests, done.usage.input_tokens) == (None, 4, 40)
    assert [row["role"] for row in done.messages].count("assistant") == 4
    first, *_, last = api.requests
    assert first["system"] == last["system"] == "Be brief."
    execution, *tools = first["tools"]
    assert execution == {"type": "code_execution_20260521", "name": "code_execution"}
    assert [row["name"] for row in tools] == ["shop__price", "letters", "draw", "send"]
    assert {tuple(row["allowed_callers"]) for row in tools} == {("code_execution_20260521",)}
    assert "json.loads" in tools[0]["description"]
    assert '"type":"number"' in tools[0]["description"], "the shape of the result"


async def test_hosted_call_that_requires_approval_asks_the_approver(tmp_path: Path) -> None:
    def code() -> Code:
        [row] = yield [("send", {"to": "ann"})]
        return [row.get("is_error", False), row["content"]]

    async def approve(request: Any) -> Decision:
        return Decision(True, by="ben")

    async with session(tmp_path, price, letters, draw, send, approver=approve) as opened:
        done = await run(opened, HostedApi(code))
        assert json.loads(done.message.content[0].text) == [False, '"sent to ann"']
    async with session(tmp_path, price, letters, draw, send) as opened:
        done = await run(opened, HostedApi(code))
        failed, text = json.loads(done.message.content[0].text)
    assert (failed, "paused" in text) == (True, True), "hosted code cannot wait for a person"


async def test_hosted_call_ends_before_the_container_expires(tmp_path: Path) -> None:
    cancelled = asyncio.Event()

    @tool
    async def wait() -> None:
        """Wait."""
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def code() -> Code:
        [row] = yield [("wait", {})]
        return [row["is_error"], row["content"]]

    async with session(tmp_path, wait) as opened:
        done = await run(opened, HostedApi(code, seconds=10.2), allowed_tools=["wait"])
    failed, text = json.loads(done.message.content[0].text)
    assert (failed, cancelled.is_set()) == (True, True)
    assert text.startswith("Error [timeout]: wait was cancelled after")


async def test_conversation_without_an_end_is_given_up(tmp_path: Path) -> None:
    def code() -> Code:
        while True:
            yield [("letters", {"count": 1})]

    api = HostedApi(code)
    async with session(tmp_path, letters) as opened:
        with pytest.raises(ModelError, match="within 3 requests; raise max_requests"):
            await run(opened, api, allowed_tools=["letters"], max_requests=3)
    assert len(api.requests) == 3


async def test_error_of_the_service_is_raised(tmp_path: Path) -> None:
    def code() -> Code:
        yield [("letters", {"count": 1})]

    api = HostedApi(code)
    api.pending = ["toolu_9"]
    async with session(tmp_path, letters) as opened:
        with pytest.raises(BadRequestError, match="container_id is required"):
            await run(opened, api, allowed_tools=["letters"])


async def test_usage_of_models_that_hosted_code_calls_is_reported(tmp_path: Path) -> None:
    def code() -> Code:
        given = {"schema": {"type": "object"}, "prompt": "Anything."}
        [row] = yield [("generate_object", given)]
        return json.loads(row["content"])["object"]

    async with session(tmp_path, model=ScriptedModel({"n": 1})) as opened:
        done = await run(opened, HostedApi(code), allowed_tools=["generate_object"])
    assert json.loads(done.message.content[0].text) == {"n": 1}
    assert done.tool_usage.requests == 1


async def test_limits_hold_for_hosted_calls(tmp_path: Path) -> None:
    def code() -> Code:
        [row] = yield [("letters", {"count": 5_000})]
        return [row["is_error"], row["content"]]

    limits = Limits(max_tool_result_bytes=1_000)
    async with session(tmp_path, letters, limits=limits) as opened:
        done = await run(opened, HostedApi(code), allowed_tools=["letters"])
    failed, text = json.loads(done.message.content[0].text)
    assert (failed, "result_too_large" in text) == (True, True)
