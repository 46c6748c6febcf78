"""`ptc_bindings.llama_index`: what is special to LlamaIndex, beside the contract."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ptc
from ptc import BlockingSession, Session, UsageError, tool_from
from ptc.testing import ScriptedModel
from ptc_bindings.llama_index import as_tools, with_injected

pytest.importorskip("llama_index.core", reason="pip install 'ptc-host[llama-index]'")

from llama_index.core.base.llms.types import AudioBlock, DocumentBlock, ImageBlock, TextBlock
from llama_index.core.base.response.schema import Response
from llama_index.core.schema import Document, NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.tools.tool_spec.base import BaseToolSpec
from llama_index.core.tools.types import AsyncBaseTool, BaseTool
from llama_index.core.workflow import Context, HumanResponseEvent

from .contract import PICTURE
from .peers.llama_index import finish, scripted_agent

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SEND = "async def run(ctx, inputs):\n    return await ctx.send(inputs['to'])"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def run(root: Path, things: list[Any], body: str) -> ptc.RunResult:
    async with Session(root, tools=things, toolsets=(), workers=1) as session:
        source = f"async def run(ctx, inputs):\n    return await ctx.{body}"
        return await session.program(source=source, allowed_tools=session.tool_names())


# --- in -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3.2, 3.2),
        ({"a": [True]}, {"a": [True]}),
        ('{"rows": [1]}', {"rows": [1]}),
        ("42", "42"),
        ("", ""),
        ([], []),
        ([TextBlock(text="[1]"), TextBlock(text="b")], [[1], "b"]),
        (ImageBlock(url="https://example.com/a.png"), None),
        (complex(1, 2), "(1+2j)"),
    ],
)
async def test_value_keeps_its_type(tmp_path: Path, value: Any, expected: Any) -> None:
    def get() -> Any:
        """Get."""
        return value

    if expected is None:
        expected = {"type": "image", "url": "https://example.com/a.png"}
    result = await run(tmp_path, [FunctionTool.from_defaults(get)], "get()")
    assert result.unwrap() == expected


async def test_nodes_and_responses_are_data(tmp_path: Path) -> None:
    def documents() -> list[Document]:
        """Return documents."""
        return [Document(text="tea", metadata={"page": 3})]

    def query() -> Response:
        """Query."""
        return Response("Tea.", source_nodes=[NodeWithScore(node=TextNode(text="tea"), score=0.5)])

    tools = [FunctionTool.from_defaults(documents), FunctionTool.from_defaults(query)]
    found = (await run(tmp_path, tools, "documents()")).unwrap()
    assert found[0]["metadata"] == {"page": 3}
    answer = (await run(tmp_path, tools, "query()")).unwrap()
    assert (answer["response"], answer["source_nodes"][0]["score"]) == ("Tea.", 0.5)


async def test_media_are_handles(tmp_path: Path) -> None:
    def media() -> list[Any]:
        """Return media."""
        return [
            ImageBlock(image=PICTURE),
            AudioBlock(audio=b"RIFF\0", format="wav"),
            DocumentBlock(data=b"%PDF-", document_mimetype="application/pdf"),
        ]

    result = await run(tmp_path, [FunctionTool.from_defaults(media)], "media()")
    types = [part["mime_type"] for part in result.unwrap()]
    assert types == ["image/png", "audio/wav", "application/pdf"]
    files = [Path(ref.path).read_bytes() for ref in result.calls[0].attachments]
    assert files == [PICTURE, b"RIFF\0", b"%PDF-"]


async def test_text_of_a_callback_replaces_the_value(tmp_path: Path) -> None:
    def secret() -> dict[str, str]:
        """Return a secret."""
        return {"secret": "hunter2"}

    hiding = FunctionTool.from_defaults(secret, callback=lambda value: '{"secret": "***"}')
    assert (await run(tmp_path, [hiding], "secret()")).unwrap() == {"secret": "***"}


class Odd(AsyncBaseTool):
    """A tool of an application, which takes one value and reports an error."""

    calls = 0

    @property
    def metadata(self) -> ToolMetadata:
        return ToolMetadata("Odd.", "odd")

    def call(self, input: Any) -> ToolOutput:
        raise NotImplementedError

    async def acall(self, input: Any) -> ToolOutput:
        self.calls += 1
        if input == "crash":
            raise TypeError("no such thing")
        return ToolOutput(
            tool_name="odd", content=f"no {input}", raw_input={}, raw_output=None, is_error=True
        )


async def test_output_with_an_error_is_a_failure(tmp_path: Path) -> None:
    result = await run(tmp_path, [Odd()], "odd(input='tea')")
    assert result.error is not None
    assert result.error.message == "ToolError: no tea"


async def test_failing_tool_is_called_once(tmp_path: Path) -> None:
    odd = Odd()
    result = await run(tmp_path, [odd], "odd(input='crash')")
    assert (result.ok, odd.calls) == (False, 1)


async def test_plain_tool_and_tool_spec_are_accepted(tmp_path: Path) -> None:
    class Plain(BaseTool):
        @property
        def metadata(self) -> ToolMetadata:
            return ToolMetadata("Double.", "double-it")

        def __call__(self, input: Any) -> ToolOutput:
            return ToolOutput(
                tool_name="double", content=input * 2, raw_input={}, raw_output=input * 2
            )

    class Spec(BaseToolSpec):
        spec_functions = ["upper"]  # noqa: RUF012  # as LlamaIndex declares it

        async def upper(self, text: str) -> str:
            """Return upper case."""
            return text.upper()

    assert (await run(tmp_path, [Plain()], "double_it(input='ab')")).unwrap() == "abab"
    assert (await run(tmp_path, [Spec()], "upper(text='ab')")).unwrap() == "AB"


async def test_context_comes_from_the_application(tmp_path: Path) -> None:
    async def whoami(ctx: Context, greeting: str) -> str:
        """Say who it is."""
        return f"{greeting} {await ctx.store.get('user')}"

    native = FunctionTool.from_defaults(async_fn=eval_hints(whoami))
    with pytest.raises(UsageError, match=r"takes {'ctx': context} from a workflow"):
        tool_from(native)
    context: Any = Context(scripted_agent([]))
    await context.store.set("user", "ann")
    bound = with_injected(native, {"ctx": context})
    assert (await run(tmp_path, [bound], "whoami(greeting='hi')")).unwrap() == "hi ann"
    with pytest.raises(UsageError, match="takes no context"):
        with_injected(FunctionTool.from_defaults(async_fn=Odd().acall, name="odd"), {"ctx": 1})


def eval_hints(function: Any) -> Any:
    """Resolve the hints of a function: LlamaIndex does not."""
    function.__annotations__ = {"ctx": Context, "greeting": str, "return": str}
    return function


async def test_bound_arguments_cannot_be_changed(tmp_path: Path) -> None:
    def pay(to: str, account: str = "") -> str:
        """Pay."""
        return f"{account} pays {to}"

    native = FunctionTool.from_defaults(pay, partial_params={"account": "ann"})
    assert (await run(tmp_path, [native], "pay(to='ben')")).unwrap() == "ann pays ben"
    assert not (await run(tmp_path, [native], "pay(**{'to': 'ben', 'account': 'eve'})")).ok


# --- out ------------------------------------------------------------------------------------------


class Sender:
    def __init__(self) -> None:
        self.sent: list[str] = []

    def tool(self) -> ptc.Tool:
        def send(to: str) -> str:
            """Send a message."""
            self.sent.append(to)
            return f"sent to {to}"

        return ptc.tool(side_effect=True, idempotent=True, needs_approval=True)(send)


@pytest.fixture
def sender() -> Sender:
    return Sender()


def open_session(root: Path, *tools: Any, **options: Any) -> Session:
    return Session(root, tools=tools, toolsets=(), workers=1, **options)


def agent_of(session: Any, *calls: tuple[str, dict[str, Any]], direct: Any = True) -> Any:
    tools = as_tools(session, allowed_tools=session.tool_names(), direct=direct)
    return scripted_agent([*tools], list(calls))


async def test_output_has_blocks_data_and_the_error(tmp_path: Path) -> None:
    def fail() -> str:
        """Fail."""
        raise ptc.ToolError("no tea left", code="out_of_stock")

    async with open_session(tmp_path, fail) as session:
        [program, single] = as_tools(session, direct=["fail"])
        good = await program.acall(source="[1, 2]")
        bad = await single.acall()
    assert (good.is_error, good.content, good.raw_output["data"]) == (
        False,
        "[1,2]",
        {"value": [1, 2]},
    )
    assert (bad.is_error, bad.raw_output["code"]) == (True, "out_of_stock")
    assert "no tea left" in bad.content


async def test_definition_has_the_schema_of_the_tool(tmp_path: Path) -> None:
    def look(ctx: str, args: list[int]) -> str:
        """Look."""
        return f"{ctx} {args}"

    async with open_session(tmp_path, look) as session:
        [single] = as_tools(session, direct=True, program=False)
        definition = single.metadata.to_openai_tool()["function"]
        outputs = await finish(agent_of(session, ("look", {"ctx": "a", "args": [1]})))
    assert definition["parameters"]["properties"]["args"]["items"] == {"type": "integer"}
    assert outputs[0].content == "a [1]"


async def test_each_call_is_approved_edited_or_rejected(tmp_path: Path, sender: Sender) -> None:
    source = """
