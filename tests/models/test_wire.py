"""Requests and answers of the providers' own packages, against a server of this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from ptc import Generated, ModelError, Session, TruncatedError, UsageError
from ptc.structured import Partial

from .fake_server import FakeServer, Step

pytest.importorskip("pydantic_ai", reason="pip install 'ptc-host[models]'")

pytestmark = [
    pytest.mark.anyio,
    # Which models are deprecated is a matter of the day.
    pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning"),
    # openai's streams leave generators to the collector, which trio tells of.
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"note": {"type": "string"}, "total": {"type": "integer"}},
    "required": ["total"],
    "additionalProperties": False,
}
CHAT, RESPONSES, MESSAGES = (
    "openai-chat:gpt-4o",
    "openai-responses:gpt-4o",
    "anthropic:claude-sonnet-4-5",
)


@pytest.fixture
def anyio_backend() -> str:
    """The providers' packages run on either loop; one test is made on both."""
    return "asyncio"


@pytest.fixture(params=[CHAT, RESPONSES, MESSAGES])
def name(request: pytest.FixtureRequest) -> str:
    provider = str(request.param).split("-")[0].split(":")[0]
    pytest.importorskip(provider, reason="pip install 'ptc-host[models]'")
    return str(request.param)


@pytest.fixture(params=["whole", "streamed"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "streamed")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    with FakeServer([]) as running:
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{running.url}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        yield running


class RequestSender:
    """One session's questions to the server, with the partials that came."""

    def __init__(self, server: FakeServer, name: str, streamed: bool) -> None:
        self._server = server
        self._name = name
        self._streamed = streamed
        self.partials: list[Partial] = []

    async def __call__(self, *steps: Step, **options: Any) -> Generated[Any]:
        self._server.steps[:] = steps
        self._server.requests.clear()
        self.partials.clear()
        if self._streamed:
            options["on_partial"] = self.partials.append
        schema = options.pop("schema", SCHEMA)
        async with Session(model=self._name) as session:
            return await session.generate_object(schema, "Read it.", **options)


@pytest.fixture
def ask(server: FakeServer, name: str, streamed: bool) -> RequestSender:
    return RequestSender(server, name, streamed)


def tool_of(name: str, body: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """The schema that went along, and what made the model call the tool."""
    (tool,) = body["tools"]
    if name == CHAT:
        return tool["function"]["parameters"], body["tool_choice"]
    return tool["parameters" if name == RESPONSES else "input_schema"], body["tool_choice"]


@pytest.mark.both_loops
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_result_tool_is_forced_and_reasoning_is_ignored(
    ask: RequestSender, server: FakeServer, name: str, streamed: bool
) -> None:
    found = await ask(Step(args='{"note": "a", "total": 1234}', thinking='{"total": 9}'))
    assert found.object == {"note": "a", "total": 1234}
    assert (found.mode_used, found.usage.input_tokens, found.usage.output_tokens) == ("tool", 10, 4)
    schema, choice = tool_of(name, server.requests[0].body)
    assert schema == SCHEMA
    assert choice == "required" or choice["type"] == "any"
    assert all(p.value.get("total", 1234) == 1234 for p in ask.partials)
    assert (ask.partials[-1].value == found.value) if streamed else not ask.partials


def part_of(body: Any, path: list[Any]) -> Any:
    for step in path:
        body = body[step]
    return body


async def test_violations_are_sent_back_as_the_result_of_the_call(
    ask: RequestSender, server: FakeServer, name: str
) -> None:
    found = await ask(Step(args='{"total": "x"}'), Step(args='{"total": 3}'))
    assert (found.object, found.usage.requests, found.usage.output_tokens) == ({"total": 3}, 2, 8)
    body = server.requests[1].body
    said = body["input" if name == RESPONSES else "messages"][-1]
    if name == CHAT:
        assert (said["role"], said["tool_call_id"]) == ("tool", "t1")
        text = json.loads(said["content"])["error"]
    elif name == RESPONSES:
        assert (said["type"], said["call_id"]) == ("function_call_output", "t1")
        text = json.loads(said["output"])["error"]
    else:
        (result,) = said["content"]
        assert (result["type"], result["tool_use_id"]) == ("tool_result", "t1")
        assert result["is_error"]
        text = result["content"][0]["text"]
    assert '/total: "x" is not of type "integer"' in text


async def test_malformed_arguments_are_repaired_without_another_request(
    ask: RequestSender, name: str
) -> None:
    found = await ask(Step(args="{'note': 'a', 'total': 3,}"))
    assert (found.object, found.usage.requests) == ({"note": "a", "total": 3}, 1)


async def test_text_answer_is_accepted_although_the_tool_was_forced(ask: RequestSender) -> None:
    found = await ask(Step(text='Here it is:\n```json\n{"total": 5}\n```'))
    assert (found.object, found.mode_used) == ({"total": 5}, "tool")


async def test_schema_is_sent_in_native_form_or_in_the_instructions(
    ask: RequestSender, server: FakeServer, name: str
) -> None:
    await ask(Step(text='{"total": 5}'), mode="native")
    body = server.requests[0].body
    form = part_of(
        body,
        {
            CHAT: ["response_format", "json_schema", "schema"],
            RESPONSES: ["text", "format", "schema"],
            MESSAGES: ["output_config", "format", "schema"],
        }[name],
    )
    assert form["properties"]["total"] == {"type": "integer"}
    assert "tools" not in body
    await ask(Step(text='{"total": 5}'), mode="prompt", system="Be exact.")
    body = server.requests[0].body
    places: dict[str, list[Any]] = {
        CHAT: ["messages", 0, "content"],
        RESPONSES: ["instructions"],
        MESSAGES: ["system"],
    }
    said = json.dumps(part_of(body, places[name]))
    assert "Be exact." in said
    assert '"additionalProperties"' in said.replace("\\", "")


@pytest.mark.sample(2)
async def test_refused_mode_falls_back_to_the_next(ask: RequestSender, server: FakeServer) -> None:
    refusal = Step(status=400, error="tool_choice is not supported with thinking")
    found = await ask(refusal, Step(status=422, error="no output format"), Step(text='{"total":5}'))
    assert (found.object, found.mode_used) == ({"total": 5}, "prompt")
    assert [fallback.mode for fallback in found.fallbacks] == ["tool", "native"]
    assert "HTTP 400: tool_choice is not supported" in found.fallbacks[0].reason
    assert len(server.requests) == 3


@pytest.mark.sample(2)
async def test_schema_with_free_keys_is_not_sent_in_native_mode(
    ask: RequestSender, server: FakeServer
) -> None:
    free = {"type": "object", "additionalProperties": {"type": "integer"}}
    refusal = Step(status=400, error="no tools")
    found = await ask(refusal, Step(text='{"a": 1}'), schema=free)
    assert (found.object, found.mode_used) == ({"a": 1}, "prompt")
    with pytest.raises(UsageError, match="objects with arbitrary keys"):
        await ask(schema=free, mode="native")
    assert server.requests == []


@pytest.mark.sample(2)
async def test_busy_and_failing_servers_are_retried_by_the_provider_package(
    ask: RequestSender, server: FakeServer
) -> None:
    busy, down = Step(status=429), Step(status=500)
    found = await ask(busy, down, Step(args='{"total": 5}'))
    assert (found.object, len(found.attempts), len(server.requests)) == ({"total": 5}, 1, 3)
    with pytest.raises(ModelError, match="HTTP 500: the server said no") as caught:
        await ask(down, down, down)
    assert (caught.value.status, caught.value.retryable) == (500, True)
    assert (len(server.requests), caught.value.attempts) == (3, ())


async def test_wrong_key_and_unknown_model_are_reported_without_retry(
    ask: RequestSender, server: FakeServer
) -> None:
    for status, message in ((401, "bad key"), (404, "no such model")):
        with pytest.raises(ModelError, match=message) as caught:
            await ask(Step(status=status, error=message))
        assert (caught.value.status, caught.value.retryable) == (status, False)
        assert len(server.requests) == 1


async def test_answer_over_its_token_limit_raises_truncated_error(
    ask: RequestSender, server: FakeServer
) -> None:
    short = Step(text='{"note": "abc", "total": 12', finish="length")
    with pytest.raises(TruncatedError) as caught:
        await ask(short, settings={"max_tokens": 16})
    assert caught.value.text == '{"note": "abc", "total": 12'
    assert len(server.requests) == 1
    assert not any(partial.final for partial in ask.partials)


@pytest.mark.sample(1)
async def test_answer_over_the_default_limit_is_requested_with_a_higher_one(
    ask: RequestSender, server: FakeServer, name: str
) -> None:
    short = Step(args='{"note": "abc", "total": 12', finish="length")
    found = await ask(short, Step(args='{"total": 1234}'))
    assert (found.object, len(found.attempts)) == ({"total": 1234}, 1)
    word = {CHAT: "max_completion_tokens", RESPONSES: "max_output_tokens", MESSAGES: "max_tokens"}
    assert server.requests[1].body[word[name]] == 4_096
    too_many = Step(status=400, error="max_tokens is too large")
    with pytest.raises(TruncatedError):
        await ask(short, too_many)
    assert len(server.requests) == 2


@pytest.mark.sample(1)
async def test_answer_without_closers_that_ended_by_itself_is_not_truncated(
    ask: RequestSender, server: FakeServer
) -> None:
    found = await ask(Step(text='{"note": "Ann", "tot'), Step(text='{"total": 31}'))
    assert (found.object, len(server.requests)) == ({"total": 31}, 2)
    assert "ends before its JSON value does" in str(found.attempts[0].violations[0])


@pytest.mark.sample(1)
async def test_refused_mode_is_not_requested_again_in_a_session(
    server: FakeServer, name: str
) -> None:
    refusal = Step(status=400, error="tool_choice is not supported")
    server.steps[:] = [refusal, *[Step(text='{"total": 5}')] * 3]
    async with Session(model=name) as session:
        modes = [(await session.generate_object(SCHEMA, "x")).mode_used for _ in range(3)]
    assert (modes, len(server.requests)) == (["native"] * 3, 4)


UNION: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$id": "https://example.com/shapes",
    "oneOf": [{"$ref": "#/definitions/M"}, {"type": "null"}],
    "definitions": {
        "M": {
            "type": "object",
            "properties": {"total": {"type": "integer", "minimum": 1}, "unit": {"type": "string"}},
            "required": ["total", "unit"],
        }
    },
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("mode", ["tool", "native"])
async def test_union_with_old_references_is_published_as_the_provider_requires(
    ask: RequestSender, server: FakeServer, name: str, mode: Any
) -> None:
    value = '{"value": {"total": 5, "unit": "kg"}}'
    step = Step(args=value) if mode == "tool" else Step(text=value)
    found = await ask(step, schema=UNION, mode=mode)
    assert found.object == {"total": 5, "unit": "kg"}
    body = server.requests[0].body
    if mode == "tool":
        sent, _ = tool_of(name, body)
        assert sent["properties"]["value"]["oneOf"][0] == {"$ref": "#/$defs/M"}
    else:
        path = {
            CHAT: ["response_format", "json_schema"],
            RESPONSES: ["text", "format"],
            MESSAGES: ["output_config", "format"],
        }[name]
        form = part_of(body, path)
        sent = form["schema"]
        assert form.get("strict", True) is True
        assert sent["properties"]["value"]["anyOf"][0] == {"$ref": "#/$defs/M"}
        assert sent["$defs"]["M"]["additionalProperties"] is False
        # Anthropic's grammar has no limits of numbers: the model reads them.
        kept = sent["$defs"]["M"]["properties"]["total"]
        assert ("minimum" in kept) is (name != MESSAGES)
        assert "minimum" in json.dumps(kept)
    assert sent["type"] == "object"
    assert not sent.keys() & {"oneOf", "anyOf", "definitions", "$id"}


@pytest.mark.parametrize("local", ["llamacpp", "ollama"])
async def test_local_server_gets_the_schema_as_a_grammar_and_in_the_instructions(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, local: str
) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("LLAMACPP_BASE_URL", f"{server.url}/v1")
    monkeypatch.setenv("OLLAMA_BASE_URL", f"{server.url}/v1")
    server.steps[:] = [Step(text='{"total": 5}')]
    async with Session(model=f"{local}:qwen3") as session:
        found = await session.generate_object(SCHEMA, "Read.", settings={"max_tokens": 120})
    assert (found.object, found.mode_used, found.fallbacks) == ({"total": 5}, "native", ())
    body = server.requests[0].body
    assert body["max_tokens"] == 120
    form = body["response_format"]
    if local == "llamacpp":
        assert form == {"type": "json_object", "schema": SCHEMA}
    else:
        assert form["type"] == "json_schema"
        assert form["json_schema"]["schema"]["properties"] == SCHEMA["properties"]
    assert '"total"' in body["messages"][0]["content"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("end", ["closed", "broken"])
async def test_interrupted_stream_is_retried_and_never_taken_as_an_answer(
    server: FakeServer, name: str, end: Any
) -> None:
    ask = RequestSender(server, name, streamed=True)
    # By itself the first would do: of what follows nobody knows.
    parts = Step(args='{"note": "abc", "total": 12', end=end), Step(args='{"total": 1234}')
    found = await ask(*parts)
    assert (found.object, len(found.attempts)) == ({"total": 1234}, 1)
    assert len(server.requests) == 2
    assert ask.partials[-1].value == {"total": 1234}
    assert ask.partials[-1].attempt == 2
    with pytest.raises((TruncatedError, ModelError)):
        await ask(*[Step(args='{"note": "ab', end=end)] * 3)
    assert len(server.requests) == 3


@pytest.mark.sample(1)
async def test_concurrent_requests_share_a_session(server: FakeServer, name: str) -> None:
    server.steps[:] = [Step(args='{"total": 5}')] * 30
    found: list[Any] = []

    async def one() -> None:
        found.append((await session.generate_object(SCHEMA, "Read it.")).object)

    async with Session(model=name) as session, anyio.create_task_group() as group:
        for _ in range(30):
            group.start_soon(one)
    assert found == [{"total": 5}] * 30
