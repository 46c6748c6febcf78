"""Records of a reading: its repairs, its open ends and the work it took.

A repair preserves the meaning of a text, and `EDITS` has the justification of each kind. No other
edit is made. In particular, a repair never completes a truncated word, number or string, fills in a
missing part, drops a part, rounds, clamps, shortens, or chooses between two readings. An edit that
needs the schema is made only where the value violates it, and only if no other edit would repair
the same part.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from .._dataclass import dataclass

__all__ = [
    "EDITS",
    "OpenEnd",
    "Reading",
    "Repair",
    "Repairs",
    "Work",
    "WorkExceededError",
    "json_equal",
]

EDITS: dict[str, str] = {
    # Around the value.
    "surrounding_text": "prose, code blocks, tags and tokens around the value are not part of it",
    "thinking": "text inside a thinking block is not the answer",
    "escaped_text": "every quote or brace is escaped: the text was encoded once too often",
    "missing_opener": '`"key": value` pairs can only be the members of one object',
    "items_listed": "consecutive values are the items of the list that the schema requires",
    # Syntax: another notation of the same value.
    "comment": "a comment is not data; one that mentions omitted data stops the repair",
    "trailing_comma": "a comma before a closing bracket separates nothing",
    "missing_comma": "two complete adjacent values are two values",
    "separator": "`=`, `=>` and `::` after a key mean `:`, and `;` after a value means `,`",
    "quotes": "a different kind of quotation mark around the same text",
    "unquoted_key": "a bare word before `:` is a key",
    "unquoted_text": "a bare word as a value is that string, if the schema accepts a string",
    "literal": "`True`, `None`, `nil` and `undefined` are true and null in other languages",
    "number_form": "`+5`, `.5`, `5.`, `1_000`, `0x1F` are other notations of exactly that number",
    "raw_control": "a raw line break inside a string is that line break",
    "inner_quote": "a quotation mark that cannot end the string is part of it",
    "escape": r"`\'`, `\x41` and `\_` are other languages' escapes of one character",
    "joined_strings": "`+` between two string literals concatenates them",
    "tuple": "a Python tuple is a list of the same items",
    "repeated_key": "a duplicate key with an identical value",
    "missing_closer": "the text ended after a complete value: only closing brackets can follow",
    "extra_closer": "a closing bracket that closes nothing",
    "missing_sign": "one lost sign: no other single edit makes the text conform",
    "extra_sign": "one sign too many: no other single edit makes the text conform",
    "wrong_sign": "one sign in place of another: no other single edit makes the text conform",
    # By the schema: the same value as the required type.
    "envelope": "an object with one generic or unknown key, or a tool call, around the value",
    "single_item_unwrapped": "a list of one item, if the schema requires the item",
    "single_item_wrapped": "one item, if the schema requires a list of such items",
    "json_in_string": "a string holding JSON of the required type was encoded once too often",
    "text_to_number": "a string that is exactly a number, in any notation, becomes that number",
    "text_to_boolean": "the string `true` or `false` becomes that boolean",
    "text_to_null": "the string `null` becomes null, if a string is not allowed",
    "number_to_text": "a number becomes the characters it was written with",
    "boolean_to_text": "a boolean becomes the characters it was written with",
    "allowed_spelling": "an allowed value in another case, or with other separators or marks",
    "key_spelling": "a known key in another case, or with other separators or marks, if unique",
}
"""Every kind of repair, and why it preserves the meaning."""

MAX_RECORDED = 50
"""Repairs of one kind that are recorded; a text in single quotes has one for each string."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One edit."""

    path: str
    """JSON Pointer to the edited part at the time of the edit; empty for the whole value."""
    kind: str
    """A key of `EDITS`."""
    before: str
    """The original text, truncated to 200 characters."""
    after: str
    """The replacement, truncated to 200 characters."""


class Repairs:
    """Record of the edits of one reading."""

    __slots__ = ("_counts", "made")

    def __init__(self, made: tuple[Repair, ...] = ()) -> None:
        self.made = list(made)
        self._counts: dict[str, int] = {}

    def add(self, path: str, kind: str, before: Any, after: Any) -> None:
        """Record an edit, up to `MAX_RECORDED` of each kind."""
        assert kind in EDITS, kind  # noqa: S101  # an edit without a justification is a bug
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count <= MAX_RECORDED:
            self.made.append(Repair(path, kind, _truncate(before), _truncate(after)))


def _truncate(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


@dataclass(frozen=True, slots=True)
class OpenEnd:
    """A container that the text did not close."""

    path: tuple[str | int, ...]
    opener: str
    keys: frozenset[str]
    """Keys of the object; empty for a list."""
    certain: bool
    """True if the text shows that its last part is complete: a code block or tag closes after it,
    or it is the innermost, spans lines, and a line ended after the last part without a comma."""


@dataclass(slots=True)
class Reading:
    """A parsed value and how it was parsed."""

    value: Any
    end: int
    repairs: Repairs
    sources: dict[str | int, Any]
    """Source text of numbers and words by key, and inside a container by its keys."""
    open_ends: list[OpenEnd] = field(default_factory=list)


def json_equal(left: Any, right: Any) -> bool:
    """True if equal as JSON text: 1 is not true, and 1 is not 1.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(json_equal(left[k], right[k]) for k in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    return bool(left == right)


MAX_WORK = 1_200_000
"""Units for one text, of about a microsecond each. Typical damage takes one for each character."""
SPARE_WORK = 100_000
WORK_FOR_EACH_CHAR = 30


class WorkExceededError(Exception):
    """The text is not worth more work."""


class Work:
    """Counts the work done for one text; not a clock, so that the same text has the same result.

    Attributes:
        ended: True if the text is known to be complete, False if it is known to be truncated.
        done: Units so far.
    """

    __slots__ = ("_limit", "done", "ended")

    def __init__(self, text: str, ended: bool | None = None) -> None:
        self.ended = ended
        self.done = 0
        self._limit = min(WORK_FOR_EACH_CHAR * len(text) + SPARE_WORK, MAX_WORK)

    def spend(self, units: int) -> None:
        """Count `units`.

        Raises:
            WorkExceededError: If the limit for the text is exceeded.
        """
        self.done += units
        if self.done > self._limit:
            raise WorkExceededError