import asyncio
async def run(ctx, inputs):
    first = await asyncio.gather(ctx.send('ann'), ctx.send('ben'))
    try:
        return first, await ctx.send('eve')
    except ToolError as error:
        return first, str(error)
"""
    answers: Any = iter(
        [
            {"response": "approve", "user_name": "zoe"},
            {"response": "maybe"},
            {"response": "approve", "arguments": {"to": 3}},
            {"response": "approve", "arguments": {"to": "bob"}},
            {"response": "reject", "comment": "not today"},
        ]
    )
    asked = []

    def answer(event: Any) -> dict[str, Any]:
        asked.append((event.arguments["to"], event.prefix))
        return {"run_id": event.run_id, "call": event.call, **next(answers)}

    async with open_session(tmp_path, sender.tool()) as session:
        [output] = await finish(agent_of(session, ("program", {"source": source})), answer)
        decisions = (await session.history.recorded(output.raw_output["run_id"])).decisions
    assert [to for to, _ in asked] == ["ann", "ben", "ben", "ben", "eve"]
    assert "must be" in asked[2][1]
    assert "got 3" in asked[3][1]
    assert sorted(sender.sent) == ["ann", "bob"]
    assert "not today" in output.content
    assert decisions[0].by == "zoe"


async def test_answer_for_another_call_decides_nothing(tmp_path: Path, sender: Sender) -> None:
    async with open_session(tmp_path, sender.tool()) as session:
        agent = agent_of(session, ("program", {"source": SEND, "inputs": {"to": "ann"}}))
        handler = agent.run(user_msg="?")
        async for event in handler.stream_events():
            if getattr(event, "call", None):
                right = {"run_id": event.run_id, "call": event.call, "response": "reject"}
                wrong = {**right, "call": "7", "response": "approve"}
                handler.ctx.send_event(HumanResponseEvent(**wrong))
                handler.ctx.send_event(HumanResponseEvent(**right))
        await handler
    assert sender.sent == []


async def test_equal_calls_at_the_same_time_are_approved_each(
    tmp_path: Path, sender: Sender
) -> None:
    runs: list[str] = []

    def answer(event: Any) -> dict[str, Any]:
        runs.append(event.run_id)
        decision = "approve" if len(runs) == 2 else "reject"
        return {"run_id": event.run_id, "call": event.call, "response": decision}

    call = ("send", {"to": "ann"})
    async with open_session(tmp_path, sender.tool()) as session:
        outputs = await finish(agent_of(session, call, call), answer)
    assert (len(set(runs)), sender.sent) == (2, ["ann"])
    assert sorted(output.is_error for output in outputs) == [False, True]


async def test_outside_of_a_workflow_the_reply_says_that_the_run_is_paused(
    tmp_path: Path, sender: Sender
) -> None:
    async with open_session(tmp_path, sender.tool()) as session:
        [single] = as_tools(session, allowed_tools=["send"], direct=True, program=False)
        output = await single.acall(to="ann")
    assert (output.is_error, sender.sent) == (False, [])
    assert "The run is paused" in output.content


def test_plain_call_works_with_a_blocking_session(tmp_path: Path) -> None:
    with BlockingSession(tmp_path, toolsets=(), workers=1) as session:
        [program] = as_tools(session)
        assert program(source="6 * 7").content == "42"
        assert asyncio.run(program.acall(source="6 * 7")).content == "42"


async def test_agent_generates_an_object(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
    arguments = {"schema": schema, "prompt": "The total of: 12 EUR"}
    async with open_session(tmp_path, model=ScriptedModel({"total": 12})) as session:
        agent = agent_of(session, ("generate_object", arguments), direct=["generate_object"])
        [output] = await finish(agent)
    assert (output.is_error, '"total":12' in output.content) == (False, True)


def test_importing_the_binding_does_not_import_the_framework() -> None:
    code = "import sys, ptc_bindings.llama_index; print('llama_index.core' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
