"""`program` as a tool: for agents that call tools by name, and for raw provider APIs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import validator_for

from ptc import Allow, BlockingSession, Limits, RunEvent, Session, Toolset, UsageError, tool

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


@tool
async def look(path: str) -> str:
    """Look at a file."""
    return f"look {path}"


@tool(side_effect=True, idempotent=True)
async def wipe(path: str) -> str:
    """Remove a file."""
    return f"wiped {path}"


@tool(side_effect=True, idempotent=True, needs_approval=True)
async def pay(cents: int) -> int:
    """Pay."""
    return cents


FILES = Toolset("files", (look, wipe))
NAMES = "def run(ctx, inputs):\n    return [n for n in ('look', 'wipe', 'pay') if hasattr(ctx, n)]"
WIPE = "def run(ctx, inputs):\n    return ctx.wipe(inputs['path'])"


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    (tmp_path / "script.py").write_text("def run(ctx, inputs):\n    return ctx.look('a')")
    async with Session(
        tmp_path,
        tools=[FILES, pay, FILES.only("look").renamed({"look": "fs.look"})],
        toolsets=(),
        ceiling=Limits(timeout_ms=20_000, max_tool_calls=5),
        limits=Limits(timeout_ms=15_000, max_tool_calls=4),
    ) as opened:
        yield opened


async def test_program_is_called_as_any_tool(session: Session) -> None:
    result = await session.tool(
        "program",
        {
            "type": "script",
            "language": "python",
            "source": "def run(ctx, inputs):\n    print('note')\n    return ctx.look(inputs['p'])",
            "inputs": {"p": "a"},
            "allowedTools": ["look"],
            "limits": {"timeoutMs": 5_000, "max_tool_calls": 1},
        },
    )
    assert result.value == "look a"
    assert result.text == "look a\n\nPrinted:\nnote"
    assert result.metadata["status"] == "completed"
    assert (await session.history.run(str(result.metadata["run_id"]))).status == "completed"
    from_file = await session.tool("program", {"path": "script.py"})
    assert from_file.text == "look a"


async def test_failure_of_a_script_has_its_line_hint_and_calls(session: Session) -> None:
    source = "def run(ctx, inputs):\n    ctx.look('a')\n    print('note')\n    return 1 / 0"
    result = await session.tool("program", {"source": source})
    assert result.error is not None
    assert result.error.code == "exception"
    assert "failed: division by zero (line 4)" in result.text.replace("ZeroDivisionError: ", "")
    assert "Calls: look succeeded 1" in result.text
    assert "Printed:\nnote" in result.text
    assert result.error.details["status"] == "failed"
    assert len(result.text) < 1_500


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "pass either source= or path="),
        ({"source": "1", "path": "script.py"}, "pass either source= or path="),
        ({"source": "1", "language": "javascript"}, "language"),
        ({"source": "1", "type": "task"}, "type"),
        ({"source": "1", "limits": {"timeoutMs": "5"}}, "timeoutMs|timeout_ms"),
        ({"source": "1", "limits": {"timeout": 5}}, "there is no limit 'timeout'"),
        ({"source": "1", "limits": {"timeout_ms": 5, "timeoutMs": 5}}, "is there twice"),
        ({"source": "1", "allowed_tools": "look"}, "allowed_tools"),
        ({"source": "1", "allowed_tools": ["loook"]}, "did you mean `look"),
        ({"source": "1", "allowed_tools": [], "allowedTools": []}, "are the same argument"),
        ({"source": "1", "env": {}}, "env"),
        ({"path": "../outside.py"}, "outside|cannot be read"),
    ],
)
async def test_invalid_arguments_are_an_error_that_names_them(
    session: Session, arguments: dict[str, Any], problem: str
) -> None:
    result = await session.tool("program", arguments)
    assert result.error is not None
    assert result.error.code == "invalid_arguments"
    assert any(word in result.error.message for word in problem.split("|"))


async def test_arguments_cannot_widen_the_allow_list(session: Session) -> None:
    own = await session.tool("program", {"source": NAMES})
    assert own.value == ["look"]
    for wider in (["wipe"], ["*"], ["files"]):
        result = await session.tool("program", {"source": NAMES, "allowed_tools": wider})
        assert "wipe" not in (result.value or [])
    refused = await session.tool("program", {"source": WIPE, "allowed_tools": ["wipe"]})
    assert refused.error is not None
    assert refused.error.code == "invalid_arguments"
    rules: list[str | Allow] = [Allow("wipe", path="tmp/*"), "look"]
    for path, ok in (("tmp/a", True), ("src/a", False)):
        result = await session.tool(
            "program",
            {"source": WIPE, "inputs": {"path": path}, "allowed_tools": ["wipe"]},
            allowed_tools=rules,
        )
        assert result.ok == ok
    narrowed = await session.tool(
        "program", {"source": NAMES, "allowed_tools": ["look"]}, allowed_tools=["files"]
    )
    assert narrowed.value == ["look"]
    with pytest.raises(UsageError, match="there is no tool 'nothing'"):
        await session.tool("program", {"source": NAMES}, allowed_tools=["nothing"])


async def test_requested_limits_are_lowered_to_the_ceiling(session: Session) -> None:
    source = (
        "def run(ctx, inputs):\n    return [ctx.budget.tool_calls, ctx.budget.time_ms > 15_000]"
    )
    asked = {"timeoutMs": 99_000, "maxToolCalls": 99}
    result = await session.tool("program", {"source": source, "limits": asked})
    assert result.value == [5, True]
    assert "Warning: limits.timeout_ms=99,000 is above the session's ceiling" in result.text
    run = await session.program(source=source, limits={"max_tool_calls": 2})
    assert run.unwrap() == [2, False]
    assert run.limits.timeout_ms == 15_000


async def test_script_cannot_call_program(session: Session) -> None:
    calls = ("ctx.program(source='1')", "ctx.call('program', source='1')")
    for call in calls:
        source = f"def run(ctx, inputs):\n    return {call}"
        result = await session.tool("program", {"source": source})
        assert not result.ok
        assert "program" in result.text
    with pytest.raises(UsageError, match="there is no tool 'program'"):
        await session.program(source="1", allowed_tools=["program"])


async def test_paused_program_names_its_run_and_the_call(session: Session) -> None:
    source = "def run(ctx, inputs):\n    return ctx.pay(5)"
    result = await session.tool("program", {"source": source}, allowed_tools=["pay"])
    assert result.error is not None
    assert result.error.code == "paused"
    run_id = str(result.error.details["run_id"])
    assert run_id in result.text
    await session.history.approve(run_id, by="ann")
    assert (await session.resume(run_id)).unwrap() == 5


async def test_events_of_a_streamed_program_are_those_of_its_run(session: Session) -> None:
    seen: list[RunEvent] = []
    async with session.stream("program", {"path": "script.py"}) as events:
        seen = [event async for event in events]
    kinds = [event.kind for event in seen]
    assert kinds[0] == "tool_started"
    assert kinds.count("started") == 1
    assert kinds[-1] == "finished"
    assert seen[-1].value.value == "look a"
    assert [e.call.tool for e in seen if e.kind == "tool_finished" and e.call] == [
        "look",
        "program",
    ]


@pytest.mark.parametrize(
    ("style", "key"),
    [("openai", "parameters"), ("anthropic", "input_schema"), ("mcp", "inputSchema")],
)
async def test_definition_has_the_form_of_each_provider(
    session: Session, style: Any, key: str
) -> None:
    definition = session.program_definition(style, allowed_tools=["wipe"], limits={"timeoutMs": 1})
    function = definition["function"] if style == "openai" else definition
    assert function["name"] == "program"
    assert len(function["description"]) <= 1_024
    source = function[key]["properties"]["source"]["description"]
    assert "async def wipe(" in source
    assert "look(" not in source
    assert "1 ms for the run" in source
    assert validator_for(function[key]).is_valid({"source": "1", "limits": {"timeout_ms": 5}})
    json.dumps(definition)
    if style == "mcp":
        assert definition["annotations"] == {"readOnlyHint": False, "destructiveHint": True}


async def test_definition_in_an_unknown_style_is_refused(session: Session) -> None:
    wrong: Any = "gemini"
    with pytest.raises(UsageError, match="style must be 'openai', 'anthropic' or 'mcp'"):
        session.program_definition(wrong)


async def test_rules_of_the_default_allow_list_apply_to_program(tmp_path: Path) -> None:
    allowed = [Allow("look", path="src/*")]
    source = "def run(ctx, inputs):\n    return ctx.look(inputs['path'])"
    async with Session(tmp_path, tools=[FILES], toolsets=(), allowed_tools=allowed) as session:
        for requested in ({}, {"allowed_tools": ["look"]}):
            arguments = {"source": source, "inputs": {"path": "src/a"}, **requested}
            inside = await session.tool("program", arguments)
            assert inside.value == "look src/a"
            outside = await session.tool("program", {**arguments, "inputs": {"path": "a"}})
            assert outside.error is not None
            assert "not allowed in this run: path must match" in outside.text


async def test_tool_definitions_have_all_tools_unless_narrowed(session: Session) -> None:
    names = [row["name"] for row in session.tool_definitions()]
    assert names == ["look", "wipe", "pay", "fs.look"]
    assert [row["name"] for row in session.tool_definitions(["look"])] == ["look"]


async def test_own_tool_named_program_takes_precedence(tmp_path: Path) -> None:
    @tool
    async def program(source: str) -> str:
        """Print a programme."""
        return source.upper()

    async with Session(tmp_path, tools=[program], toolsets=()) as session:
        assert (await session.tool("program", {"source": "a"})).value == "A"


async def test_namespace_is_an_attribute_of_a_session_as_in_scripts(session: Session) -> None:
    dynamic: Any = session
    assert await dynamic.fs.look("a") == "look a"
    assert await dynamic.fs.look(path="b") == "look b"
    assert "fs" in dir(session)
    assert "look" in dir(dynamic.fs)
    with pytest.raises(AttributeError, match=r"fs has no tool 'loook' \(did you mean `look`"):
        _ = dynamic.fs.loook
    with pytest.raises(AttributeError, match="Session has no method or tool 'fss'"):
        _ = dynamic.fss


def test_blocking_session_has_namespaces_and_program(tmp_path: Path) -> None:
    with BlockingSession(tmp_path, tools=[FILES.prefixed("fs")], toolsets=()) as session:
        dynamic: Any = session
        assert dynamic.fs.look("a") == "look a"
        assert "fs" in dir(session)
        assert session.program_definition("mcp")["name"] == "program"
        assert session.tool("program", {"source": "1 + 1"}).value == 2
