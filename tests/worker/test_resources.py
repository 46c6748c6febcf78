"""Scripts that take what they can get: each ends as it should, and the host does not grow.

``tests/programs/escapes/resource.jsonl``; `expect` of a row is ``limit`` (stopped by a limit, or
never a danger: refused, an error, harmless), ``denied`` or ``no-canary`` (no secret in what comes
out). What each comes to here is written down in `ENDS`, so that a change is seen.
"""

from __future__ import annotations

import asyncio
import json
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ptc import Limits, RunResult, Session, tool

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "programs" / "escapes" / "resource.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
SECRET = "TKN-do-not-tell"
LIMITS = Limits(
    timeout_ms=20_000,
    max_cpu_ms=10_000,
    max_memory_bytes=48 << 20,
    max_tool_calls=20,
    max_tasks=1_000,
)
SHORT = replace(LIMITS, timeout_ms=400, max_cpu_ms=300)
"""For what has no other end than these."""
ENDLESS = {"timeout_ms", "max_cpu_ms"}
"""A script that never ends meets the one that comes first; which, is the machine's business."""
MEMORY = {"max_memory_bytes"}
ENDS: dict[str, set[str]] = {
    "res-002": ENDLESS,
    "res-003": ENDLESS,
    "res-005": ENDLESS,
    "res-007": ENDLESS,
    "res-009": ENDLESS,
    "res-012": ENDLESS,
    "res-021": ENDLESS,
    # CPython 3.14 needs more memory to compile this expression.
    "res-023": ENDLESS | MEMORY,
    "res-024": {"recursion"},
    "res-026": ENDLESS,
    "res-027": ENDLESS,
    "res-029": ENDLESS,
    "res-031": ENDLESS,
    "res-033": MEMORY,
    "res-036": MEMORY,
    # On a loaded machine, to page its memory in takes longer than the limit on CPU time.
    "res-038": MEMORY | {"max_cpu_ms"},
    "res-040": MEMORY,
    "res-043": MEMORY,
    "res-047": MEMORY,
    "res-051": MEMORY,
    "res-053": MEMORY,
    "res-057": {"recursion"},
    "res-058": {"recursion"},
    "res-059": {"recursion"},
    "res-061": MEMORY,
    "res-062": MEMORY,
    "res-065": {"exception"},
    "res-069": {"too_complex"},
    "res-071": {"too_complex"},
    "res-072": {"too_complex"},
    "res-074": {"max_source_bytes"},
    "res-075": {"syntax_error"},
    "res-076": {"max_source_bytes"},
    "res-077": MEMORY,
    "res-080": ENDLESS,
    "res-082": {"exception"},
    "res-083": {"max_tasks"},
    "res-086": ENDLESS,
    "res-088": {"name_refused"},
    "res-089": {"name_refused"},
    "res-091": ENDLESS,
    "res-092": ENDLESS,
    "res-094": {"import_refused"},
    "res-095": {"module_name_refused"},
    "res-096": ENDLESS,
    "res-097": {"import_refused"},
    "res-098": {"import_refused"},
    "pro-001": {"max_stdout_bytes"},
    "pro-002": MEMORY,
    "pro-003": ENDLESS,
    "pro-004": {"max_stdout_bytes"},
    "pro-005": {"max_tool_calls"},
    "pro-006": {"max_tool_calls"},
    "pro-011": {"unknown_argument"},
    "pro-012": {"not_json"},
    "pro-015": {"completed"},
    "pro-016": {"completed"},
    "pro-017": {"attribute_refused"},
    "pro-020": {"completed"},
    "pro-021": {"not_json"},
    "pro-022": {"unknown_argument"},
    "pro-026": {"completed"},
    "pro-027": {"not_json"},
    "pro-029": {"completed"},
    "pro-030": MEMORY,
    "pro-032": {"completed"},
    "pro-034": {"max_output_bytes"},
    "pro-037": {"name_refused"},
    "pro-048": {"completed"},
    "pro-052": {"module_name_refused"},
    "pro-053": {"module_name_refused"},
    "pro-055": {"completed"},
    "pro-058": {"import_refused"},
    "pro-059": {"exception"},
    "pro-064": MEMORY,
    "pro-066": {"exception"},
    "pro-068": {"name_refused"},
}
"""By row: names of limits, codes of errors, or ``completed``."""
GROWTH_BYTES = 96 << 20
"""Bound of the host's growth at any time: it reads at most 16 MiB of one script's JSON, and two
scripts run at a time."""


@tool
async def echo(x: str | int | float | list[int] | None = None) -> str:
    """Say what was said."""
    return f"{x!r:.50}"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every script in one session, a few at a time; and how much the host grew."""

    async def everything() -> list[RunResult]:
        root = tmp_path_factory.mktemp("root")
        (root / "secret").write_text(SECRET)
        async with Session(
            root, tools=[echo], toolsets=(), limits=LIMITS, workers=2, max_concurrent_runs=2
        ) as session:
            runs = (
                session.program(source=row["script"], limits=SHORT if endless(row) else LIMITS)
                for row in ROWS
            )
            found = list(await asyncio.gather(*runs))
            # The host is as it was: it answers.
            good = await session.program(source="ctx.echo(1)")
            assert good.value == "1"
        return found

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    results = asyncio.run(everything())
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    named = {row["id"]: result for row, result in zip(ROWS, results, strict=True)}
    return {"results": named, "grown": grown}


def endless(row: dict[str, Any]) -> bool:
    return ENDS[row["id"]] >= ENDLESS


def end(result: RunResult) -> str:
    if result.error is None:
        return result.status
    return result.error.breach.limit if result.error.breach else result.error.code


def test_every_resource_script_has_an_expected_outcome() -> None:
    assert [row["id"] for row in ROWS] == list(ENDS)


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_resource_exhausting_script_has_its_expected_outcome(
    row: dict[str, Any], outcomes: dict[str, Any]
) -> None:
    result: RunResult = outcomes["results"][row["id"]]
    assert end(result) in ENDS[row["id"]], result.error
    assert SECRET.encode() not in result.to_json()
    assert not str(result.value).startswith("ESCAPED"), result.value
    assert result.value != "FORGED"
    if result.error is not None and result.error.breach is not None:
        assert result.status in {"limit_exceeded", "timed_out", "rejected"}
        assert result.error.hint
    else:
        assert result.status in {"completed", "failed", "rejected", "limit_exceeded"}


def test_host_memory_does_not_grow_with_resource_scripts(outcomes: dict[str, Any]) -> None:
    assert outcomes["grown"] < GROWTH_BYTES
    for result in outcomes["results"].values():
        assert len(result.to_json()) < 1 << 20
