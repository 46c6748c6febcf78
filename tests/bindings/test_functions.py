"""Plain callables as tools, and tools as plain callables."""

from __future__ import annotations

import functools
import inspect
from pathlib import Path
from typing import Any, Literal, get_type_hints

import pytest

from ptc import Limits, Session, ToolContext, ToolError, UsageError, define_tool, tool
from ptc_bindings.functions import as_functions, program_function, toolset

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


async def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


def where(ctx: ToolContext, name: str) -> str:
    """Say where a name is."""
    return f"{ctx.root.name}/{name}"


class Shop:
    """Things for sale."""

    def __init__(self, prices: dict[str, int]) -> None:
        self.prices = prices

    async def price(self, item: str) -> int:
        """Look up a price."""
        return self.prices[item]


class WordCount:
    """Count the words of a text."""

    def __call__(self, text: str) -> int:
        return len(text.split())


def session(root: Path, *tools: Any) -> Session:
    return Session(root, tools=tools, toolsets=(), workers=1)


# --- in -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing_left")
async def test_functions_methods_and_objects_are_tools_of_a_script(tmp_path: Path) -> None:
    shop = toolset("shop", add, where, Shop({"tea": 3}).price, WordCount())
    source = """
async def run(ctx, inputs):
    return [
        await ctx.add(1),
        await ctx.where("x"),
        await ctx.price("tea"),
        await ctx.word_count(text="a b c"),
    ]
"""
    async with session(tmp_path, shop) as s:
        result = await s.program(source=source)
    assert result.unwrap() == [3, f"{tmp_path.name}/x", 3, 3]


async def test_a_tool_is_described_by_its_hints_and_docstring() -> None:
    add_tool, where_tool, price_tool, count_tool = toolset(
        "shop", add, where, Shop({}).price, WordCount()
    )
    assert add_tool.description == "Add two numbers."
    assert add_tool.parameters["properties"]["b"] == {
        "default": 2,
        "description": "The second.",
        "type": "integer",
    }
    assert add_tool.result_schema == {"type": "integer"}
    assert add_tool.is_async
    assert list(where_tool.parameters["properties"]) == ["name"]
    assert not where_tool.is_async
    assert price_tool.is_async
    assert count_tool.description == "Count the words of a text."


@pytest.mark.usefixtures("nothing_left")
async def test_arguments_bound_by_partial_are_hidden_from_callers(
    tmp_path: Path,
) -> None:
    async def fetch(path: str, key: str = "", *, retries: int = 1) -> str:
        """Fetch a page."""
        return f"{path} {key} {retries}"

    bound = toolset("web", functools.partial(fetch, key="sk-very-secret"))
    (only,) = bound
    assert only.name == "fetch"
    assert "sk-very-secret" not in str(only.parameters) + only.description
    assert list(only.parameters["properties"]) == ["path", "retries"]
    async with session(tmp_path, bound) as s:
        assert await s.fetch("a", retries=3) == "a sk-very-secret 3"  # type: ignore[attr-defined]  # a tool as a method
        with pytest.raises(ToolError, match="unknown argument `key`"):
            await s.fetch("a", key="mine")  # type: ignore[attr-defined]  # a tool as a method
    (positional,) = toolset("web", functools.partial(functools.partial(fetch, "p"), retries=9))
    assert list(positional.parameters["properties"]) == ["key"]


async def test_tools_with_side_effects_are_not_allowed_by_default(tmp_path: Path) -> None:
    both = toolset("shop", add, where, side_effects=["where"])
    s = session(tmp_path, both)
    assert list(s.select_tools(None)) == ["add"]
    assert s.select_tools(["where"])["where"].side_effect


def unhinted(a) -> int:  # type: ignore[no-untyped-def]  # what the test is about
    """Do."""
    return int(a)


def silent(a: int) -> int:
    return a


