"""Approvals without a terminal: list, decide, resume, abbreviate, and what is printed next."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Session, ToolContext, tool
from ptc._cli._run_ids import find_run
from ptc._runs._history import History
from ptc._runs._lazy_journal import LazyJournal
from ptc.errors import JournalError, UsageError
from ptc.journal._location import journal_of

PAY = "async def run(ctx, inputs):\n    return await ctx.pay(inputs['cents'])\n"
SHELF = ("--toolset", "shelf")


@pytest.fixture
def paused(command: Any, script: Any) -> str:
    """A run that waits for the approval of a payment."""
    done = command("run", script(PAY), *SHELF, "--allow", "pay", "--input", "cents=500")
    assert done.status == 6, done.err
    return str(json.loads(command("approvals", "--json").out)[0]["run_id"])


def test_pause_and_ctrl_c_print_the_command_that_continues_the_run(
    command: Any, script: Any, terminal: Any, tmp_path: Path
) -> None:
    at = ("--journal", str(tmp_path.parent / "my journal"))
    done = command("run", script(PAY), *SHELF, *at, "--allow", "pay", "--input", "cents=5")
    assert (done.status, done.out) == (6, "")
    run_id = json.loads(command("approvals", *at, "--json").out)[0]["run_id"]
    options = f"--toolset shelf --allow pay --journal '{at[1]}'"
    assert done.err.splitlines()[-2:] == [
        f"next: ptc approve {run_id} {options} --resume",
        f"  or: ptc reject {run_id} {options} --reason TEXT --resume",
    ]
    (tmp_path / "slow.py").write_text("async def run(ctx, inputs):\n    await ctx.announce()\n")
    shown = terminal("run", "slow.py", *SHELF)
    shown.read_until(b"begun")
    shown.press(b"\x03")
    assert shown.end() == 130
    newest = json.loads(command("runs", "--json").out)["runs"][0]["run_id"]
    assert f"next: ptc resume {newest} --toolset shelf" in shown.screen()


def test_approve_with_resume_prints_the_result_as_run_does(
    command: Any, paused: str, tmp_path: Path
) -> None:
    done = command("approve", paused[:6], *SHELF, "--as", "ann", "--resume")
    assert (done.status, json.loads(done.out)["cents"]) == (0, 500), done.err
    assert f"approved by ann: call 1 of run {paused}, pay(" in done.err
    assert (tmp_path / "paid.txt").read_text() == "500 ann \n"


def test_approve_without_resume_prints_the_next_command(command: Any, paused: str) -> None:
    done = command("approve", paused, *SHELF, "--arguments", '{"cents": 5}')
    assert (done.status, done.out) == (0, ""), done.err
    assert done.err.splitlines()[-1] == f"next: ptc resume {paused} --toolset shelf"
    done = command("resume", paused[:5], *SHELF, "--json")
    assert json.loads(done.out)["value"]["cents"] == 5


def test_edited_arguments_are_shown_wherever_the_call_is(
    command: Any, paused: str, tmp_path: Path
) -> None:
    edit = ("--arguments", '{"cents": 5, "to": "bob"}', "--as", "ann")
    done = command("approve", paused, *SHELF, *edit)
    shown, requested = 'pay({"cents":5,"to":"bob"})', 'the script requested {"cents":500'
    assert f"approved by ann: call 1 of run {paused}, {shown}; {requested}" in done.err
    (line,) = (x for x in command("show", paused).out.splitlines() if x.startswith("   1  "))
    assert line.startswith(f"   1  {shown}  not resumed yet  [approved by ann; {requested}")
    done = command("resume", paused, *SHELF, "-v")
    (row,) = (x for x in done.err.splitlines() if x.startswith("1\tpay\t"))
    assert '{"cents":5,"to":"bob"}, the script requested {"cents":500}' in row
    (line,) = (x for x in command("show", paused).out.splitlines() if x.startswith("   1  "))
    assert line.startswith(f"   1  {shown}  succeeded, "), line
    assert line.endswith('  [approved by ann; the script requested {"cents":500}]')
    (call,) = json.loads(command("show", paused, "--json").out)["calls"]
    assert call["decided_arguments"] == {"cents": 5, "to": "bob"}
    assert (tmp_path / "paid.txt").read_text() == "5 bob \n"


def test_reject_with_resume_gives_the_script_the_reason(command: Any, paused: str) -> None:
    done = command("reject", paused, *SHELF, "--reason", "too much", "--as", "bob", "--resume")
    assert done.status == 1
    assert "the call of pay was rejected by bob: too much" in done.err


@pytest.mark.slow
def test_approvals_show_question_times_and_script_line(
    command: Any, terminal: Any, paused: str
) -> None:
    (row,) = json.loads(command("approvals", paused[:4], "--json").out)
    assert row["prompt"] == "Pay 500 cents to ann?"
    assert (row["line"], row["filename"], row["expires_ms"]) == (2, "script.py", None)
    assert row["script_line"] == "return await ctx.pay(inputs['cents'])"
    (line,) = command("approvals").out.splitlines()
    cells = line.split("\t")
    assert cells[:4] == [paused, "1", "approval", "pay"]
    assert cells[6] == "return await ctx.pay(inputs['cents'])"
    shown = terminal("approvals")
    assert shown.end() == 0
    screen = shown.screen()
    assert screen[0] == f"pay, call 1 of run {paused}"
    assert screen[1].startswith("  requested ")
    assert "  | Pay 500 cents to ann?" in screen
    assert f"  next: ptc approve {paused} 1 --resume" in screen
    command("reject", paused)
    shown = terminal("approvals")
    assert shown.end() == 0
    assert shown.screen()[0] == "no call awaits a decision"


def test_expired_request_is_shown_as_expired(command: Any, script: Any) -> None:
    source = "async def run(ctx, inputs):\n    return await ctx.pay(5)\n"
    done = command(*("run", script(source), *SHELF, "--allow", "pay", "--approvals-expire-ms", "1"))
    assert done.status == 6, done.err
    (row,) = json.loads(command("approvals", "--json").out)
    assert row["expired"] is True
    (line,) = command("approvals").out.splitlines()
    assert line.split("\t")[5] == "expired"


@pytest.mark.anyio
async def test_expiry_is_recorded_with_the_request_and_does_not_start_again(
    tmp_path: Path,
) -> None:
    @tool(needs_approval=True)
    async def gate(n: int) -> int:
        """Ask."""
        return n

    options: dict[str, Any] = {"tools": [gate], "toolsets": (), "workers": 1}
    source = "async def run(ctx, inputs):\n    return await ctx.gate(1)\n"
    async with Session(tmp_path, **options, approvals_expire_ms=3_600_000) as session:
        result = await session.program(source=source)
        (first,) = result.pending
        assert first.expires_ms == first.requested_ms + 3_600_000
        again = await session.resume(result.run_id)
        assert again.pending == result.pending
    history = History(LazyJournal(journal_of(tmp_path.resolve())))
    assert await history.pending() == result.pending, "a reader without the option sees it, too"
    await history.close()


def test_two_approvers_at_once_one_wins_and_the_other_is_told_who_decided(
    environment: dict[str, str], paused: str, tmp_path: Path
) -> None:
    def start(*arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "ptc", *arguments],
            cwd=tmp_path,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )

    ann, bob = start("approve", paused, "--as", "ann"), start("reject", paused, "--as", "bob")
    errors = [each.communicate(timeout=30)[1] for each in (ann, bob)]
    assert sorted([ann.returncode, bob.returncode]) == [0, 2], errors
    winner, did = ("ann", "approved") if ann.returncode == 0 else ("bob", "rejected")
    loser = errors[1] if winner == "ann" else errors[0]
    assert f"run '{paused}': call 1 was {did} by {winner} at 20" in loser
    assert "decisions are final" in loser


@pytest.mark.slow
def test_run_ids_may_be_abbreviated_by_every_command(
    command: Any, paused: str, tmp_path: Path
) -> None:
    short = paused[:7]
    for arguments in (
        ["show", short],
        ["export", short],
        ["rollback", short, *SHELF, "--dry-run"],
        ["approvals", short],
        ["approve", short],
        ["resume", short, *SHELF],
        ["replay", short],
    ):
        done = command(*arguments)
        assert done.status == 0, (arguments, done.err)
    done = command("settle", short, "--outcome", "again")
    assert (done.status, paused in done.err) == (2, True), "the run was found, and has none"


@pytest.mark.anyio
async def test_ambiguous_and_unknown_ids_are_reported_with_the_candidates(tmp_path: Path) -> None:
    source = "def run(ctx, inputs):\n    return 1\n"
    names = ["abc-1", "abc-2", "abd", "ABC", "a_c", "abc"]
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        for name in names:
            await session.program(source=source, run_id=name, filename=f"{name}.py")
        history = session.history
        assert await find_run(history, "abc") == "abc", "a whole id is not an abbreviation"
        assert await find_run(history, "abd") == "abd"
        assert await find_run(history, "a_") == "a_c", "_ is no wildcard"
        assert await find_run(history, "AB") == "ABC", "case counts"
        with pytest.raises(UsageError, match="'abc-' is the start of several run ids") as found:
            await find_run(history, "abc-")
        assert [line.split()[0] for line in str(found.value).splitlines()[1:]] == ["abc-1", "abc-2"]
        assert "completed  abc-1.py" in str(found.value)
        with pytest.raises(JournalError, match=r"there is no run 'abx' \(did you mean .*abc"):
            await find_run(history, "abx")
        with pytest.raises(JournalError, match=r"there is no run 'zzz'; `ptc runs` lists them"):
            await find_run(history, "zzz")
        with pytest.raises(UsageError, match="run_id must be"):
            await find_run(history, "a%")


@pytest.fixture
async def interrupted(tmp_path: Path) -> str:
    """A run with a call whose outcome is unknown."""
    started = anyio.Event()

    @tool(side_effect=True)
    async def wire(cents: int, context: ToolContext) -> int:
        """Pay, without an end."""
        started.set()
        await anyio.sleep_forever()
        return cents

    source = "async def run(ctx, inputs):\n    return await ctx.wire(5)\n"
    async with Session(tmp_path, tools=[wire], toolsets=(), workers=1) as session:
        options = {"source": source, "allowed_tools": ["wire"], "run_id": "r"}
        async with anyio.create_task_group() as group:
            group.start_soon(partial(session.program, **options))
            await started.wait()
            group.cancel_scope.cancel()
        assert (await session.resume("r")).status == "paused"
    return "r"


@pytest.mark.anyio
async def test_decision_of_the_wrong_kind_names_the_command_for_the_call(
    command: Any, interrupted: str
) -> None:
    refused = command("approve", interrupted)
    assert refused.err == (
        "Error: run 'r': call 1 (wire) was interrupted and its outcome is unknown. Check whether "
        "it took effect, and record its outcome: `settle` (`ptc settle r 1 --outcome ...`)\n"
    )


def test_settle_of_a_call_that_awaits_approval_names_approve(command: Any, paused: str) -> None:
    refused = command("settle", paused, "--outcome", "again")
    assert refused.err == (
        f"Error: run {paused!r}: call 1 (pay) has not started and awaits approval: `approve` or "
        f"`reject` it (`ptc approve {paused} 1`)\n"
    )


@pytest.mark.anyio
async def test_settle_requires_the_value_of_a_call_that_is_done(
    command: Any, interrupted: str
) -> None:
    without = command("settle", interrupted, "--outcome", "done")
    assert (without.status, without.err) == (
        2,
        "Error: --outcome done needs --value JSON, the return value of the call; write --value "
        "null if its tool returns nothing\n",
    )
    other = command("settle", interrupted, "--outcome", "again", "--value", "5")
    assert (other.status, other.err) == (2, "Error: --value belongs to --outcome done\n")
    done = command("settle", interrupted, "--outcome", "done", "--value", "5")
    assert (done.status, done.err) == (0, "next: ptc resume r --tools FILE\n")


BANK = """
from ptc import tool


