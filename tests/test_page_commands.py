"""Every line of shell in the documentation is executed, or has a reason in a table here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_pages import ROOT, Block, find_blocks

SECONDS = 120.0
NOT_EXECUTED = {
    r"(\.venv/bin/)?pip|pre-commit|npm|python3 -m venv": "installs; tests/test_tutorial.py does",
    r"pytest|bash \.ci/run|coverage|python tests/": "runs the tests themselves",
    r"docker|kubectl|echo .POSTGRES|cd samples/deployment": "tests/deployment checks these files",
    r"gh |ollama|llama-server|vllm|export SOURCE": "needs software of others",
    r"ptc (generate|extract)|cd samples/data|\w+_BASE_URL": "needs a model; tests/models has them",
    r"ptc (worker|ui)|PTC_LOG\w+=\w+ .*ptc worker": "serves; tests/core/queue and tests/ui",
    r"ptc run .*--watch": "serves; tests/cli/test_top.py",
    r"ptc mcp(?!.*--(print-config|new-token))": "serves; tests/bindings/test_mcp_command.py",
    r"ptc (submit|wait|tenant)|export": "needs a server; tests/core/queue/test_day.py",
    r"ptc verify": "runs the checks of the reader; tests/cli/test_verify.py",
    r".*(\bRUN\b|3f2a|count_word|/var/lib)": "names a run or a file of the reader",
    r".*\b(todos|refund|report)\.py": "names a script of the reader",
}
"""Beginnings of lines, and the reason for which this module does not execute them."""
ELSEWHERE = {"docs/tutorial.md"}
"""Pages that ``test_tutorial.py`` follows."""


def lines(block: Block) -> Iterator[str]:
    for line in re.sub(r"\\\n\s*", "", block.source).splitlines():
        if block.language == "console" and not line.startswith("$ "):
            continue
        command = line.removeprefix("$ ").partition("  #")[0].strip()
        if command and not command.startswith("#"):
            # The command after the installation.
            found = re.search(r"&& \.venv/bin/(ptc .*)", command)
            yield found[1] if found else command


def reason(line: str) -> str:
    return next((why for start, why in NOT_EXECUTED.items() if re.match(start, line)), "")


ALL = [
    (str(block), line)
    for block in find_blocks("sh", "console")
    if block.page not in ELSEWHERE
    for line in lines(block)
]
EXECUTED = [pair for pair in ALL if not reason(pair[1])]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shell")
    (folder / "bin").mkdir()
    (folder / "bin" / "ptc").write_text(f'#!/bin/sh\nexec {sys.executable} -m ptc "$@"\n')
    (folder / "bin" / "ptc").chmod(0o755)
    ignored = shutil.ignore_patterns("__pycache__", ".ptc")
    shutil.copytree(ROOT / "samples", folder / "work" / "samples", ignore=ignored)
    (folder / "work" / "repo").mkdir()
    # Lines that list runs are executed in any order, and in any process of the tests.
    script = folder / "one.py"
    script.write_text("def run(ctx, inputs):\n    return 1\n")
    recorded = run_line(f"ptc run {script}", folder)
    assert recorded.returncode == 0, recorded.stderr
    return folder


def run_line(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Execute a line in a copy of the samples."""
    environment = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(folder / "state"),
    }
    return subprocess.run(  # a line of our own pages
        ["bash", "-c", line],
        cwd=folder / "work",
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("place", "line"), EXECUTED, ids=[f"{p} {i}" for p, i in EXECUTED])
def test_line_of_shell_succeeds(place: str, line: str, folder: Path) -> None:
    if "--package data" in line:
        pytest.importorskip("matplotlib", reason="pip install 'ptc-host[data]'")
    done = run_line(line, folder)
    assert done.returncode == 0, done.stderr


def test_lines_without_a_reason_are_executed_and_each_reason_is_used() -> None:
    assert len(EXECUTED) > 12, EXECUTED
    skipped = [line for _, line in ALL if reason(line)]
    unused = set(NOT_EXECUTED.values()) - {reason(line) for line in skipped}
    assert unused == set()


@pytest.mark.slow
def test_unit_of_systemd_is_valid(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```ini\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    drain = re.search(r"--drain-seconds (\d+)", text)
    stop = re.search(r"TimeoutStopSec=(\d+)", text)
    assert drain
    assert stop
    assert int(drain[1]) < int(stop[1])
    command = shutil.which("systemd-analyze")
    if command is None:
        pytest.skip("systemd-analyze is not installed")
    # `verify` looks for the program and the user.
    text = text.replace("/opt/ptc/bin/ptc", "/bin/true").replace("User=ptc", "User=root")
    unit = tmp_path / "ptc-worker.service"
    unit.write_text(text)
    done = subprocess.run(
        [command, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    if "Failed to initialize manager" in done.stderr or "No such file" in done.stderr:
        pytest.skip(f"systemd-analyze does not work here: {done.stderr.strip()[-100:]}")
    assert str(unit) not in done.stderr
    assert "Unknown" not in done.stderr
    assert done.returncode == 0, done.stderr
