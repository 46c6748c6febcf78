"""The benchmark command runs and its table has numbers. How large they are is nobody's business
here: that depends on the machine.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(__file__).parent.parent / "benchmarks" / "run.py"
SECONDS = 120.0


def benchmark(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # our own interpreter and our own files
        [sys.executable, str(COMMAND), *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.slow
def test_benchmark_command_prints_and_writes_the_same_numbers(tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    cases = ["cpu.filter", "calls.blocking", "fanout", "memory"]
    done = benchmark("--rounds", "1", "--only", *cases, "--json", str(file))
    assert done.returncode == 0, done.stderr
    data = json.loads(file.read_text())
    assert [row["name"] for row in data["rows"]] == [
        "cpu: filter 1e4 dicts",
        "1,000 calls of a no-op tool, blocking",
        "100 tools of 10 ms gathered",
        "private memory of an idle worker",
        "private memory of a busy worker",
    ]
    for row in data["rows"]:
        line = next(line for line in done.stdout.splitlines() if line.startswith(row["name"]))
        shown = line.removeprefix(row["name"]).split()[1]
        if row["ptc"] is None:
            # Only root may read the memory of a process that is not dumpable.
            assert (row["unit"], shown) == ("MB", "n/a")
        else:
            assert isinstance(row["ptc"], float)
            assert float(shown.replace(",", "")) == pytest.approx(row["ptc"], rel=0.01)
    assert isinstance(data["rows"][0]["cpython"], float)
    rival = importlib.util.find_spec("pydantic_monty") is not None
    assert [isinstance(row["monty"], float) for row in data["rows"][:3]] == [rival] * 3
    assert ("monty" in done.stdout.splitlines()[2]) is rival


def test_monty_can_be_excluded() -> None:
    done = benchmark("--rounds", "1", "--only", "cpu.filter", "--no-monty")
    assert done.returncode == 0, done.stderr
    assert "monty not measured" in done.stdout
    head, _, line = done.stdout.splitlines()[2:]
    assert head.split() == ["measure", "unit", "ptc", "CPython", "ratio"]
    assert line.endswith("x")


def test_unknown_benchmark_case_error_lists_the_cases() -> None:
    done = benchmark("--only", "cpu.fibb")
    assert done.returncode == 2
    assert "there is no case 'cpu.fibb'; cases: trivial.repeated," in done.stderr
    assert done.stdout == ""


def test_zero_benchmark_rounds_are_refused() -> None:
    done = benchmark("--rounds", "0")
    assert done.returncode == 2
    assert "--rounds 0: pass a number from 1 to 1000" in done.stderr


@pytest.mark.slow
def test_file_tools_are_compared_with_ripgrep_and_open(tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    command = [sys.executable, str(COMMAND.with_name("files.py")), "--rounds", "1"]
    command += ["--files", "300", "--json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())["rows"]
    assert [row["beside"] for row in rows] == ["rg", "rg", "rg", "open"]
    for row in rows:
        assert row["wall_ratio"] == pytest.approx(row["wall_ms"] / row["other_wall_ms"])
        assert row["name"] in done.stdout


@pytest.mark.slow
def test_recording_cost_is_measured_against_no_journal(tmp_path: Path) -> None:
    done = subprocess.run(  # our own interpreter and our own files
        [sys.executable, str(COMMAND.parent / "journal.py"), "--rounds", "1"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()[3:]
    assert len(lines) == 10
    for line in lines:
        ours, beside, more, ratio = (float(n.replace(",", "")) for n in line.split()[-6:-2])
        assert ours - beside == pytest.approx(more, abs=0.02)
        assert ratio == pytest.approx(ours / beside, rel=0.1, abs=0.02)
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"
