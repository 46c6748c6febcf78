"""Text about a pending call, for the person who decides on it.

Rule 1: text of a script or a tool cannot imitate the command: each of its lines is indented, and
    characters that a terminal does not show are escaped.
    tests/cli/test_ask.py::test_arguments_cannot_imitate_the_question
Rule 2: arguments are shown whole, or the number of characters that are not shown is stated.
    tests/cli/test_ask.py::test_long_arguments_are_truncated_visibly_and_shown_whole_on_request
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .._records._result import PendingCall

__all__ = ["ARGUMENT_CHARS", "describe_call", "format_age", "one_line", "script_line", "visible"]

ARGUMENT_CHARS = 2_000
_LINE_CHARS = 200
_INVISIBLE = {"Cf", "Zl", "Zp"}
"""Categories of Unicode: format characters, such as a zero width space, and separators of lines."""
_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def visible(text: str) -> str:
    """Return `text` with every character that a terminal does not show escaped."""
    if text.isascii():
        return text
    return "".join(
        c.encode("unicode_escape").decode() if unicodedata.category(c) in _INVISIBLE else c
        for c in text
    )


def describe_call(
    call: PendingCall, filename: str, source: str, now_ms: int, max_chars: int = ARGUMENT_CHARS
) -> list[str]:
    """Describe a call that requires approval.

    Args:
        call: The call.
        filename: Name of its script.
        source: Text of its script.
        now_ms: The time, in milliseconds since 1970.
        max_chars: Characters of the arguments to show.

    Returns:
        Lines of text.
    """
    from ._terminal import pretty_json

    arguments = visible(pretty_json(call.arguments))
    rest = len(arguments) - max_chars
    rows = [f"{call.tool}, call {call.call} of run {call.run_id}", f"  {_times(call, now_ms)}"]
    if line := script_line(call, source):
        rows.append(f"  {filename}:{call.line}: {line}")
    rows += _indent(visible(call.prompt), "  | ")
    rows += ["  arguments:", *_indent(arguments[:max_chars], "    ")]
    if rest > 0:
        rows.append(f"  ... {rest:,} more characters of the arguments are not shown")
    return rows


def script_line(call: PendingCall, source: str) -> str:
    """Return the line of the script that made the call; empty if a tool made it."""
    lines = source.splitlines()
    if call.line is None or not 1 <= call.line <= len(lines):
        return ""
    return one_line(lines[call.line - 1].strip())


def one_line(text: str, max_chars: int = _LINE_CHARS) -> str:
    """Return `text` in one line of visible characters, truncated."""
    text = visible(" ".join(text.split()))
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def format_age(ms: int) -> str:
    """Format a period in its largest unit: ``3 minutes``."""
    seconds = max(0, ms // 1000)
    for unit, size in _UNITS:
        if seconds >= size:
            number = seconds // size
            return f"{number} {unit}{'' if number == 1 else 's'}"
    return "a moment"


def _times(call: PendingCall, now_ms: int) -> str:
    text = f"requested {format_age(now_ms - call.requested_ms)} ago"
    if call.expires_ms is None:
        return text
    if now_ms > call.expires_ms:
        return f"{text}; expired: it counts as rejected when the run is resumed"
    return f"{text}, expires in {format_age(call.expires_ms - now_ms)}"


def _indent(text: str, margin: str) -> list[str]:
    # `splitlines` also splits at characters that move a terminal's cursor to another line.
    return [f"{margin}{line}" for line in text.splitlines()]
