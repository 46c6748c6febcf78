"""Calls of saved programs: under the caller's allow-list, with the tools that were pinned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ptc import AttachmentRef, Limits, Session, Tool, ToolContext, ToolError, define_tool, tool

from .shop import QUOTE, Shop, run, save_order

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote, pytest.mark.slow]


def pay_tool(schema: dict[str, Any], **options: Any) -> Tool:
    async def pay(arguments: dict[str, Any], ctx: ToolContext) -> int:
        raise AssertionError

    options.setdefault("result_schema", RESULT)
    return define_tool("pay", "Pay.", schema, pay, **options)


AMOUNT = {"type": "integer"}
RESULT = {"type": "integer"}
EFFECT = {"side_effect": True, "idempotent": False}


def parameters(required: tuple[str, ...] = ("amount",), **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


async def test_changed_tool_refuses_the_call_and_says_what_changed(tmp_path: Path) -> None:
    shop = Shop()
    async with shop.session(tmp_path) as session:
        await save_order(session)
    price = shop.tools()[0]
    same = parameters(amount={**AMOUNT, "description": "Reworded.", "title": "A"})
    cases = [
        (None, "tool 'pay': it is gone"),
        (pay_tool(same, **EFFECT), ""),
        (pay_tool(same, side_effect=True, idempotent=True), "idempotent was False and is True"),
        (pay_tool(same), "side_effect was True and is False"),
        (pay_tool(same, **EFFECT, uses_key=True), "uses_key was False and is True"),
        (pay_tool(same, **EFFECT, needs_approval=True), "approval was 'never' and is 'always'"),
        (pay_tool(same, **EFFECT, needs_approval=bool), "is 'by_arguments'"),
        (
            pay_tool(parameters(amount={"type": "number"}), **EFFECT),
            "the schema of parameter `amount` changed",
        ),
        (pay_tool(parameters((), amount=AMOUNT), **EFFECT), "`amount` is now optional"),
        (pay_tool(parameters(("sum",), sum=AMOUNT), **EFFECT), "`amount` was removed"),
        (pay_tool(parameters(amount=AMOUNT, to=AMOUNT), **EFFECT), "parameter `to` is new"),
        (
            pay_tool(same, **EFFECT, result_schema={"type": "string"}),
            "the schema of its value changed",
        ),
    ]
    shop.priced.clear()
    for changed, expected in cases:
        tools = [price] if changed is None else [price, changed]
        async with Session(tmp_path, tools=tools, toolsets=(), journal=":memory:") as session:
            found = await session.tool("order", {"item": "a", "count": 1})
        assert found.error is not None
        if not expected:
            assert found.error.code == "program_failed", found.error
            shop.priced.clear()
            continue
        assert found.error.code == "program_outdated", expected
        assert expected in found.error.message
        assert "Nothing was called" in found.error.message
        assert "ptc save RUN order" in found.error.message
        assert shop.priced == []


async def test_saved_program_may_call_saved_programs(tmp_path: Path) -> None:
    shop = Shop()
    nested = """
async def run(ctx, inputs):
    return [(await ctx.order(item=item, count=1)).paid for item in inputs["items"]]
"""
    async with shop.session(tmp_path) as session:
        await save_order(session)
        done = await run(session, nested, {"items": ["a"]}, ["*"])
        saved = await session.save_program(done.run_id, name="orders", description="Order all.")
        assert set(saved.allowed_tools) == {"order", "price", "pay"}
        assert (await session.tool("orders", {"items": ["ab", "c"]})).unwrap() == [2, 1]
        refused = await session.tool(
            "orders", {"items": ["ab"]}, allowed_tools=["orders", "order", "price"]
        )
        assert refused.error is not None
        assert refused.error.code == "not_allowed"
        # Calls of a branch that was not taken are pinned with the tools that they need.
        branch = nested.replace("return [", "return []; [")
        idle = await run(session, branch, {"items": ["a"]}, ["*"])
        saved = await session.save_program(idle.run_id, name="orders", description="Order all.")
        assert set(saved.allowed_tools) == {"order", "price", "pay"}


async def test_recursion_of_saved_programs_ends_with_a_clear_error(tmp_path: Path) -> None:
    first = "async def run(ctx, inputs):\n    return inputs['n']"
    again = """
async def run(ctx, inputs):
    return 1 + await ctx.down(n=inputs["n"] - 1) if inputs["n"] else 0
