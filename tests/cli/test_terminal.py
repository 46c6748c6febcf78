"""``ptc`` on a terminal: progress, the value, the table; Ctrl-C; what must not reach the screen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ptc._cli._terminal import safe

BUSY = """
async def run(ctx, inputs):
    print("first line")
    print("second ", end="")
    one, two = ctx.slow(0.9), ctx.slow(seconds=0.6)
    try:
        await ctx.refuse("because")
    except ToolError:
        print("line")
    await two
    print("third line")
    await one
    return {"done": True}
"""


def test_progress_is_shown_and_replaced_by_the_value_and_the_table(
    terminal: Any, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(BUSY)
    shown = terminal("run", "script.py", "--toolset", "shelf")
    shown.read_until(b"2 running, 1 done")
    shown.read_until(b'{"seconds":0.9}')
    assert shown.end() == 0
    assert b"third line" in shown.written
    screen = shown.screen()
    assert screen[:6] == ["first line", "second line", "third line", "{", '  "done": true', "}"]
    assert screen[6].startswith("completed in ")
    assert screen[6].endswith(" ms, 3 tool calls")
    assert screen[7].split() == ["#", "tool", "status", "ms", "bytes", "arguments", "error"]
    rows = [line.split() for line in screen[9:12]]
    assert [row[:3] for row in rows] == [
        ["1", "slow", "succeeded"],
        ["2", "slow", "succeeded"],
        ["3", "refuse", "failed"],
    ]
    assert rows[2][5:] == ['{"why":"because"}', "refused:", "no:", "because"]
    assert "running" not in "\n".join(screen)
    # The cursor, hidden while the display was there, is back.
    assert shown.written.rindex(b"\x1b[?25h") > shown.written.rindex(b"\x1b[?25l")


def test_ctrl_c_interrupts_the_run_and_leaves_no_process(
    terminal: Any, tmp_path: Path, processes: Any, wait_until_gone: Any
) -> None:
    (tmp_path / "script.py").write_text(
        "async def run(ctx, inputs):\n    await ctx.add(1)\n    await ctx.slow(60)\n"
    )
    shown = terminal("run", "script.py", "--toolset", "shelf")
    shown.read_until(b"1 running, 1 done")
    below = processes(shown.pid)
    assert below
    shown.press(b"\x03")
    assert shown.end() == 130
    wait_until_gone(below)
    screen = "\n".join(shown.screen())
    assert "cancelled in " in screen
    assert "interrupted after 2 tool calls" in screen
    assert "Traceback" not in screen


BLOCKING = """
import ptc


@ptc.tool
def block() -> str:
    \"\"\"Wait for a writer.\"\"\"
    print("begun", flush=True)
    with open("pipe") as pipe:
        return pipe.read()
"""


@pytest.mark.parametrize("command", ["run", "call"])
def test_second_ctrl_c_abandons_a_tool_that_blocks(
    terminal: Any, tmp_path: Path, command: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "tools.py").write_text(BLOCKING)
    (tmp_path / "script.py").write_text("async def run(ctx, inputs):\n    await ctx.block()\n")
    shown = terminal(command, "script.py" if command == "run" else "block", "--tools", "tools.py")
    shown.read_until(b"begun")
    shown.press(b"\x03")
    shown.read_until(b"waiting for block; Ctrl-C again to abandon it")
    shown.press(b"\x03")
    assert shown.end() == 130
    assert "Traceback" not in "\n".join(shown.screen())


def test_interrupted_command_ends_with_the_tool_that_blocks(terminal: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "tools.py").write_text(BLOCKING)
    shown = terminal("call", "block", "--tools", "tools.py")
    shown.read_until(b"begun")
    shown.press(b"\x03")
    shown.read_until(b"waiting for block")
    (tmp_path / "pipe").write_text("late")
    assert shown.end() == 130
    assert "Traceback" not in "\n".join(shown.screen())


def test_script_output_cannot_control_the_terminal(terminal: Any, tmp_path: Path) -> None:
    # `screen_of` fails on any sequence but those of the display.
    (tmp_path / "script.py").write_text(
        "def run(ctx, inputs):\n"
        "    print('\\x1b]0;title\\x07\\x9b2J\\r\\u202egpj.exe')\n"
        "    ctx.emit('\\x1b]52;c;x\\x07')\n"
        "    raise ValueError('\\x1b[2J\\x9d')\n"
    )
    shown = terminal("run", "script.py", "--toolset", "shelf")
    assert shown.end() == 1
    screen = shown.screen()
    assert screen[0] == r"\x1b]0;title\x07\x9b2J\r\u202egpj.exe"
    assert screen[1] == r"Error: the script failed in line 4: ValueError: \x1b[2J\x9d"
    assert "\u202e" not in shown.written.decode()
    assert "\x9b" not in shown.written.decode()


@pytest.mark.slow
def test_value_on_a_terminal_is_escaped_and_a_string_is_printed_as_text(
    terminal: Any, tmp_path: Path
) -> None:
    (tmp_path / "text.py").write_text("def run(ctx, inputs): return 'two\\nlines \\x1b[2J[bold]'")
    shown = terminal("run", "text.py", "--toolset", "shelf")
    assert shown.end() == 0
    assert shown.screen()[:2] == ["two", r"lines \x1b[2J[bold]"]
    (tmp_path / "data.py").write_text("def run(ctx, inputs): return ['\\x9b2J', '[/]']")
    shown = terminal("run", "data.py", "--toolset", "shelf")
    assert shown.end() == 0
    assert shown.screen()[:4] == ["[", '  "\\u009b2J",', '  "[/]"', "]"]


@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_quick_run_without_colour_sends_no_escape_sequence(
    terminal: Any, tmp_path: Path, setting: dict[str, str]
) -> None:
    (tmp_path / "script.py").write_text(
        "async def run(ctx, inputs):\n    await ctx.add(1)\n    raise ValueError('no')\n"
    )
    shown = terminal("run", "script.py", "--toolset", "shelf", **setting)
    assert shown.end() == 1
    assert b"\x1b" not in shown.written
    assert b"add" in shown.written


@pytest.mark.slow
def test_long_table_ends_with_the_number_of_omitted_rows(terminal: Any, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "async def run(ctx, inputs):\n    for n in range(42): await ctx.add(n)\n"
    )
    shown = terminal("run", "script.py", "--toolset", "shelf")
    assert shown.end() == 0
    screen = [line for line in shown.screen() if line]
    assert screen[-2] == "and 12 more (--json shows all)"
    assert screen[-1].startswith("to make it a tool: ptc save ")
    assert screen[-3].split()[:3] == ["30", "add", "succeeded"]


def test_output_of_a_direct_call_cannot_control_the_terminal(terminal: Any) -> None:
    shown = terminal("call", "escape", "--toolset", "shelf")
    assert shown.end() == 0
    assert shown.screen()[0] == r"\x1b[2Jcleared"


@pytest.mark.slow
def test_tables_are_drawn_on_a_terminal(terminal: Any) -> None:
    shown = terminal("tools", "--toolset", "shelf")
    assert shown.end() == 0
    screen = shown.screen()
    assert screen[0].split() == ["tool", "parameters", "side", "effect", "description"]
    assert screen[2].split() == ["add", "a", "[b]", "no", "Add", "two", "numbers."]


def test_safe_escapes_control_characters_only() -> None:
    assert safe("tab\tline\nπ 日本 🎉") == "tab\tline\nπ 日本 🎉"
    assert safe("\x00\x7f\x85\ud800") == r"\x00\x7f\x85\ud800"
