"""Saved programs over pauses, new versions and dead hosts: no effect is repeated or lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from ptc import tool
from tests.core.pools import pool_of

from .shop import BUY, Shop, buying_session, run, save_buy, sign, start_buying

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote, pytest.mark.slow]

ROOT = Path(__file__).parents[3]


async def test_rejection_inside_a_saved_program_reaches_the_script(tmp_path: Path) -> None:
    shop = Shop()
    await start_buying(tmp_path, shop)
    async with buying_session(tmp_path, shop) as session:
        await session.history.reject("r", by="ann", comment="too much")
        done = await session.resume("r")
    assert done.value[0] == "program_failed"
    assert "too much" in done.value[1]
    assert len(shop.paid) == 2


async def test_restarted_call_fails_without_the_version_it_began_with(tmp_path: Path) -> None:
    shop = Shop()
    await start_buying(tmp_path, shop)
    paid = list(shop.paid)
    async with buying_session(tmp_path, shop) as session:
        await save_buy(session, BUY.replace('"v1"', '"v2"'))
        session.delete_program("buy", 1)
        shop.paid[:] = paid
        await session.history.approve("r", by="ann")
        done = await session.resume("r")
    assert done.value[0] == "program_outdated"
    assert "this call began with version 1: saved program 'buy' has no version 1" in done.value[1]
    assert shop.paid == paid


async def test_restarted_call_is_refused_if_its_version_was_replaced(tmp_path: Path) -> None:
    shop = Shop()
    await start_buying(tmp_path, shop)
    paid = list(shop.paid)
    async with buying_session(tmp_path, shop) as session:
        session.delete_program("buy")
        await save_buy(session, BUY.replace('"v1"', '"v2"'))
        shop.paid[:] = paid
        await session.history.approve("r", by="ann")
        done = await session.resume("r")
    assert done.value[0] == "program_outdated"
    assert "this call began with a version 1 that was replaced since then" in done.value[1]
    assert shop.paid == paid


async def test_tool_that_changes_during_a_pause_stops_the_program(tmp_path: Path) -> None:
    shop = Shop()
    await start_buying(tmp_path, shop)
    paid = list(shop.paid)

    @tool(name="sign", side_effect=True, idempotent=True, needs_approval=True)
    async def changed(text: str, by: str = "") -> str:
        """Sign a text."""
        raise AssertionError

    async with buying_session(tmp_path, shop, changed) as session:
        await session.history.approve("r", by="ann")
        done = await session.resume("r")
    assert done.value[0] == "program_outdated"
    assert "parameter `by` is new" in done.value[1]
    assert shop.paid == paid


async def test_recorded_direct_call_of_a_saved_program_pauses_and_resumes(tmp_path: Path) -> None:
    shop = Shop()
    async with shop.session(tmp_path, sign, record_direct_calls=True) as session:
        await save_buy(session)
        shop.paid.clear()
        paused = await session.tool("buy", {"amount": 3})
        assert paused.error is not None
        assert paused.error.code == "paused"
        run_id = str(paused.error.details["run_id"])
        done = await session.approve(run_id, by="ann", resume=True)
    drawn, signed = done.unwrap()
    assert signed == "signed v1"
    assert shop.paid == [3, drawn]


async def test_effects_of_a_saved_program_are_rolled_back(tmp_path: Path) -> None:
    undone: list[int] = []

    @tool(side_effect=True, idempotent=True, revert=lambda effect: undone.append(effect.value))
    async def put(n: int) -> int:
        """Put a number."""
        return n

    source = "async def run(ctx, inputs):\n    return [await ctx.put(n=n) for n in inputs['n']]"
    async with Shop().session(tmp_path, put) as session:
        done = await run(session, source, {"n": [1]}, ["put"])
        await session.save_program(done.run_id, name="puts", description="Put.")
        script = "async def run(ctx, inputs):\n    return await ctx.puts(n=[1, 2])"
        used = await run(session, script, {}, ["puts", "put"])
        steps = (await session.rollback(used.run_id)).steps
    assert undone == [2, 1]
    assert [(step.tool, step.status) for step in steps] == [
        ("puts", "reverted"), ("put", "reverted"), ("put", "reverted")
    ]  # fmt: skip


@pytest.mark.parametrize("killed", ["its worker", "all workers"])
async def test_killed_script_of_a_tool_crashes_the_run_and_is_resumed(
    tmp_path: Path, killed: str
) -> None:
    shop, struck = Shop(), list[int]()

    @tool
    async def strike(amount: int) -> int:
        """Kill workers, the second time."""
        struck.append(amount)
        workers = list(pool_of(session)._workers.values()) if len(struck) == 2 else []
        for worker in workers:
            run = getattr(worker.on_end, "__self__", None)
            if killed == "all workers" or (run is not None and not run._program.recorded):
                worker.kill()
        await anyio.sleep(0.2 if workers else 0)  # the end of the process is noticed meanwhile
        return amount

    twice = """
async def run(ctx, inputs):
    await ctx.pay(amount=inputs["amount"])
    return await ctx.strike(amount=inputs["amount"])
"""
    allowed = ["twice", "pay", "strike"]
    async with shop.session(tmp_path, strike) as session:
        saved = await run(session, twice, {"amount": 1}, ["pay", "strike"])
        await session.save_program(saved.run_id, name="twice", description="Pay.")
        script = "async def run(ctx, inputs):\n    return await ctx.twice(amount=5)"
        crashed = await session.program(source=script, allowed_tools=allowed, run_id="r")
        assert crashed.status == "crashed"
        assert crashed.error is not None
        assert crashed.error.code == "killed"
        done = await session.resume("r")
    assert done.value == 5
    assert shop.paid == [1, 5], "the payment was not repeated"


@pytest.mark.timeout(300)
def test_killed_host_continues_a_saved_program_without_repeating_an_effect() -> None:
    command = [sys.executable, "-m", "tests.fuzz.durable", "--only", "saved"]
    done = subprocess.run(
        [*command, "--count", "15", "--minutes", "2", "--seed", "5"],
        capture_output=True,
        cwd=ROOT,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "findings: 0" in done.stdout
