"""The fuzzer of the wire runs, its seed repeats, and it sees what it is there to see."""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ptc._runs._frames import HANDLERS, FrameHandler
from ptc._runs._run import Run
from ptc._wire._protocol import Kind

ROOT = Path(__file__).parent.parent.parent.parent
COMMAND = ROOT / "tests" / "fuzz" / "wire.py"


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The fuzzer, whatever folder the tests are started from."""
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("tests.fuzz.wire")


def count_findings(wire: Any, out: Path, backend: str, plays: int = 64) -> int:
    """Findings of a short run in this process."""
    options = argparse.Namespace(seed=7, minutes=1, plays=plays, first=0, backend=backend, out=out)
    findings: int = wire.fuzz(options, say=lambda _text: None)
    return findings


@pytest.mark.parametrize("count", [15, pytest.param(160, marks=pytest.mark.slow)])
def test_random_hostile_workers_only_end_their_own_runs(tmp_path: Path, count: int) -> None:
    done = subprocess.run(
        [
            sys.executable,
            str(COMMAND),
            "--plays",
            str(count),
            "--seed",
            "7",
            "--out",
            tmp_path / "f",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"asyncio: {count} plays" in done.stdout
    assert f"trio: {count} plays" in done.stdout
    assert "calling completed" in done.stdout
    assert not (tmp_path / "f").exists()


def test_seed_reproduces_the_same_plays(wire: Any) -> None:
    def some() -> list[str]:
        return [str(wire.play_of(Random(f"5/{number}"))) for number in range(50)]

    assert some() == some()
    assert len({text.split(",")[0] for text in some()}) > 8


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_wire_fuzzer_detects_a_host_error(
    wire: Any, tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_self: FrameHandler, text: str, _size: int) -> None:
        raise ZeroDivisionError(text)

    monkeypatch.setitem(HANDLERS, Kind.WARN, fail)
    assert count_findings(wire, tmp_path / "f", backend) > 0
    assert any("ZeroDivisionError" in file.read_text() for file in (tmp_path / "f").iterdir())


@pytest.mark.slow
def test_wire_fuzzer_detects_a_leaked_descriptor(
    wire: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []
    time_out = Run._time_out

    def leak(self: Run) -> None:
        opened.append(os.open("/dev/null", os.O_RDONLY))
        time_out(self)

    monkeypatch.setattr(Run, "_time_out", leak)
    try:
        assert count_findings(wire, tmp_path / "f", "asyncio", plays=192) > 0
        assert any("descriptors" in file.read_text() for file in (tmp_path / "f").iterdir())
    finally:
        for fd in opened:
            os.close(fd)


def test_wire_fuzzer_detects_an_outcome_chosen_by_the_worker(
    wire: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pause(self: FrameHandler, _text: str, _size: int) -> None:
        self._outcome.finish("paused")

    monkeypatch.setitem(HANDLERS, Kind.WARN, pause)
    assert count_findings(wire, tmp_path / "f", "asyncio") > 0
