"""Saved programs over pauses, new versions and dead hosts: no effect is repeated or lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ptc import RunResult, Session, Tool, tool

from .shop import Shop, run

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

ROOT = Path(__file__).parents[3]
BUY = """
import random
async def run(ctx, inputs):
    drawn = random.randrange(10**9)
    await ctx.pay(amount=inputs["amount"])
    await ctx.pay(amount=drawn)
    return [drawn, await ctx.sign(text="v1")]
"""
CALL = """
async def run(ctx, inputs):
    try:
        return await ctx.buy(amount=7)
    except ToolError as error:
        return [error.code, str(error)]
"""
ALLOWED = ["buy", "pay", "sign"]


@tool(side_effect=True, idempotent=True, needs_approval=True)
async def sign(text: str) -> str:
    """Sign a text."""
    return f"signed {text}"


def session_of(root: Path, shop: Shop, *tools: Tool) -> Session:
    return shop.session(root, *(tools or (sign,)))


async def save_buy(session: Session, source: str = BUY) -> None:
    paused = await session.program(
        source=source, inputs={"amount": 1}, allowed_tools=["pay", "sign"]
    )
    assert paused.status == "paused", paused.error
    done = await session.approve(paused.run_id, by="ann", resume=True)
    assert done.ok
    session.save_program(done.run_id, name="buy", description="Buy.")


async def start(root: Path, shop: Shop) -> RunResult:
    """Save `BUY`, and start a run of it that pauses after its payments."""
    async with session_of(root, shop) as session:
        await save_buy(session)
        shop.paid.clear()
        shop.keys.clear()
        paused = await session.program(source=CALL, allowed_tools=ALLOWED, run_id="r")
    assert paused.status == "paused"
    assert [(call.tool, call.arguments) for call in paused.pending] == [("sign", {"text": "v1"})]
    return paused


async def test_approval_inside_a_saved_program_pauses_and_nothing_is_repeated(
    tmp_path: Path,
) -> None:
    shop = Shop()
    await start(tmp_path, shop)
    async with session_of(tmp_path, shop) as session:
        session.history.approve("r", by="ann")
        done = await session.resume("r")
    drawn, signed = done.unwrap()
    assert signed == "signed v1"
    assert shop.paid == [7, drawn]
    assert len(set(shop.keys)) == 2
    assert [(call.tool, call.parent, call.status) for call in done.calls] == [
        ("buy", None, "succeeded"),
        *((name, "1", "succeeded") for name in ("version", "program", "pay", "pay", "sign")),
    ]


async def test_rejection_inside_a_saved_program_reaches_the_script(tmp_path: Path) -> None:
    shop = Shop()
    await start(tmp_path, shop)
    async with session_of(tmp_path, shop) as session:
        session.history.reject("r", by="ann", comment="too much")
        done = await session.resume("r")
    assert done.value[0] == "program_failed"
    assert "too much" in done.value[1]
    assert len(shop.paid) == 2


async def test_restarted_call_continues_the_version_it_began_with(tmp_path: Path) -> None:
    shop = Shop()
    await start(tmp_path, shop)
    async with session_of(tmp_path, shop) as session:
        paid = list(shop.paid)
        await save_buy(
            session, BUY.replace('"v1"', '"v2"').replace("amount=inputs", "amount=1+inputs")
        )
        shop.paid[:] = paid
        assert [program.version for program in session.saved_programs()] == [2]
    async with session_of(tmp_path, shop) as session:
        session.history.approve("r", by="ann")
        done = await session.resume("r")
        assert done.unwrap()[1] == "signed v1"
        assert len(shop.paid) == 2
        new = await session.program(source=CALL, allowed_tools=ALLOWED)
        assert [call.arguments for call in new.pending] == [{"text": "v2"}]


async def test_restarted_call_fails_without_the_version_it_began_with(tmp_path: Path) -> None:
    shop = Shop()
    await start(tmp_path, shop)
    paid = list(shop.paid)
    async with session_of(tmp_path, shop) as session:
        await save_buy(session, BUY.replace('"v1"', '"v2"'))
        session.delete_program("buy", 1)
        shop.paid[:] = paid
        session.history.approve("r", by="ann")
        done = await session.resume("r")
    assert done.value[0] == "program_outdated"
    assert "this call began with version 1: saved program 'buy' has no version 1" in done.value[1]
    assert shop.paid == paid


@pytest.mark.slow
async def test_restarted_call_is_refused_if_its_version_was_replaced(tmp_path: Path) -> None:
    shop = Shop()
    await start(tmp_path, shop)
    paid = list(shop.paid)
    async with session_of(tmp_path, shop) as session:
        session.delete_program("buy")
        await save_buy(session, BUY.replace('"v1"', '"v2"'))
        shop.paid[:] = paid
        session.history.approve("r", by="ann")
        done = await session.resume("r")
    assert done.value[0] == "program_outdated"
    assert "this call began with a version 1 that was replaced since then" in done.value[1]
    assert shop.paid == paid


@pytest.mark.slow
async def test_tool_that_changes_during_a_pause_stops_the_program(tmp_path: Path) -> None:
    shop = Shop()
    await start(tmp_path, shop)
    paid = list(shop.paid)

    @tool(name="sign", side_effect=True, idempotent=True, needs_approval=True)
    async def changed(text: str, by: str = "") -> str:
        """Sign a text."""
        raise AssertionError

    async with session_of(tmp_path, shop, changed) as session:
        session.history.approve("r", by="ann")
        done = await session.resume("r")
    assert done.value[0] == "program_outdated"
    assert "parameter `by` is new" in done.value[1]
    assert shop.paid == paid


async def test_effects_of_a_saved_program_are_rolled_back(tmp_path: Path) -> None:
    undone: list[int] = []

    @tool(side_effect=True, idempotent=True, revert=lambda effect: undone.append(effect.value))
    async def put(n: int) -> int:
        """Put a number."""
        return n

    source = "async def run(ctx, inputs):\n    return [await ctx.put(n=n) for n in inputs['n']]"
    async with Shop().session(tmp_path, put) as session:
        done = await run(session, source, {"n": [1]}, ["put"])
        session.save_program(done.run_id, name="puts", description="Put.")
        script = "async def run(ctx, inputs):\n    return await ctx.puts(n=[1, 2])"
        used = await run(session, script, {}, ["puts", "put"])
        steps = (await session.rollback(used.run_id)).steps
    assert undone == [2, 1]
    assert [(step.tool, step.status) for step in steps] == [
        ("puts", "reverted"), ("put", "reverted"), ("put", "reverted")
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_host_continues_a_saved_program_without_repeating_an_effect() -> None:
    command = [sys.executable, str(ROOT / "tests" / "fuzz" / "durable.py"), "--only", "saved"]
    done = subprocess.run(
        [*command, "--points", "15", "--minutes", "2", "--seed", "5"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "findings: 0" in done.stdout
