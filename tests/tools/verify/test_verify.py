"""`verify_commands`: the status, the evidence and the rights of each check, with real commands."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from ptc import Allow, ApprovalRequest, Decision, Limits, Session, Tool, ToolError, tool
from ptc._cli._terminal import standard_error
from ptc_tools import (
    Check,
    CheckResult,
    VerificationReport,
    bash,
    bash_tool,
    verify_commands,
)
from ptc_tools.verify._checks import CheckStatus, summarize
from ptc_tools.verify._command import Verification
from ptc_tools.verify._verify import HEAD_CHARS, TAIL_CHARS

pytestmark = pytest.mark.anyio


def sh(id: str, script: str, **options: Any) -> dict[str, Any]:
    return {"id": id, "command": ["sh", "-c", script], **options}


async def verify(
    root: Path, *checks: dict[str, Any], tools: tuple[Tool, ...] = (bash,), **options: Any
) -> VerificationReport:
    async with Session(root, toolsets=(), tools=[*tools, verify_commands]) as session:
        arguments = {"subject": "the change", "checks": list(checks), **options}
        report = (await session.tool("verify_commands", arguments)).unwrap()
    assert isinstance(report, VerificationReport)
    return report


def by_id(report: VerificationReport) -> dict[str, CheckResult]:
    return {result.id: result for result in report.checks}


# --- status -------------------------------------------------------------------------------------


async def test_each_outcome_has_its_own_status(root: Path) -> None:
    report = await verify(
        root,
        sh("fine", "echo 3 passed"),
        sh("exit", "echo out; echo err >&2; exit 3"),
        sh("signal", "echo before; kill -9 $$"),
        sh("time", "echo begun; sleep 60", timeout_ms=400),
        {"id": "missing", "command": "no-such-program --all"},
        {"id": "network", "command": "curl http://example.com"},
        {"id": "folder", "command": "true", "cwd": "../outside"},
        parallel=True,
    )
    found = by_id(report)
    told_apart = {name: (r.status, r.exit_code, r.signal) for name, r in found.items()}
    assert told_apart == {
        "fine": ("passed", 0, None),
        "exit": ("failed", 3, None),
        "signal": ("killed", None, "SIGKILL"),
        "time": ("timed_out", None, None),
        "missing": ("not_started", None, None),
        "network": ("not_started", None, None),
        "folder": ("not_started", None, None),
    }
    assert found["exit"].head == "out\nerr\n"
    assert found["exit"].reason == "it exited with 3, and 0 was expected"
    assert found["signal"].head == "before\n"
    assert found["time"].head == "begun\n"
    assert found["time"].reason.startswith("Command timed out after 400ms")
    assert "is it installed, and on PATH?" in found["missing"].reason
    assert "[network_disabled]" in found["network"].reason
    assert "[outside_root]" in found["folder"].reason
    assert (report.status, report.counts) == (
        "failed",
        {"passed": 1, "failed": 1, "killed": 1, "timed_out": 1, "not_started": 3},
    )
    assert report.failed == ["exit", "signal", "time", "missing", "network", "folder"]
    assert all(result.duration_ms > 0 for result in report.checks)


async def test_expected_exit_code_passes_and_optional_failure_does_not_fail_the_report(
    root: Path,
) -> None:
    report = await verify(
        root, sh("three", "exit 3", expect_exit=3), sh("zero", "", expect_exit=3, required=False)
    )
    assert [(r.status, r.exit_code) for r in report.checks] == [("passed", 3), ("failed", 0)]
    assert report.checks[1].reason == "it exited with 0, and 3 was expected"
    assert (report.status, report.failed, report.failed_optional) == ("passed", [], ["zero"])


async def test_outcome_that_is_not_known_is_an_error_and_not_a_failure(root: Path) -> None:
    @tool(name="bash", side_effect=True, idempotent=True)
    async def broken(cmd: str, args: list[str]) -> str:
        """Break."""
        raise RuntimeError("the machine is on fire")

    report = await verify(root, sh("unit", "true"), tools=(broken,))
    assert report.checks[0].status == "error"
    assert "the machine is on fire" in report.checks[0].reason


# --- evidence -----------------------------------------------------------------------------------


async def test_long_output_is_bounded_and_its_artifact_is_whole(root: Path) -> None:
    script = "import sys; print('first'); print('x' * 999_983); print('the last'); sys.exit(1)"
    report = await verify(
        root,
        {"id": "big", "command": [sys.executable, "-c", script]},
        sh("both", "seq 3000; echo warning >&2"),
    )
    big, both = report.checks
    assert (big.output_bytes, big.status, both.status) == (999_999, "failed", "passed")
    assert big.head.startswith("first\n")
    assert big.tail.endswith("the last\n")
    assert len(big.head) <= HEAD_CHARS
    assert len(big.tail) <= TAIL_CHARS
    (whole,) = [(root / path).read_text() for path in big.artifacts]
    assert whole == f"first\n{'x' * 999_983}\nthe last\n"
    # Passed checks have evidence as well. Lines are not cut, and each stream is stored.
    numbers = "".join(f"{n}\n" for n in range(1, 3001))
    assert numbers.startswith(both.head)
    assert both.head.endswith("\n")
    assert f"\n{both.tail}".removesuffix("warning\n") in numbers
    assert [(root / path).read_text() for path in both.artifacts] == [numbers, "warning\n"]
    text = verify_commands.render(report) if verify_commands.render else ""
    assert f"of 999,999 bytes omitted; full output: {big.artifacts[0]} ...]" in text


@pytest.mark.slow
async def test_output_that_bash_has_truncated_keeps_its_artifact(root: Path) -> None:
    report = await verify(root, sh("loud", "seq 300"), tools=(bash_tool(max_output_bytes=100),))
    (result,) = report.checks
    assert result.output_bytes == 1092
    assert "bytes omitted" in result.head
    assert (root / result.artifacts[0]).read_text().endswith("299\n300\n")


def test_text_for_a_model_has_the_summary_first_and_little_of_passed_checks() -> None:
    def result(id: str, status: CheckStatus, code: int, head: str, **more: Any) -> CheckResult:
        command = ["sh", "-c", f"exit {code}"]
        options = {"kind": "", "description": "", "required": True, "expect_exit": 0, **more}
        return CheckResult(
            id=id, command=command, status=status, exit_code=code, head=head, **options
        )

    report = summarize(
        "the change",
        [
            result("unit", "passed", 0, "1\n2\n20 passed\n", duration_ms=1_234),
            result("lint", "failed", 1, "a.py:1: unused\n", reason="it exited with 1"),
            result("style", "failed", 4, "", required=False),
        ],
        2_000,
    )
    assert verify_commands.render is not None
    assert verify_commands.render(report).splitlines() == [
        "failed: the change: 1 of 3 checks passed; required checks that did not pass: lint; "
        "optional checks that did not pass: style (2.0 s)",
        "passed: unit (exit code 0, 1.2 s): sh -c 'exit 0'",
        "  20 passed",
        "failed: lint (exit code 1, 0.0 s): sh -c 'exit 1'",
        "  it exited with 1",
        "a.py:1: unused",
        "failed: style (exit code 4, 0.0 s, optional): sh -c 'exit 4'",
    ]


async def test_program_that_commands_cannot_see_is_named_with_the_remedy(
    root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = outside / "bin" / "checker"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho checked "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    check = {"id": "own", "command": "checker all"}
    (hidden,) = (await verify(root, check)).checks
    assert hidden.status == "not_started"
    assert f"This machine has {program}, but commands may not read that folder" in hidden.reason
    tools = (bash_tool(readable=[program.parent]),)
    (seen,) = (await verify(root, check, tools=tools)).checks
    assert (seen.status, seen.head) == ("passed", "checked all\n")


# --- order --------------------------------------------------------------------------------------


async def test_checks_run_one_after_the_other_by_default(root: Path) -> None:
    script = "echo start >> log; echo end >> log"
    report = await verify(root, *(sh(f"c{n}", script) for n in range(2)))
    assert report.status == "passed"
    assert (root / "log").read_text().split() == ["start", "end"] * 2


async def test_parallel_checks_overlap(root: Path) -> None:
    # Each waits for the other: run serially, the first would wait until its time-out.
    script = "touch {0}; until [ -e {1} ]; do sleep 0.01; done"
    report = await verify(
        root, sh("a", script.format("a", "b")), sh("b", script.format("b", "a")), parallel=True
    )
    assert report.counts == {"passed": 2}


async def test_parallel_checks_never_exceed_max_concurrency(root: Path) -> None:
    running = most = 0

    @tool(name="bash", side_effect=True, idempotent=True)
    async def counted(cmd: str, args: list[str]) -> str:
        """Count."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        running -= 1
        return "done"

    checks = [sh(f"c{n}", "true") for n in range(9)]
    report = await verify(root, *checks, tools=(counted,), parallel=True, max_concurrency=3)
    assert [result.id for result in report.checks] == [f"c{n}" for n in range(9)]
    assert (report.status, most) == ("passed", 3)


