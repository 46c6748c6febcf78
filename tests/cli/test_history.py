"""The commands that look back at runs and decide about those that wait."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import RunResult, RunWarning
from ptc._cli._next_step import report_correction
from ptc._cli._terminal import standard_error
from ptc.journal._location import journal_of
from ptc.testing import Recording

GATED = """
async def run(ctx, inputs):
    n = await ctx.add(1)
    await ctx.gate(n=n)
    return n
"""


@pytest.fixture
def paused(command: Any, script: Any) -> str:
    """A run that waits for an approval."""
    done = command("run", script(GATED), "--toolset", "shelf", "--allow", "add,gate", "--json")
    assert done.status == 6, done.err
    result = json.loads(done.out)
    assert result["status"] == "paused"
    return str(result["run_id"])


def test_paused_run_is_listed_approved_and_resumed(command: Any, paused: str) -> None:
    listed = json.loads(command("runs", "--json").out)["runs"]
    assert [(row["run_id"], row["status"]) for row in listed] == [(paused, "paused")]
    waiting = json.loads(command("approvals", "--json").out)
    assert [(w["run_id"], w["call"], w["tool"]) for w in waiting] == [(paused, "2", "gate")]
    refused = command("approve", paused, "2", "--arguments", '{"n": "x"}', "--toolset", "shelf")
    assert refused.status == 2
    assert "no decision was recorded" in refused.err
    assert command("approve", paused, "--by", "ann").status == 0
    again = command("reject", paused, "2")
    assert again.status == 2
    assert "decisions are final" in again.err
    done = command("resume", paused, "--toolset", "shelf")
    assert (done.status, json.loads(done.out)) == (0, 3), done.err
    assert command("approvals", "--json").out.strip() == "[]"


def test_command_that_continues_a_failed_run_with_effects_is_printed(capsys: Any) -> None:
    for code in ("effects_made", "not_awaited"):
        warnings = (RunWarning(code, "a warning"),)
        report_correction(standard_error(), RunResult("r", "failed", warnings=warnings))
    assert capsys.readouterr().err == "next: correct the script, then ptc resume r --script FILE\n"


def test_completed_run_that_is_resumed_names_the_command_that_runs_it_again(
    command: Any, script: Any
) -> None:
    done = json.loads(command("run", script("def run(ctx, inputs): return 1"), "--json").out)
    refused = command("resume", done["run_id"])
    assert refused.err == (
        f"Error: run {done['run_id']!r} has ended: completed; run its script again (`ptc run`, or "
        "`Session.retry`)\n"
    )


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        (("--max-tool-calls", "1"), "--max-tool-calls N"),
        (("--set", "limits.max_tool_calls=1"), "--max-tool-calls N"),
        (("--set", "limits.max_emits=1"), "--set limits.max_emits=N"),
    ],
)
def test_run_over_a_limit_names_the_command_that_continues_it(
    command: Any, script: Any, option: tuple[str, str], shown: str
) -> None:
    source = "async def run(ctx, inputs):\n    for n in range(2):\n        await ctx.add(n)\n"
    done = command("run", script(f"{source}        ctx.emit(n)\n"), "--toolset", "shelf", *option)
    assert done.status == 3, done.err
    run_id = json.loads(command("runs", "--json").out)["runs"][0]["run_id"]
    words = f"next: ptc resume {run_id} --toolset shelf {shown}"
    assert done.err.splitlines()[-1] == words
    again = command(*shlex.split(words.removeprefix("next: ptc ").replace("N", "9")))
    assert again.status == 0, again.err


@pytest.mark.slow
def test_corrected_script_continues_a_failed_run(command: Any, script: Any) -> None:
    wrong = "async def run(ctx, inputs):\n    await ctx.touch('a')\n    return {}['n']\n"
    fixed = "async def run(ctx, inputs):\n    await ctx.touch('a')\n    return await ctx.add(1)\n"
    allow = ("--toolset", "shelf", "--allow", "add,touch")
    failed = json.loads(command("run", script(wrong), *allow, "--json").out)
    assert failed["status"] == "failed"
    run_id = failed["run_id"]
    refused = command("resume", run_id, "--toolset", "shelf")
    assert refused.status != 0
    assert "pass it to `resume` as source= (`--script FILE`)" in refused.err
    done = command("resume", run_id, "--script", script(fixed), "--toolset", "shelf")
    assert (done.status, json.loads(done.out)) == (0, 3), done.err
    assert "{}['n']" in command("show", f"{run_id[:8]}.1").out
    assert f"`ptc show {run_id}.1` shows the one before" in command("show", run_id).out
    unneeded = command("resume", run_id, "--reads", "refresh", "--toolset", "shelf")
    assert (unneeded.status, "need --script" in unneeded.err) == (2, True)


def test_show_prints_calls_beside_the_lines_of_the_script(command: Any, paused: str) -> None:
    shown = command("show", paused).out
    assert "3 |     n = await ctx.add(1)   # call 1" in shown
    assert "succeeded" in shown
    assert "requires approval" in shown


def test_show_prints_values_and_errors_of_calls_as_the_script_received_them(
    command: Any, script: Any
) -> None:
    source = "async def run(ctx, inputs):\n    await ctx.add(1)\n    await ctx.refuse('full')\n"
    run = json.loads(command("run", script(source), "--toolset", "shelf", "--json").out)
    lines = command("show", run["run_id"]).out.splitlines()
    (added,) = (line for line in lines if line.startswith("   1  add"))
    (refused,) = (line for line in lines if line.startswith("   2  refuse"))
    assert added.endswith(" ms: 3")
    assert refused.endswith(" ms: refused: no: full")
    added, refused = json.loads(command("show", run["run_id"], "--json").out)["calls"]
    assert (added["value"], added["error"]) == (3, None)
    assert (refused["value"], refused["error"]["code"]) == (None, "refused")


def test_show_lists_output_and_calls_by_time(command: Any, script: Any) -> None:
    source = "async def run(ctx, inputs):\n    print('first')\n    ctx.progress(1, 2, 'half')\n"
    source += "    ctx.emit({'n': await ctx.add(1)})\n"
    run = json.loads(command("run", script(source), "--toolset", "shelf", "--json").out)
    shown = command("show", run["run_id"], "--events").out
    expected = ("stdout  first", "progress  1 of 2 half", "1 add started", "1 add succeeded")
    places = [shown.index(text) for text in expected]
    assert places == sorted(places)
    # The call may have ended in the millisecond of the value.
    assert shown.index('emitted  {"n":') > places[1]
    data = json.loads(command("show", run["run_id"], "--events", "--json").out)
    assert [event["kind"] for event in data["events"]] == ["stdout", "progress", "emitted"]
    assert data["events"][0]["body"] == "first\n"
    assert data["calls"][0]["end"]["usage"] is None
    assert run["calls"][0]["started_ms"] > 0


@pytest.mark.slow
def test_a_run_is_exported_and_replays_without_tools(
    command: Any, paused: str, tmp_path: Path
) -> None:
    command("approve", paused, "--by", "ann", "--comment", "fine")
    command("resume", paused, "--toolset", "shelf")
    assert "[approved by ann: fine]" in command("show", paused).out
    target = tmp_path / "out.json"
    assert command("export", paused, "-o", str(target)).status == 0
    replayed = anyio.run(Recording.load(target).replay)
    assert replayed.unwrap() == 3
    again = command("replay", paused)
    assert (again.status, json.loads(again.out)) == (0, 3)
    travelled = command("replay", paused, "--until", "1")
    assert travelled.status == 0
    assert "run, line 4\n" in travelled.out
    assert "    n = 3\n" in travelled.out


def test_unknown_run_and_missing_journal_are_reported(
    command: Any, paused: str, tmp_path: Path
) -> None:
    for name in ("show", "replay", "export", "resume"):
        done = command(name, "nope")
        assert done.status == 1
        assert "there is no run 'nope'" in done.err
    empty = tmp_path / "empty"
    empty.mkdir()
    done = command("runs", "--root", str(empty))
    assert done.status == 2
    assert "there is no journal" in done.err


def test_journal_that_is_a_folder_is_reported_as_one(command: Any, tmp_path: Path) -> None:
    done = command("runs", "--journal", str(tmp_path))
    assert (done.status, done.err) == (
        2,
        f"Error: --journal {str(tmp_path)!r} is a folder; name the file in it\n",
    )


def test_forget_deletes_old_runs_but_not_paused_ones(
    command: Any, script: Any, paused: str
) -> None:
    assert command("run", script("async def run(ctx, inputs):\n    return 1\n")).status == 0
    assert len(json.loads(command("runs", "--json").out)["runs"]) == 2
    assert "0 runs deleted" in command("forget", "--older-than", "1").out
    assert len(json.loads(command("runs", "--json").out)["runs"]) == 2
    assert json.loads(command("forget", "--older-than", "0", "--json").out) == {"forgotten": 1}
    (left,) = json.loads(command("runs", "--json").out)["runs"]
    assert (left["run_id"], left["status"]) == (paused, "paused")
    assert command("forget").status == 2
    assert command("forget", "--older-than", "-1").status == 2


def test_runs_are_filtered_and_the_next_page_is_a_command(
    command: Any, script: Any, paused: str
) -> None:
    for _ in range(2):
        assert command("run", script("async def run(ctx, inputs):\n    return 1\n")).status == 0
    first = command("runs", "--status", "completed", "--since", "2h", "--limit", "1")
    (line,) = first.out.splitlines()
    words = shlex.split(first.err.partition("next page: ")[2])
    assert words[:8] == ["ptc", "runs", "--status", "completed", "--since", "2h", "--limit", "1"]
    last = command(*words[1:])
    (other,) = last.out.splitlines()
    assert line != other
    assert "completed" in line
    assert "completed" in other
    assert "next page" not in last.err
    (found,) = json.loads(command("runs", "--tool", "gate", "--json").out)["runs"]
    assert found["run_id"] == paused
    assert found["size_bytes"] > 0
    page = json.loads(command("runs", "--limit", "2", "--json").out)
    rest = json.loads(command("runs", "--after", page["next_cursor"], "--json").out)
    assert ([run["run_id"] for run in rest["runs"]], rest["next_cursor"]) == ([paused], None)
    assert command("runs", "--until", "1d").out == ""
    wrong = command("runs", "--status", "compleated")
    assert wrong.status == 2
    assert "did you mean `completed`" in wrong.err
    for option in ("--since", "--after"):
        assert command("runs", option, "soon").status == 2
    assert "1 run deleted" in command("forget", "--runs", "1").out
    assert "1 run deleted" in command("forget", "--bytes", "0").out
    (left,) = json.loads(command("runs", "--json").out)["runs"]
    assert left["run_id"] == paused


def test_rollback_reverts_calls_and_reports_the_remaining_ones(command: Any, script: Any) -> None:
    source = """
