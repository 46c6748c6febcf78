"""The question about a call that requires approval, on a terminal."""

from __future__ import annotations

import json
import os
import pwd
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc._cli._pending_call import format_age, visible
from ptc._runs._history import History
from ptc._runs._lazy_journal import LazyJournal
from ptc.journal._journal import DecisionRow
from ptc.journal._location import journal_of

Terminal = Callable[..., Any]

PAY = """
async def run(ctx, inputs):
    print("before")
    receipt = await ctx.pay(inputs["cents"])
    print("after")
    return receipt
"""
RUN = ("run", "script.py", "--toolset", "shelf", "--allow", "pay,gate,save")
MENU = b"[l]ater"


@pytest.fixture
def ask(terminal: Terminal, script: Callable[[str], str]) -> Callable[..., Any]:
    """Start a run that asks about the call ``pay(cents=500)``, and wait for the question."""

    def start(*arguments: str, source: str = PAY, **environment: str) -> Any:
        script(source)
        shown = terminal(*RUN, "--input", "cents=500", *arguments, **environment)
        shown.read_until(MENU)
        return shown

    return start


def paid(folder: Path) -> list[str]:
    file = folder / "paid.txt"
    return file.read_text().splitlines() if file.exists() else []


def answer(shown: Any, text: str, until: bytes) -> None:
    """Type a line, and wait for a text that follows it."""
    start = len(shown.written)
    shown.press(f"{text}\n".encode())
    shown.read_until(until, start)


def decision(folder: Path) -> DecisionRow:
    """Return the only decision about the newest run."""

    async def read() -> DecisionRow:
        history = History(LazyJournal(journal_of(folder.resolve())))
        (run,) = await history.runs(1)
        (found,) = (await history.recorded(run.run_id)).decisions
        await history.close()
        return found

    return anyio.run(read)


def test_approved_call_is_made_and_the_run_completes(ask: Any, tmp_path: Path) -> None:
    shown = ask()
    screen = shown.screen()
    at = screen.index("Approval required:")
    run_id = screen[at + 1].rpartition(" ")[2]
    assert screen[at + 1] == f"pay, call 1 of run {run_id}"
    assert screen[at + 2].startswith("  requested ")
    assert screen[at + 3] == '  script.py:4: receipt = await ctx.pay(inputs["cents"])'
    assert screen[at + 4] == "  | Pay 500 cents to ann?"
    assert '      "cents": 500,' in screen
    answer(shown, "a", b"Approved by")
    assert shown.end() == 0
    assert paid(tmp_path) == ["500 ann "]
    assert shown.screen().count("before") == 1, "output is not repeated when the run resumes"
    assert '  "cents": 500,' in shown.screen()
    made = decision(tmp_path)
    assert (made.action, made.by) == ("approve", pwd.getpwuid(os.getuid()).pw_name)


def test_rejected_call_raises_in_the_script_with_the_reason(ask: Any, tmp_path: Path) -> None:
    shown = ask("--as", "bob")
    answer(shown, "reject", b"Reason")
    answer(shown, "too much", b"Rejected by bob.")
    assert shown.end() == 1
    assert "rejected by bob: too much" in " ".join(shown.screen())
    assert paid(tmp_path) == []
    made = decision(tmp_path)
    assert (made.action, made.by, made.comment) == ("reject", "bob", "too much")


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(b"l\n", id="later", marks=pytest.mark.slow),
        pytest.param(b"\x03", id="ctrl-c"),
        pytest.param(b"\x04", id="ctrl-d", marks=pytest.mark.slow),
    ],
)
def test_run_pauses_if_the_question_is_left(
    key: bytes, ask: Any, command: Any, tmp_path: Path
) -> None:
    shown = ask()
    shown.press(key)
    assert shown.end() == 6
    assert paid(tmp_path) == []
    (waiting,) = json.loads(command("approvals", "--json").out)
    run_id = waiting["run_id"]
    options = "--toolset shelf --allow pay,gate,save --resume"
    following = f"next: ptc approve {run_id} {options}"
    assert following in shown.screen()
    done = command(*following.split()[2:])
    assert (done.status, json.loads(done.out)["cents"]) == (0, 500), done.err
    assert paid(tmp_path) == ["500 ann "]


def test_enter_and_unknown_answers_ask_again(ask: Any, tmp_path: Path) -> None:
    shown = ask()
    answer(shown, "", MENU)
    answer(shown, "yes", b"'yes' is not one of the choices.")
    assert paid(tmp_path) == []
    answer(shown, "a", b"Approved by")
    assert shown.end() == 0


