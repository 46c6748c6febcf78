"""`ptc_bindings.langchain`: what is special to LangChain and LangGraph, beside the contract."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest

import ptc
from ptc import BlockingSession, Session, UsageError, tool_from
from ptc.testing import ScriptedModel
from ptc_bindings.langchain import as_tools, with_injected

pytest.importorskip("langchain", reason="pip install 'ptc-host[langchain]'")

from langchain.tools import InjectedState
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.tools import (
    BaseToolkit,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    ToolException,
    tool,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import BaseModel, field_validator

from .peers.langchain import CONFIG, Sender, agent_of, open_session, tool_messages

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def run(root: Path, things: list[Any], body: str) -> ptc.RunResult:
    async with Session(root, tools=things, toolsets=(), workers=1) as session:
        source = f"async def run(ctx, inputs):\n    return await ctx.{body}"
        return await session.program(source=source, allowed_tools=session.tool_names())


# --- in -------------------------------------------------------------------------------------------


def refuse(count: int) -> str:
    """Always fail."""
    raise ToolException(f"{count} is too many")


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        (False, "3 is too many"),
        (True, "3 is too many"),
        ("Try fewer.", "Try fewer."),
        (lambda error: f"({error})", "(3 is too many)"),
    ],
)
async def test_handled_error_of_a_tool_is_a_failure(
    tmp_path: Path, handler: Any, text: str
) -> None:
    failing = StructuredTool.from_function(refuse, handle_tool_error=handler)
    result = await run(tmp_path, [failing], "refuse(count=3)")
    assert result.error is not None
    assert result.error.message == f"ToolError: {text}"


async def test_message_with_the_status_error_is_a_failure(tmp_path: Path) -> None:
    @tool
    def search(query: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
        """Search."""
        return ToolMessage("the index is down", tool_call_id=tool_call_id, status="error")

    result = await run(tmp_path, [search], "search(query='a')")
    assert result.error is not None
    assert "the index is down" in result.error.message


class Row(BaseModel):
    id: int


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3.2, 3.2),
        (True, True),
        ('{"rows": [1]}', {"rows": [1]}),
        ("42", "42"),
        (Row(id=1), {"id": 1}),
        ([Row(id=1)], [{"id": 1}]),
        ([{"type": "text", "text": "[1]"}, {"type": "text", "text": "b"}], [[1], "b"]),
        ([{"type": "file", "name": "a.txt"}], [{"type": "file", "name": "a.txt"}]),
        (complex(1, 2), "(1+2j)"),
    ],
)
async def test_value_keeps_its_type(tmp_path: Path, value: Any, expected: Any) -> None:
    @tool
    def get() -> Any:
        """Get."""
        return value

    assert (await run(tmp_path, [get], "get()")).unwrap() == expected


async def test_artifact_is_the_value(tmp_path: Path) -> None:
    @tool(response_format="content_and_artifact")
    def find(text: str) -> tuple[str, Any]:
        """Find."""
        return "1 document", [Document(page_content=text)] if text else object()

    assert (await run(tmp_path, [find], "find(text='tea')")).unwrap()[0]["page_content"] == "tea"
    assert (await run(tmp_path, [find], "find(text='')")).unwrap() == "1 document"


async def test_command_is_passed_on_or_refused(tmp_path: Path) -> None:
    @tool
    def remember(name: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Remember."""
        return Command(
            update={"user": name, "messages": [ToolMessage("", tool_call_id=tool_call_id)]}
        )

    refused = await run(tmp_path, [remember], "remember(name='ann')")
    assert refused.error is not None
    assert "on_command=" in refused.error.message
    commands: list[Any] = []

    def apply(command: Any) -> str:
        commands.append(command)
        return str(command.update["user"])

    applied = await run(tmp_path, [with_injected(remember, on_command=apply)], "remember(name='b')")
    assert (applied.unwrap(), len(commands)) == ("b", 1)
    [message] = commands[0].update["messages"]
    assert message.tool_call_id == f"{applied.run_id}.1"


