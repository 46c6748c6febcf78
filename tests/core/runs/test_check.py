"""A look at a script before it runs: all findings at once, nothing executed, no false refusal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ptc import Finding, Session, UsageError, tool

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

ran: list[str] = []


@tool
async def grep(pattern: str, glob: str = "*", limit: int = 10) -> list[str]:
    """Search."""
    ran.append(pattern)
    return [pattern]


@tool(name="github.create_issue")
async def create_issue(title: str) -> int:
    """Create."""
    ran.append(title)
    return 1


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, tools=[grep, create_issue], toolsets=(), workers=1) as opened:
        yield opened


async def check(
    session: Session, body: str, *, kind: str = "async def"
) -> list[tuple[str, int, str]]:
    source = f"import asyncio\n{kind} run(ctx, inputs):\n"
    source += "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    found = await session.check(source=source)
    assert ran == [], "a check has run a tool"
    return [(f.code, f.line, f.hint) for f in found]


async def test_check_reports_all_findings_in_order_with_suggested_fixes(session: Session) -> None:
    body = """
a = await ctx.gerp("x")
b = await ctx.grep(patern="x")
c = await ctx.grep("x", "y", 3, 4)
d = await ctx.grep()
e = await ctx.call("grpe", {"pattern": "x"})
f = await ctx.call("grep", {"pattern": "x", "lmit": 3})
g = await ctx.github.create_isue(title="x")
for hit in ctx.grep("x"):
    print(hit)
h = ctx.grep("x")[0]
ctx.grep("x")
return f"{ctx.grep('x')}"
"""
    assert await check(session, body) == [
        ("unknown_tool", 3, "did you mean grep?"),
        ("missing_argument", 4, ""),
        ("unknown_argument", 4, "did you mean pattern?"),
        ("too_many_arguments", 5, ""),
        ("missing_argument", 6, ""),
        ("unknown_tool", 7, "did you mean grep?"),
        ("unknown_argument", 8, "did you mean limit?"),
        ("unknown_tool", 9, "did you mean github.create_issue?"),
        ("missing_await", 10, "write (await ctx.grep(...))"),
        ("missing_await", 12, "write (await ctx.grep(...))"),
        ("not_awaited", 13, "write await ctx.grep(...)"),
        ("missing_await", 14, "write (await ctx.grep(...))"),
    ]


RIGHT = [
    "return await ctx.grep('x')",
    "return await ctx.grep({'pattern': 'x', 'limit': 3})",
    "return await ctx.grep(*inputs['args'])",
    "return await ctx.grep(**inputs)",
    "return await ctx.call(inputs['tool'], inputs)",
    "return await ctx.tools.github.create_issue('x')",
    "p = ctx.grep('x')\nreturn await p",
    "return await asyncio.gather(ctx.grep('x'), *(ctx.grep(n) for n in inputs))",
    "tasks = [ctx.grep(n) for n in inputs]\nreturn [await t for t in tasks]",
    "ctx.emit(1)\nctx.log('x')\nreturn dir(ctx)",
    "found = await ctx.search_tools('x')\nreturn await ctx.describe(found[0].name)",
    "f = ctx.grep\nreturn await f('x')",
    "async def one(ctx, n):\n    return await ctx.grep(n)\nreturn await one(ctx, 'x')",
    "ctx = inputs\nreturn ctx.anything",
    "return await ctx.grep(inputs)",
    "return (await ctx.grep('x')) is not None",
]


@pytest.mark.parametrize("body", RIGHT)
async def test_possibly_correct_script_has_no_findings(session: Session, body: str) -> None:
    assert await check(session, body) == []


async def test_sync_run_calls_tools_without_await(session: Session) -> None:
    body = "for hit in ctx.grep('x'):\n    print(hit)\nreturn ctx.grep('x')[0]"
    assert await check(session, body, kind="def") == []


async def test_policy_violations_are_found_without_running(tmp_path: Path) -> None:
    source = "import subprocess\n\ndef run(ctx, inputs):\n    return eval('1')\n"
    async with Session(tmp_path, tools=[grep], toolsets=(), workers=1) as session:
        found = await session.check(source=source)
        torn = await session.check(source="def run(ctx, inputs):\n    return (1\n")
        with pytest.raises(UsageError, match="no tool 'nope'"):
            await session.check(source=source, allowed_tools=["nope"])
    assert [f.line for f in found] == [1, 4]
    assert all(isinstance(f, Finding) and f.excerpt and not f.advisory for f in found)
    assert [(f.line, f.column) for f in torn] == [(2, 12)]


async def test_possibly_intended_code_is_only_advice(tmp_path: Path) -> None:
    source = "async def run(ctx, inputs):\n    ctx.grep('x')\n"
    async with Session(tmp_path, tools=[grep], toolsets=(), workers=1) as session:
        (found,) = await session.check(source=source)
    assert found.advisory
    assert found.excerpt == "    ctx.grep('x')\n    ^^^^^^^^^^^^^"


# --- before a run ---------------------------------------------------------------------------------

CERTAIN = {
    "unknown_tool": "await ctx.gerp('x')",
    "unknown_argument": "await ctx.grep(patern='x', pattern='y')",
    "missing_argument": "await ctx.grep()",
    "wrong_type": "await ctx.grep('x', limit='all')",
    "missing_await": "return ctx.grep('x')[0]",
    "too_many_arguments": "await ctx.grep('x', 'y', 3, 4)",
}


@pytest.mark.parametrize("code", list(CERTAIN))
async def test_certain_error_is_reported_before_the_first_call(session: Session, code: str) -> None:
    ran.clear()
    body = f"await ctx.grep('first')\n    {CERTAIN[code]}"
    result = await session.program(source=f"async def run(ctx, inputs):\n    {body}\n")
    assert (result.status, result.calls, ran) == ("rejected", (), [])
    assert result.error is not None
    assert (result.error.code, result.error.line) == (code, 3)
    assert result.error.excerpt


async def test_policy_and_tool_errors_are_reported_together(session: Session) -> None:
    source = (
        "import socket\nasync def run(ctx, inputs):\n    await ctx.gerp('x')\n    ctx.grep('x')\n"
    )
    result = await session.program(source=source)
    assert result.error is not None
    assert [f.code for f in result.error.findings] == ["import_refused", "unknown_tool"]
    found = [f.code for f in await session.check(source=source)]
    assert found == ["import_refused", "unknown_tool", "not_awaited"]


OPTION = """
async def run(ctx, inputs):
    if inputs.get("other"):
        return await ctx.gerp("x")
    return 1
