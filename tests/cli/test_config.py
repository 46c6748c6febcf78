"""``ptc config``, own tools in every command, and scripts told apart from programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

TOOLS = '''
from ptc import tool

@tool
async def price(item: str) -> float:
    """Look up a price."""
    return 2.5

@tool(side_effect=True, idempotent=True)
async def pay(amount: int) -> int:
    """Pay."""
    return amount

@tool(needs_approval=True)
async def gate(n: int) -> int:
    """Ask first."""
    return n
'''
FILE = """
toolsets = []
tools = ["tools.py"]
allow = ["price", "gate", "pay(amount <= 100)"]

[limits]
max_tool_calls = 5
"""
ORDER = """
async def run(ctx, inputs):
    cost = await ctx.price("tea")
    try:
        await ctx.pay(101)
    except ToolError as error:
        return [cost, error.code, await ctx.pay(100)]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "ptc.toml").write_text(FILE)
    (tmp_path / "order.py").write_text(ORDER)
    return tmp_path


def test_commands_use_the_tools_the_rules_and_the_limits_of_the_file(
    command: Any, folder: Path
) -> None:
    done = command("run", "order.py", "--json")
    result = json.loads(done.out)
    assert result["value"] == [2.5, "not_allowed", 100], done.err
    assert result["limits"]["max_tool_calls"] == 5
    assert command("call", "price", '{"item": "x"}').out == "2.5\n"
    assert [row["name"] for row in json.loads(command("tools", "--json").out)] == [
        *("price", "pay", "gate"),
    ]
    checked = command("check", "-", stdin="async def run(ctx, inputs):\n    await ctx.prise('x')\n")
    assert checked.status == 1
    assert "prise" in checked.out


def test_tools_option_takes_a_file_in_every_command(command: Any, folder: Path) -> None:
    own = ("--no-config", "--toolset", "", "--tools", "tools.py")
    assert command("run", "order.py", *own, "--allow", "price,pay(amount<=100)").status == 0
    assert command("call", "price", '{"item": "x"}', *own).out == "2.5\n"
    assert command("tools", "price", *own).status == 0
    assert command("check", "order.py", *own, "--allow", "price,pay").status == 0
    assert command("config", "check", *own).out.endswith("3 tools: price, pay, gate\n")
    wrong = command("tools", "--tools", "nope.py")
    assert (wrong.status, wrong.out) == (2, "")
    assert wrong.err.startswith("Error: --tools: ")


def test_paused_run_of_own_tools_is_resumed_with_its_rules(command: Any, folder: Path) -> None:
    (folder / "gate.py").write_text(
        "async def run(ctx, inputs):\n    return await ctx.gate(await ctx.pay(7))\n"
    )
    journal = ("--journal", str(folder.with_suffix(".sqlite3")))
    paused = command("run", "gate.py", "--json", *journal)
    assert paused.status == 6, paused.err
    run = json.loads(paused.out)["run_id"]
    approved = command("approve", run, "--arguments", '{"n": 8}', *journal)
    assert approved.status == 0, approved.err
    resumed = command("resume", run, "-v", *journal)
    assert (resumed.status, resumed.out) == (0, "8\n"), resumed.err
    assert "pay" in resumed.err


def test_show_names_the_source_of_each_value_and_executes_nothing(
    command: Any, folder: Path
) -> None:
    (folder / "tools.py").write_text("raise SystemExit(9)\n")
    done = command("config", "show", "--timeout-ms", "9", PTC_MODEL="x:y")
    assert done.status == 0, done.err
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in done.out.splitlines()}
    assert rows["root"] == [f'"{folder}"', "default"]
    assert rows["tools"] == ['["tools.py"]', "file (ptc.toml:3)"]
    assert rows["limits.max_tool_calls"] == ["5", "file (ptc.toml:7)"]
    assert rows["limits.timeout_ms"] == ["9", "command line (--timeout-ms)"]
    assert rows["model"] == ['"x:y"', "environment (PTC_MODEL)"]
    assert "limits.max_emits" not in rows


def test_check_reports_every_problem(command: Any, folder: Path) -> None:
    done = command("config", "check")
    assert done.status == 0, done.err
    assert done.out == f"{folder}/ptc.toml: no problems found; 3 tools: price, pay, gate\n"
    (folder / "ptc.toml").write_text("tool = 1\nisolation = 'none'\n")
    done = command("config", "check")
    assert (done.status, done.out) == (2, "")
    assert done.err.splitlines() == [
        "Error: ptc.toml:1: tool is not a key (did you mean `tools` or `toolsets` or `root`?)",
        'ptc.toml:2: isolation must be "jail" or "process", not \'none\'',
    ]
    done = command("config", "check", "--no-config", PTC_ISOLATE="jail")
    assert "PTC_ISOLATE is not a variable of ptc (did you mean `PTC_ISOLATION`" in done.err


def test_table_in_pyproject_is_trusted_once(command: Any, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ptc]\ntoolsets = []\n")
    refused = command("tools")
    assert refused.status == 2
    assert "pyproject.toml:1: [tool.ptc] is not trusted" in refused.err
    assert "ptc config trust" in command("config", "show").err
    assert command("config", "trust").out == f"trusted: [tool.ptc] in {tmp_path}/pyproject.toml\n"
    assert command("tools").status == 0
    assert command("config", "show").err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "limits.max_emits"], "write KEY=VALUE, as in limits.max_emits=50"),
        (["--set", "limits.max_emit=1"], "--set: 'limits.max_emit' is not a key (did you mean"),
        (["--set", "limits.max_emits=0"], "--set limits.max_emits must be an integer from 1 to"),
        (["--set", "limits.timeout_ms=1", "--timeout-ms", "2"], "set the same key"),
        (["--set", "model=a:b", "--set", "model=a:c"], "names model twice"),
        (["--config", "ptc.toml", "--no-config"], "exclude each other"),
        (["--config", "nope.toml"], "nope.toml cannot be read: No such file"),
        (["--env", "sk-12345"], "--env 'sk-12345': write NAME=VARIABLE"),
        (["--env", "api_key=sk-12345"], "--env must be a table of names and names of environment"),
        (["--allow", "pay(amount"], "--allow: 'pay(amount' is not a rule"),
    ],
)
def test_invalid_setting_is_an_error_that_names_the_option(
    arguments: list[str], message: str, command: Any, folder: Path
) -> None:
    done = command("config", "check", *arguments)
    assert (done.status, done.out) == (2, "")
    assert message in done.err


PROGRAM = "import anyio\nfrom ptc import Session, tool\n\nanyio.run(main)\n"


@pytest.mark.parametrize("verb", ["run", "check"])
def test_host_program_is_refused_with_the_command_that_runs_it(
    verb: str, command: Any, script: Any
) -> None:
    done = command(verb, script(PROGRAM))
    assert (done.status, done.out) == (2, "")
    assert done.err == (
        "Error: 'script.py' is a Python program that uses ptc, not a script for ptc. Run it with: "
        "python script.py\n"
    )


def test_verbose_writes_the_table_of_calls_to_a_pipe(command: Any, folder: Path) -> None:
    quiet, loud = command("run", "order.py"), command("run", "order.py", "-v")
    assert quiet.err == ""
    assert quiet.out == loud.out
    rows = [line.split("\t") for line in loud.err.splitlines()]
    assert [row[1] for row in rows if len(row) > 2 and row[0].isdigit()] == ["price", "pay", "pay"]
