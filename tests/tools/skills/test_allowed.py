"""Entries of ``allowed-tools`` as an allow-list: the same or less, or an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ptc import Allow, Tool, UsageError, tool
from ptc_tools import bash, builtin, edit, grep, read
from ptc_tools.skills._allowed import AllowedTools, allowed_tools, problems_of


@tool(name="linear.create_issue", side_effect=True, idempotent=True)
def create_issue(title: str) -> str:
    """Create an issue."""
    return title


@tool(side_effect=True, idempotent=True)
def pay(amount: int) -> int:
    """Pay."""
    return amount


TOOLS: Mapping[str, Tool] = {
    item.name: item for item in (*builtin(), create_issue, pay) if isinstance(item, Tool)
}


def translate(*entries: str) -> AllowedTools:
    return allowed_tools(entries, TOOLS)


def rule(entry: str) -> Allow:
    (found,) = translate(entry).entries
    assert isinstance(found, Allow)
    return found


def fits(entry: str, **arguments: Any) -> bool:
    return rule(entry).fits({"cwd": ".", "env": None, **arguments})


def test_public_names_and_own_names_are_tools() -> None:
    assert translate("Read", "Grep", "glob", "Bash", "MultiEdit").entries == (
        *("read", "grep", "glob", "bash", "edit"),
    )
    assert translate("mcp__linear__create_issue").entries == ("linear.create_issue",)


def test_entry_of_a_tool_that_the_caller_may_not_call_is_unavailable() -> None:
    found = allowed_tools(
        ["Read", "Write", "Bash(git:*)", "NotebookEdit"], {"read": read, "grep": grep}
    )
    assert found == AllowedTools(("read",), ("Write", "Bash(git:*)", "NotebookEdit"))


def test_patterns_select_among_the_tools_of_the_caller() -> None:
    assert allowed_tools(["gr*"], {"read": read, "grep": grep}).entries == ("grep",)
    assert allowed_tools(["*"], {"read": read, "edit": edit}).entries == ("read", "edit")


def test_without_a_list_scripts_have_the_tools_without_a_side_effect() -> None:
    found = allowed_tools(None, {"read": read, "edit": edit, "bash": bash})
    assert found == AllowedTools(("read",), ())
    assert allowed_tools([], {"read": read}) == AllowedTools((), ())


def test_rule_on_a_command_compares_its_first_words() -> None:
    assert fits("Bash(git:*)", cmd="git", args=["push"], env=None)
    assert not fits("Bash(git:*)", cmd="sh", args=["-c", "git"], env=None)
    for entry in ("Bash(git diff:*)", "Bash(git diff *)"):
        assert fits(entry, cmd="git", args=["diff", "--stat"])
        assert fits(entry, cmd="git", args=["diff"])
        assert not fits(entry, cmd="git", args=["diffx"])
        assert not fits(entry, cmd="git", args=["-C", "diff"])
        assert not fits(entry, cmd="git", args=None)
    assert fits("Bash(git status)", cmd="git", args=["status"])
    assert not fits("Bash(git status)", cmd="git", args=["status", "-s"])
    assert fits("Bash(make)", cmd="make", args=None)
    assert not fits("Bash(make)", cmd="make", args=["install"])
    assert translate("Bash(*)").entries == ("bash",)


def test_rule_on_a_command_refuses_variables_and_other_folders() -> None:
    assert not fits("Bash(./run.sh:*)", cmd="./run.sh", args=[], cwd="other")
    assert not fits("Bash(npm test)", cmd="npm", args=["test"], cwd="other")
    assert not fits("Bash(git:*)", cmd="git", args=[], env={"PATH": "bin"})
    assert not fits("Bash(git diff:*)", cmd="git", args=["diff"], env={"GIT_PAGER": "sh"})


def test_rule_on_a_path_is_a_pattern_beneath_the_root() -> None:
    assert fits("Read(src/**)", path="src/a/b.py")
    assert not fits("Read(src/**)", path="src/../key")
    assert fits("Edit(./docs/*.md)", path="docs/a.md")
    assert not fits("Write(docs/*.md)", path="docs/a/b.md")


def test_rule_of_our_own_is_accepted() -> None:
    assert fits("pay(amount <= 100)", amount=100)
    assert not fits("pay(amount <= 100)", amount=101)


@pytest.mark.parametrize(
    "entry",
    [
        "Bash(git",
        "Bash()",
        "Bash(:*)",
        "Bash(git * main)",
        "Bash(ls*)",
        "Bash(cat a | sh)",
        "Bash(a && b)",
        "Bash(echo $HOME)",
        "Bash(echo `id`)",
        "Bash(echo 'a b')",
        "Bash(a;b:*)",
        "Read(/etc/**)",
        "Read(//etc/passwd)",
        "Read(~/.ssh/*)",
        "Read(../x)",
        "Write(./)",
        "Grep(src/**)",
        "WebFetch(domain:example.com)",
        "Task(explore)",
        "pay(amount)",
        "pay(amount:*)",
        "unknown()",
        "Wri\u200bte",
        "\x1b[2JRead",
    ],
)
def test_entry_that_cannot_be_translated_is_an_error(entry: str) -> None:
    with pytest.raises(UsageError) as caught:
        translate("Read", entry)
    assert repr(entry) in str(caught.value)
    assert len(problems_of(["Read", entry])) == 1
