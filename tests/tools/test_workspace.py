"""The typed methods are the tools: the same parameters, defaults and values.

``assert_type`` is checked by mypy, which reads this file too.
"""

from __future__ import annotations

import inspect
import types
import typing
from pathlib import Path
from typing import Annotated, Any, assert_type

import pytest

import ptc_tools
from ptc import BlockingSession, Session, Tool, ToolContext, ToolError, UsageError
from ptc_tools import BlockingWorkspace, Change, Entry, FileText, Match, MatchCount, Workspace

pytestmark = pytest.mark.anyio


class NoSearch:
    """A provider for the tool's signature alone."""

    name = "none"

    async def search(self, query: str, limit: int) -> list[ptc_tools.SearchHit]:
        return []


def all_tools() -> dict[str, Tool]:
    tools = {tool.name: tool for tool in ptc_tools.builtin(network=True)}
    tools["web_search"] = ptc_tools.web_search_tool(NoSearch())
    return tools


def plain(hint: Any) -> Any:
    """A type hint without what `Annotated` adds, to any depth, as text."""
    if typing.get_origin(hint) is Annotated:
        return plain(typing.get_args(hint)[0])
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return frozenset(plain(each) for each in arguments)
    if arguments and typing.get_origin(hint) is not typing.Literal:
        return (typing.get_origin(hint), *(plain(each) for each in arguments))
    return hint


def described(function: Any, names: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    hints = typing.get_type_hints(function, localns=names, include_extras=True)
    parameters = {
        name: (plain(hints[name]), parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self" and hints.get(name) is not ToolContext
    }
    return parameters, plain(hints["return"])


@pytest.mark.parametrize("facade", [Workspace, BlockingWorkspace])
def test_there_is_a_method_for_each_tool_with_its_parameters(facade: type) -> None:
    tools = all_tools()
    methods = {name: value for name, value in vars(facade).items() if not name.startswith("_")}
    assert set(methods) == set(tools), "each built-in tool has a method, with its signature"
    names = {name: getattr(ptc_tools, name) for name in ptc_tools.__all__ if name[0].isupper()}
    for name, method in methods.items():
        assert method.__doc__
        assert inspect.iscoroutinefunction(method) is (facade is Workspace)
        wanted, value = described(tools[name].function, {})
        given, returned = described(method, names)
        assert list(given) == list(wanted), name
        for parameter, (hint, default) in given.items():
            assert default == wanted[parameter][1], f"{name}: {parameter}"
            if name != "git" or parameter != "command":
                assert hint == wanted[parameter][0], f"{name}: {parameter}"
        assert returned == value, name


async def test_methods_give_data_of_the_types_they_say(root: Path) -> None:
    (root / "a.txt").write_text("one\ntwo\n")
    async with Session(root=root) as session:
        workspace = Workspace(session)
        assert assert_type(await workspace.read("a.txt", 1), str) == "two\n"
        files = assert_type(await workspace.read_files(["a.txt"]), list[FileText])
        assert files == [FileText("a.txt", "one\ntwo\n", 8)]
        assert assert_type(await workspace.ls(), list[Entry]) == [
            Entry("a.txt", "a.txt", "file", 8)
        ]
        assert assert_type(await workspace.glob("*.txt"), list[str]) == ["a.txt"]
        matches = assert_type(await workspace.grep("two"), list[Match])
        assert matches == [Match("a.txt", 2, "two")]
        assert assert_type(await workspace.grep("two", output="files"), list[str]) == ["a.txt"]
        counts = assert_type(await workspace.grep("o", output="count"), list[MatchCount])
        assert counts == [MatchCount("a.txt", 2)]
        made = assert_type(await workspace.write("b/c.txt", "x\n"), Change)
        assert made.action == "created"
        edited = assert_type(await workspace.edit("b/c.txt", "x", "y"), Change)
        assert edited.sha256_before == made.sha256
        diff = "--- a/b/c.txt\n+++ b/b/c.txt\n@@ -1 +1 @@\n-y\n+z\n"
        [patched] = assert_type(await workspace.patch(diff), list[Change])
        assert patched.sha256_before == edited.sha256
        assert await workspace.read("b/c.txt") == "z\n"


async def test_failures_are_raised(root: Path) -> None:
    async with Session(root=root) as session:
        with pytest.raises(ToolError) as caught:
            await Workspace(session).read("missing")
        assert (caught.value.code, caught.value.tool) == ("not_found", "read")
        assert await Workspace(session).glob("*.nothing") == []
    async with Session(root=root, toolsets=()) as session:
        with pytest.raises(UsageError, match="read"):
            await Workspace(session).read("missing")


def test_the_blocking_methods_do_the_same(root: Path) -> None:
    with BlockingSession(root=root) as session:
        workspace = BlockingWorkspace(session)
        assert assert_type(workspace.write("a", "x\n"), Change).action == "created"
        assert assert_type(workspace.read("a"), str) == "x\n"
        assert assert_type(workspace.grep("x", output="count"), list[MatchCount])[0].count == 1
        with pytest.raises(ToolError):
            workspace.read("missing")
