"""Tools are typed: as functions, in `session.call`, and in results. mypy reads this file, too."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, assert_type

import pytest
from pydantic import BaseModel

from ptc import (
    BlockingSession,
    RunError,
    RunEvent,
    RunResult,
    Session,
    Tool,
    ToolContext,
    ToolError,
    UsageError,
    tool,
)
from ptc_tools import Entry, Match, ls, read, write

pytestmark = pytest.mark.anyio


@tool
def price(item: str, amount: int = 1) -> int:
    """Price of some items."""
    return len(item) * amount


@tool(side_effect=True)
async def order(ctx: ToolContext, item: str) -> str:
    """Order an item."""
    return f"{item} by {ctx.tool_name}"


@tool
async def double_price(ctx: ToolContext, item: str) -> int:
    """Price of two, by the function of another tool."""
    return price(item) * 2


@tool
async def order_in_turn(ctx: ToolContext, item: str) -> str:
    """Call the function of a tool that takes a context, too."""
    return await order(item)


class Invoice(BaseModel):
    number: int
    items: list[str]


SOURCE = "def run(ctx, inputs):\n    return {'number': 3, 'items': ['tea']}\n"


def tools() -> list[Tool]:
    return [price, order, double_price, order_in_turn, read, ls, write]


@pytest.fixture
async def session(tmp_path: Path) -> Any:
    async with Session(tmp_path, tools=tools(), toolsets=(), workers=1) as opened:
        yield opened


def test_calling_a_tool_calls_its_function() -> None:
    assert assert_type(price("tea", amount=2), int) == 6
    with pytest.raises(TypeError, match="amuont"):
        price("tea", amuont=2)  # type: ignore[call-arg]  # refused by type checkers, too


async def test_tool_function_called_directly_takes_a_context_of_the_caller(tmp_path: Path) -> None:
    context = ToolContext(tmp_path, "a test", "c", None, 1)
    assert await order(context, "tea") == "tea by a test"  # type: ignore[call-arg, arg-type]  # P has no context
    assert await order("tea", ctx=context) == "tea by a test"  # type: ignore[call-arg]  # as above
    with pytest.raises(UsageError, match=r"takes a ToolContext.*session.call\(order"):
        await order("tea")


async def test_call_is_typed_by_its_tool(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    assert assert_type(await session.call(price, "tea", amount=2), int) == 6
    assert assert_type(await session.call(order, "tea"), str) == "tea by order"
    assert assert_type(await session.call(read, path="a.txt"), str) == "hello"
    assert [entry.name for entry in assert_type(await session.call(ls), list[Entry])] == ["a.txt"]
    with pytest.raises(ToolError, match="paht"):
        await session.call(read, paht="a.txt")  # type: ignore[call-overload]  # the point


async def test_tools_call_functions_of_others_with_their_own_context(session: Session) -> None:
    assert await session.call(double_price, "tea") == 6
    assert await session.call(order_in_turn, "tea") == "tea by order_in_turn"


async def test_call_of_a_tool_that_the_session_lacks_is_refused(session: Session) -> None:
    @tool
    def missing() -> int:
        """Not passed to the session."""
        return 1

    with pytest.raises(UsageError, match=r"has no tool 'missing'.*tools=\["):
        await session.call(missing)

    @tool(name="price")
    def other(item: str) -> str:
        """Another tool of a name that the session has."""
        return item

    with pytest.raises(UsageError, match=r"'price' is another one.*session.tool\('price'"):
        await session.call(other, "tea")
    with pytest.raises(UsageError, match="call takes a Tool, not 'price'"):
        await session.call("price")  # type: ignore[call-overload]  # a name


async def test_misspelt_method_is_a_type_error_and_dir_lists_the_tools(session: Session) -> None:
    with pytest.raises(AttributeError, match=r"'raed' \(did you mean `read`"):
        await session.raed("a.txt")  # type: ignore[attr-defined]  # the point
    assert {"price", "read", "program", "call"} <= set(dir(session))


async def test_result_is_typed_by_output_schema(session: Session) -> None:
    result = await session.program(source=SOURCE, output_schema=Invoice)
    assert_type(result, RunResult[Invoice])
    assert assert_type(result.unwrap(), Invoice) == Invoice(number=3, items=["tea"])
    assert result.value == {"number": 3, "items": ["tea"]}
    assert "_read" not in result.to_dict()
    assert b"_read" not in result.to_json()
    listed = await session.program(
        source="def run(ctx, inputs):\n    return [1]\n", output_schema=list[int]
    )
    assert assert_type(listed.unwrap(), list[int]) == [1]
    plain = await session.program(source=SOURCE, output_schema={"type": "object"})
    assert plain.unwrap() == {"number": 3, "items": ["tea"]}
    failed = await session.program(
        source="def run(ctx, inputs):\n    return 1\n", output_schema=Invoice
    )
    with pytest.raises(RunError, match="output_schema"):
        failed.unwrap()


async def test_recorded_result_is_typed_by_output_schema(session: Session) -> None:
    for _ in range(2):
        result = await session.program(source=SOURCE, output_schema=Invoice, run_id="again")
        assert result.unwrap() == Invoice(number=3, items=["tea"])


def public(kind: type) -> dict[str, Any]:
    members = inspect.getmembers_static(kind)  # those that it inherits, too
    return {name: value for name, value in members if not name.startswith("_")}


def test_blocking_session_has_every_public_member_with_its_signature() -> None:
    blocking, names = public(BlockingSession), public(Session)
    assert set(blocking) == {*names, "artifacts", "close", "history"} - {"aclose"}
    for name, member in names.items():
        if name == "aclose":
            continue
        if isinstance(member, property):
            assert isinstance(blocking[name], property)
            continue
        pair = [getattr(each, "__func__", each) for each in (member, blocking[name])]
        ours, theirs = map(inspect.signature, pair)
        assert ours.parameters == theirs.parameters, name
        if name not in ("extract_many", "follow", "stream", "stream_elements", "task"):
            assert ours.return_annotation == theirs.return_annotation, name
    assert (
        inspect.signature(Session.__init__).parameters
        == inspect.signature(BlockingSession.__init__).parameters
    )


def test_blocking_session_streams_events_and_types_calls(tmp_path: Path) -> None:
    with BlockingSession(tmp_path, tools=tools(), toolsets=(), workers=1) as session:
        with session.stream(source=SOURCE) as events:
            assert_type(events, Iterator[RunEvent])
            kinds = [event.kind for event in events]
        assert (kinds[0], kinds[-1]) == ("started", "finished")
        with session.stream(source="def run(ctx, inputs):\n    while True: pass\n") as events:
            assert next(events).kind == "started"
        assert assert_type(session.call(price, "tea"), int) == 3
        assert assert_type(session.call(order, "tea"), str) == "tea by order"
        assert session.program(source=SOURCE, output_schema=Invoice).unwrap().number == 3
        assert session.check(source=SOURCE) == ()
        assert session.root == tmp_path.resolve()
        assert "price" in dir(session)
        session.close()
        session.close()


def function_of(tool: Tool[[str], Awaitable[Match]]) -> None: ...


def test_a_tool_is_covariant_in_its_return_type() -> None:
    async def first(text: str) -> Match:
        raise NotImplementedError

    function_of(tool(name="first", description="x")(first))
