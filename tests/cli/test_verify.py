"""``ptc verify``: checks from options, files and detection; the report; Ctrl-C."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def test_report_has_evidence_and_the_exit_status_tells_if_it_passed(command: Any) -> None:
    done = command(
        *("verify", "--subject", "release", "--parallel", "2"),
        *("--check", "unit=echo 3 passed", "--optional", "lint=sh -c 'echo a.py:1; exit 3'"),
    )
    assert done.status == 0
    unit, last, lint, reason, evidence, summary = done.out.splitlines()
    assert unit.startswith("passed: unit (exit code 0, ")
    assert last == "  3 passed"
    assert lint.startswith("failed: lint (exit code 3, ")
    assert (reason, evidence) == ("  it exited with 3, and 0 was expected", "a.py:1")
    assert summary.startswith(
        "passed: release: 1 of 2 checks passed; optional checks that did not pass: lint ("
    )
    # Off a terminal, each check is reported when it has finished.
    assert sorted(line.partition(" (")[0] for line in done.err.splitlines()) == [
        "failed: lint",
        "passed: unit",
    ]


def test_required_failure_exits_with_1_and_json_has_the_report(
    command: Any, tmp_path: Path
) -> None:
    checks = [
        {"id": "exit", "kind": "test", "command": ["sh", "-c", "echo no; exit 3"]},
        {"id": "slow", "command": "sleep 60"},
    ]
    (tmp_path / "checks.json").write_text(json.dumps(checks))
    done = command("verify", "--checks", "checks.json", "--timeout-ms", "300", "--json")
    report = json.loads(done.out)
    assert (done.status, done.err) == (1, "")
    assert (report["status"], report["failed"]) == ("failed", ["exit", "slow"])
    assert report["subject"] == tmp_path.name
    assert [(c["status"], c["exit_code"], c["head"]) for c in report["checks"]] == [
        ("failed", 3, "no\n"),
        ("timed_out", None, ""),
    ]


def test_detected_checks_run_with_the_folders_that_they_need(command: Any, tmp_path: Path) -> None:
    go = tmp_path / "sdk/go/bin/go"
    go.parent.mkdir(parents=True)
    (tmp_path / "sdk/go/pkg").mkdir()
    go.write_text('#!/bin/sh\necho "ok $@"\n')
    go.chmod(0o755)
    (tmp_path / "project").mkdir()
    (tmp_path / "project/go.mod").write_text("module x\n")
    path = f"{go.parent}:/usr/bin:/bin"
    done = command("verify", "--root", "project", PATH=path, HOME=str(tmp_path))
    assert (done.status, done.out.splitlines()[1]) == (0, "  ok test ./...")
    assert done.err.splitlines()[0] == f"commands may also read: {go.parent}, {go.parent.parent}"


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], " has no file that calls for a check. Pass --check ID=COMMAND, or --preset"),
        (["--check", "pytest"], "--check 'pytest': write ID=COMMAND, as in unit='pytest -q'"),
        (["--check", "a=x | y"], "the command of check 'a': a pipe ('|' at character 3) needs"),
        (["--preset", "pytets"], "there is no preset 'pytets' (did you mean `pytest`?)"),
        (["--checks", "none.json"], "--checks none.json: cannot be read as JSON: "),
        (["--checks", "-"], "--checks -: must be a list such as "),
        (["--check", "a=true", "--toolset", "shelf"], "there is no tool 'verify_commands'"),
    ],
)
def test_invalid_command_line_of_verify_exits_with_2(
    command: Any, arguments: list[str], message: str
) -> None:
    done = command("verify", *arguments, stdin="3")
    assert (done.status, done.out) == (2, "")
    assert message in done.err


def test_help_of_verify_teaches_with_examples(command: Any) -> None:
    text = command("verify", "--help").out
    assert "ptc verify --check unit='pytest -q tests/core' --timeout-ms 300000" in text
    assert "1  a required check did not pass" in text


@pytest.mark.slow
def test_ctrl_c_kills_the_commands_and_reports_finished_checks(
    terminal: Any, processes: Any, wait_until_gone: Any
) -> None:
    shown = terminal(
        *("verify", "--check", "first=echo one passed", "--check", "second=sleep 60"),
        *("--check", "third=true"),
    )
    shown.read_until(b"1 running, 1 done")
    shown.read_until(b"1 of 3: first: passed")
    below = processes(shown.pid)
    assert below
    shown.press(b"\x03")
    assert shown.end() == 130
    wait_until_gone(below)
    screen = [line.partition(" (")[0] for line in shown.screen() if line.strip()]
    assert screen == [
        "passed: first",
        "  one passed",
        "killed: second",
        "  it was interrupted and killed",
        "not started: third: true",
        "  it was interrupted before it started",
        screen[6],
        "interrupted: 1 of 3 checks had finished",
    ]
    assert screen[6].startswith("failed: ")