async def run(ctx, inputs):
    await ctx.touch("stuck")
    await ctx.shout("hello")
    await ctx.touch("b")
"""
    shelf = ("--toolset", "shelf")
    done = command("run", script(source), *shelf, "--allow", "touch,shout", "--json")
    run_id = json.loads(done.out)["run_id"]
    dry = json.loads(command("rollback", run_id, *shelf, "--dry-run", "--json").out)
    assert [step["status"] for step in dry["steps"]] == ["waiting", "no_revert", "waiting"]
    failed = command("rollback", run_id, *shelf)
    assert failed.status == 1
    rows = [line.split() for line in failed.out.splitlines() if line.strip()[:1] in "123"]
    assert [" ".join(row) for row in rows if row] == [
        "3 touch reverted",
        "2 shout no revert",
        "1 touch failed it is stuck",
    ]
    skipped = command("rollback", run_id, *shelf, "--skip", "1", "--json")
    assert skipped.status == 0, skipped.err
    assert [step["status"] for step in json.loads(skipped.out)["steps"]] == [
        "reverted",
        "no_revert",
        "skipped",
    ]
    assert json.loads(command("runs", "--json").out)["runs"][0]["status"] == "rolled back"
    shown = command("show", run_id).out
    assert shown.count("[revert: ") == 2
    assert "rolled back; it was completed" in shown


# --- where the journal is ---


@pytest.mark.slow
def test_journal_option_names_the_file_for_every_command(
    command: Any, script: Any, tmp_path: Path
) -> None:
    root, file = tmp_path / "root", str(tmp_path / "elsewhere" / "j")
    root.mkdir()
    at = ("--root", str(root), "--journal", file)
    shelf = ("--toolset", "shelf")
    done = command("run", script(GATED), *shelf, "--allow", "add,gate", "--json", *at)
    assert done.status == 6, done.err
    run_id = json.loads(done.out)["run_id"]
    assert command("runs", "--root", str(root)).status == 2, "the default was not used"
    assert json.loads(command("runs", "--json", *at).out)["runs"][0]["run_id"] == run_id
    assert command("approve", run_id, "2", "--arguments", '{"n": 3}', *shelf, *at).status == 0
    done = command("resume", run_id, *shelf, *at)
    assert (done.status, json.loads(done.out)) == (0, 3), done.err


@pytest.mark.parametrize("name", ["run", "mcp"])
def test_journal_inside_root_is_refused_naming_the_option_and_its_risk(
    name: str, command: Any, script: Any, tmp_path: Path
) -> None:
    source = [script("async def run(ctx, inputs):\n    return 1\n")] if name == "run" else []
    done = command(name, *source, "--root", str(tmp_path), "--journal", "j.sqlite3")
    assert done.status == 2
    assert "--journal 'j.sqlite3' lies inside the root" in done.err
    assert "Pass --journal-in-root only if every script" in " ".join(done.err.split())
    assert not (tmp_path / "j.sqlite3").exists()


def test_journal_in_root_option_allows_it(command: Any, script: Any, tmp_path: Path) -> None:
    file = script("async def run(ctx, inputs):\n    return 1\n")
    done = command("run", file, "--journal", "j.sqlite3", "--journal-in-root")
    assert (done.status, done.out) == (0, "1\n"), done.err
    assert len(json.loads(command("runs", "--journal", "j.sqlite3", "--json").out)["runs"]) == 1


@pytest.mark.slow
def test_former_journal_is_reported_with_the_command_that_reads_it(
    command: Any, paused: str, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    former = root / ".ptc" / "journal.sqlite3"
    former.parent.mkdir(parents=True)
    shutil.copy(journal_of(tmp_path.resolve()), former)
    for arguments in (["runs"], ["approve", paused], ["resume", paused]):
        done = command(*arguments, "--root", str(root))
        assert done.status == 2
        words = " ".join(done.err.split())
        assert "there is no journal of" in words
        assert f"`ptc runs --journal {former}` lists them" in words
    at = ("--root", str(root), "--journal", str(former))
    assert command("approve", paused, *at).status == 0
    assert command("resume", paused, "--toolset", "shelf", *at).status == 2
    done = command("resume", paused, "--toolset", "shelf", *at, "--journal-in-root")
    assert (done.status, json.loads(done.out)) == (0, 3), done.err
    shutil.copy(former, journal_of(root.resolve()))
    done = command("runs", "--root", str(root), "--json")
    assert [row["run_id"] for row in json.loads(done.out)["runs"]] == [paused]
    assert "note: an earlier version recorded runs in" in " ".join(done.err.split())


@pytest.mark.slow
def test_ctrl_c_during_forget_leaves_whole_runs(
    terminal: Any, command: Any, tmp_path: Path
) -> None:
    from ptc.journal import CallEnd, CallRow, RunRow, open_journal

    async def fill() -> None:
        journal = open_journal(tmp_path / "many.sqlite3")
        end = CallEnd("succeeded", True, b"1", 2, 0.0)
        for number in range(30_000):
            lease = journal.start_run(
                RunRow(f"r{number:05}", "1", "s.py", b"{}", b"{}", 7, 1.5, number)
            )
            journal.append(lease, CallRow("1", "look", b"{}", "k", False, 1, 1, 1, "", end))
            journal.end_run(lease, "completed", b"{}", number)
            if number % 500 == 499:
                await journal.barrier(lease)
        await journal.close()

    anyio.run(fill)
    at = ("--journal", str(tmp_path / "many.sqlite3"))
    shown = terminal("forget", "--runs", "10", *at)
    shown.read_until(b"deleted so far")
    shown.press(b"\x03")
    assert shown.end() == 130
    assert "the other runs are complete" in " ".join(shown.screen())
    listed = json.loads(command("runs", "--limit", "10000", *at, "--json").out)["runs"]
    assert len(listed) == 10_000
    assert {run["calls"] for run in listed} == {1}
