"""Files, examples and messages in the form of each provider, against a server of this machine."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptc import Attachment, ImageContent, ModelError, Session, UsageError

from .fake_server import FakeServer, Step

pytest.importorskip("pydantic_ai", reason="pip install 'ptc-host[models]'")

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning"),
]

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["total"],
    "additionalProperties": False,
}
CHAT, RESPONSES, MESSAGES = (
    "openai-chat:gpt-4o",
    "openai-responses:gpt-4o",
    "anthropic:claude-sonnet-4-5",
)
PNG = b"\x89PNG\r\n\x1a\n-pixels-"
PDF = b"%PDF-1.7\n-pages-"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=[CHAT, RESPONSES, MESSAGES])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    with FakeServer([]) as running:
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{running.url}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        yield running


def messages_of(name: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    found = body["input" if name == RESPONSES else "messages"]
    return [message for message in found if message.get("role") not in ("system", "developer")]


def data_of(name: str, block: dict[str, Any]) -> tuple[str, str, bytes]:
    """Kind, media type and bytes of a file, as the provider reads them."""
    kind = str(block["type"])
    if kind in ("image", "document"):
        source = block["source"]
        assert source["type"] == "base64"
        return kind, source["media_type"], base64.b64decode(source["data"])
    address = {
        "image_url": lambda: block["image_url"]["url"],
        "file": lambda: block["file"]["file_data"],
        "input_image": lambda: block["image_url"],
        "input_file": lambda: block["file_data"],
    }[kind]()
    head, _, data = address.partition(";base64,")
    return kind, head.removeprefix("data:"), base64.b64decode(data)


async def test_files_reach_each_provider_in_its_own_form(
    server: FakeServer, name: str, tmp_path: Path
) -> None:
    scan = tmp_path / "scan.dat"
    scan.write_bytes(PDF)
    server.steps[:] = [Step(args='{"total": 3}')]
    image = ImageContent(base64.b64encode(PNG).decode(), "image/png")
    async with Session(model=name) as session:
        parts: list[Any] = ["Compare", image, "with", scan]
        found = await session.generate_object(SCHEMA, parts)
    assert found.object == {"total": 3}
    (message,) = messages_of(name, server.requests[0].body)
    first, picture, second, document = message["content"]
    assert (first["text"], second["text"]) == ("Compare", "with")
    image_kind, pdf_kind = {
        CHAT: ("image_url", "file"),
        RESPONSES: ("input_image", "input_file"),
        MESSAGES: ("image", "document"),
    }[name]
    assert data_of(name, picture) == (image_kind, "image/png", PNG)
    assert data_of(name, document) == (pdf_kind, "application/pdf", PDF)


@pytest.mark.sample(1)
async def test_files_are_sent_again_with_the_feedback(server: FakeServer, name: str) -> None:
    server.steps[:] = [Step(args='{"total": "x"}'), Step(args='{"total": 3}')]
    async with Session(model=name) as session:
        await session.generate_object(SCHEMA, [Attachment("a.png", "image/png", PNG)])
    (block,) = messages_of(name, server.requests[1].body)[0]["content"]
    assert data_of(name, block)[1:] == ("image/png", PNG)


def calls_and_results(name: str, body: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Calls in a conversation as identifier and arguments, and the identifiers of their results."""
    calls: list[Any] = []
    results: list[Any] = []
    for message in messages_of(name, body):
        if message.get("type") == "function_call":
            calls.append((message["call_id"], json.loads(message["arguments"])))
        elif message.get("type") == "function_call_output":
            results.append(message["call_id"])
        elif message.get("role") == "tool":
            results.append(message["tool_call_id"])
        for call in message.get("tool_calls") or ():
            calls.append((call["id"], json.loads(call["function"]["arguments"])))
        for block in message.get("content") or () if name == MESSAGES else ():
            if block["type"] == "tool_use":
                calls.append((block["id"], block["input"]))
            elif block["type"] == "tool_result":
                results.append(block["tool_use_id"])
    return calls, results


async def test_examples_are_answered_calls_of_the_tool(server: FakeServer, name: str) -> None:
    server.steps[:] = [Step(args='{"total": 3}')]
    examples: list[tuple[Any, Any]] = [
        ("one", {"total": 1}),
        ([Attachment("b.pdf", "application/pdf", PDF)], {"total": 2, "note": "paid"}),
    ]
    async with Session(model=name) as session:
        await session.generate_object(SCHEMA, "three", examples=examples, system="Count.")
    body = server.requests[0].body
    calls, results = calls_and_results(name, body)
    assert [arguments for _, arguments in calls] == [value for _, value in examples]
    assert [identifier for identifier, _ in calls] == results
    assert len(set(results)) == 2
    texts = json.dumps(messages_of(name, body))
    assert texts.index("one") < texts.index(base64.b64encode(PDF).decode()) < texts.index("three")


