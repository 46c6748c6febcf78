"""Damaged answers that others collected: how many are recovered, and that none is wrong.

The data is derived from fetched data and may not be part of this project. It is looked for beside
the repository, in ``../shared``, or where ``PTC_SHARED`` says; without it the test is skipped.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from ptc.structured import recover
from ptc.structured._reading import json_equal
from tests.fuzz import slips

SHARED = Path(os.environ.get("PTC_SHARED", Path(__file__).parents[3] / "shared"))
ROWS = SHARED / "data" / "structured" / "mutations_dev.jsonl"


@pytest.mark.skipif(
    not ROWS.exists(), reason=f"no corpus at {SHARED}; set PTC_SHARED to its folder"
)
def test_damaged_answers_are_recovered_without_a_wrong_value() -> None:
    """`-s` prints the table by class."""
    total: Counter[str] = Counter()
    recovered: Counter[str] = Counter()
    wrong: list[str] = []
    rows = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        total[row["class"]] += row["recoverable"]
        found = recover(row["raw_text"], row["schema"])
        if found is None:
            continue
        if row["recoverable"] and json_equal(found.value, row["expected_object"]):
            recovered[row["class"]] += 1
        else:
            wrong.append(row["id"])
    for name in sorted(total):
        print(f"{name:24}{recovered[name]:5} of {total[name]:5}")  # noqa: T201  # a report
    print(f"{'all':24}{recovered.total():5} of {total.total():5}, wrong {len(wrong)}")  # noqa: T201  # a report
    assert not wrong
    assert recovered.total() >= 1_500


@pytest.mark.slow
@pytest.mark.skipif(
    not ROWS.exists(), reason=f"no corpus at {SHARED}; set PTC_SHARED to its folder"
)
def test_single_structural_slips_are_recovered_without_a_wrong_value() -> None:
    chance = Random(1)
    documents = list(slips.read_documents(ROWS))
    chance.shuffle(documents)
    results = Counter(map(slips.judge, slips.list_slips(documents, chance, 1, 120)))
    assert results["wrong"] == 0
    assert results["right"] >= 0.85 * results.total()
