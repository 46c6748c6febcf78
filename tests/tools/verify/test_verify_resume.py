"""`verify_commands` over pauses and dead hosts: no command is repeated without a decision."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from ptc import Session
from ptc_tools import bash_tool, verify_commands

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

SOURCE = """
async def run(ctx, inputs):
    wait = "echo second >> log; until [ -e go ]; do sleep 0.01; done"
    checks = [
        {"id": "first", "command": ["sh", "-c", "echo first >> log"]},
        {"id": "second", "command": ["sh", "-c", wait]},
        {"id": "third", "command": ["sh", "-c", "echo third >> log; exit 3"], "required": False},
    ]
    report = await ctx.verify_commands(subject="s", checks=checks, parallel=inputs["parallel"])
    return [report.status, [[check.id, check.status, check.exit_code] for check in report.checks]]
"""
EXPECTED = ["passed", [["first", "passed", 0], ["second", "passed", 0], ["third", "failed", 3]]]
ALLOWED = ["verify_commands", "bash"]


async def test_resumed_verification_repeats_no_finished_command(root: Path) -> None:
    async with Session(root) as session, anyio.create_task_group() as group:

        async def begin() -> None:
            await session.program(
                source=SOURCE, inputs={"parallel": False}, allowed_tools=ALLOWED, run_id="r"
            )

        group.start_soon(begin)
        with anyio.fail_after(20):
            while not (root / "log").exists() or "second" not in (root / "log").read_text():
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    (root / "go").touch()
    async with Session(root) as session:
        paused = await session.resume("r")
        assert [(p.tool, p.kind) for p in paused.pending] == [("bash", "unknown")]
        assert (root / "log").read_text().split() == ["first", "second"]
        session.history.settle("r", None, "again", by="ann")
        result = await session.resume("r")
    assert result.unwrap() == EXPECTED
    assert (root / "log").read_text().split() == ["first", "second", "second", "third"]


async def test_verification_pauses_for_approvals_and_executes_each_command_once(
    root: Path,
) -> None:
    (root / "go").touch()
    tools = [replace(bash_tool(), needs_approval=True), verify_commands]
    async with Session(root, toolsets=(), tools=tools) as session:
        paused = await session.program(
            source=SOURCE, inputs={"parallel": True}, allowed_tools=ALLOWED, run_id="r"
        )
        assert [(p.tool, p.kind) for p in paused.pending] == [("bash", "approval")] * 3
        assert not (root / "log").exists()
        for pending in paused.pending:
            session.history.approve("r", pending.call, by="ann")
        result = await session.resume("r")
    assert result.unwrap() == EXPECTED
    assert sorted((root / "log").read_text().split()) == ["first", "second", "third"]