@tool(needs_approval=True)
async def refund(cents: int) -> int:
    \"\"\"Refund.\"\"\"
    return cents
"""


def test_tool_of_the_run_that_is_not_loaded_is_named_with_its_option(
    command: Any, script: Any, tmp_path: Path
) -> None:
    (tmp_path / "bank.py").write_text(BANK)
    source = script("async def run(ctx, inputs):\n    return await ctx.refund(5)\n")
    assert command("run", source, "--tools", "bank.py", "--allow", "refund").status == 6
    run_id = json.loads(command("approvals", "--json").out)[0]["run_id"]
    approved = command("approve", run_id)
    assert approved.err.splitlines()[-1] == f"next: ptc resume {run_id} --tools FILE"
    refused = command("resume", run_id)
    assert refused.status == 2
    assert refused.err == (
        f"Error: run {run_id!r} has the tool `refund`, which is not loaded: pass the tools of the "
        "run again, with tools= or toolsets= (`--tools` or `--toolset`)\n"
    )
    unknown = command("resume", run_id, "--tools", "bank.py", "--allow", "refunds")
    assert unknown.err.startswith("Error: --allow: there is no tool 'refunds'")
    assert command("resume", run_id, "--tools", "bank.py").status == 0


def test_hint_names_no_tools_that_the_configuration_loads(
    command: Any, script: Any, tmp_path: Path
) -> None:
    (tmp_path / "bank.py").write_text(BANK)
    (tmp_path / "ptc.toml").write_text('tools = ["bank.py"]\n')
    source = script("async def run(ctx, inputs):\n    return await ctx.refund(5)\n")
    assert command("run", source).status == 6
    run_id = json.loads(command("approvals", "--json").out)[0]["run_id"]
    assert command("reject", run_id).err.splitlines()[-1] == f"next: ptc resume {run_id}"


def test_decision_survives_a_resume_that_lacks_the_toolset(command: Any, paused: str) -> None:
    done = command("approve", paused, "--toolset", "no-such", "--resume")
    assert done.status == 2
    assert len(json.loads(command("approvals", "--json").out)) == 1, "nothing was decided"
    done = command("approve", paused, "--resume")
    assert done.status == 2
    assert "approved by " in done.err
    assert "pay" in done.err.splitlines()[-1]
    assert command("resume", paused, *SHELF).status == 0


def test_name_of_the_decider_is_that_of_the_os_user_and_not_of_a_variable(
    command: Any, paused: str
) -> None:
    done = command("reject", paused, USER="mallory", LOGNAME="mallory")
    assert done.status == 0
    assert "mallory" not in done.err
    assert command("show", paused, USER="mallory").out.count("mallory") == 0
