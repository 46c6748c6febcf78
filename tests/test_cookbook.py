"""Each script of the cookbook runs as its first lines say, on the data of the samples."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ptc import RunResult, Session
from ptc.models import ModelRequest
from ptc.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.shared_zygote]

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "samples" / "cookbook").glob("*.py"))
PEOPLE = ROOT / "samples" / "data" / "people"

CHECKS: dict[str, Callable[[Any], bool]] = {
    "check_invoices": lambda v: (
        [row["status"] for row in v.values()] == ["right", "right", "unclear"]
    ),
    "check_links": lambda v: (v["pages"], v["links"], v["broken"]) == (2, 1, []),
    "compare_files": lambda v: v["added"] == 4 and v["removed"] == 6 and len(v["diff"]) > 10,
    "count_lines": lambda v: {"type": "log", "files": 1, "lines": 301, "words": 2964} in v["types"],
    "csv_to_json": lambda v: v["rows"] == 36 and v["first"][0]["revenue"] == 10499.83,
    "errors_in_context": lambda v: v[0]["count"] == 26 and len(v[0]["context"]) == 5,
    "extract_people": lambda v: len(v["people"]) == 9 and list(v["failed"]) == ["note-05"],
    "failed_logins": lambda v: v == {"users": 5, "suspicious": {"fatima": 3}},
    "find_duplicates": lambda v: v["groups"] == [["samples/copy.csv", "samples/data/orders.csv"]],
    "find_outliers": lambda v: (
        [row["month"] for row in v["outliers"][:2]] == ["2025-06", "2025-07"]
    ),
    "folder_sizes": lambda v: next(iter(v["largest"])) == "samples" and v["total"] > 100_000,
    "list_todos": lambda v: v["files"]["samples/programs/mcp_client.py"] == 2,
    "outline_python": lambda v: "main" in " ".join(v["files"]["samples/programs/hello.py"]),
    "pivot_csv": lambda v: v["totals"]["North"] == 181272.0 and v["table"].count("\n") == 13,
    "profile_csv": lambda v: (
        v["columns"]["orders"] | {"mean": 0}
        == {"empty": 0, "distinct": 34, "type": "number", "min": 127, "max": 425, "mean": 0}
    ),
    "read_within_budget": lambda v: len(v["longest"]) == 4 and v["next"] is not None,
    "recent_changes": lambda v: v["commits"] == 2 and v["changed_most"]["samples/copy.csv"] == 1,
    "rename_fields": lambda v: (v["rows"], v["renamed"]) == (40, 40),
    "replace_text": lambda v: v["applied"] is False and v["files"][0]["replacements"] == 1,
    "run_checks": lambda v: v["status"] == "passed" and list(v["failed"]) == ["sorted"],
    "slow_requests": lambda v: v[0]["request"] == "GET /api/orders" and v[0]["max_ms"] == 4790,
    "totals_by_customer": lambda v: v["best"][0]["total"] == "36870.55" and not v["without_letter"],
    "validate_rows": lambda v: (v["rows"], v["wrong"]) == (40, 0),
    "write_report": lambda v: (v["path"], v["action"]) == ("report.md", "created"),
}


def answer(request: ModelRequest) -> Any:
    """Answer as a model would, from the right answers; fail for one note."""
    notes = [json.loads(line) for line in (PEOPLE / "notes.jsonl").read_text().splitlines()]
    gold = [json.loads(line)["object"] for line in (PEOPLE / "gold.jsonl").read_text().splitlines()]
    text = request.turns[0].text
    for note, person in zip(notes, gold, strict=True):
        if note["text"] in text and note["id"] != "note-05":
            return person
    return {"nobody": True}


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Run on one loop: some scripts write a file, which exists on a second run."""
    return "asyncio"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cookbook")
    shutil.copytree(
        ROOT / "samples", root / "samples", ignore=shutil.ignore_patterns("__pycache__")
    )
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "Add the samples")
    shutil.copy(root / "samples/data/orders.csv", root / "samples/copy.csv")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "Copy the orders")
    return root


@pytest.fixture
async def session(folder: Path) -> AsyncIterator[Session]:
    model = ScriptedModel(*[answer] * 100)
    async with Session(root=folder, model=model) as opened:
        yield opened


def documented(script: Path) -> tuple[dict[str, Any], list[str], dict[str, Any]]:
    """Inputs, allow-list and limits of the command in the first lines of a script."""
    text = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    found = re.search(r"^ *ptc run (.*?)\n\n", text.replace("\\\n", " "), re.M | re.S)
    assert found, f"{script.name} shows no command"
    words = shlex.split(found[1])
    assert words[0] == script.relative_to(ROOT).as_posix()
    inputs: dict[str, Any] = {}
    allow: list[str] = []
    limits: dict[str, Any] = {}
    for option, value in zip(words[1::2], words[2::2], strict=True):
        match option:
            case "--input":
                name, _, shown = value.partition("=")
                try:
                    inputs[name] = json.loads(shown)
                except json.JSONDecodeError:
                    inputs[name] = shown
            case "--allow":
                allow = value.split(",")
            case "--max-tool-calls":
                limits["max_tool_calls"] = int(value)
            case _:
                assert option == "--model"
    return inputs, allow, limits


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
async def test_script_of_the_cookbook_runs_as_its_first_lines_say(
    script: Path, session: Session
) -> None:
    inputs, allow, limits = documented(script)
    result: RunResult[Any] = await session.program(
        source=script.read_text(encoding="utf-8"), inputs=inputs, allowed_tools=allow, limits=limits
    )
    assert result.status == "completed", result.error
    assert [warning for warning in result.warnings if warning.code != "effects_made"] == []
    assert CHECKS[script.stem](result.value), result.value


def test_page_of_the_cookbook_lists_every_script_with_its_summary() -> None:
    page = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
    assert len(SCRIPTS) >= 20
    for script in SCRIPTS:
        text = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
        summary = re.split(r"[.:;]", text)[0]
        row = f"[{script.stem}](../samples/cookbook/{script.name}) | {summary}"
        assert row in page, row
