"""Every file in `samples/` is run as its first lines say, and gives what it is there to show."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from collections import Counter
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

from ptc import BlockingSession, UsageError
from ptc._cli._script import refuse_host_program
from ptc_tools import skills_toolset

REPOSITORY = Path(__file__).parent.parent
SAMPLES = REPOSITORY / "samples"
LOG = "samples/data/service.log"
SECONDS = 60.0

PROGRAMS = {
    "programs/hello.py": ["to order: ['tea', 'coffee']", 'stock {"item":"sugar"} succeeded'],
    "programs/own_tool.py": [
        "direct: 108.0",
        "wrong: Error [invalid_arguments]: convert: `currency` is required",
        "from a script: {'why': 'unknown_currency', 'instead': 108.0}",
    ],
    "programs/limits.py": [
        "completed {'rows': 30, 'stopped_by': 'limit_exceeded'}",
        "timed_out None ({'first_page': [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]},) 'thinking\\n'",
    ],
    "programs/mcp_client.py": ["{'a.py': 2}"],
    "programs/telemetry.py": ["invoke_workflow total.py completed", "execute_tool price succeeded"],
    "programs/extract_invoices.py": [
        "harbour: 2025-04-17 Harbour Supply Co.: 163.25 EUR",
        "repaired: quotes, surrounding_text, trailing_comma",
        'rejected: /currency: "kronor" is not one of the 3 allowed values',
        "rejected: (root): the lines add up to 705.00, total says otherwise",
        "3 invoices, 5 requests",
    ],
    "programs/stream_elements.py": ["3 x chair: 148.50", "12 x pen: 14.40", "attempts: 1"],
    "programs/turns_against_program.py": [
        "compare_budgets             12    yes        13:2",
        "all                         55      6       61:12",
    ],
}
"""Samples run with ``python samples/NAME``, and lines of what they print."""

AGENT = {"agent.py", "agents/coder.md"}
"""The coding agent; `core/agents/test_agent_sample.py` kills it."""

SLOW = {"programs/mcp_client.py", "programs/turns_against_program.py"}
"""Those of `PROGRAMS` that take seconds."""

KILLED = "programs/extract_many.py"
"""Sample that kills its own command."""

SCRIPTS = {"scripts/chart.py", "scripts/find_usages.py", "scripts/summarise_log.py"}
"""Samples run with ``ptc run``; the tests below have their names."""

FRAMEWORKS = {
    "frameworks/anthropic_messages.py": "anthropic",
    "frameworks/autogen_agent.py": "autogen-agentchat",
    "frameworks/crewai_agent.py": "crewai",
    "frameworks/fastmcp_server.py": "fastmcp",
    "frameworks/google_adk_agent.py": "google-adk",
    "frameworks/langchain_agent.py": "langchain",
    "frameworks/llama_index_agent.py": "llama-index-core",
    "frameworks/openai_agents.py": "openai-agents",
    "frameworks/openai_sdk.py": "openai",
    "frameworks/openapi.py": "httpx",
    "frameworks/pydantic_ai_agent.py": "pydantic-ai-slim",
    "frameworks/smolagents_agent.py": "smolagents",
}
"""Samples of frameworks, ``frameworks/NAME.py`` -> the distribution that it needs."""

WORKFLOWS = {"frameworks/dbos_workflow.py", "frameworks/temporal_activity.py"}
"""Samples that ``bindings/test_workflow_engines.py`` runs, and kills."""

WORKERS = {"scripts/payments.py", "workers/bank.py"}
"""Samples that ``core/queue/test_day.py`` runs."""

SHARED = {"frameworks/fake_models.py", "frameworks/shop.py"}
"""Modules that samples of frameworks import."""

INVOICES = ("harbour", "lindgren", "okafor")
SKILLS = {
    "skills/summarise-orders/SKILL.md",
    "skills/summarise-orders/references/columns.md",
    "skills/summarise-orders/scripts/summarise.py",
}
"""Files of the sample skill, which a test below finds, reads and runs."""
COOKBOOK = {path.relative_to(SAMPLES).as_posix() for path in SAMPLES.glob("cookbook/*.py")}
"""Scripts that ``test_cookbook.py`` runs, and docs/cookbook.md lists."""
DATA = {
    "data/items.json",
    "data/orders.csv",
    "data/service.log",
    "data/tasks.jsonl",
    "data/tokens.toml",
    "data/orders/gold.jsonl",
    "data/orders/letters.jsonl",
    "data/orders/make.py",
    "data/orders/schema.json",
    "data/people/gold.jsonl",
    "data/people/make.py",
    "data/people/notes.jsonl",
    "data/people/schema.json",
    *(f"data/invoices/{name}.txt" for name in INVOICES),
}


def python(*arguments: str, seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # our own interpreter and our own files
        [sys.executable, *arguments],
        cwd=REPOSITORY,
        # A client of the MCP SDK passes HOME on, and nothing else that says where to record runs.
        env={**os.environ, "HOME": os.environ["XDG_STATE_HOME"]},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def ptc_run(script: str, *arguments: str) -> Any:
    """The value of a script that completes."""
    done = python("-m", "ptc", "run", f"samples/scripts/{script}", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_file_in_samples_is_run_by_a_test() -> None:
    files = {
        path.relative_to(SAMPLES).as_posix()
        for path in SAMPLES.rglob("*")
        if path.is_file() and not {"__pycache__", ".ptc"} & set(path.parts)
    }
    programs = PROGRAMS.keys() | FRAMEWORKS.keys() | WORKFLOWS | {KILLED}
    deployment = {name for name in files if name.startswith("deployment/")}  # tests/deployment
    assert (
        files - deployment
        == programs | SCRIPTS | SKILLS | AGENT | WORKERS | SHARED | DATA | COOKBOOK
    )


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in PROGRAMS],
)
def test_sample_prints_its_expected_lines(name: str) -> None:
    if name == "programs/mcp_client.py":
        pytest.importorskip("mcp")
    if name == "programs/telemetry.py":
        pytest.importorskip("opentelemetry.sdk")
    done = python(f"samples/{name}")
    assert done.returncode == 0, done.stderr
    for line in PROGRAMS[name]:
        assert line in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_extraction_finishes_with_every_row_right_and_pays_for_nothing_twice() -> None:
    pytest.importorskip("pydantic_ai", reason="pip install 'ptc-host[models]'")
    pytest.importorskip("openai", reason="pip install 'ptc-host[models]'")
    done = python(f"samples/{KILLED}", seconds=240)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^killed: \d+ rows recorded", done.stdout, re.MULTILINE)) == 3
    assert "exit status 0, 240 of 240 rows are right" in done.stdout
    assert "0 recorded letters were sent again" in done.stdout
    assert "0 letters were paid for twice" in done.stdout
    events = dict(re.findall(r"'(\w+)': (\d+)", done.stdout))
    assert all(int(events[kind]) for kind in ("429", "500", "cut", "damaged", "wrong", "right"))


def test_letters_of_the_sample_are_made_by_their_script(tmp_path: Path) -> None:
    folder = SAMPLES / "data" / "orders"
    copy = tmp_path / "make.py"
    copy.write_text((folder / "make.py").read_text())
    subprocess.run([sys.executable, str(copy)], check=True, timeout=SECONDS)
    for name in ("letters.jsonl", "gold.jsonl"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_sample_of_a_framework_prints_the_items_in_stock_by_price(name: str) -> None:
    try:
        distribution(FRAMEWORKS[name])
    except PackageNotFoundError:
        pytest.skip(f"not installed: pip install {FRAMEWORKS[name]}")
    done = python(f"samples/{name}")
    assert done.returncode == 0, done.stderr
    words = re.findall(r"sugar|tea|coffee|0\.9|3\.2", done.stdout)
    assert words == ["sugar", "0.9", "tea", "3.2"]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_sample_of_a_framework_is_short(name: str) -> None:
    assert len((SAMPLES / name).read_text().splitlines()) <= 25


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - {"programs/mcp_client.py"}))
def test_programs_are_not_scripts_and_say_how_to_run_them(name: str) -> None:
    source = (SAMPLES / name).read_text()
    with pytest.raises(UsageError, match=rf"Run it with: python samples/{name}"):
        refuse_host_program(source, f"samples/{name}")


@pytest.mark.slow
def test_turns_against_program_draws_a_chart_and_skips_other_tools(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    root = {"home": {"type": "directory", "contents": {}}}
    task = {"id": "one", "initial_config": {"Files": {"root": root}}}
    calls = [["touch('a')", "echo(content='<b>', file_name='a')"], [], ["cat(file_name='a')"]]
    other = {**task, "calls_per_turn": [["place_order(amount=3)"]]}
    rows = [{**task, "calls_per_turn": calls}, other]
    tasks.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    sample = "samples/programs/turns_against_program.py"
    done = python(sample, "--tasks", str(tasks), "--chart", str(tmp_path / "turns.svg"))
    assert done.returncode == 0, done.stderr
    assert re.search(r"^one +3 +yes +4:2 ", done.stdout, re.MULTILINE)
    assert "1 tasks need other tools" in done.stdout
    assert (tmp_path / "turns.svg").read_text().count("<rect") == 3


# --- find_usages -----------------------------------------------------------------------------


def find_usages(root: Path, **inputs: object) -> Any:
    given = [f"--input={name}={json.dumps(value)}" for name, value in inputs.items()]
    return ptc_run("find_usages.py", *given, "--allow=grep,read", f"--root={root}")


def test_find_usages_as_documented_ranks_the_files_of_this_repository() -> None:
    value = ptc_run("find_usages.py", "--input", "query=Session", "--allow", "grep,read")
    counts = [file["count"] for file in value["files"]]
    assert counts == sorted(counts, reverse=True)
    assert len(counts) == min(20, value["files_with_matches"])
    assert value["matches"] >= sum(counts) > 0
    first = value["files"][0]
    text = (REPOSITORY / first["path"]).read_text()
    assert first["count"] == sum("Session" in line for line in text.split("\n"))


@pytest.mark.slow
def test_find_usages_names_the_scope_of_each_line(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "class Shop:\n"
        "    def sell(self):\n"
        "        if self.open:\n"
        "            return self.till[0]\n"
        "\n"
        "x = till[0]\n" + f"y = till[0]{'!' * 300}\n"
    )
    (tmp_path / "b.txt").write_text("till[0]\n")
    (tmp_path / "c.txt").write_text("till0, which a pattern of that form would match\n")
    assert find_usages(tmp_path, query="till[0]") == {
        "query": "till[0]",
        "matches": 4,
        "all_matches": True,
        "files_with_matches": 2,
        "files": [
            {
                "path": "a.py",
                "count": 3,
                "lines": [
                    {"line": 4, "text": "return self.till[0]", "in": "Shop.sell"},
                    {"line": 6, "text": "x = till[0]"},
                    {"line": 7, "text": f"y = till[0]{'!' * 149} ..."},
                ],
            },
            {"path": "b.txt", "count": 1, "lines": [{"line": 1, "text": "till[0]"}]},
        ],
    }


@pytest.mark.slow
def test_find_usages_is_bounded_and_continues_past_unreadable_files(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}.txt").write_text("needle\n" * (number + 1))
    (tmp_path / "latin.txt").write_bytes(b"needle \xe9\n" * 20)
    value = find_usages(tmp_path, query="needle", most_files=3)
    assert (value["matches"], value["files_with_matches"]) == (56, 9)
    assert [file["path"] for file in value["files"]] == ["latin.txt", "7.txt", "6.txt"]
    assert [len(file["lines"]) for file in value["files"]] == [5, 5, 5]
    assert "is not UTF-8" in value["files"][0]["unread"]
    assert "unread" not in value["files"][1]


@pytest.mark.slow
def test_find_usages_without_matches_returns_no_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hay\n")
    value = find_usages(tmp_path, query="needle", glob="*.txt")
    assert (value["matches"], value["files"]) == (0, [])


# --- summarise_log ---------------------------------------------------------------------------


def test_summarise_log_finds_the_hour_with_most_errors() -> None:
    value = ptc_run("summarise_log.py", "--input", f"path={LOG}", "--allow", "read")
    text = (REPOSITORY / LOG).read_text()
    levels = Counter(re.findall(r"^2025-\S+ \S+ (\w+)", text, re.MULTILINE))
    assert value["levels"] == dict(levels)
    assert value["lines"] == len(text.splitlines())
    assert value["records"] + value["other_lines"] == value["lines"]
    assert (value["first"], value["last"]) == ("2025-03-14 08:00:02.118", "2025-03-14 13:15:35.689")
    worst = max(value["by_hour"], key=lambda hour: hour["error_rate"])
    assert worst["hour"] == "2025-03-14 11:00"
    assert sum(hour["errors"] for hour in value["by_hour"]) == levels["ERROR"] + levels["CRITICAL"]
    top = value["errors"][0]
    assert top["text"] == "no connection within # ms, # requests waiting"
    assert top["count"] == text.count("no connection within")
    assert {"text": "request # failed", "count": text.count(" failed\nTraceback")}.items() <= next(
        error.items() for error in value["errors"] if error["text"].startswith("request")
    )


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("lines", [5_001, 5_000, 4_999])
def test_summarise_log_counts_every_line_of_a_file_read_in_parts(
    lines: int, tmp_path: Path
) -> None:
    # Four lines a record: the parts end within one.
    block = ["2025-01-01 00:00:00 ERROR no 1\r", "  at a", "", "  at b"]
    rows = (block * (lines // 4 + 1))[:lines]
    (tmp_path / "big.log").write_text("".join(f"{row}\n" for row in rows), newline="")
    value = ptc_run("summarise_log.py", "--input=path=big.log", f"--root={tmp_path}")
    records = rows.count(block[0])
    assert (value["lines"], value["records"]) == (lines, records)
    assert [(e["text"], e["count"]) for e in value["errors"]] == [("no #", records)]


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "no log at all\n"])
def test_summarise_log_of_a_file_without_records_reports_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "no.log").write_text(text)
    done = python(
        *("-m", "ptc", "run", "samples/scripts/summarise_log.py"),
        *("--input", "path=no.log", "--root", str(tmp_path)),
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "no.log has no line that starts with a time and a level" in done.stderr


# --- agent -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_agent_renames_a_function_with_and_without_programs() -> None:
    pytest.importorskip("pydantic_ai", reason="needs the extra `models`")
    done = python("samples/agent.py")
    assert done.returncode == 0, done.stderr
    renamed = re.findall(r"Renamed \w+ to \w+ in (\d+) files. Tests passed: True", done.stdout)
    assert len(renamed) == 2
    assert renamed[0] == renamed[1] >= "6"
    turns = {line[:22].strip(): line.split()[-4:] for line in done.stdout.splitlines()}
    few, many = turns["with programs"], turns["one call after another"]
    assert few[0] == "8"
    read_few, read_many = (int(row[2].replace(",", "")) for row in (few, many))
    assert read_few * 20 < read_many


# --- skills ----------------------------------------------------------------------------------


def test_skill_is_found_read_and_run_as_documented() -> None:
    source = """
