"""A SQLite journal whose write-ahead log was cut at any byte, as by a loss of power."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ptc.journal import CallEnd, CallRow, RunRow, open_journal

pytestmark = pytest.mark.anyio


def run_row() -> RunRow:
    values: dict[str, Any] = {"source": "pass", "filename": "s.py", "inputs": b"{}"}
    return RunRow("r", **values, options=b"{}", seed=7, clock=1.5, created_ms=1)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the loop does not matter
@pytest.mark.parametrize("cuts", [20, pytest.param(300, marks=pytest.mark.slow)])
async def test_cut_log_has_a_whole_prefix_with_every_durable_effect(
    cuts: int, tmp_path: Path
) -> None:
    chance = Random(3)
    file = tmp_path / "journal.sqlite3"
    journal: Any = open_journal(file)
    lease = journal.start_run(run_row())
    await journal.barrier(lease)
    log = tmp_path / "journal.sqlite3-wal"
    durable = [(log.stat().st_size, 0)]
    for number in range(1, 61):
        end = CallEnd("succeeded", True, b"1" * chance.randrange(2_000), 200, number / 10)
        journal.append(lease, CallRow(str(number), "t", b"{}", "k", True, 1, 1, 100, "", end))
        if number % 4 == 0:
            await journal.barrier(lease)
            durable.append((log.stat().st_size, number))
    copies = tmp_path / "copies"
    copies.mkdir()
    whole = log.read_bytes()
    shutil.copy(file, copies / "main")
    await journal.close()
    for _ in range(cuts):
        at = chance.randrange(len(whole) + 1)
        copied = copies / "journal.sqlite3"
        shutil.copy(copies / "main", copied)
        (copies / "journal.sqlite3-wal").write_bytes(whole[:at])
        if chance.random() < 0.5:
            # Blocks that were allocated and not written.
            with (copies / "journal.sqlite3-wal").open("ab") as tail:
                tail.write(bytes(chance.randrange(8_192)))
        reopened: Any = open_journal(copied)
        row = await reopened.find("r")
        found = 0 if row is None else len((await reopened.load("r")).calls)
        least = max((number for size, number in durable if size <= at), default=-1)
        assert found >= least, f"cut at {at}"
        assert row is not None or least < 0, f"cut at {at}"
        await reopened.close()
        for path in copies.glob("journal.sqlite3*"):
            path.unlink()
