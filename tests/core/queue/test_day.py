"""A person's day: three approvals, decided by three people elsewhere, finished by any worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Session

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SAMPLES = Path(__file__).parents[3] / "samples"
TOOLS = str(SAMPLES / "workers" / "bank.py")
SCRIPT = str(SAMPLES / "scripts" / "payments.py")


class Machine:
    """A folder, a home and a user of their own, without tools or configuration."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        self.database = database
        folder.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "USER": folder.name,
            "LOGNAME": folder.name,
            "PTC_JOURNAL": database,
        }

    def ptc(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ptc", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        done = self.ptc(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def start_worker(tmp_path: Path, database: str) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    pytest.importorskip("pgqueuer", reason="pip install -e '.[postgres]'")
    workers: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        machine = Machine(tmp_path / f"worker_{len(workers)}", database)
        worker = subprocess.Popen(
            [
                *(sys.executable, "-m", "ptc", "worker", "--tools", TOOLS),
                *("--allow", "pay", "--lease-seconds", "2"),
            ],
            cwd=machine.folder,
            env={**machine.environment, "LEDGER": str(tmp_path / "ledger.txt")},
            stderr=subprocess.DEVNULL,
            text=True,
        )
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.kill()
        worker.wait()


async def _cancel(folder: Path, database: str, run_id: str) -> None:
    async with Session(folder, journal=database, toolsets=()) as session:
        await session.cancel(run_id)


def test_cancelled_run_stays_cancelled_after_an_approval(
    tmp_path: Path, database: str, start_worker: Callable[[], subprocess.Popen[str]]
) -> None:
    worker = start_worker()
    sender = Machine(tmp_path / "sender", database)
    options = ("--tools", TOOLS, "--allow", "pay", "--wait", "--json")
    run_id = json.loads(sender.ptc("submit", SCRIPT, *options).stdout)["run_id"]
    anyio.run(_cancel, sender.folder, database, run_id)
    sender.ptc("approve", run_id, "1", "--as", "ada")
    result = json.loads(sender.ptc("wait", run_id, "--through-pauses", "--json").stdout)
    assert result["status"] == "cancelled"
    # A later run shows that the worker had time for the cancelled one.
    later = sender.ptc("submit", SCRIPT, *options[:-1]).stderr.split("submitted: ")[1]
    # A worker continues it, so nobody is told to resume it.
    number = later.split()[0]
    assert f"\nnext: ptc approve {number} 1\n" in later
    assert later.endswith(f"\nthen: ptc wait {number}\n")
    assert worker.poll() is None
    assert not (tmp_path / "ledger.txt").exists()


def test_three_people_decide_elsewhere_and_any_worker_finishes_the_run(
    tmp_path: Path, database: str, start_worker: Callable[[], subprocess.Popen[str]]
) -> None:
    ledger = tmp_path / "ledger.txt"
    first = start_worker()
    sender = Machine(tmp_path / "sender", database)
    submitted = sender.ptc(
        *("submit", SCRIPT, "--tools", TOOLS),
        *("--allow", "pay", "--wait", "--json"),
    )
    assert submitted.returncode == 6, submitted.stderr
    paused = json.loads(submitted.stdout)
    run_id = paused["run_id"]
    assert [call["call"] for call in paused["pending"]] == ["1", "2", "3"]
    first.kill()
    first.wait()

    ada, grace, linus = (Machine(tmp_path / name, database) for name in ("ada", "grace", "linus"))
    assert len(ada.json("approvals")) == 3
    assert ada.ptc("show", run_id[:8]).returncode == 0
    wrong = grace.ptc("approve", run_id, "2", "--as", "grace", "--arguments", '{"cents": "many"}')
    assert wrong.returncode == 2
    assert "no decision was recorded" in wrong.stderr
    assert ada.ptc("approve", run_id, "1", "--as", "ada").returncode == 0
    again = linus.ptc("reject", run_id, "1", "--as", "linus")
    assert again.returncode == 2
    assert "was approved by ada" in again.stderr
    edited = '{"account": "rent", "cents": 90000}'
    done = grace.ptc("approve", run_id, "2", "--as", "grace", "--arguments", edited)
    assert done.returncode == 0, done.stderr
    reason = "paid last week"
    assert linus.ptc("reject", run_id, "3", "--as", "linus", "--reason", reason).returncode == 0
    assert not ledger.exists()

    start_worker()
    result = linus.json("wait", run_id, "--through-pauses", "--timeout-ms", "60000")
    assert result["status"] == "completed"
    assert result["value"][:2] == ["power: paid 12000", "rent: paid 90000"]
    assert "paid last week" in result["value"][2]
    effects = [line.split()[1:] for line in ledger.read_text().splitlines()]
    assert sorted(effects) == [["power", "12000"], ["rent", "90000"]]
    shown = ada.ptc("show", run_id).stdout
    for words in (
        "[approved by ada]",
        '[approved by grace; the script requested {"account":"rent","cents":95000}]',
        "[rejected by linus: paid last week]",
    ):
        assert words in shown
    assert ada.json("approvals") == []

    exported = grace.ptc("export", run_id, "-o", "run.json")
    assert exported.returncode == 0, exported.stderr
    replayed = grace.json("replay", run_id)
    assert replayed["value"] == result["value"]
    assert [row["run_id"] for row in linus.json("runs")["runs"]] == [run_id]
