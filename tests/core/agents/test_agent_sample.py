"""The sample agent is killed at steps of its journal, and continues each time.

The test takes every seventh step, from another one each day; with PTC_EVERY_STEP=1 it takes all.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import durable_fork

pytest.importorskip("pydantic_ai", reason="needs the extra `models`")

SAMPLE = Path(__file__).parents[3] / "samples" / "agent.py"
FILES = {
    "src/names.py": "def list_within():\n    return 1\n",
    "src/use.py": "from names import list_within\n\nprint(list_within())\n",
    "notes.txt": "list_within stays here\n",
}
CHECK = "open('checked', 'a').write('x'); import sys; sys.path[0] = 'src'; import use"


def sample() -> Any:
    """Load the sample, for a small folder in place of the repository."""
    spec = importlib.util.spec_from_file_location("sample_agent", SAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules["sample_agent"] = module
    spec.loader.exec_module(module)

    def copy(folder: Path) -> None:
        for name, text in FILES.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    module.copy_repository = copy
    module.TEST = [sys.executable, "-c", CHECK]
    return module


def log_writes(folder: Path) -> None:
    """Log each file that the tool `write` replaces, outside of the root."""
    from ptc_tools.files import _atomic

    commit = _atomic.Transaction.commit

    def logged(self: Any, *args: Any, **options: Any) -> Any:
        with (folder / "writes").open("a") as log:
            log.write("x")
        return commit(self, *args, **options)

    _atomic.Transaction.commit = logged  # type: ignore[method-assign]  # this process ends


def outcomes(tmp_path: Path) -> Iterator[tuple[int, Path, Any]]:
    """Yield the outcome without a death, and with one at each chosen step."""
    # Here, since each process is forked from this one: to import pydantic-ai takes a second.
    agent = sample()

    async def drive(folder: Path) -> dict[str, Any]:
        log_writes(folder)
        meter = agent.Meter(agent.FunctionModel(agent.decide))
        result = await agent.work(folder, meter, programs=True)
        calls = [(c.parent, c.tool, c.status) for c in result.calls]
        return {"value": result.unwrap()["report"], "calls": calls, "turns": meter.turns}

    every = os.environ.get("PTC_EVERY_STEP") == "1"
    steps = [0]
    for at in steps:
        folder = tmp_path / str(at)
        folder.mkdir()
        if at:
            # It ends if this run has fewer steps than the first.
            assert durable_fork.spawn(drive, folder, at) in ("killed", "ended")
        assert durable_fork.spawn(drive, folder, None) == "ended"
        outcome = durable_fork.outcome_of(folder)
        if not at:
            durable_fork.warm_up(folder)
            stride = 1 if every else 7
            first = 1 if every else 1 + time.localtime().tm_yday % stride
            steps += range(first, outcome["steps"] + 1, stride)
        yield at, folder, outcome


def files_of(folder: Path) -> dict[str, str]:
    return {name: (folder / "root" / name).read_text() for name in FILES}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_agent_that_is_killed_at_any_step_ends_in_the_same_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight: dict[str, Any] = {}
    at = turns = 0
    for at, folder, outcome in outcomes(tmp_path):
        if not at:
            straight, turns = outcome, outcome["turns"]
            assert straight["value"]["tests_passed"]
            assert straight["value"]["changed"] == ["src/names.py", "src/use.py"]
        assert outcome["value"] == straight["value"], at
        assert outcome["calls"] == straight["calls"], at
        assert files_of(folder) == {
            **FILES,
            "src/names.py": FILES["src/names.py"].replace("list_within", "names_within"),
            "src/use.py": FILES["src/use.py"].replace("list_within", "names_within"),
        }, at
        # A write that the host did not survive is repeated with the same content; a check is
        # repeated only by the recorded decision.
        assert len((folder / "writes").read_text()) in (2, 3), at
        assert len((folder / "root" / "checked").read_text()) in (1, 2), at
        assert outcome["turns"] <= turns, at
    assert at > 20