def test_edited_line_is_validated_shown_and_used_after_approval(ask: Any, tmp_path: Path) -> None:
    shown = ask()
    answer(shown, "e", b"Enter keeps them")
    answer(shown, "{oops", b"The arguments are not valid: the text is not JSON")
    answer(shown, "", b"Enter keeps them")
    answer(shown, '{"cents": "many"}', b"The arguments are not valid: ")
    answer(shown, "", b"Enter keeps them")
    answer(shown, '{"sents": 3}', b"The arguments are not valid: ")
    answer(shown, "", b"Enter keeps them")
    answer(shown, '{"cents": 40, "to": "bob"}', MENU)
    assert '      "cents": 40,' in shown.screen()
    assert paid(tmp_path) == [], "an edit is not an approval"
    answer(shown, "a", b"Approved by")
    assert shown.end() == 0
    assert paid(tmp_path) == ["40 bob "]
    assert '{"cents":40,"to":"bob"}, the script requested {"cents":500}' in "".join(shown.screen())
    assert json.loads(decision(tmp_path).value) == {"cents": 40, "to": "bob"}


EDITOR = """
import json, os, sys
path = sys.argv[-1]
assert os.isatty(0) and os.isatty(1), "an editor needs the terminal"
assert os.stat(path).st_mode & 0o077 == 0 or os.stat(os.path.dirname(path)).st_mode & 0o077 == 0
data = json.load(open(path))
assert data == {"cents": 500, "to": "ann", "note": "goodwill"}, data
data["cents"] = 450
json.dump(data, open(path, "w"))
"""


def test_editor_starts_with_the_arguments_and_the_proposed_values(ask: Any, tmp_path: Path) -> None:
    (tmp_path / "editor.py").write_text(EDITOR)
    shown = ask(EDITOR=f"{sys.executable} {tmp_path / 'editor.py'}")
    assert "  values that the tool proposes, for [e]dit:" in shown.screen()
    answer(shown, "e", MENU)
    assert '      "cents": 450,' in shown.screen()
    answer(shown, "a", b"Approved by")
    assert shown.end() == 0
    assert paid(tmp_path) == ["450 ann goodwill"]


def test_editor_that_fails_leaves_the_arguments_unchanged(ask: Any, tmp_path: Path) -> None:
    shown = ask(VISUAL="/no/such/editor")
    answer(shown, "e", b"The arguments are unchanged.")
    assert "the editor '/no/such/editor' cannot be started" in " ".join(shown.screen())
    answer(shown, "a", b"Approved by")
    assert shown.end() == 0
    assert paid(tmp_path) == ["500 ann "]


def test_each_pending_call_is_asked_about_once(ask: Any, tmp_path: Path) -> None:
    both = (
        "import asyncio\nasync def run(ctx, inputs):\n"
        "    return await asyncio.gather(ctx.pay(1), ctx.pay(2), ctx.pay(3))\n"
    )
    shown = ask(source=both)
    answer(shown, "a", MENU)
    answer(shown, "l", MENU)
    answer(shown, "a", b"paused: call 2, pay")
    assert shown.end() == 6
    assert shown.written.count(b"Approval required:") == 3
    assert sorted(paid(tmp_path)) == ["1 ann ", "3 ann "]


@pytest.mark.slow
def test_other_decision_ends_the_question(ask: Any, command: Any, tmp_path: Path) -> None:
    shown = ask()
    (waiting,) = json.loads(command("approvals", "--json").out)
    assert command("approve", waiting["run_id"], "--as", "carol").status == 0
    assert shown.end() == 0
    assert "Somebody else has decided on this call." in shown.screen()
    assert paid(tmp_path) == ["500 ann "]


@pytest.mark.slow
def test_run_that_somebody_else_resumed_is_reported_with_its_result(
    ask: Any, command: Any, tmp_path: Path
) -> None:
    shown = ask()
    (waiting,) = json.loads(command("approvals", "--json").out)
    done = command("approve", waiting["run_id"], "--toolset", "shelf", "--resume")
    assert done.status == 0, done.err
    assert shown.end() == 0
    assert '  "cents": 500,' in shown.screen()
    assert paid(tmp_path) == ["500 ann "], "it was made once"


def test_sigterm_at_the_question_ends_the_command_and_leaves_the_run_paused(
    ask: Any, command: Any, processes: Any, wait_until_gone: Any
) -> None:
    shown = ask()
    below = processes(shown.pid)
    os.kill(shown.pid, signal.SIGTERM)
    assert shown.end() == 143
    wait_until_gone(below)
    assert b"next: ptc approve " in shown.written
    assert len(json.loads(command("approvals", "--json").out)) == 1