async def run(ctx, inputs):
    [skill, *_] = await ctx.search_skills("turnover by region")
    columns = await ctx.Skill(skill.name, file="references/columns.md")
    path = {"path": inputs["path"]}
    done = [
        (await ctx.Skill(skill.name, skill.scripts[0], {**path, "by": by})).value
        for by in ("region", "month")
    ]
    return {"columns": columns.text, "done": done, "name": skill.name}
"""
    with BlockingSession(REPOSITORY, tools=[skills_toolset(SAMPLES / "skills")]) as session:
        value = session.program(
            source=source,
            inputs={"path": "samples/data/orders.csv"},
            allowed_tools=["search_skills", "Skill", "read"],
        ).unwrap()
    assert value["name"] == "summarise-orders"
    with (SAMPLES / "data" / "orders.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(f"`{name}`" in value["columns"] for name in rows[0])
    for by, done in zip(("region", "month"), value["done"], strict=True):
        assert done["skipped"] == 0
        revenue = [float(row["revenue"]) for row in done["rows"]]
        assert revenue == sorted(revenue, reverse=True)
        for row in done["rows"]:
            mine = [r for r in rows if r[by] == row[by]]
            assert row["orders"] == sum(int(r["orders"]) for r in mine)
            assert float(row["revenue"]) == pytest.approx(sum(float(r["revenue"]) for r in mine))


# --- chart -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_chart_as_documented_attaches_a_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    (tmp_path / "orders.csv").write_text((SAMPLES / "data" / "orders.csv").read_text())
    options = ["--package=data", "--input=path=orders.csv", "--allow=read", f"--root={tmp_path}"]
    value = ptc_run("chart.py", *options)
    assert value["best_month"] == "2025-05"
    [chart] = (tmp_path / ".ptc" / "artifacts").rglob("*.png")
    assert chart.read_bytes().startswith(b"\x89PNG")
