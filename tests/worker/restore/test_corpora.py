"""After each run of every corpus, the worker equals its image to the byte, or was replaced.

Compared are all memory that it can write, constants, mappings, registers, descriptors, signals and
limits.
"""

from __future__ import annotations

import json
import platform
import secrets
import sys
from pathlib import Path
from typing import Any

import pytest

from ptc import Limits
from tests.shared import test_shared_corpus as shared
from tests.worker.restore.hostile import Attack, attacked
from tests.worker.test_resources import LIMITS, ROWS, SHORT, echo, endless

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.timeout(560),
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() != "x86_64",
        reason="workers are restored on Linux and x86-64 only",
    ),
]


PROGRAMS = Path(__file__).parents[2] / "programs"
_UNREVIEWED = """
builtins = sys.modules["builtins"]

def run(ctx, inputs):
    space = {"__name__": "__main__", "__builtins__": builtins, "ctx": ctx, "inputs": inputs}
    builtins.exec(builtins.compile(SCRIPT, "script.py", "exec", dont_inherit=True), space)
    value = space.get("run", lambda ctx, inputs: space.get("result"))(ctx, inputs)
    return builtins.repr(value)[:1000]
"""


def check(attack: Attack, runs: int) -> None:
    """Check that nothing differed, and that most workers were restored."""
    counts = attack.counts()
    sys.stdout.write(f"{runs} runs: {counts}\n")
    assert attack.differences == {}
    assert counts["restored"] == counts["compared"]


async def test_worker_is_as_it_was_after_each_program() -> None:
    async with attacked() as attack:
        paths = sorted((PROGRAMS / "allowed").glob("*.py"))
        for path in paths:
            result = await attack.session.program(source=path.read_text())
            assert result.status == "completed", (path, result.error)
            await attack.settle()
        check(attack, len(paths))


@pytest.mark.skipif(not shared.SNIPPETS.exists(), reason="no corpus; PTC_SHARED names its folder")
async def test_worker_is_as_it_was_after_each_snippet() -> None:
    async with attacked(workers=2) as attack:
        rows = shared.load(shared.SNIPPETS)
        for row in rows:
            try:
                script = shared.as_programs(row)[1]
            except SyntaxError:
                continue
            await attack.session.program(source=script, limits=Limits(timeout_ms=5_000))
        await attack.settle()
        check(attack, len(rows))
        assert attack.counts()["restored"] > len(rows) // 2


async def test_worker_is_as_it_was_after_each_escape_without_the_language_layer(
    tmp_path: Path,
) -> None:
    token = "TKN" + secrets.token_hex(8)
    canary = tmp_path / "canary.txt"
    canary.write_text(token)
    folder = PROGRAMS / "escapes"
    paths = [*sorted(folder.glob("lang_*.jsonl")), folder / "own.jsonl", folder / "os.jsonl"]
    cases = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    async with attacked(workers=2) as attack:
        for case in cases:
            inputs = _fill(case.get("inputs") or {}, canary)
            inputs |= {"drop": str(tmp_path / "drop.txt"), "tmpdir": str(tmp_path)}
            result = await attack.run(
                f"SCRIPT = {case['script']!r}\n{_UNREVIEWED}",
                inputs=inputs,
                limits=Limits(timeout_ms=2_000),
            )
            assert token not in repr(result.value), case["id"]
            assert [path.name for path in tmp_path.iterdir()] == ["canary.txt"], case["id"]
        await attack.settle()
        check(attack, len(cases))
        assert (await attack.session.program(source="1 + 1")).value == 2


async def test_worker_is_as_it_was_after_each_resource_attack() -> None:
    async with attacked(workers=2, tools=[echo], limits=LIMITS) as attack:
        for row in ROWS:
            limits = SHORT if endless(row) else LIMITS
            await attack.session.program(source=row["script"], limits=limits)
        await attack.settle()
        check(attack, len(ROWS))


def _fill(inputs: dict[str, Any], canary: Path) -> dict[str, Any]:
    return {name: str(canary) if value == "@CANARY@" else value for name, value in inputs.items()}
