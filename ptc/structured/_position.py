"""Describe where a text stops being JSON: line, column and an excerpt."""

from __future__ import annotations

import json
import re

__all__ = ["describe_unreadable"]

EXCERPT_CHARS = 30
"""Characters before and after the position."""
_OPENER = re.compile(r"[{\[]")


def describe_unreadable(text: str, otherwise: str = "the JSON of the answer is ambiguous") -> str:
    """Return a sentence about the first position at which `text` is not JSON.

    Args:
        text: The model's answer.
        otherwise: The sentence if its first value is valid JSON.
    """
    start = _OPENER.search(text)
    if start is None:
        shown = json.dumps(text.strip()[: 2 * EXCERPT_CHARS], ensure_ascii=False)
        return f"the answer contains no JSON value; it starts with {shown}"
    try:
        json.JSONDecoder(strict=True).raw_decode(text, start.start())
    except json.JSONDecodeError as error:
        position, reason = error.pos, error.msg
    except RecursionError:
        return "the JSON of the answer nests too deep"
    except ValueError:
        # `sys.set_int_max_str_digits`: the only other error of this decoder.
        return "the JSON of the answer has a number of more than 4,300 digits"
    else:
        return otherwise
    if not text[position:].strip() or reason.startswith("Unterminated string"):
        excerpt = json.dumps(text.rstrip()[-EXCERPT_CHARS:], ensure_ascii=False)
        return f"the answer ends before its JSON value does, after {excerpt}"
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    before, after = text[max(0, position - EXCERPT_CHARS) : position], text[position:]
    excerpt = json.dumps(before, ensure_ascii=False) + " and before "
    excerpt += json.dumps(after[:EXCERPT_CHARS], ensure_ascii=False)
    return (
        f"the answer is not JSON at line {line}, column {column}, after {excerpt}: "
        f"{reason[:1].lower()}{reason[1:]}"
    )
