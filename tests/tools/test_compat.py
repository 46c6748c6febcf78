"""The toolset `compat`: scripts of other systems run with the names that they know."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import ptc_tools
from ptc import Session

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "migration.md"
DIFF = "--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-one\n+two\n"


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    (tmp_path / "notes.txt").write_text("one\n")
    (tmp_path / "src").mkdir()
    tools = [ptc_tools.compat()]
    async with Session(tmp_path, toolsets=(), tools=tools, journal=":memory:") as opened:
        yield opened


async def test_translated_script_runs_with_the_names_of_other_systems(session: Session) -> None:
    source = """
async def run(ctx, inputs):
    texts = [
        await ctx.readFile("notes.txt"),
        await ctx.read(file_path="notes.txt"),
        await ctx.tool("read", {"filePath": "notes.txt"}),
    ]
    await ctx.edit("notes.txt", patch=inputs["diff"])
    await ctx.writeFile(file_path="b.txt", content="b")
    hits = await ctx.grep("two", opts={"glob": "*.txt", "ignoreCase": True})
    return texts, await ctx.readFile("notes.txt"), [hit.path for hit in hits]
"""
    run = await session.program(source=source, inputs={"diff": DIFF}, allowed_tools=["compat"])
    assert run.unwrap() == [["one\n"] * 3, "two\n", ["notes.txt"]]


async def test_direct_calls_take_the_names_of_other_systems(session: Session) -> None:
    result = await session.tool("read", {"file_path": "notes.txt"})
    assert result.value == "one\n"
    assert (await session.tool("readFile", {"path": "notes.txt"})).value == "one\n"
    assert (await session.tool("edit", {"path": "notes.txt", "patch": DIFF})).ok
    changed = {"filePath": "notes.txt", "old_string": "two", "new_string": "three"}
    assert (await session.tool("edit", changed)).ok
    assert (await session.tool("read", {"path": "notes.txt"})).value == "three\n"


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("read", {"path": "a", "file_path": "a"}, "are the same argument"),
        ("read", {}, "path"),
        ("read", {"file_pth": "a"}, "unknown argument `file_pth`"),
        ("edit", {"patch": DIFF, "diff": DIFF, "path": "notes.txt"}, "are the same argument"),
        ("grep", {"pattern": "a", "opts": 3}, "must be an object"),
        ("grep", {"pattern": "a", "opts": {"pattern": "b"}}, "are the same argument"),
        ("read", {"file_path": "../../etc/passwd"}, "outside"),
    ],
)
async def test_checks_of_the_built_in_tool_apply(
    session: Session, name: str, arguments: dict[str, Any], problem: str
) -> None:
    result = await session.tool(name, arguments)
    assert result.error is not None
    assert problem in result.error.message


async def test_tool_calls_nothing_that_its_caller_may_not_call(session: Session) -> None:
    source = "def run(ctx, inputs):\n    return ctx.tool('write', {'path': 'x', 'content': 'y'})"
    run = await session.program(source=source)
    assert run.status == "failed"
    assert run.error is not None
    assert "not allowed" in run.error.message
    assert not (session.root / "x").exists()


async def test_content_is_not_recorded_under_any_name(session: Session) -> None:
    source = "def run(ctx, inputs):\n    ctx.edit(file_path='notes.txt', patch=inputs['diff'])"
    run = await session.program(source=source, inputs={"diff": DIFF}, allowed_tools=["edit"])
    assert run.ok
    assert "+two" not in repr(run.calls)
    assert "notes.txt" in run.calls[0].arguments


def test_other_names_have_the_properties_of_the_built_in_tool() -> None:
    known = {tool.name: tool for tool in ptc_tools.compat()}
    own = {tool.name: tool for tool in (*ptc_tools.builtin(), ptc_tools.manage_todo_list)}
    assert known.keys() - own.keys() == {"readFile", "writeFile", "tool"}
    for name, other in (("read", "readFile"), ("write", "writeFile"), ("bash", "bash")):
        assert known[other].side_effect == own[name].side_effect
        assert known[other].idempotent == own[name].idempotent
        first = known[other].parameter_names[: len(own[name].parameter_names)]
        assert first == own[name].parameter_names


async def test_example_of_the_migration_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (source,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    code = compile(source, str(PAGE), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    done = eval(code, {})  # noqa: S307  # the code of a page is our own
    await done


@pytest.mark.skipif(shutil.which("pwd") is None, reason="needs pwd")
async def test_options_of_bash_have_the_folder(session: Session) -> None:
    result = await session.tool("bash", {"command": "pwd", "args": [], "opts": {"cwd": "src"}})
    if result.error is not None and result.error.code == "confinement_unavailable":
        pytest.skip("commands cannot be confined here")
    assert str(result.value.stdout).strip().endswith("/src")
