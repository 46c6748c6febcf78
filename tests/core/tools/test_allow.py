"""Allow-lists of a run: names, patterns, toolsets and rules on arguments."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from ptc import (
    Allow,
    Session,
    Tool,
    ToolContext,
    ToolError,
    Toolset,
    UsageError,
    define_tool,
    tool,
)
from ptc._tools._allow import select

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


@tool(tags={"files"})
async def look(path: str = ".", times: int = 1) -> str:
    """Look."""
    return path


@tool(tags={"files"})
async def look_all(paths: list[str]) -> list[str]:
    """Look at several."""
    return paths


@tool(side_effect=True, idempotent=True)
async def change(path: str) -> str:
    """Change."""
    return path


@tool
async def wrap(ctx: ToolContext, path: str) -> Any:
    """Look for somebody."""
    return await ctx.call_tool("look", path=path)


FILES = Toolset("files", (look, look_all, change))


def session(root: Path) -> Session:
    return Session(root, tools=[FILES, wrap], toolsets=())


def names(tools: Any) -> list[str]:
    return [item.name for item in tools]


def test_names_patterns_and_toolsets_select_tools(tmp_path: Path) -> None:
    chosen = session(tmp_path).select_tools
    assert list(chosen(["look*"])) == ["look", "look_all"]
    assert list(chosen(["files", "wrap"])) == ["look", "look_all", "change", "wrap"]
    assert list(chosen([Allow("change", path="a"), "look"])) == ["change", "look"]
    assert list(chosen(None)) == ["look", "look_all", "wrap"]


def _built(entry: Any) -> Any:
    return entry() if callable(entry) else entry


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("lok", r"no tool 'lok' \(did you mean `look`"),
        ("git_*", "no tool matches 'git_*'"),
        (3, "no tool 3"),
        (lambda: Allow("lok", path="a"), "no tool 'lok'"),
        (lambda: Allow("look*", path="a"), "a rule must name one tool"),
        (lambda: Allow("look", pth="a"), r"unknown parameter 'pth' \(did you mean `path`"),
        (lambda: Allow("look"), "has no rule for an argument"),
    ],
)
def test_an_entry_that_allows_nothing_is_an_error(tmp_path: Path, entry: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why.replace("*", r"\*")):
        session(tmp_path).select_tools([_built(entry)])


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ({"a.txt", "b.txt"}, ["a.txt", "b.txt"], ["c.txt", "", "A.txt"]),
        ("src/**", ["src/a", "src/b/c.py", "./src/a", "src//a"], ["src", "srcs/a", "/src/a", "a"]),
        ("*.py", ["a.py"], ["b/a.py", "a.pyc", "a\nb.pyx"]),
        ("src/*.py", ["src/a.py"], ["src/b/a.py"]),
        ("[ab]?", ["a1", "b/"[:1] + "2"], ["c1", "a/", "abc"]),
        ("[!a]b", ["xb"], ["ab", "/b"]),
        ("a[", [], ["b["]),
        ("plain.txt", ["plain.txt"], ["./plain.txt", "plainXtxt"]),
        (str.islower, ["abc"], ["ABC"]),
    ],
)
async def test_rule_accepts_matching_arguments_and_refuses_others(
    tmp_path: Path, rule: Any, good: list[str], bad: list[str]
) -> None:
    selected = session(tmp_path).select_tools([Allow("look", path=rule)])["look"]
    for path in good:
        assert selected.validate({"path": path})["path"] == path
    for path in bad:
        with pytest.raises(ToolError, match="not allowed in this run") as refused:
            selected.validate({"path": path})
        assert refused.value.code == "not_allowed"


@pytest.mark.parametrize(
    "path", ["src/../secret", "src/link/../../x", "../src/a", "src/..", "src/a/../b", "/src/../a"]
)
def test_path_is_normalized_before_it_is_compared(tmp_path: Path, path: str) -> None:
    for pattern in ("src/**", "**"):
        selected = session(tmp_path).select_tools([Allow("look", path=pattern)])["look"]
        with pytest.raises(ToolError, match="not allowed"):
            selected.validate({"path": path})


def test_rule_applies_to_each_list_item_and_to_defaults(tmp_path: Path) -> None:
    chosen = session(tmp_path).select_tools
    several = chosen([Allow("look_all", paths="src/*")])["look_all"]
    several.validate({"paths": ["src/a", "src/b"]})
    with pytest.raises(ToolError):
        several.validate({"paths": ["src/a", "b"]})
    with pytest.raises(ToolError):
        chosen([Allow("look", path="src/*")])["look"].validate({})


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@tool
async def paint(colour: Colour, where: list[str] = []) -> str:  # noqa: B006  # never changed
    """Paint."""
    return colour.value


def test_empty_list_is_accepted_by_a_function_rule_only(tmp_path: Path) -> None:
    chosen = session(tmp_path).select_tools
    for rule in (Allow("look_all", paths="**"), Allow("look_all", paths={"a", "b"})):
        with pytest.raises(ToolError, match="not allowed"):
            chosen([rule])["look_all"].validate({"paths": []})
    free = chosen([Allow("look_all", paths=lambda paths: len(paths) <= 2)])["look_all"]
    free.validate({"paths": []})


def test_an_enum_is_compared_by_its_value(tmp_path: Path) -> None:
    tools = {"paint": paint}
    red = select([Allow("paint", colour={"red"})], tools, {})["paint"]
    assert red.validate({"colour": "red"})["colour"] is Colour.RED
    with pytest.raises(ToolError, match="colour must be one of 'red'"):
        red.validate({"colour": "blue"})


def test_rule_text_is_the_same_in_every_process(tmp_path: Path) -> None:
    words = {f"word{n}" for n in range(20)}
    listed = ", ".join(repr(word) for word in sorted(words))
    assert str(Allow("look", path=words)) == f"path must be one of {listed}"
    assert str(Allow("look", path=["b", "a"])) == "path must be one of 'b', 'a'"


def test_async_rule_function_is_refused() -> None:
    async def later(value: Any) -> bool:
        return True

    with pytest.raises(UsageError, match="a plain function"):
        Allow("look", path=later)  # type: ignore[arg-type]  # the point


def test_separately_passed_parts_of_a_toolset_share_its_name(tmp_path: Path) -> None:
    parts = [FILES.read_only(), FILES.only("change").with_approval()]
    opened = Session(tmp_path, tools=parts, toolsets=())
    assert list(opened.select_tools(["files"])) == ["look", "look_all", "change"]


def test_toolset_accepts_tools_only() -> None:
    with pytest.raises(UsageError, match="is not a Tool; convert it with tool_from"):
        Toolset("t", (print,))  # type: ignore[arg-type]  # the point


def test_unrecorded_parameter_can_be_bound() -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}, "to": {}}}
    write = define_tool("write", "W.", schema, lambda a: a, unrecorded=["text"])
    (bound,) = Toolset("t", (write,)).with_defaults("write", text="x")
    assert bound.validate({"to": 1}) == {"to": 1, "text": "x"}
    assert not bound.unrecorded


def test_one_of_several_rules_must_match_and_the_bare_name_allows_all(tmp_path: Path) -> None:
    chosen = session(tmp_path).select_tools
    either = chosen([Allow("look", path="a", times=1), Allow("look", path="b")])["look"]
    either.validate({"path": "b", "times": 9})
    with pytest.raises(
        ToolError, match="path must be 'a' and times must be 1; or path must be 'b'"
    ):
        either.validate({"path": "a", "times": 9})
    assert chosen([Allow("look", path="a"), "look"])["look"] is look


def test_a_rule_compares_values_of_one_type_only(tmp_path: Path) -> None:
    selected = session(tmp_path).select_tools([Allow("look", times=1)])["look"]
    selected.validate({"times": 1})
    with pytest.raises(ToolError):
        selected.validate({"times": 2})
    truth = session(tmp_path).select_tools([Allow("look", times=True)])["look"]
    with pytest.raises(ToolError):
        truth.validate({"times": 1})


@pytest.mark.parametrize(
    "call",
    [
        'ctx.look(path="etc/x")',
        'ctx.look("etc/x")',
        'ctx.call("look", {"path": "etc/x"})',
        'ctx.tools.look(path="etc/x")',
        'ctx.wrap(path="etc/x")',
    ],
)
async def test_rule_applies_to_every_kind_of_call(tmp_path: Path, call: str) -> None:
    async with session(tmp_path) as s:
        result = await s.program(
            source=f"def run(ctx, inputs):\n    return {call}\n",
            allowed_tools=[Allow("look", path="src/**"), "wrap"],
        )
        assert result.error is not None
        assert "these arguments are not allowed in this run" in result.error.message
        allowed = await s.program(
            source=f"def run(ctx, inputs):\n    return {call.replace('etc', 'src')}\n",
            allowed_tools=[Allow("look", path="src/**"), "wrap"],
        )
        assert allowed.unwrap() == "src/x"


def test_tool_description_includes_the_allow_rule(tmp_path: Path) -> None:
    text = session(tmp_path).describe_tools([Allow("look", path={"a", "b"}.__class__(["a"]))])
    assert "Here path must be one of 'a'." in text


# --- toolsets -------------------------------------------------------------------------------


def test_toolset_can_be_filtered_without_being_changed() -> None:
    assert names(FILES.only("look*")) == ["look", "look_all"]
    assert names(FILES.without("look_all")) == ["look", "change"]
    assert names(FILES.tagged("files", "x")) == ["look", "look_all"]
    assert names(FILES.read_only()) == ["look", "look_all"]
    assert names(FILES.filtered(lambda t: "all" in t.name)) == ["look_all"]
    assert names(FILES) == ["look", "look_all", "change"]
    with pytest.raises(UsageError, match=r"toolset 'files': no tool matches 'lok'.*did you mean"):
        FILES.only("lok")


async def test_tools_can_be_renamed_and_prefixed(tmp_path: Path) -> None:
    spaced = FILES.prefixed("fs")
    assert names(spaced) == ["fs.look", "fs.look_all", "fs.change"]
    renamed = FILES.renamed({"look": "see"})
    assert names(renamed) == ["see", "look_all", "change"]
    async with Session(tmp_path, tools=[spaced, renamed], toolsets=()) as s:
        result = await s.program(
            source="def run(ctx, inputs):\n    return [ctx.fs.look(path='a'), ctx.see(path='b')]\n"
        )
        assert result.unwrap() == ["a", "b"]
        with pytest.raises(ToolError, match=r"^see: unknown argument `pth`"):
            await s.see(pth="x")  # type: ignore[attr-defined]  # a tool as a method
    with pytest.raises(UsageError, match="in a namespace already"):
        spaced.prefixed("more")
    with pytest.raises(UsageError, match="two tools are named 'change'"):
        FILES.renamed({"look": "change"})
    with pytest.raises(UsageError, match=r"no tool 'lok' \(did you mean"):
        FILES.renamed({"lok": "see"})


async def test_arguments_bound_by_with_defaults_are_hidden_from_callers(tmp_path: Path) -> None:
    bound = FILES.with_defaults("look", path="fixed")
    made: Tool = next(iter(bound))
    assert list(made.parameters["properties"]) == ["times"]
    assert made.validate({"times": 2}) == {"path": "fixed", "times": 2}
    with pytest.raises(ToolError, match="unknown argument `path`"):
        made.validate({"path": "other"})
    for values, why in (({"pth": 1}, "parameter 'pth'"), ({"times": "x"}, "argument 'times'")):
        with pytest.raises(UsageError, match=why):
            FILES.with_defaults("look", **values)


@pytest.mark.parametrize(
    ("own", "gate", "asked"),
    [
        (False, True, True),
        (False, lambda a: False, False),
        (lambda a: False, lambda a: True, True),
        (lambda a: True, lambda a: False, True),
        (True, lambda a: False, True),
        (lambda a: False, False, False),
    ],
)
async def test_call_requires_approval_if_tool_or_toolset_requires_it(
    tmp_path: Path, own: Any, gate: Callable[[Any], bool] | bool, asked: bool
) -> None:
    @tool(needs_approval=own)
    async def work() -> int:
        """Work."""
        return 1

    made = Toolset("t", (work,)).with_approval("work", gate=gate)
    async with Session(tmp_path, tools=[made], toolsets=()) as s:
        assert (await s.tool("work")).ok is not asked


def test_with_approval_covers_side_effects_by_default() -> None:
    assert [t.needs_approval for t in FILES.with_approval()] == [False, False, True]
