"""Hosts that are killed at steps of their journal, and what their runs come to after that."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent.parent
COMMAND = ROOT / "tests" / "fuzz" / "durable.py"


@pytest.mark.slow
@pytest.mark.parametrize(("points", "trees"), [(12, 5)])
def test_runs_of_killed_hosts_end_like_uninterrupted_ones(points: int, trees: int) -> None:
    done = subprocess.run(
        [
            sys.executable,
            str(COMMAND),
            "--points",
            str(points),
            "--trees",
            str(trees),
            "--minutes",
            "1",
            "--seed",
            "3",
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "seed 3: " in done.stdout
    assert "findings: 0" in done.stdout


def test_durability_check_detects_repeated_and_lost_effects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    durable: Any = importlib.import_module("tests.fuzz.durable")
    world: Any = importlib.import_module("tests.fuzz.durable_server")
    outcome: dict[str, Any] = {"status": "completed", "value": 1, "error": None, "stdout": ""}
    outcome |= {"partial": [], "calls": []}
    for name, effects in {
        "straight": [("pay", 1, "k"), ("put", 2, "l")],
        "same": [("put", 2, "l"), ("pay", 1, "k"), ("put", 2, "l")],
        "twice": [("pay", 1, "k"), ("pay", 1, "k"), ("put", 2, "l")],
        "lost": [("pay", 1, "k")],
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "outcome").write_text(json.dumps(outcome))
        for effect in effects:
            world.Server(folder / "server").take(*effect)

    def wrong(name: str) -> list[str]:
        return list(durable.differences(tmp_path / name, tmp_path / "straight"))

    assert wrong("same") == []
    assert len(wrong("twice")) == 1
    assert len(wrong("lost")) == 1
    (tmp_path / "same" / "outcome").write_text(json.dumps(outcome | {"value": 2}))
    assert len(wrong("same")) == 1
