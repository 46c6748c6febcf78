"""Saved programs as tools: listed, called under the caller's allow-list, paused and resumed.

The other modules of this folder have the slower cases.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ptc import Allow, Session, tool
from ptc._programs._derive import derive_inputs, derive_output
from ptc_tools import batch

from .shop import (
    BUY,
    BUYING,
    CALL_BUY,
    ORDER,
    QUOTE,
    Shop,
    buying_session,
    run,
    save_buy,
    save_order,
    start_buying,
)

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

CALL = """
async def run(ctx, inputs):
    try:
        return await ctx.order(item="tea", count=1)
    except ToolError as error:
        return [error.code, str(error)]
"""


async def test_saved_run_is_a_tool_at_once_and_in_later_sessions(tmp_path: Path) -> None:
    shop = Shop()
    async with shop.session(tmp_path) as session:
        saved = await save_order(session)
        assert (saved.name, saved.version, saved.source) == ("order", 1, ORDER)
        assert saved.folder == tmp_path / ".ptc" / "programs" / "order" / "1"
        assert (saved.folder / "program.py").read_text() == ORDER
        assert saved.allowed_tools == ("price", "pay")
        assert saved.description == "Order an item: look its price up, and pay."
        value = (await session.tool("order", {"item": "milk", "count": 3})).unwrap()
        assert value == {"item": "milk", "paid": 12, "note": None}
    async with shop.session(tmp_path) as later:
        assert "order" in later.tool_names()
        assert later.saved_programs() == (saved,)
        method: Any = later
        assert await method.order(item="a", count=5) == {"item": "a", "paid": 5, "note": None}
        used = await run(
            later,
            "async def run(ctx, inputs):\n    return (await ctx.order(item='ab', count=1)).paid",
            {},
            ["order", "price", "pay"],
        )
    assert used.value == 2
    assert [(c.tool, c.parent) for c in used.calls] == [
        *(("order", None), ("version", "1"), ("program", "1"), ("price", "1"), ("pay", "1"))
    ]
    assert shop.paid == [6, 12, 5, 2]


async def test_saved_program_is_described_and_found_like_any_tool(tmp_path: Path) -> None:
    async with Shop().session(tmp_path) as session:
        await save_order(session)
        definition = session.tool_definitions(["order"])[0]
        assert definition["parameters"] == {
            "type": "object",
            "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
            "required": ["item", "count"],
            "additionalProperties": False,
        }
        assert session.search_tools("order an item", ["order", "price"])[0].name == "order"
        text = session.describe_tools(["programs"])
        assert "order" in text
        assert "paid" in text
        # It pays: it is not among the tools that a script has by default, and says so.
        assert "order" not in session.select_tools()
        order = session.select_tools(["order"])["order"]
        assert (order.side_effect, order.idempotent, order.repeatable) == (True, False, True)
        quoted = await run(session, QUOTE, {"items": ["a"]}, ["price"])
        await session.save_program(quoted.run_id, name="quote", description="Quote.")
        quote = session.select_tools()["quote"]
        assert (quote.side_effect, quote.idempotent) == (False, True)


async def test_call_is_refused_if_its_caller_may_not_call_a_pinned_tool(tmp_path: Path) -> None:
    shop = Shop()
    async with shop.session(tmp_path) as session:
        await save_order(session)
        shop.paid.clear()
        shop.priced.clear()
        done = await run(session, CALL, {}, ["order", "price"])
        code, message = done.value
        assert code == "not_allowed"
        assert "Add to the allow-list: pay. Nothing was called" in message
        direct = await session.tool("order", {"item": "a", "count": 1}, allowed_tools=["order"])
        assert direct.error is not None
        assert direct.error.details == {"missing": ["price", "pay"]}
    assert (shop.priced, shop.paid) == ([], [])


async def test_program_whose_tool_changed_calls_nothing_and_says_what_changed(
    tmp_path: Path,
) -> None:
    shop = Shop()
    async with shop.session(tmp_path) as session:
        await save_order(session)
    shop.priced.clear()

    @tool(side_effect=True, idempotent=True)
    async def pay(amount: int, to: str = "") -> int:
        """Pay."""
        raise AssertionError

    async with Session(tmp_path, tools=[shop.tools()[0], pay], toolsets=()) as session:
        found = await session.tool("order", {"item": "a", "count": 1})
    assert found.error is not None
    assert found.error.code == "program_outdated"
    assert "idempotent was False and is True, parameter `to` is new" in found.error.message
    assert shop.priced == []


async def test_rules_of_the_caller_hold_inside_a_saved_program(tmp_path: Path) -> None:
    shop = Shop()
    async with shop.session(tmp_path) as session:
        await save_order(session)
        shop.paid.clear()
        narrow = await run(session, CALL, {}, ["order", "price", Allow("pay", amount=99)])
        assert narrow.value[0] == "program_failed"
        assert "these arguments are not allowed in this run" in narrow.value[1]
        assert shop.paid == []
        wide = await run(session, CALL, {}, ["order", "price", Allow("pay", amount=3)])
    assert (wide.value["paid"], shop.paid) == (3, [3])


async def test_allow_list_holds_through_a_saved_program_that_calls_batch(tmp_path: Path) -> None:
    """W2: neither a batch around a saved program nor one inside it widens anything."""
    shop = Shop()
    source = """
