"""The commands that save a run as a tool, and that list, show and delete saved programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SUM = '''
async def run(ctx, inputs):
    """Add numbers, and say it aloud if asked."""
    total = 0
    for number in inputs["numbers"]:
        total = await ctx.add(a=total, b=number)
    if inputs["aloud"]:
        await ctx.shout(text=str(total))
    return {"total": total}
'''
ADD = "async def run(ctx, inputs): return await ctx.add(a=1)"
SHELF = ("--toolset", "shelf")


@pytest.fixture
def run_id(command: Any, script: Any) -> str:
    """A run that completed."""
    inputs = ("--input", "numbers=[1, 2]", "--input", "aloud=false")
    done = command("run", script(SUM), *inputs, *SHELF, "--allow", "add,shout", "-v", "--json")
    assert done.status == 0, done.err
    return str(json.loads(done.out)["run_id"])


def test_run_is_saved_called_and_listed(command: Any, run_id: str) -> None:
    saved = command("save", run_id[:8], "total", *SHELF)
    assert saved.status == 0, saved.err
    assert "saved total, version 1: " in saved.out
    assert "its tools: add, shout" in saved.out
    called = command("call", "total", '{"numbers": [3, 4], "aloud": false}', *SHELF)
    assert (called.status, json.loads(called.out)) == (0, {"total": 7}), called.err
    listed = command("programs", "list").out
    assert listed.startswith("total\t1\t20")
    assert listed.endswith("add, shout\tAdd numbers, and say it aloud if asked.\n")


@pytest.mark.slow
def test_damaged_program_is_named_by_every_command_and_can_be_deleted(
    command: Any, run_id: str, tmp_path: Path
) -> None:
    assert command("save", run_id, "total", *SHELF).status == 0
    shown = command("programs", "show", "total").out
    assert "tool       shout, with a side effect" in shown
    assert "parameter  numbers: array of integer" in shown
    assert shown.endswith(SUM)
    (tmp_path / ".ptc" / "programs" / "total" / "1" / "program.py").write_text("")
    broken = command("tools", *SHELF)
    assert broken.status == 2
    assert "ptc programs delete total --version 1" in broken.err
    listed = command("programs", "list")
    assert (listed.status, listed.out) == (2, "")
    assert "was changed after it was saved" in listed.err
    deleted = command("programs", "delete", "total", "--version", "1")
    assert (deleted.status, deleted.out) == (0, "deleted total, version 1\n")
    assert command("programs", "list", "--json").out.strip() == "[]"


@pytest.mark.slow
def test_options_of_save_narrow_the_program_and_describe_its_inputs(
    command: Any, run_id: str, tmp_path: Path
) -> None:
    schema = {
        "type": "object",
        "properties": {
            "numbers": {"type": "array", "items": {"type": "integer"}},
            "aloud": {"type": "boolean", "default": False},
        },
    }
    (tmp_path / "in.json").write_text(json.dumps(schema))
    (tmp_path / "out.json").write_text('{"type": "object", "required": ["total"]}')
    saved = command(
        *("save", run_id, "total", "--description", "Add.", "--allow", "add(b<=10)", *SHELF),
        *("--input-schema", "in.json", "--output-schema", "out.json", "--json"),
    )
    assert saved.status == 0, saved.err
    row = json.loads(saved.out)
    assert (row["description"], row["allowed_tools"]) == ("Add.", ["add(b <= 10)"])
    assert row["output_schema"]["required"] == ["total"]
    used = command("call", "total", '{"numbers": [3]}', *SHELF)
    assert json.loads(used.out) == {"total": 3}
    over = command("call", "total", '{"numbers": [30]}', *SHELF)
    assert over.status == 1
    assert "these arguments are not allowed" in over.err
    again = command("save", run_id, "total", *SHELF)
    assert "saved total, version 2" in again.out
    assert json.loads(command("programs", "show", "total", "--json").out)["version"] == 2
    first = command("programs", "show", "total", "--version", "1", "--json")
    assert json.loads(first.out)["description"] == "Add."


@pytest.mark.slow
def test_wrong_save_says_what_to_do(command: Any, run_id: str, script: Any) -> None:
    cases = [
        (("save", "nope", "total"), "there is no run 'nope'"),
        (("save", run_id, "add"), "there is a tool of that name; choose another name"),
        (("save", run_id, "../x"), "cannot name a program"),
        (("save", run_id, "total", "--allow", "add("), "--allow: 'add('"),
        (("programs", "show", "total"), "there is no saved program 'total'; programs: none"),
        (("programs", "delete", "total"), "there is no saved program 'total'"),
    ]
    for words, message in cases:
        options = SHELF if words[0] == "save" else ()
        done = command(*words, *options)
        assert done.status in (1, 2)
        assert message in done.err
    failed = command("run", script("def run(ctx, inputs): return 1 / 0"), "--json")
    name = json.loads(failed.out)["run_id"]
    refused = command("save", name, "total")
    assert (refused.status, "it is failed; save a script that completed" in refused.err) == (
        2,
        True,
    )


@pytest.mark.slow
def test_report_of_a_run_names_the_command_that_saves_it(command: Any, script: Any) -> None:
    done = command("run", script(ADD), *SHELF, "-v")
    assert "to make it a tool: ptc save " in done.err
    assert " NAME --toolset shelf --description TEXT\n" in done.err
    documented = ADD.replace("return", '"Add."; return')
    assert " NAME --toolset shelf\n" in command("run", script(documented), *SHELF, "-v").err
    for name, words in (("def run(ctx, inputs): return 1", ()), (ADD, ("--journal", ":memory:"))):
        quiet = command("run", script(name), *SHELF, "-v", *words)
        assert quiet.status == 0
        assert "ptc save" not in quiet.err
