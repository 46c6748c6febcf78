"""Many tools: found by words, described one by one, called in their namespaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptc import Session, Tool, UsageError, tool
from ptc._tools._search import Found, SearchIndex
from ptc._tools._stubs import render_stubs

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


@tool(name="github.create_issue")
async def create_issue(title: str, body: str = "") -> int:
    """Open a new issue in a repository.

    Args:
        title: One line.
    """
    return len(title + body)


@tool(name="github.list_issues")
async def list_issues(state: str = "open") -> list[str]:
    """List the issues of a repository."""
    return [state]


@tool
async def send_mail(to: str) -> str:
    """Send a message to somebody."""
    return to


TOOLS: list[Tool] = [create_issue, list_issues, send_mail]


def search(query: str, limit: int = 10) -> list[Found]:
    return SearchIndex(TOOLS).find(query, limit)


def test_a_search_finds_tools_by_name_description_and_parameters() -> None:
    assert search("create an issue")[0].name == "github.create_issue"
    assert [f.name for f in search("issues")] == [
        "github.list_issues",
        "github.create_issue",
    ]
    assert [f.name for f in search("title")] == ["github.create_issue"]
    assert [f.name for f in search("sendMail")] == ["send_mail"]
    assert search("weather") == []
    assert len(search("", limit=2)) == 2
    assert search("message")[0].summary == "Send a message to somebody."


async def test_a_script_finds_describes_and_calls_a_tool_of_a_namespace(tmp_path: Path) -> None:
    source = """
async def run(ctx, inputs):
    found = await ctx.search_tools("create issue", limit=1)
    stub = await ctx.describe(found[0].name)
    first = await ctx.github.create_issue("abc", body="de")
    second = await ctx.call("github.create_issue", {"title": "x"})
    third = await ctx.tools.github.list_issues({"state": "closed"})
    return [found, stub, first, second, third, dir(ctx.github)]
"""
    async with Session(tmp_path, tools=TOOLS, toolsets=(), workers=1) as session:
        result = await session.program(source=source)
        outside = session.search_tools("create issue", limit=1)
    assert result.status == "completed", result.error
    found, stub, first, second, third, names = result.value
    assert found == [
        {"name": "github.create_issue", "summary": "Open a new issue in a repository."}
    ]
    assert outside[0].name == found[0]["name"]
    assert "class github:  # ctx.github" in stub
    assert 'async def create_issue(title: str, body: str = "") -> int:' in stub
    assert (first, second, third) == (5, 1, ["closed"])
    assert names == ["create_issue", "list_issues"]
    assert [c.tool for c in result.calls][:3] == [
        "search_tools",
        "describe",
        "github.create_issue",
    ]


async def test_discovery_is_limited_to_the_allow_list(tmp_path: Path) -> None:
    source = """
async def run(ctx, inputs):
    found = await ctx.search_tools("")
    try:
        await ctx.describe("send_mail")
    except ToolError as error:
        return [[f.name for f in found], error.code]
"""
    async with Session(tmp_path, tools=TOOLS, toolsets=(), workers=1) as session:
        result = await session.program(source=source, allowed_tools=["github.list_issues"])
    assert result.value == [["github.list_issues"], "unknown_tool"], result.error


async def test_unknown_name_in_a_namespace_lists_the_available_ones(tmp_path: Path) -> None:
    source = "async def run(ctx, inputs):\n    await getattr(ctx.github, 'close_issue')()\n"
    async with Session(tmp_path, tools=TOOLS, toolsets=(), workers=1) as session:
        result = await session.program(source=source)
    assert result.error is not None
    assert (
        "no tool 'github.close_issue' is allowed in this run (allowed: create_issue, list_issues)"
        in (result.error.message)
    )


def test_names_reserved_by_ctx_are_refused() -> None:
    for name in ("search_tools", "describe", "call.x"):
        with pytest.raises(UsageError, match="tool name"):
            tool(name=name, description="D.")(lambda: None)


def test_a_tool_and_a_namespace_cannot_share_a_name(tmp_path: Path) -> None:
    github = tool(name="github", description="G.")(lambda: None)
    with pytest.raises(UsageError, match="cannot be both a tool and the namespace"):
        Session(tmp_path, tools=[github, create_issue], toolsets=())


def test_stubs_of_a_namespace_are_valid_python() -> None:
    compile(render_stubs(TOOLS), "stubs", "exec")
