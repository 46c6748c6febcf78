"""The edits that keep the meaning of a text, each with the argument why; and their record.

What is not in this table is not done. In particular never: complete a word, number or string that
was cut; fill in a missing part; drop a part; round, clamp or shorten; choose between two readings.
An edit that needs the schema is made only where the value breaks it, and only if no other edit
would mend the same place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["EDITS", "Repair", "Repairs"]

EDITS: dict[str, str] = {
    # Around the value.
    "surrounding_text": "prose, fences, tags and tokens around the one value are not part of it",
    "thinking": "what stands in a thinking block is by its tag not the answer",
    "escaped_text": "every quote is escaped: the text was encoded once too often, which is undone",
    "missing_opener": '`"key": value` pairs are the members of one object, in no other reading',
    "items_listed": "values in a row where a list is asked for are the items of that list",
    # Syntax: another notation of the same value.
    "comment": "a comment is not data; one that speaks of omitted data stops the repair instead",
    "trailing_comma": "a comma before a closer separates nothing",
    "missing_comma": "two complete values side by side are two values",
    "separator": "`=` and `=>` between key and value mean what `:` means",
    "quotes": "another kind of quotation mark around the same text",
    "unquoted_key": "a bare word before `:` is a key",
    "unquoted_text": "a bare word where a value stands is that text, if the schema takes a text",
    "literal": "`True`, `False`, `None` are Python's words for true, false, null",
    "number_form": "`+5`, `.5`, `5.`, `1_000`, `0x1F`: other notations of exactly that number",
    "raw_control": "a line break inside a string is that line break",
    "inner_quote": "a quotation mark that cannot end the string is part of it",
    "escape": r"`\'` and `\x41` are JavaScript's and Python's notations of one character",
    "joined_strings": "`+` between two string literals joins them, as the notation says",
    "tuple": "a Python tuple is a list of the same items",
    "repeated_key": "a key given twice with the same value was given",
    "missing_closer": "the text ended after a complete value: only closers can follow",
    "extra_closer": "a closer that closes nothing",
    "wrong_closer": "a closer of the wrong kind, where one reading alone conforms",
    "moved_closer": "a closer in the wrong place, where one place alone conforms",
    # By the schema: the same value in the type that is asked for.
    "envelope": "an object with one generic key, or a tool call, around the value",
    "single_item_unwrapped": "a list of one item, where that item is asked for",
    "single_item_wrapped": "one item, where a list of such is asked for",
    "json_in_string": "a string that is JSON of the type asked for was encoded once too often",
    "text_to_number": "a text that is exactly a number, as that number",
    "text_to_boolean": "the text `true` or `false`, as that boolean",
    "text_to_null": "the text `null`, as null where a text is not allowed",
    "number_to_text": "a number as the characters it was written with",
    "boolean_to_text": "a boolean as the characters it was written with",
    "allowed_spelling": "an allowed value in other case or with other separators, if only one fits",
    "key_spelling": "a known key in other case or with other separators, if only one fits",
}
"""Every kind of repair, with the argument why it keeps the meaning."""

MAX_RECORDED = 50
"""How many repairs of one kind are recorded; a text in single quotes has one for each string."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One edit that was made."""

    path: str
    """JSON Pointer to the part, as it was when the edit was made; empty for the whole."""
    kind: str
    """A key of `EDITS`."""
    before: str
    """What stood there, cut to 200 characters."""
    after: str
    """What it was read as, cut to 200 characters."""


class Repairs:
    """The edits of one reading, as they are made."""

    __slots__ = ("_counts", "made")

    def __init__(self, made: tuple[Repair, ...] = ()) -> None:
        self.made = list(made)
        self._counts: dict[str, int] = {}

    def add(self, path: str, kind: str, before: Any, after: Any) -> None:
        """Record an edit; more than `MAX_RECORDED` of a kind are made, not listed."""
        assert kind in EDITS, kind  # noqa: S101  # an edit without an argument is a bug of ours
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count <= MAX_RECORDED:
            self.made.append(Repair(path, kind, _truncate(before), _truncate(after)))


def _truncate(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."