async def test_injected_values_come_from_the_application(tmp_path: Path) -> None:
    @tool
    def whoami(greeting: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Say who it is."""
        return f"{greeting} {state['user']}"

    with pytest.raises(UsageError, match=r"'whoami' takes state from a graph.*with_injected\(tool"):
        tool_from(whoami)
    with pytest.raises(
        UsageError, match="'stat' is not an injected parameter; injected are: state"
    ):
        with_injected(whoami, {"state": {}, "stat": {}})
    bound = with_injected(whoami, {"state": {"user": "ann"}})
    assert bound.parameter_names == ("greeting",)
    assert (await run(tmp_path, [bound], "whoami(greeting='hi')")).unwrap() == "hi ann"
    forged = await run(tmp_path, [bound], "whoami(**{'greeting': 'hi', 'state': {'user': 'ben'}})")
    assert not forged.ok


async def test_interrupt_in_a_tool_is_explained(tmp_path: Path) -> None:
    @tool
    def ask(question: str) -> str:
        """Ask."""
        return str(interrupt(question))

    result = await run(tmp_path, [ask], "ask(question='?')")
    assert result.error is not None
    assert "needs_approval=True" in result.error.message


async def test_validation_error_does_not_contain_the_value(tmp_path: Path) -> None:
    class Arguments(BaseModel):
        key: str

        @field_validator("key")
        @classmethod
        def check(cls, value: str) -> str:
            raise ValueError("not a key")

    @tool(args_schema=Arguments)
    def use(key: str) -> str:
        """Use a key."""
        return key

    result = await run(tmp_path, [use], "use(key='hunter2')")
    assert result.error is not None
    assert "key: Value error, not a key" in result.error.message
    assert "hunter2" not in result.error.message


async def test_argument_is_never_read_as_a_tool_call(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"type": {"type": "string"}, "args": {"type": "object"}},
    }
    got: list[dict[str, Any]] = []
    echo = StructuredTool(
        name="echo", description="Echo.", args_schema=schema, func=lambda **given: got.append(given)
    )
    await run(tmp_path, [echo], "echo(type='tool_call', args={'id': 1})")
    assert got == [{"type": "tool_call", "args": {"id": 1}}]


async def test_tool_of_one_text_and_toolkit_are_accepted(tmp_path: Path) -> None:
    class Kit(BaseToolkit):
        def get_tools(self) -> list[Any]:
            return [Tool(name="up-per", func=lambda text: text.upper(), description="Upper case.")]

    result = await run(tmp_path, [Kit()], "up_per(tool_input='abc')")
    assert result.unwrap() == "ABC"


def test_declared_effects_are_honoured() -> None:
    def look(key: str) -> str:
        """Look."""
        return key

    plain = tool_from(StructuredTool.from_function(look))
    reading = tool_from(StructuredTool.from_function(look, metadata={"readOnlyHint": True}))
    assert (plain.side_effect, plain.idempotent) == (True, False)
    assert (reading.side_effect, reading.idempotent) == (False, True)


# --- out ------------------------------------------------------------------------------------------


@pytest.fixture
def sender() -> Sender:
    return Sender()


async def test_message_has_an_artifact_and_the_status_of_the_call(tmp_path: Path) -> None:
    def fail() -> str:
        """Fail."""
        raise ptc.ToolError("no tea left", code="out_of_stock")

    async with open_session(tmp_path, fail) as session:
        [program, single] = as_tools(session, direct=["fail"])
        call = {"type": "tool_call", "id": "1", "name": "program", "args": {"source": "[1, 2]"}}
        good = await program.ainvoke(call)
        bad = await single.ainvoke({**call, "args": {}})
        assert (good.status, good.content, good.artifact["data"]) == (
            "success",
            "[1,2]",
            {"value": [1, 2]},
        )
        assert (bad.status, bad.artifact["code"]) == ("error", "out_of_stock")
        with pytest.raises(ToolException, match="no tea left"):
            await single.ainvoke({})


async def test_arguments_may_have_any_name(tmp_path: Path) -> None:
    def look(config: str, callbacks: int, run_manager: str, runtime: str, self_: int = 0) -> str:
        """Look."""
        return f"{config} {callbacks} {run_manager} {runtime}"

    arguments = {"config": "a", "callbacks": 1, "run_manager": "b", "runtime": "c"}
    async with open_session(tmp_path, look) as session:
        agent = agent_of(session, None, ("look", arguments), direct=True)
        state = await agent.ainvoke({"messages": [("user", "?")]})
    assert tool_messages(state)[0].content == "a 1 b c"


async def test_without_a_checkpointer_the_model_reads_that_the_run_is_paused(
    tmp_path: Path, sender: Sender
) -> None:
    async with open_session(tmp_path, sender.tool()) as session:
        agent = agent_of(session, None, ("send", {"to": "ann"}), direct=True)
        state = await agent.ainvoke({"messages": [("user", "?")]})
    [message] = tool_messages(state)
    assert (message.status, sender.sent) == ("success", [])
    assert "The run is paused" in message.content


def test_plain_agent_works_with_a_blocking_session(tmp_path: Path, sender: Sender) -> None:
    with BlockingSession(tmp_path, tools=[sender.tool()], toolsets=(), workers=1) as session:
        agent = agent_of(session, InMemorySaver(), ("send", {"to": "ann"}), direct=True)
        agent.invoke({"messages": [("user", "?")]}, CONFIG)
        state = agent.invoke(Command(resume="approve"), CONFIG)
        awaited = asyncio.run(as_tools(session)[0].ainvoke({"source": "6 * 7"}))
    assert (tool_messages(state)[0].content, sender.sent, awaited) == ("sent to ann", ["ann"], "42")


async def test_plain_call_in_the_thread_of_the_session_is_refused(tmp_path: Path) -> None:
    async with open_session(tmp_path) as session:
        [program] = as_tools(session)
        with pytest.raises(UsageError, match="use the async methods"):
            program.invoke({"source": "1"})
        assert await asyncio.to_thread(program.invoke, {"source": "1"}) == "1"


async def test_agent_generates_an_object(tmp_path: Path) -> None:
    model = ScriptedModel({"total": 12})
    schema = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
    arguments = {"schema": schema, "prompt": "The total of: 12 EUR"}
    async with open_session(tmp_path, model=model) as session:
        agent = agent_of(session, None, ("generate_object", arguments), direct=["generate_object"])
        state = await agent.ainvoke({"messages": [("user", "?")]})
    [message] = tool_messages(state)
    assert message.status == "success"
    assert '"total":12' in message.content


def test_importing_the_binding_does_not_import_the_framework() -> None:
    code = "import sys, ptc_bindings.langchain; print('langchain_core' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
