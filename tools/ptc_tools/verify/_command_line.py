"""Split a command line into arguments as a shell does, and refuse what only a shell can do.

Rule 1: a line is never given another meaning than in a shell: its operators, globs and expansions
    are refused, not passed on as text.
    tests/tools/verify/test_command_line.py::test_line_that_needs_a_shell_is_refused
"""

from __future__ import annotations

import re
import shlex

__all__ = ["split_command_line"]

_NAMES = {
    "|": "a pipe",
    "<": "a redirection",
    ">": "a redirection",
    "\n": "a line break",
    "`": "a command substitution",
    "$": "an expansion",
    '"': "an expansion in quotes",
    "*": "a glob",
    "?": "a glob",
    "[": "a glob",
    "~": "a home folder",
    "#": "a comment",
    "\\": "a continued line",
}
"""Names of the syntax that starts with a character; others are operators."""
_LITERAL = re.compile(
    r"""
    '[^']*'
    | "(?: [^"\\$`] | \\[^$`\n] | \$(?![\w{(@*#?$!-]) )*"
    | \\[^\n]
    | \$(?![\w{(@*#?$!-])
    | (?<=\S)[~#]
    | [^\n|&;()<>`*?\['"\\$~#]
    """,
    re.VERBOSE,
)
"""Text that a shell passes on as it is, but for the removal of quotes."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def split_command_line(line: str) -> list[str]:
    """Split a command line into the program and its arguments.

    Raises:
        ValueError: If it is empty, has an open quote, or needs a shell; the message has the remedy.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        msg = f"{str(error).lower()}; close it, or write the command as a list of arguments"
        raise ValueError(msg) from None
    at = 0
    while at < len(line):
        found = _LITERAL.match(line, at)
        if found is None:
            what = _NAMES.get(line[at], "a shell operator")
            msg = (
                f"{what} ({line[at]!r} at character {at + 1}) needs a shell, and no shell reads "
                "the command. Write sh -c '...', or quote it if it is meant literally"
            )
            raise ValueError(msg)
        at = found.end()
    if not words or not words[0].strip():
        raise ValueError("it names no program")
    if _ASSIGNMENT.match(words[0]):
        name = words[0].partition("=")[0]
        msg = f"it starts with the variable {name}; pass env={{{name!r}: ...}} instead"
        raise ValueError(msg)
    return words
