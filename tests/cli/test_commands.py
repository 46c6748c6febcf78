"""``ptc call``, ``tools``, ``doctor``, help, and commands of other packages."""

from __future__ import annotations

import json
import platform
from typing import Any

import pytest

import ptc

SHELF_TOOLS = [
    *("add", "slow", "refuse", "escape", "announce", "touch", "shout", "gate", "pay", "save")
]
SHELF = ("--toolset", "shelf")


def test_call_prints_the_text_of_the_result_for_a_model(command: Any) -> None:
    done = command("call", "slow", '{"seconds": 0}', *SHELF)
    assert (done.status, done.out, done.err) == (0, "done\n", "")


def test_call_reads_standard_input_and_prints_json_on_request(command: Any) -> None:
    done = command("call", "slow", "-", "--json", *SHELF, stdin='{"seconds": 0}')
    assert (done.status, done.out, done.err) == (0, '"done"\n', "")


def test_a_tool_that_fails_exits_with_1(command: Any) -> None:
    done = command("call", "refuse", '{"why": "x"}', *SHELF)
    assert (done.status, done.out, done.err) == (1, "", "Error [refused]: no: x\n")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["ad", '{"a": 1}'], 2, "Error: there is no tool 'ad' (did you mean `add`"),
        (["add", "{a: 1}"], 2, "Error: ARGUMENTS is not JSON: "),
        (["add", "[1]"], 2, "Error: ARGUMENTS must be a JSON object"),
        (["add", '{"aa": 1}'], 1, "Error [invalid_arguments]: add: "),
        (["add"], 1, "Error [invalid_arguments]: add: `a` is required"),
    ],
)
def test_invalid_call_is_rejected_with_the_reason(
    command: Any, arguments: list[str], status: int, message: str
) -> None:
    done = command("call", *arguments, *SHELF)
    assert (done.status, done.out) == (status, "")
    assert done.err.startswith(message)


def test_tools_are_tab_separated_lines_on_a_pipe(command: Any) -> None:
    done = command("tools", *SHELF)
    assert done.status == 0
    assert [line.split("\t") for line in done.out.splitlines()] == [
        ["add", "a [b]", "no", "Add two numbers."],
        ["slow", "seconds", "no", "Wait."],
        ["refuse", "why", "no", "Fail."],
        ["escape", "", "no", "Give text that would clear a terminal."],
        ["announce", "[seconds]", "no", "Say on standard error that it has begun, and wait."],
        ["touch", "name", "yes", "Make a file."],
        ["shout", "text", "yes", "Be heard."],
        ["gate", "n", "no", "Be asked about."],
        ["pay", "cents [to] [note]", "yes", "Pay."],
        ["save", "name text", "yes", "Save."],
    ]


def test_one_tool_is_described_in_full(command: Any) -> None:
    done = command("tools", "add", *SHELF)
    assert done.out.splitlines() == [
        "add a [b]",
        "",
        "Add two numbers.",
        "",
        "The sum is exact.",
        "",
        "a\tinteger\trequired\tThe first.",
        "b\tinteger\t2\tThe second.",
    ]
    assert "side effects" in command("tools", "touch", *SHELF).out


def test_tools_as_json_are_the_definitions_sent_to_a_model(command: Any) -> None:
    definitions = json.loads(command("tools", "--json", *SHELF).out)
    assert [sorted(row) for row in definitions] == [["description", "name", "parameters"]] * len(
        SHELF_TOOLS
    )
    assert definitions[0]["parameters"]["required"] == ["a"]
    unknown = command("tools", "addd", *SHELF)
    assert unknown.status == 2
    assert "did you mean `add`" in unknown.err


def test_broken_toolset_is_reported_without_a_traceback(command: Any) -> None:
    done = command("tools", "--toolset", "broken")
    assert (done.status, done.out) == (5, "")
    assert done.err == (
        "Error: toolset 'broken' is installed but cannot be loaded: ValueError: half written; "
        "run `ptc doctor` for the toolsets that can\n"
    )


