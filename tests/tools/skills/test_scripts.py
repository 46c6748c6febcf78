"""Scripts of skills: their tools are those that the skill lists and the caller may call."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ptc import Allow, RunResult, Session, ToolResult, tool
from ptc_tools import SkillRun, skills_toolset

from .skill_folders import AddSkill

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

COUNT = """
async def run(ctx, inputs):
    text = await ctx.read(path=inputs["path"])
    print("counting")
    return {"lines": len(text.splitlines())}
"""
TRY_ALL = """
async def attempt(call):
    try:
        return await call() and "done"
    except Exception as error:
        return getattr(error, "code", None) or type(error).__name__

async def run(ctx, inputs):
    write = {"path": "out.txt", "content": "x"}
    call = {"tool": "write", "arguments": write}
    skill = {"skill_name": "writer", "script": "write.py"}
    found = {
        "write": await attempt(lambda: ctx.call("write", write)),
        "read": await attempt(lambda: ctx.call("read", {"path": "a.txt"})),
        "skill": await attempt(lambda: ctx.call("Skill", skill)),
    }
    try:
        (row,) = await ctx.call("batch", {"calls": [call]})
        found["batch"] = "done" if row.ok else row.error.code
    except Exception as error:
        found["batch"] = getattr(error, "code", None)
    return found
"""
WRITE = 'async def run(ctx, inputs):\n    return await ctx.write("out.txt", "x")\n'
GIT = """
async def run(ctx, inputs):
    found = []
    for args in (["--version"], ["status"]):
        try:
            found.append((await ctx.bash("git", args)).stdout[:11])
        except Exception as error:
            found.append(error.code)
    return found
"""


@tool(side_effect=True, idempotent=True, needs_approval=True)
def sign(text: str) -> str:
    """Sign a text."""
    return f"signed {text}"


@pytest.fixture
async def session(tmp_path: Path, skills: Path, add_skill: AddSkill) -> AsyncIterator[Session]:
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "a.txt").write_text("one\ntwo\n")
    (root / "src" / "b.txt").write_text("b\n")

    def add(name: str, allowed: str | None, **files: str) -> None:
        head = (
            "description: D." if allowed is None else f"description: D.\nallowed-tools: {allowed}"
        )
        add_skill(name, head, **{f"scripts/{file}.py": text for file, text in files.items()})

    add("counter", "Read", count=COUNT, other="import os\n")
    add("writer", "Read Write Skill", write=WRITE, all=TRY_ALL)
    add("batcher", "batch Read Write Skill", all=TRY_ALL)
    add("open", None, all=TRY_ALL, count=COUNT)
    add("closed", '""', count=COUNT)
    add("source", "Read(src/**)", count=COUNT)
    add("git", "Bash(git --version)", git=GIT)
    add("vague", "Read Bash(cat a | sh)", count=COUNT)
    add("wrong", "Read", fail='def run(ctx, inputs):\n    return inputs["missing"]\n')
    add("refused", "Read", spawn="import subprocess\ndef run(ctx, inputs):\n    return 1\n")
    add("signer", "sign", sign='async def run(ctx, inputs):\n    return await ctx.sign("a")\n')
    made = skills_toolset(skills)
    async with Session(root, tools=[made, sign], journal=":memory:", workers=1) as opened:
        yield opened


async def call(
    session: Session,
    name: str,
    script: str,
    inputs: Any = None,
    allowed: Any = ("Skill", "read", "write", "batch", "bash"),
) -> ToolResult:
    arguments = {"skill_name": name, "script": script, "inputs": inputs or {"path": "a.txt"}}
    return await session.tool("Skill", arguments, allowed_tools=list(allowed))


async def value(session: Session, name: str, script: str, **options: Any) -> Any:
    found = (await call(session, name, script, **options)).unwrap()
    assert isinstance(found, SkillRun)
    return found.value


def error(result: ToolResult) -> tuple[str, str]:
    assert result.error is not None
    return result.error.code, result.error.message


async def test_scripts_have_the_tools_that_skill_and_caller_allow(session: Session) -> None:
    root = session.root
    counted = (await call(session, "counter", "scripts/count.py")).unwrap()
    assert counted == SkillRun(
        "counter", "scripts/count.py", {"lines": 2}, "counting\n", [], None, []
    )
    text = (await call(session, "counter", "count.py")).text
    assert text == '{"lines":2}\n\nPrinted:\ncounting\n'

    # Without a list: the caller's tools without a side effect.
    nothing = {"write": "not_allowed", "read": "done", "batch": "not_allowed"}
    assert await value(session, "open", "all.py") == {**nothing, "skill": "script_failed"}
    # An empty list: no tool.
    assert error(await call(session, "closed", "count.py"))[0] == "script_failed"
    # A rule applies beside the caller's.
    assert await value(session, "source", "count.py", inputs={"path": "src/b.txt"}) == {"lines": 1}
    code, message = error(await call(session, "source", "count.py"))
    assert (code, "not allowed in this run" in message) == ("script_failed", True)
    narrow = ["Skill", Allow("read", path="src/c.txt")]
    result = await call(session, "source", "count.py", {"path": "src/b.txt"}, allowed=narrow)
    assert error(result)[0] == "script_failed"
    assert not (root / "out.txt").exists()


@pytest.mark.slow  # The same rule is proved on matching in test_allowed.py.
async def test_rule_on_a_command_holds_in_a_script(session: Session) -> None:
    assert await value(session, "git", "git.py") == ["git version", "not_allowed"]


async def test_skill_that_lists_write_cannot_write_for_a_caller_without_it(
    session: Session,
) -> None:
    """W2: no list of a skill adds a tool to its caller's, through no other tool either."""
    out = session.root / "out.txt"
    reader = ["Skill", "read", "batch"]
    found = (await call(session, "writer", "all.py", allowed=reader)).unwrap()
    refused = {"write": "not_allowed", "batch": "not_allowed", "read": "done"}
    assert found.value == {**refused, "skill": "script_failed"}
    assert found.unavailable == ["Write"]
    found = (await call(session, "batcher", "all.py", allowed=reader)).unwrap()
    assert found.value == {**refused, "batch": "not_allowed", "skill": "script_failed"}
    code, message = error(await call(session, "writer", "write.py", allowed=reader))
    assert code == "script_failed"
    assert "The skill lists tools that its caller may not call: Write" in message

    # The same through batch, from a script, and from a script of a skill without `Write`.
    calls = [{"tool": "Skill", "arguments": {"skill_name": "writer", "script": "write.py"}}]
    batched = await session.tool("batch", {"calls": calls}, allowed_tools=reader)
    assert [row.error.code for row in batched.unwrap()] == ["script_failed"]
    source = 'async def run(ctx, inputs):\n    return await ctx.Skill("writer", "write.py")'
    result: RunResult = await session.program(source=source, allowed_tools=reader)
    assert result.error is not None
    assert "its caller may not call: Write" in result.error.message
    assert not out.exists()
    # A rule of the caller holds, too.
    ruled = [*reader, Allow("write", path="src/**")]
    assert error(await call(session, "writer", "write.py", allowed=ruled))[0] == "script_failed"
    assert not out.exists()
    assert (await call(session, "writer", "write.py")).ok
    assert out.exists()


