"""Completed runs become tools: what is pinned, what is derived, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ptc import Allow, BlockingSession, JournalError, Limits, Session, Toolset, UsageError, tool
from ptc._programs._derive import derive_inputs, derive_output

from .shop import ORDER, QUOTE, Shop, run, save_order

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


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
        session.save_program(quoted.run_id, name="quote", description="Quote.")
        quote = session.select_tools()["quote"]
        assert (quote.side_effect, quote.idempotent) == (False, True)


async def test_only_tools_that_the_script_uses_are_pinned(tmp_path: Path) -> None:
    @tool
    async def unused() -> int:
        """Return 1."""
        return 1

    source = """
async def run(ctx, inputs):
    if inputs["buy"]:
        await ctx.pay(amount=1)
    return await ctx.call("price", {"item": "a"})
"""
    async with Shop().session(tmp_path, unused) as session:
        done = await run(session, source, {"buy": False}, ["*"])
        saved = session.save_program(done.run_id, name="maybe", description="Maybe.")
        assert saved.allowed_tools == ("price", "pay")
        chosen = session.save_program(
            done.run_id, name="maybe", description="Maybe.", allowed_tools=["pr*"]
        )
        assert (chosen.allowed_tools, chosen.version) == (("price",), 2)
        with pytest.raises(UsageError, match="there is no tool 'prise'"):
            session.save_program(done.run_id, name="x", allowed_tools=["prise"])
        narrow = await run(session, QUOTE, {"items": []}, ["price"])
        with pytest.raises(UsageError, match="was not allowed to call 'pay'"):
            session.save_program(narrow.run_id, name="x", allowed_tools=["price", "pay"])


async def test_runs_that_cannot_be_saved_are_refused(tmp_path: Path) -> None:
    async with Shop().session(tmp_path, record_direct_calls=True) as session:
        failed = await session.program(source="def run(ctx, inputs):\n    return 1 / 0")
        with pytest.raises(UsageError, match="cannot be saved: it is failed"):
            session.save_program(failed.run_id, name="x", description="x")
        await session.tool("price", {"item": "a"})
        direct = session.history.runs(1)[0].run_id
        with pytest.raises(UsageError, match="it is a direct call of a tool"):
            session.save_program(direct, name="x", description="x")
        with pytest.raises(JournalError):
            session.save_program("missing", name="x", description="x")
        plain = await run(session, QUOTE, {"items": ["a"]}, ["price"])
        with pytest.raises(UsageError, match="description must be text"):
            session.save_program(plain.run_id, name="x")
        with pytest.raises(UsageError, match="there is a tool of that name; choose another name"):
            session.save_program(plain.run_id, name="pay", description="x")
        with pytest.raises(UsageError, match="cannot name a program"):
            session.save_program(plain.run_id, name="../x", description="x")
        with pytest.raises(UsageError, match="the schemas do not accept run"):
            session.save_program(
                plain.run_id, name="x", description="x", input_schema={"type": "object",
                "properties": {"items": {"type": "string"}}},
            )  # fmt: skip
        with pytest.raises(UsageError, match='"type": "object"'):
            session.save_program(
                plain.run_id, name="x", description="x", input_schema={"type": ["object", "null"]}
            )
        assert session.saved_programs() == ()
    assert not (tmp_path / ".ptc" / "programs").exists()


async def test_tool_that_takes_the_name_of_a_program_is_an_error_with_both_remedies(
    tmp_path: Path,
) -> None:
    async with Shop().session(tmp_path) as session:
        await save_order(session)

    @tool
    async def order() -> int:
        """Return 1."""
        return 1

    with pytest.raises(UsageError, match="rename the tool, or run `ptc programs delete order`"):
        Shop().session(tmp_path, order)
    with pytest.raises(UsageError, match=r"a namespace of the tool 'order\.now'"):
        Shop().session(tmp_path, Toolset("mine", (order,)).renamed({"order": "order.now"}))


async def test_changed_file_fails_the_session_and_deleting_it_helps(tmp_path: Path) -> None:
    async with Shop().session(tmp_path) as session:
        saved = await save_order(session)
    (saved.folder / "program.py").write_text("def run(ctx, inputs): pass")
    with pytest.raises(UsageError, match=r"program\.py: it was changed after it was saved"):
        Shop().session(tmp_path)


async def test_rules_are_saved_as_text_or_refused(tmp_path: Path) -> None:
    rule = Allow("pay", amount={6, 12})
    async with Shop().session(tmp_path) as session:
        allowed: list[str | Allow] = ["price", rule]
        done = await run(session, ORDER, {"item": "tea", "count": 2}, allowed)
        with pytest.raises(UsageError, match="rules on arguments, which are not recorded: pass"):
            session.save_program(done.run_id, name="order")
        with pytest.raises(UsageError, match="cannot be stored as text"):
            session.save_program(
                done.run_id, name="order", allowed_tools=[Allow("pay", amount=lambda a: a < 9)]
            )
        saved = session.save_program(done.run_id, name="order", allowed_tools=allowed)
        assert saved.allowed_tools == ("price", "pay(amount=[12, 6])")
        paid = await session.tool("order", {"item": "tea", "count": 4})
        refused = await session.tool("order", {"item": "tea", "count": 1})
    assert paid.ok
    assert refused.error is not None
    assert "these arguments are not allowed in this run" in refused.error.message


async def test_rules_of_the_sessions_own_allow_list_are_saved(tmp_path: Path) -> None:
    default = [Allow("pay", amount=6), "price"]
    async with Shop().session(tmp_path, allowed_tools=default) as session:
        done = await session.program(source=ORDER, inputs={"item": "tea", "count": 2})
        saved = session.save_program(done.run_id, name="order")
    assert saved.allowed_tools == ("pay(amount=6)", "price")


class Wish(BaseModel):
    """Inputs as a model."""

    item: str
    count: int = 1


async def test_schemas_are_given_or_those_of_the_run_or_derived(tmp_path: Path) -> None:
    async with Shop().session(tmp_path) as session:
        given = await save_order(session, input_schema=Wish, output_schema=dict[str, Any])
        assert given.output_schema == {"additionalProperties": True, "type": "object"}
        assert (await session.tool("order", {"item": "tea"})).unwrap()["paid"] == 3
        wrong = await session.tool("order", {"item": 3})
        assert wrong.error is not None
        assert wrong.error.code == "invalid_arguments"
        schema = {"type": "array", "maxItems": 1}
        done = await run(session, QUOTE, {"items": ["a"]}, ["price"], output_schema=schema)
        quote = session.save_program(done.run_id, name="quote", description="Quote.")
        assert quote.output_schema == schema
        two = await session.tool("quote", {"items": ["a", "b"]})
        assert two.error is not None
        assert two.error.code == "program_failed"
        typed = await run(session, QUOTE, {"items": ["a"]}, ["price"], output_schema=list[int])
        derived = session.save_program(typed.run_id, name="quote", description="Quote.")
        assert derived.output_schema == {"type": "array", "items": {"type": ["number", "null"]}}


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


async def test_limits_of_the_run_are_pinned(tmp_path: Path) -> None:
    limits = Limits(timeout_ms=9_000, max_calls_by_tool={"price": 2, "pay": 7})
    async with Shop().session(tmp_path) as session:
        done = await run(session, QUOTE, {"items": ["a"]}, ["price", "pay"], limits=limits)
        saved = session.save_program(done.run_id, name="quote", description="Quote.")
        assert (saved.limits.timeout_ms, saved.limits.max_calls_by_tool) == (9_000, {"price": 2})
        more = await session.tool("quote", {"items": ["a", "b", "c"]})
    assert more.error is not None
    assert "price" in more.error.message


async def test_scripts_cannot_write_saved_programs(tmp_path: Path) -> None:
    source = """