"""
    async with Session(tmp_path, toolsets=(), journal=":memory:") as session:
        done = await run(session, first, {"n": 0}, [])
        await session.save_program(done.run_id, name="down", description="Count.")
        done = await run(session, again, {"n": 1}, ["down"])
        saved = await session.save_program(done.run_id, name="down", description="Count.")
        assert saved.allowed_tools == ("down",)
        assert (await session.tool("down", {"n": 3})).unwrap() == 3
        deep = await session.tool("down", {"n": 99})
    assert deep.error is not None
    assert "tools have called one another 8 deep, the most allowed" in deep.error.message


async def test_failure_of_the_script_is_an_error_with_its_line_and_status(tmp_path: Path) -> None:
    source = "async def run(ctx, inputs):\n    return 10 / inputs['n']"
    async with Session(tmp_path, toolsets=(), journal=":memory:") as session:
        done = await run(session, source, {"n": 2}, [])
        await session.save_program(done.run_id, name="part", description="Divide.")
        failed = await session.tool("part", {"n": 0})
        assert failed.error is not None
        assert failed.error.code == "program_failed"
        assert failed.error.message.startswith("part: the program ended as failed in line 2: ")
        assert failed.error.details["status"] == "failed"
        wrong = await session.tool("part", {"m": 0})
        assert wrong.error is not None
        assert wrong.error.code == "invalid_arguments"
        assert (await session.tool("part", {"n": 4})).unwrap() == 2.5


async def test_value_larger_than_the_output_of_a_run_reaches_the_caller_whole(
    tmp_path: Path,
) -> None:
    source = "async def run(ctx, inputs):\n    return 'x' * inputs['n']"
    length = "async def run(ctx, inputs):\n    return len(await ctx.text(n=100_000))"
    async with Session(tmp_path, toolsets=(), journal=":memory:") as session:
        done = await run(session, source, {"n": 2}, [])
        await session.save_program(done.run_id, name="text", description="Text.")
        assert (await run(session, length, {}, ["text"])).value == 100_000
        limits = Limits(max_tool_result_bytes=50_000)
        short = await session.program(source=length, allowed_tools=["text"], limits=limits)
    assert short.error is not None
    assert "it has 100,002 bytes, over max_output_bytes=50,000" in short.error.message


async def test_limits_of_the_calling_run_hold_inside_a_saved_program(tmp_path: Path) -> None:
    async with Shop().session(tmp_path) as session:
        done = await run(session, QUOTE, {"items": ["a"]}, ["price"])
        await session.save_program(done.run_id, name="quote", description="Quote.")
        source = "async def run(ctx, inputs):\n    return await ctx.quote(items=['a', 'b', 'c'])"
        few = await session.program(
            source=source, allowed_tools=["quote", "price"], limits=Limits(max_tool_calls=5)
        )
    assert few.error is not None
    assert "max_tool_calls" in few.error.message or few.status == "limit_exceeded"


async def test_events_and_search_of_a_saved_program_are_those_of_its_tools(tmp_path: Path) -> None:
    source = """
async def run(ctx, inputs):
    await ctx.price(item="a")
    return [found.name for found in await ctx.search_tools("price pay order")]
"""
    seen: list[tuple[str, str]] = []
    async with Shop().session(tmp_path, on_event=lambda e: seen.append(
        (e.kind, e.call.tool if e.call else "")
    )) as session:  # fmt: skip
        done = await run(session, source, {}, ["*"])
        await session.save_program(done.run_id, name="look", description="Look.")
        seen.clear()
        assert (await session.tool("look")).unwrap() == ["price"]
    started = [name for kind, name in seen if kind == "tool_started"]
    assert started == ["look", "version", "program", "price"]


async def test_error_of_a_pinned_tool_reaches_the_caller(tmp_path: Path) -> None:
    @tool
    async def stock(item: str) -> int:
        """Return the stock."""
        if item == "none":
            raise ToolError("there is none", code="empty")
        return 1

    source = "async def run(ctx, inputs):\n    return await ctx.stock(item=inputs['item'])"
    async with Session(tmp_path, tools=[stock], toolsets=(), journal=":memory:") as session:
        done = await run(session, source, {"item": "a"}, ["stock"])
        await session.save_program(done.run_id, name="count", description="Count.")
        failed = await session.tool("count", {"item": "none"})
    assert failed.error is not None
    assert "there is none" in failed.error.message
    assert failed.error.details["tool"] == "stock"


async def test_file_that_the_script_attaches_is_a_file_of_the_call(tmp_path: Path) -> None:
    source = """
async def run(ctx, inputs):
    ctx.attach("note.txt", inputs["text"])
    return 1
"""
    async with Session(tmp_path, toolsets=(), journal=":memory:") as session:
        done = await run(session, source, {"text": "a"}, [])
        await session.save_program(done.run_id, name="note", description="Note.")
        noted = await session.tool("note", {"text": "hello"})
        outer = "async def run(ctx, inputs):\n    return await ctx.note(text='bye')"
        used = await run(session, outer, {}, ["note"])
    assert noted.unwrap() == 1
    (stored,) = noted.attachments
    assert isinstance(stored, AttachmentRef)
    assert Path(stored.path).read_text() == "hello"
    assert [(ref.name, ref.size_bytes) for ref in used.attachments] == [("note.txt", 3)]


async def test_value_over_its_limit_without_a_schema_is_an_error_with_its_file(
    tmp_path: Path,
) -> None:
    source = "async def run(ctx, inputs):\n    return 'x' * inputs['n'] if inputs['n'] else None"
    async with Session(tmp_path, toolsets=(), journal=":memory:") as session:
        done = await run(session, source, {"n": 0}, [], limits=Limits(max_tool_result_bytes=500))
        saved = await session.save_program(done.run_id, name="text", description="Text.")
        assert saved.output_schema is None
        large = await session.tool("text", {"n": 1_000})
    assert large.error is not None
    assert large.error.code == "result_too_large"
    stored = str(large.error.details["artifact"]).removeprefix("sha256:")
    assert session.artifacts.path(stored).stat().st_size == 1_002