def test_doctor_probes_both_levels_and_runs_a_script_at_each(command: Any) -> None:
    done = command("doctor", "--json")
    findings = json.loads(done.out)
    assert list(findings["levels"]) == ["jail", "process"]
    for name, level in findings["levels"].items():
        on = {layer["name"]: layer["on"] for layer in level["layers"]}
        assert on["seccomp"], name
        assert on["landlock"], name
        assert on["no_new_privs"], name
        assert (level["ok"], level["trial"]["status"]) == (True, "completed"), name
    assert (done.status, findings["problems"]) == (0, [])
    layers = {layer["name"]: layer for layer in findings["layers"]}
    assert layers["seccomp"]["on"]
    assert layers["landlock"]["on"]
    assert all(layer["on"] for layer in layers.values() if layer["required"])
    assert findings["trial"]["status"] == "completed"
    assert findings["policy"] == {"import subprocess": "rejected"}
    assert findings["python"].endswith(platform.python_version())
    toolsets = {row["name"]: row for row in findings["toolsets"]}
    assert toolsets["shelf"]["tools"] == SHELF_TOOLS
    assert toolsets["broken"]["error"] == "ValueError: half written"
    commands = {row["name"]: row["error"] for row in findings["commands"]}
    assert commands["greet"] is None
    assert commands["lacks"] == "ptc lacks needs: pip install 'ptc-cli-shelf[lacks]'"
    # It imports the packages of its extra when it is used.
    assert commands["partial"] == "ptc partial needs: pip install 'ptc-cli-shelf[partial]'"


def test_doctor_prints_text_by_default(command: Any) -> None:
    done = command("doctor")
    assert done.status == 0
    assert done.out.startswith(f"ptc {ptc.__version__}, ")
    assert "seccomp\ton, required\ton, optional\t" in done.out
    last = "{}: ok, every required kernel layer confines scripts on this machine\n"
    levels = last.format("jail") + last.format("process")
    assert levels + "reuse_workers (off by default): " in done.out
    assert "\nengine wasm " in done.out


def test_help_shows_examples_and_lists_commands_of_packages(command: Any) -> None:
    done = command("--help")
    assert done.status == 0
    for text in ("ptc run find.py --input query=TODO", "doctor", "greet", "Say hello."):
        assert text in done.out
    # Folded at a hyphen, where the names of commands leave little room.
    assert "pipinstall'ptc-cli-shelf[lacks]'" in "".join(done.out.split())
    for name in ("run", "call", "tools", "doctor"):
        text = command(name, "--help").out
        assert "Examples:" in text
        assert f"\n    ptc {name}" in text
    assert "Exit status:" in command("run", "--help").out


def test_version_option_prints_the_package_version(command: Any) -> None:
    assert command("--version").out == f"ptc {ptc.__version__}\n"


def test_unknown_command_suggests_the_nearest(command: Any) -> None:
    done = command("doctr")
    assert done.status == 2
    assert "No such command 'doctr'. Did you mean 'doctor'" in done.err


def test_package_command_runs_and_its_exit_status_is_returned(command: Any) -> None:
    done = command("greet", "--name", "Ann")
    assert (done.status, done.out) == (7, "hello Ann\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lacks", "ptc lacks needs: pip install 'ptc-cli-shelf[lacks]'"),
        (
            "absent",
            "ptc absent is not in this installation of package ptc-cli-shelf: no ptc_cli_absent",
        ),
        (
            "broken",
            "ptc broken of package ptc-cli-shelf cannot be loaded: ValueError: half written",
        ),
        (
            "number",
            "ptc number: ptc_cli_shelf:not_a_command of package ptc-cli-shelf must be a "
            "click.Command, not int",
        ),
    ],
)
def test_command_that_cannot_be_loaded_prints_a_one_line_error(
    command: Any, name: str, message: str
) -> None:
    done = command(name, "--any", "thing")
    assert (done.status, done.out, done.err) == (5, "", f"Error: {message}\n")


def test_package_cannot_replace_a_builtin_command(command: Any) -> None:
    assert "Run SCRIPT" in command("run", "--help").out