async def run(ctx, inputs):
    try:
        await ctx.write(path=inputs["path"], content="x")
    except ToolError as error:
        return error.code
"""
    for folder in (None, tmp_path / "saved"):
        async with Session(tmp_path, programs=folder, journal=":memory:") as session:
            name = ".ptc/programs" if folder is None else "saved"
            for path in (f"{name}/x/1/program.py", name):
                done = await run(session, source, {"path": path}, ["write"])
                assert done.value == "protected_path", path


@pytest.mark.slow
def test_blocking_session_saves_lists_and_deletes(tmp_path: Path) -> None:
    shop = Shop()
    folder = tmp_path / "elsewhere"
    with BlockingSession(tmp_path, tools=shop.tools(), toolsets=(), programs=folder) as session:
        done = session.program(source=QUOTE, inputs={"items": ["a"]}, allowed_tools=["price"])
        for version in (1, 2):
            saved = session.save_program(done.run_id, name="quote", description=f"v{version}")
            assert saved.folder == folder / "quote" / str(version)
        assert session.tool("quote", {"items": ["ab"]}).unwrap() == [2]
        assert [program.version for program in session.saved_programs()] == [2]
        assert session.delete_program("quote", 2) == [2]
        assert session.select_tools()["quote"].description == "v1"
        assert session.delete_program("quote") == [1]
        assert "quote" not in session.tool_names()