async def run(ctx, inputs):
    return await ctx.batch(calls=[{"tool": t, "arguments": a} for t, a in inputs["calls"]])
"""

    @tool
    async def secret() -> str:
        """Return a secret that the program was not saved with."""
        return "secret"

    calls = {"calls": [["price", {"item": "a"}]]}
    async with shop.session(tmp_path, batch, secret) as session:
        done = await run(session, source, calls, ["batch", "price"])
        saved = await session.save_program(done.run_id, name="many", description="Make calls.")
        assert saved.allowed_tools == ("batch", "price")
        tried = {"calls": [["price", {"item": "ab"}], ["secret", {}], ["pay", {"amount": 1}]]}
        inside = (await session.tool("many", tried)).unwrap()
        assert [(row["ok"], (row["error"] or {}).get("code")) for row in inside] == [
            *((True, None), (False, "not_allowed"), (False, "not_allowed"))
        ]
        await save_order(session)
        shop.paid.clear()
        outer = """
async def run(ctx, inputs):
    calls = [{"tool": "order", "arguments": {"item": "a", "count": 1}}]
    return [row.error.code for row in await ctx.batch(calls=calls)]
"""
        around = await run(session, outer, {}, ["batch", "order", "price"])
        assert around.value == ["not_allowed"]
    assert shop.paid == []


async def test_approval_inside_a_saved_program_pauses_and_nothing_is_repeated(
    tmp_path: Path,
) -> None:
    shop = Shop()
    await start_buying(tmp_path, shop)
    async with buying_session(tmp_path, shop) as session:
        await session.history.approve("r", by="ann")
        done = await session.resume("r")
    drawn, signed = done.unwrap()
    assert signed == "signed v1"
    assert shop.paid == [7, drawn]
    assert len(set(shop.keys)) == 2
    assert [(call.tool, call.parent, call.status) for call in done.calls] == [
        ("buy", None, "succeeded"),
        *((name, "1", "succeeded") for name in ("version", "program", "pay", "pay", "sign")),
    ]


async def test_restarted_call_continues_the_version_it_began_with(tmp_path: Path) -> None:
    shop = Shop()
    await start_buying(tmp_path, shop)
    async with buying_session(tmp_path, shop) as session:
        paid = list(shop.paid)
        await save_buy(
            session, BUY.replace('"v1"', '"v2"').replace("amount=inputs", "amount=1+inputs")
        )
        shop.paid[:] = paid
        assert [program.version for program in session.saved_programs()] == [2]
    async with buying_session(tmp_path, shop) as session:
        await session.history.approve("r", by="ann")
        done = await session.resume("r")
        assert done.unwrap()[1] == "signed v1"
        assert len(shop.paid) == 2
        new = await session.program(source=CALL_BUY, allowed_tools=BUYING)
        assert [call.arguments for call in new.pending] == [{"text": "v2"}]


def test_derived_schema_asks_for_names_and_types_only() -> None:
    inputs = {"a": "x", "b": 1, "c": [1, 2.5], "d": [1, "x"], "e": None, "f": {"g": 1}, "h": True}
    assert derive_inputs(inputs)["properties"] == {
        "a": {"type": "string"},
        "b": {"type": "integer"},
        "c": {"type": "array", "items": {"type": "number"}},
        "d": {"type": "array"},
        "e": {},
        "f": {"type": "object"},
        "h": {"type": "boolean"},
    }
    assert derive_output(None) is None
    assert derive_output(3) == {"type": "number"}
    assert derive_output([{"a": 1, "b": None}, {"a": "x", "c": True}]) == {
        "type": "array",
        "items": {
            "type": ["object", "null"],
            "properties": {"a": {}, "c": {"type": ["boolean", "null"]}},
        },
    }
    assert derive_output({str(n): n for n in range(51)}) == {"type": "object"}
    assert derive_output({}) == {"type": "object"}


def test_programs_behind_a_link_are_protected_at_their_own_place(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / ".ptc").symlink_to("state")
    session: Any = Session(tmp_path, toolsets=(), journal=":memory:")
    assert "state/programs" in session._direct._shared.protected
