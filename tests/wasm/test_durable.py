"""Interrupted runs over guests: hosts that die or freeze, guests that are stopped or trap."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
COMMAND = (sys.executable, "-m", "tests.fuzz.durable", "--engine", "wasm", "--trees", "4")


@pytest.mark.parametrize("death", ["host", "guest", "cancel", "frozen"])
def test_interrupted_runs_end_as_uninterrupted_ones(death: str) -> None:
    options = ("--deaths", death, "--count", "10", "--seed", "20")
    done = subprocess.run(
        [*COMMAND, *options], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-4_000:]
    assert done.stdout.endswith("findings: 0\n")
    deaths = int(re.findall(r": deaths (\d+)", done.stdout)[-1])
    assert deaths >= 10


def test_deaths_of_processes_are_refused() -> None:
    done = subprocess.run(
        [*COMMAND, "--deaths", "host,worker,zygote"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "the engine wasm has no deaths of this kind: worker, zygote" in done.stderr