# --- rights -------------------------------------------------------------------------------------


async def test_caller_without_bash_is_refused_before_anything_runs(root: Path) -> None:
    async with Session(root) as session:
        result = await session.tool(
            "verify_commands",
            {"subject": "s", "checks": [sh("unit", "touch made")]},
            allowed_tools=["verify_commands"],
        )
    assert result.error is not None
    assert result.error.code == "not_allowed"
    assert "Allow bash as well" in result.error.message
    assert list(root.glob("made")) == []


async def test_allow_rules_on_bash_hold_for_each_check(root: Path) -> None:
    checks = [{"id": "echo", "command": "echo fine"}, {"id": "touch", "command": "touch made"}]
    async with Session(root) as session:
        result = await session.tool(
            "verify_commands",
            {"subject": "s", "checks": checks},
            allowed_tools=["verify_commands", Allow("bash", cmd="echo")],
        )
    echo, touch = result.unwrap().checks
    assert (echo.status, touch.status) == ("passed", "not_started")
    assert "[not_allowed]" in touch.reason
    assert list(root.glob("made")) == []


async def test_approvals_of_bash_apply_to_each_command(root: Path) -> None:
    asked: list[str] = []

    async def approver(request: ApprovalRequest) -> Decision:
        asked.append(request.arguments["cmd"])
        return Decision(request.arguments["cmd"] == "echo", comment="only echo")

    gated = replace(bash_tool(), needs_approval=True)
    async with Session(
        root, toolsets=(), tools=[gated, verify_commands], approver=approver
    ) as session:
        report = await session.call(
            verify_commands,
            subject="s",
            checks=[Check("a", "echo hi"), Check("b", "touch made")],
        )
    assert asked == ["echo", "touch"]
    assert [result.status for result in report.checks] == ["passed", "not_started"]
    assert "only echo" in report.checks[1].reason
    assert list(root.glob("made")) == []


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ([sh("a", "true"), sh("a", "true")], "two checks have the id 'a'"),
        ([{"id": "a", "command": "pytest | tail"}], "a pipe ('|' at character 8) needs a shell"),
        ([{"id": "a", "command": [" "]}], "it names no program"),
        ([{"id": "a", "command": []}], "command"),
        ([{"id": "../a", "command": "true"}], "id"),
        ([sh("a", "true", timeoutMs=5)], "timeoutMs"),
        ([], "checks"),
    ],
)
async def test_invalid_checks_are_refused_before_any_runs(
    root: Path, checks: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(ToolError) as caught:
        await verify(root, sh("first", "touch made"), *checks) if checks else await verify(root)
    assert caught.value.code == "invalid_arguments"
    assert message in caught.value.message
    assert list(root.iterdir()) == []


# --- pauses and dead hosts ----------------------------------------------------------------------

CHECKS = [
    sh("first", "echo first >> log"),
    sh("second", "echo second >> log; until [ -e go ]; do sleep 0.01; done"),
    sh("third", "echo third >> log; exit 3", required=False),
]
RESUMED = """
async def run(ctx, inputs):
    return await ctx.verify_commands(subject="s", **inputs)
"""
ALLOWED = ["verify_commands", "bash"]


def outcome(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(report["subject"], report["status"])] + [
        (check["id"], check["status"]) for check in report["checks"]
    ]


EXPECTED = [("s", "passed"), ("first", "passed"), ("second", "passed"), ("third", "failed")]


async def test_resumed_verification_repeats_no_finished_command(root: Path) -> None:
    async with (
        Session(root, record_direct_calls=True) as session,
        anyio.create_task_group() as group,
    ):
        group.start_soon(session.tool, "verify_commands", {"subject": "s", "checks": CHECKS})
        with anyio.fail_after(20):
            while not (root / "log").exists() or "second" not in (root / "log").read_text():
                await anyio.sleep(0.01)
        # As a process that is killed leaves it.
        group.cancel_scope.cancel()
    (root / "go").touch()
    async with Session(root, record_direct_calls=True) as session:
        (row,) = await session.history.runs()
        paused = await session.resume(row.run_id)
        assert [(p.tool, p.kind) for p in paused.pending] == [("bash", "unknown")]
        assert (root / "log").read_text().split() == ["first", "second"]
        await session.history.settle(row.run_id, None, "again", by="ann")
        result = await session.resume(row.run_id)
    assert outcome(result.unwrap()) == EXPECTED
    assert (root / "log").read_text().split() == ["first", "second", "second", "third"]
    # Each command is a call of the run, nested in the call of the tool.
    assert [(c.tool, c.status) for c in result.calls] == [
        ("verify_commands", "succeeded"),
        *(("bash", status) for status in ("succeeded", "succeeded", "failed")),
    ]


@pytest.mark.slow
async def test_verification_pauses_for_approvals_and_executes_each_command_once(
    root: Path,
) -> None:
    (root / "go").touch()
    tools = [replace(bash_tool(), needs_approval=True), verify_commands]
    async with Session(root, toolsets=(), tools=tools) as session:
        paused = await session.program(
            source=RESUMED,
            inputs={"checks": CHECKS, "parallel": True},
            allowed_tools=ALLOWED,
            run_id="r",
        )
        assert [(p.tool, p.kind) for p in paused.pending] == [("bash", "approval")] * 3
        assert not (root / "log").exists()
        for pending in paused.pending:
            await session.history.approve("r", pending.call, by="ann")
        result = await session.resume("r")
    assert outcome(result.unwrap()) == EXPECTED
    assert sorted((root / "log").read_text().split()) == ["first", "second", "third"]


@pytest.mark.slow
async def test_commands_count_toward_the_call_budget_of_a_run(root: Path) -> None:
    (root / "go").touch()
    async with Session(root) as session:
        result = await session.program(
            source=RESUMED,
            inputs={"checks": CHECKS},
            allowed_tools=ALLOWED,
            limits=Limits(max_tool_calls=2),
        )
    statuses = [check["status"] for check in result.unwrap()["checks"]]
    assert statuses == ["passed", "not_started", "not_started"]
    assert (root / "log").read_text() == "first\n"


# --- the other ways to call it ------------------------------------------------------------------


async def test_session_has_verify_commands_as_a_method(root: Path) -> None:
    async with Session(root) as session:
        untyped: Any = session
        report = await untyped.verify_commands(
            subject="release", checks=[{"id": "unit", "command": "echo ok"}]
        )
        assert (report.subject, report.status) == ("release", "passed")
        # Commands can change files, so scripts have it only if an allow-list names it.
        assert "verify_commands" not in session.select_tools()


async def test_finished_checks_are_streamed_as_they_finish(root: Path) -> None:
    async with Session(root) as session:
        arguments = {"subject": "s", "checks": [sh("a", "true"), sh("b", "exit 1")]}
        async with session.stream("verify_commands", arguments) as events:
            seen = [event async for event in events]

    def own(kind: str) -> list[Any]:
        tool_events = [e for e in seen if e.call is not None and e.call.tool == "verify_commands"]
        return [event.value for event in tool_events if event.kind == kind]

    assert [(row["id"], row["status"]) for row in own("tool_output_delta")] == [
        ("a", "passed"),
        ("b", "failed"),
    ]
    assert [row["message"] for row in own("progress")] == ["a: passed", "b: failed"]
    assert [row["data"] for row in own("log")] == [{"id": "a"}, {"id": "b"}]


async def test_interruption_kills_the_commands_and_reports_finished_checks(root: Path) -> None:
    checks = [
        sh("first", "echo done"),
        sh("second", "touch begun; sleep 60"),
        sh("third", "touch made"),
    ]
    arguments = {"subject": "s", "checks": checks}
    stopped = Verification(Session(root), standard_error(), arguments, quiet=True)
    async with anyio.create_task_group() as group:
        group.start_soon(stopped.execute)
        with anyio.fail_after(20):
            while not (root / "begun").exists():
                await anyio.sleep(0.01)
        stopped.stop()
    report = stopped.interrupted_report()
    assert [(r.status, r.head) for r in report.checks] == [
        ("passed", "done\n"),
        ("killed", ""),
        ("not_started", ""),
    ]
    assert report.checks[1].reason == "it was interrupted and killed"
    assert (report.status, report.failed) == ("failed", ["second", "third"])
    assert not (root / "made").exists()
