"""A command in one line: split as a shell does, or refused because only a shell can do it."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ptc_tools.verify._command_line import split_command_line


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("pytest -q tests/core", ["pytest", "-q", "tests/core"]),
        ("  a\t'b  c'  \"d e\"f ", ["a", "b  c", "d ef"]),
        (r"a b\ c '*' '$HOME' \*", ["a", "b c", "*", "$HOME", "*"]),
        ("grep '^x|y$' \"cost: 5$\" a~b c#d", ["grep", "^x|y$", "cost: 5$", "a~b", "c#d"]),
        ("sh -c 'a | b && c > d'", ["sh", "-c", "a | b && c > d"]),
        ("a ''", ["a", ""]),
    ],
)
def test_line_is_split_as_a_shell_does(line: str, words: list[str]) -> None:
    assert split_command_line(line) == words


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("pytest | tail", "a pipe ('|' at character 8) needs a shell"),
        ("a && b", "a shell operator ('&' at character 3)"),
        ("a; b", "a shell operator"),
        ("a > log", "a redirection"),
        ("a <in", "a redirection"),
        ("ruff check *.py", "a glob ('*' at character 12)"),
        ("pytest t.py::test[x]", "a glob"),
        ("ls a?", "a glob"),
        ("a $HOME", "an expansion"),
        ('a "$(id)"', "an expansion in quotes"),
        ('a "`id`"', "an expansion in quotes"),
        ('a "\\$HOME"', "an expansion in quotes"),
        ("a `id`", "a command substitution"),
        ("(a)", "a shell operator"),
        ("~/bin/a", "a home folder"),
        ("a # later", "a comment"),
        ("a\nb", "a line break"),
        ("a \\\nb", "a continued line"),
        ("CI=1 pytest", "it starts with the variable CI; pass env={'CI': ...} instead"),
        ("a 'b", "no closing quotation; close it"),
        ("a\\", "no escaped character"),
        (" ", "it names no program"),
        ("'' a", "it names no program"),
    ],
)
def test_line_that_needs_a_shell_is_refused(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        split_command_line(line)
    assert why in str(caught.value)
    if "needs a shell" in str(caught.value):
        assert "Write sh -c '...'" in str(caught.value)


PIECES = [
    *(
        "a",
        "b",
        " ",
        "\t",
        "'c d'",
        '"e f"',
        "''",
        "'",
        '"',
        "\\",
        "\\'",
        '\\"',
        "\\ ",
        '"\\""',
        '"\\a"',
    ),
    *("'\\'", "~", "#", "=", "{a,b}", "!", "-", "$", '"$"', "*", "]", "%", "'*|$x'", '"*|;"'),
]


@pytest.mark.slow
@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
@example('a "\\a" \'\\\' "\\\\" "\\""')
@example("a {a,b} !a =b")
@settings(deadline=None)
def test_accepted_line_has_the_words_that_a_shell_finds(line: str) -> None:
    try:
        words = split_command_line(f"printf %s\\\\n {line}")
    except ValueError:
        return
    done = subprocess.run(["sh", "-c", f"printf '%s\\n' {line}"], capture_output=True, check=False)
    assert done.stdout.decode() == "".join(f"{word}\n" for word in words[2:] or [""])