@pytest.mark.parametrize(
    ("functions", "side_effects", "message"),
    [
        ([unhinted], (), "parameter `a` has no type hint"),
        ([silent], (), "needs a description"),
        ([lambda: 1], (), "tool '<lambda>' needs a description"),
        ([add, add], (), "two tools are named 'add'"),
        ([Shop], (), "is not a function, method or callable object"),
        ([3], (), "3 is not a function"),
        ([add], ["ad"], r"there is no tool 'ad' \(did you mean `add`\?\); tools: add"),
        ([add], "add", "not the string 'add'"),
    ],
)
async def test_callable_that_cannot_be_a_tool_is_refused_with_the_reason(
    functions: list[Any], side_effects: Any, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        toolset("shop", *functions, side_effects=side_effects)


# --- out ----------------------------------------------------------------------------------------


@tool(side_effect=True, idempotent=True)
async def write(text: str) -> int:
    """Pretend to write."""
    return len(text)


raw = define_tool(
    "lookup",
    "Look a word up.",
    {
        "type": "object",
        "properties": {
            "word": {"type": "string", "description": "The word."},
            "order": {"enum": ["up", "down"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "most": {"type": "integer", "default": 5},
        },
        "required": ["word"],
        "additionalProperties": False,
    },
    lambda arguments: arguments,
)


@pytest.mark.usefixtures("nothing_left")
async def test_as_functions_preserves_name_signature_and_docstring(tmp_path: Path) -> None:
    async with session(tmp_path, add, where) as s:
        functions = as_functions(s)
        assert list(functions) == ["add", "where"]
        plus = functions["add"]
        assert plus.__name__ == "add"
        assert inspect.iscoroutinefunction(plus)
        assert plus.__doc__ is not None
        assert plus.__doc__.startswith("Add two numbers.\n\nArgs:\n    a: The first.")
        assert str(inspect.signature(plus)) == "(a: int, b: int = 2) -> int"
        assert get_type_hints(plus) == {"a": int, "b": int, "return": int}
        assert str(inspect.signature(functions["where"])) == "(name: str) -> str"
        assert await plus(1, b=5) == 6
        assert await functions["where"]("x") == f"{tmp_path.name}/x"
        with pytest.raises(ToolError, match="unknown argument `c`"):
            await plus(1, c=5)
        with pytest.raises(TypeError, match="at most 2 arguments: a, b"):
            await plus(1, 2, 3)
        with pytest.raises(TypeError, match="two values for argument 'a'"):
            await plus(1, a=3)


async def test_tool_with_side_effect_is_exported_only_by_name(tmp_path: Path) -> None:
    async with session(tmp_path, add, write) as s:
        assert list(as_functions(s)) == ["add"]
        assert await as_functions(s, ["write"])["write"]("four") == 4
        with pytest.raises(UsageError, match="there is no tool 'wirte'"):
            as_functions(s, ["wirte"])


async def test_tool_named_like_a_session_method_remains_that_tool(
    tmp_path: Path,
) -> None:
    @tool(name="program")
    async def mine(text: str) -> str:
        """Be another program."""
        return text * 2

    async with session(tmp_path, mine) as s:
        assert await as_functions(s)["program"]("ab") == "abab"


async def test_raw_schema_becomes_a_function_signature(tmp_path: Path) -> None:
    async with session(tmp_path, raw) as s:
        lookup = as_functions(s)["lookup"]
        assert get_type_hints(lookup) == {
            "word": str,
            "order": Literal["up", "down"] | None,
            "tags": list[str] | None,
            "most": int,
            "return": Any,
        }
        assert inspect.signature(lookup).parameters["most"].default == 5
        # A framework fills in the arguments that a model omitted.
        given = await lookup(word="a", order=None, tags=None, most=5)
        assert given == {"word": "a", "most": 5}


async def test_parameter_name_invalid_in_python_is_refused(tmp_path: Path) -> None:
    parameters = {"type": "object", "properties": {"user-id": {"type": "string"}}}
    odd = define_tool("odd", "Be odd.", parameters, lambda arguments: arguments)
    async with session(tmp_path, odd) as s:
        with pytest.raises(UsageError, match="'user-id' is not a valid Python identifier"):
            as_functions(s)


@pytest.mark.usefixtures("nothing_left")
async def test_program_function_never_raises_for_a_script(tmp_path: Path) -> None:
    async with session(tmp_path, add, write) as s:
        program = program_function(s, limits=Limits(max_tool_calls=2))
        assert program.__name__ == "program"
        hints = get_type_hints(program)
        assert hints["source"] is str
        assert hints["inputs"] == dict[str, Any] | None
        assert program.__doc__ is not None
        for part in ("2 tool calls", "async def add(a: int, b: int = 2) -> int:", "Args:\n"):
            assert part in program.__doc__
        assert "async def write" not in program.__doc__

        good = "async def run(ctx, inputs):\n    return await ctx.add(inputs['n'])"
        outcome = await program(good, {"n": 40})
        assert outcome == {"value": 42}

        refused = await program("async def run(ctx, inputs):\n    return await ctx.write('x')")
        assert refused["status"] == "rejected"
        message = "tool 'write' is not allowed in this run: it has a side effect; allowed: add"
        assert message in refused["error"]["message"]
        assert refused["error"]["line"] == 2

        wrong: Any = {"n": {1, 2}.__iter__()}
        outcome = await program(good, wrong)
        assert outcome["status"] == "rejected"
        assert outcome["error"]["code"] == "usage"
    closed = await program(good, {"n": 1})
    assert "the session is closed" in closed["error"]["message"]