async def test_calls_of_a_script_are_calls_of_its_run(session: Session) -> None:
    source = (
        'async def run(ctx, inputs):\n    return await ctx.Skill("counter", "count.py", inputs)'
    )
    result: RunResult = await session.program(
        source=source, inputs={"path": "a.txt"}, allowed_tools=["Skill", "read"]
    )
    assert result.unwrap()["value"] == {"lines": 2}
    assert [(row.tool, row.parent) for row in result.calls] == [
        ("Skill", None),
        ("program", "1"),
        ("read", "1"),
    ]


@pytest.mark.slow  # tests/core/runs/test_nested_programs.py proves the same of any tool.
async def test_approval_of_a_call_of_a_script_continues_the_run(session: Session) -> None:
    source = 'async def run(ctx, inputs):\n    return await ctx.Skill("signer", "sign.py")'
    paused = await session.program(source=source, allowed_tools=["Skill", "sign"])
    assert (paused.status, [row.tool for row in paused.pending]) == ("paused", ["sign"])
    done = await session.approve(paused.run_id, by="ann", resume=True)
    assert done.unwrap()["value"] == "signed a"


async def test_wrong_script_or_request_is_an_error(session: Session) -> None:
    for name, script, code, words in (
        ("counter", "cont.py", "unknown_script", "did you mean `scripts/count.py`"),
        ("counter", "other.py", "not_a_script", "does not define run(ctx, inputs)"),
        ("counter", "../writer/scripts/write.py", "unknown_script", "scripts: scripts/count.py"),
        ("vague", "count.py", "invalid_skill", "'Bash(cat a | sh)' cannot be translated"),
        ("wrong", "fail.py", "script_failed", "fail.py of skill 'wrong', line 2: KeyError"),
        ("refused", "spawn.py", "script_failed", "subprocess"),
    ):
        found, message = error(await call(session, name, script))
        assert (found, words in message) == (code, True), message
    requests: list[dict[str, Any]] = [{"inputs": {}}, {"script": "count.py", "file": "SKILL.md"}]
    for arguments in requests:
        result = await session.tool("Skill", {"skill_name": "counter", **arguments})
        assert error(result)[0] == "invalid_arguments"


async def test_no_tool_of_the_session_changes_a_skill(skills: Path, add_skill: AddSkill) -> None:
    add_skill("sort-mail", **{"scripts/sort.py": "x"})
    tools = ["write", "edit", "Skill"]
    source = """
async def run(ctx, inputs):
    codes = []
    for path in inputs["paths"]:
        try:
            await ctx.write(path, "x")
        except Exception as error:
            codes.append(error.code)
    return codes
"""
    paths = ["SKILL.md", "scripts/sort.py", "references/new.md", "../other/SKILL.md"]
    inputs = {"paths": [f"skills/sort-mail/{path}" for path in paths]}
    async with Session(root=skills.parent, tools=[skills_toolset(skills)]) as session:
        result = await session.program(source=source, inputs=inputs, allowed_tools=tools)
        assert result.value == ["protected_path"] * 4, result.error
        moved = await session.tool("bash", {"cmd": "mv", "args": ["skills", "other"]})
        assert not moved.ok
    assert sorted(os.listdir(skills)) == ["sort-mail"]