"""


async def test_advice_is_a_warning_of_each_run(session: Session) -> None:
    for _ in range(2):  # the second run has the code and the decision from the cache
        result = await session.program(source=OPTION)
        assert (result.status, result.value) == ("completed", 1)
        [warning] = result.warnings
        assert (warning.code, warning.line) == ("unknown_tool", 4)
        assert warning.message.endswith("did you mean grep?")


async def test_decision_of_the_check_is_used_for_the_same_tools_only(session: Session) -> None:
    ran.clear()
    source = "async def run(ctx, inputs):\n    return await ctx.grep('x')\n"
    for names in (["grep"], ["github.create_issue"], ["grep"]):
        result = await session.program(source=source, allowed_tools=names)
        assert result.status == ("completed" if names == ["grep"] else "rejected")
    assert ran == ["x", "x"]


async def test_tool_that_is_not_allowed_is_reported_with_how_to_allow_it(tmp_path: Path) -> None:
    @tool(side_effect=True, idempotent=True)
    async def write(path: str, text: str) -> None:
        """Write."""

    async with Session(tmp_path, tools=[grep, write], toolsets=(), workers=1) as session:
        effect = await session.program(source="await ctx.write('a', 'hi')")
        by_name = await session.program(source="await ctx.call('write', {'path': 'a'})")
        other = await session.program(source="await ctx.grep('x')", allowed_tools=["write"])
        unknown = await session.program(source="await ctx.wriet('a', 'hi')")
    assert effect.error is not None
    assert by_name.error is not None
    assert (effect.status, effect.error.code) == ("rejected", "not_allowed")
    message = "tool 'write' is not allowed in this run: it has a side effect; allowed: grep"
    assert effect.error.message == message
    assert "`allowed_tools=[..., 'write']`" in effect.error.hint
    assert "`--allow ...,write`" in effect.error.hint
    assert (by_name.error.code, by_name.error.hint) == ("not_allowed", effect.error.hint)
    assert other.error is not None
    assert unknown.error is not None
    assert other.error.message == "tool 'grep' is not allowed in this run; allowed: write"
    assert unknown.error.code == "unknown_tool"


async def test_unknown_tool_can_be_caught_as_tool_error(session: Session) -> None:
    source = """
async def run(ctx, inputs):
    found = []
    for kind in (ToolError, AttributeError):
        try:
            await ctx.gerp("x")
        except kind as error:
            found.append(getattr(error, "code", None))
    return [*found, hasattr(ctx, "gerp"), getattr(ctx, "gerp", None)]
"""
    result = await session.program(source=source)
    assert (result.error, result.value) == (None, ["unknown_tool", "unknown_tool", False, None])