@pytest.mark.sample(1)
@pytest.mark.parametrize("mode", ["native", "prompt"])
async def test_examples_are_texts_without_a_tool(server: FakeServer, name: str, mode: Any) -> None:
    server.steps[:] = [Step(text='{"total": 3}')]
    async with Session(model=name) as session:
        await session.generate_object(SCHEMA, "two", examples=[("one", {"total": 1})], mode=mode)
    user, model, last = messages_of(name, server.requests[0].body)
    assert [user["role"], model["role"], last["role"]] == ["user", "assistant", "user"]
    content = model["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    assert json.loads(text) == {"total": 1}


@pytest.mark.sample(1)
async def test_messages_keep_their_roles_and_order(server: FakeServer, name: str) -> None:
    server.steps[:] = [Step(args='{"total": 3}')]
    prompt: list[Any] = [
        {"role": "user", "content": ["The first page:", Attachment("p", "image/png", PNG)]},
        {"role": "assistant", "content": "It has two items."},
        {"role": "user", "content": "How many on both?"},
    ]
    async with Session(model=name) as session:
        await session.generate_object(SCHEMA, prompt)
    found = messages_of(name, server.requests[0].body)
    assert [message["role"] for message in found] == ["user", "assistant", "user"]
    assert data_of(name, found[0]["content"][1])[2] == PNG
    assert "two items" in json.dumps(found[1])
    assert "on both" in json.dumps(found[2])


async def test_null_for_missing_makes_openai_enforce_the_schema(server: FakeServer) -> None:
    server.steps[:] = [Step(text='{"total": 3, "note": null}')]
    async with Session(model=RESPONSES) as session:
        found = await session.generate_object(
            SCHEMA, "three", mode="native", null_for_missing=True, examples=[("one", {"total": 1})]
        )
    assert found.object == {"total": 3}
    body = server.requests[0].body
    sent = body["text"]["format"]
    assert sent["strict"] is True
    assert sorted(sent["schema"]["required"]) == ["note", "total"]
    assert sent["schema"]["properties"]["note"]["type"] == ["string", "null"]
    assert '{\\"total\\": 1, \\"note\\": null}' in json.dumps(body["input"])


@pytest.mark.parametrize("model", ["anthropic:claude-sonnet-4-5", "vllm:llama"])
async def test_file_that_the_model_does_not_take_is_refused_before_the_request(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, model: str, tmp_path: Path
) -> None:
    monkeypatch.setenv("VLLM_BASE_URL", f"{server.url}/v1")
    file = tmp_path / "a.xlsx"
    office(file)
    async with Session(model=model) as session:
        with pytest.raises(UsageError, match=r"does not take files of type .*spreadsheet"):
            await session.generate_object(SCHEMA, [file])
    assert server.requests == []


def office(path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")


async def test_refused_image_is_not_taken_for_a_refused_mode(server: FakeServer) -> None:
    server.steps[:] = [
        Step(status=400, error="Invalid image: this model does not support image input"),
        Step(args='{"total": 3}'),
    ]
    async with Session(model=CHAT) as session:
        with pytest.raises(ModelError, match="does not support image input") as caught:
            await session.generate_object(SCHEMA, [Attachment("a.png", "image/png", PNG)])
        assert not caught.value.refused
        found = await session.generate_object(SCHEMA, "three")
    assert (found.mode_used, found.fallbacks) == ("tool", ())


async def test_mode_refused_with_a_file_is_remembered_only_after_another_mode_worked(
    server: FakeServer,
) -> None:
    image = Attachment("a.png", "image/png", PNG)
    no = Step(status=400, error="bad request")
    server.steps[:] = [no, no, no, Step(args='{"total": 3}')]
    async with Session(model=CHAT) as session:
        with pytest.raises(ModelError, match="bad request"):
            await session.generate_object(SCHEMA, [image])
        assert (await session.generate_object(SCHEMA, [image])).mode_used == "tool"
        server.steps[:] = [no, Step(text='{"total": 3}'), Step(text='{"total": 4}')]
        assert (await session.generate_object(SCHEMA, [image])).mode_used == "native"
        assert (await session.generate_object(SCHEMA, [image])).mode_used == "native"
    assert server.steps == []