def test_keys_pressed_before_the_question_do_not_answer_it(
    terminal: Terminal, script: Callable[[str], str], tmp_path: Path
) -> None:
    script(
        "async def run(ctx, inputs):\n    await ctx.announce(0.5)\n    return await ctx.pay(7)\n"
    )
    shown = terminal("run", "script.py", "--toolset", "shelf", "--allow", "pay,announce")
    shown.read_until(b"begun")
    shown.press(b"a\n")
    shown.read_until(MENU)
    shown.press(b"\x04")
    assert shown.end() == 6
    assert paid(tmp_path) == []


def test_arguments_cannot_imitate_the_question(ask: Any) -> None:
    source = (
        "async def run(ctx, inputs):\n"
        "    to = 'ann\\n  arguments:\\n    {}\\nApproved by root.\\u200b\\x1b[2J'\n"
        "    return await ctx.pay(1, to)\n"
    )
    shown = ask(source=source)
    screen = shown.screen()
    assert "Approved by root." not in screen
    assert any(line.startswith("  | Approved by root.") for line in screen)
    assert any("\\u200b" in line for line in screen)
    shown.press(b"\x03")
    assert shown.end() == 6


def test_long_arguments_are_truncated_visibly_and_shown_whole_on_request(ask: Any) -> None:
    source = "async def run(ctx, inputs):\n    return await ctx.pay(1, 'x' * 5000 + 'END')\n"
    shown = ask(source=source)
    arguments = shown.written.partition(b"arguments:")[2]
    assert b"END" not in arguments
    assert b"more characters of the arguments are not shown" in arguments
    answer(shown, "v", MENU)
    assert b"END" in shown.written.partition(b"arguments:")[2]
    shown.press(b"l\n")
    assert shown.end() == 6


@pytest.mark.slow
def test_call_with_content_that_is_not_recorded_cannot_be_edited(ask: Any) -> None:
    source = "async def run(ctx, inputs):\n    return await ctx.save('a.txt', 'content')\n"
    shown = ask(source=source)
    assert b"[e]dit" not in shown.written
    assert b"sha256" in shown.written
    answer(shown, "e", b"'e' is not one of the choices.")
    answer(shown, "a", b"Approved by")
    assert shown.end() == 0


@pytest.mark.slow
def test_no_input_pauses_on_a_terminal(terminal: Terminal, script: Callable[[str], str]) -> None:
    script(PAY)
    shown = terminal(*RUN, "--input", "cents=1", "--no-input")
    assert shown.end() == 6
    assert MENU not in shown.written
    assert b"next: ptc approve " in shown.written


@pytest.mark.slow
def test_run_recorded_in_memory_is_asked_about_and_says_that_later_is_impossible(
    terminal: Terminal, script: Callable[[str], str], tmp_path: Path
) -> None:
    script(PAY)
    shown = terminal(*RUN, "--input", "cents=1", "--journal", ":memory:")
    shown.read_until(MENU)
    shown.press(b"l\n")
    assert shown.end() == 6
    assert b"recorded in memory only" in shown.written
    shown = terminal(*RUN, "--input", "cents=1", "--journal", ":memory:")
    shown.read_until(MENU)
    answer(shown, "a", b"Approved by")
    assert shown.end() == 0
    assert paid(tmp_path) == ["1 ann "]


@pytest.mark.slow
def test_resume_asks_on_a_terminal(terminal: Terminal, command: Any, script: Any) -> None:
    done = command("run", script(PAY), *RUN[2:], "--input", "cents=9")
    assert done.status == 6
    run_id = json.loads(command("approvals", "--json").out)[0]["run_id"]
    shown = terminal("resume", run_id[:8], "--toolset", "shelf", "--as", "dora")
    shown.read_until(MENU)
    answer(shown, "a", b"Approved by dora.")
    assert shown.end() == 0


def test_visible_escapes_only_characters_that_a_terminal_does_not_show() -> None:
    assert visible("π 日本 🎉\n") == "π 日本 🎉\n"
    assert visible("a\u200bb\u2028c\ufeff") == r"a\u200bb\u2028c\ufeff"


def test_age_is_in_its_largest_unit() -> None:
    ages = [-5, 999, 1_000, 119_000, 7_200_000, 3 * 86_400_000]
    words = ["a moment", "a moment", "1 second", "1 minute", "2 hours", "3 days"]
    assert [format_age(ms) for ms in ages] == words
