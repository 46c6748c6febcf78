"""``ptc top`` and ``ptc run --watch``: what runs, on a terminal and in a browser."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

ADD = "async def run(ctx, inputs):\n    return await ctx.add(1)\n"
ASK = "async def run(ctx, inputs):\n    return await ctx.gate(1)\n"
WAIT = "async def run(ctx, inputs):\n    await ctx.slow(60)\n"


def test_state_is_printed_once_off_a_terminal(command: Any, script: Any) -> None:
    command("run", script(ADD), "--toolset", "shelf")
    command("run", script(ASK), "--toolset", "shelf")
    shown = command("top")
    assert shown.status == 0
    rows = [line.split("\t") for line in shown.out.splitlines()]
    assert [row[1] for row in rows] == ["paused: gate", "completed"]
    assert all(re.fullmatch("[0-9a-f]{32}", row[0]) for row in rows)
    assert "2 runs in ten minutes (1 completed, 1 paused); 1 calls await a decision" in shown.err


def test_state_as_json_has_runs_by_kind(command: Any, script: Any) -> None:
    command("run", script(ADD), "--toolset", "shelf")
    command("run", script(ASK), "--toolset", "shelf")
    state = json.loads(command("top", "--json").out)
    assert [run["tools"] for run in state["paused"]] == [["gate"]]
    assert [(run["status"], run["calls"]) for run in state["ended"]] == [("completed", 1)]
    assert (state["unfinished"], state["queue"]) == ([], None)
    assert state["recent"] == {"completed": 1, "paused": 1}


def test_journal_without_runs_has_empty_tables(command: Any, script: Any) -> None:
    command("run", script("def run(ctx, inputs): return 1"), "--toolset", "shelf")
    command("forget", "--older-than", "0")
    shown = command("top", "--once")
    assert (shown.status, shown.out) == (0, "")
    assert "0 runs in ten minutes; 0 calls await a decision" in shown.err


@pytest.mark.slow
def test_display_follows_runs_of_other_processes_until_q(
    terminal: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "wait.py").write_text(WAIT)
    (tmp_path / "add.py").write_text(ADD)
    run = [sys.executable, "-P", "-m", "ptc", "run", "--toolset", "shelf"]
    subprocess.run([*run, "add.py"], cwd=tmp_path, env=environment, check=True, timeout=60)
    shown = terminal("top", "--interval-ms", "100")
    shown.read_until(b"completed")
    with subprocess.Popen([*run, "wait.py"], cwd=tmp_path, env=environment) as process:
        shown.read_until(b"running")
        shown.read_until(b"wait.py")
        process.send_signal(signal.SIGINT)
    shown.read_until(b"cancelled")
    shown.press(b"q")
    assert shown.end() == 0
    # The cursor and the former screen are back.
    assert shown.written.rindex(b"\x1b[?25h") > shown.written.rindex(b"\x1b[?25l")
    assert shown.written.rindex(b"\x1b[?1049l") > shown.written.rindex(b"\x1b[?1049h")


@pytest.mark.slow
def test_ctrl_c_leaves_the_display(terminal: Any, command: Any, script: Any) -> None:
    command("run", script(ADD), "--toolset", "shelf")
    shown = terminal("top")
    shown.read_until(b"completed")
    shown.press(b"\x03")
    assert shown.end() == 0
    assert b"Traceback" not in shown.written


@pytest.mark.slow
def test_name_of_a_script_cannot_control_the_terminal(
    terminal: Any, command: Any, tmp_path: Path
) -> None:
    (tmp_path / "add.py").write_text(ADD)
    command("run", "add.py", "--toolset", "shelf")
    (tmp_path / "[bold]x.py").write_text(ADD)
    command("run", "[bold]x.py", "--toolset", "shelf")
    shown = terminal("top")
    shown.read_until(b"[bold]x.py")
    shown.press(b"q")
    assert shown.end() == 0


# --- run --watch -----------------------------------------------------------------------------


@pytest.mark.slow
def test_watched_run_has_a_page_until_a_signal(
    environment: dict[str, str], tmp_path: Path, processes: Any, wait_until_gone: Any
) -> None:
    (tmp_path / "add.py").write_text(ADD)
    environment = {k: v for k, v in environment.items() if "DISPLAY" not in k}
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "ptc", "run", "add.py", "--toolset", "shelf", "--watch"],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        link = process.stderr.readline().decode()
        found = re.fullmatch(
            r"watch: (http://127\.0\.0\.1:\d+)(/runs/[0-9a-f]{32})#token=.+\n", link
        )
        assert found is not None, link
        below = processes(process.pid)
        with urllib.request.urlopen(found[1] + found[2], timeout=10) as page:  # noqa: S310  # of this test
            assert b"<html" in page.read()
        with pytest.raises(urllib.error.HTTPError) as refused:  # without the token
            urllib.request.urlopen(f"{found[1]}/api{found[2]}", timeout=10)  # noqa: S310  # as above
        assert refused.value.code in (401, 403)
        refused.value.close()
        deadline = time.monotonic() + 30
        while b"stays until Ctrl-C" not in process.stderr.readline():
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert json.loads(out) == 3
    assert process.returncode == 0
    assert b"Traceback" not in err
    wait_until_gone(below)
