"""Evidence: ask for a quote beside each value, and verify the quotes in the document."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterator, Mapping
from typing import Any

from ..structured._publish import wrap_schema
from ._row import Evidence

__all__ = ["EVIDENCE", "VALUE", "SourceText", "cite", "evidence_schema"]

VALUE = "value"
EVIDENCE = "evidence"
_MAX_NODES = 2_000
"""Subschemas of the parallel schema; beyond them, and in recursion, any quotes are accepted."""
_QUOTE = {"type": ["string", "null"]}
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_FORMS = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4`", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
    **dict.fromkeys(_DASHES, "-"),
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", ""),
}
"""Typographic forms of one character; soft hyphens and joiners are invisible."""
_HYPHENATED = re.compile(r"(?<=\w)-[ \t]*\n[ \t]*(?=[a-z])")
"""Hyphen of a word at the end of a line."""


def evidence_schema(schema: Any, resources: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the schema of an object with the value and, in the same shape, its quotes.

    Args:
        schema: The schema of the value.
        resources: Documents that its references may name, by URI.
    """
    whole = wrap_schema(schema, VALUE, resources or {})
    mirror = _Mirror(schema).make(schema, ())
    description = (
        "For each value the words of the document that state it, quoted exactly as they stand "
        "there, in the same structure as the value; null where the document has no such words."
    )
    whole["properties"][EVIDENCE] = {**mirror, "description": description}
    whole["required"] = [VALUE, EVIDENCE]
    return whole


class _Mirror:
    """Makes a schema of quotes out of a schema of values."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._nodes = 0

    def make(self, schema: Any, inside: tuple[str, ...]) -> dict[str, Any]:
        """Return the schema of the quotes of `schema`, which lies inside the references `inside`.

        It permits quotes to be missing: an answer without one is complete, and not supported.
        """
        self._nodes += 1
        if not isinstance(schema, Mapping) or self._nodes > _MAX_NODES:
            return {}
        target = schema.get("$ref")
        if isinstance(target, str):
            found = None if target in inside else self._find(target)
            return {} if found is None else self.make(found, (*inside, target))
        if isinstance(schema.get("properties"), Mapping):
            made = {name: self.make(part, inside) for name, part in schema["properties"].items()}
            return {"type": ["object", "null"], "properties": made}
        if isinstance(schema.get("items"), Mapping):
            return {"type": ["array", "null"], "items": self.make(schema["items"], inside)}
        branches = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
        if branches:
            return self._branches([self.make(branch, inside) for branch in branches])
        if "allOf" in schema or schema.get("type") in ("object", "array"):
            return {}
        return dict(_QUOTE)

    def _branches(self, made: list[dict[str, Any]]) -> dict[str, Any]:
        different = [branch for index, branch in enumerate(made) if branch not in made[:index]]
        if {} in different:
            return {}
        return different[0] if len(different) == 1 else {"anyOf": different}

    def _find(self, target: str) -> Any:
        if target != "#" and not target.startswith("#/"):
            return None
        node = self._root
        for step in target[2:].split("/") if target != "#" else ():
            step = step.replace("~1", "/").replace("~0", "~")
            node = node.get(step) if isinstance(node, Mapping) else None
        return node


_CASED = re.compile("[A-Za-z\u00c0-\u024f\u0370-\u03ff\u0400-\u04ff]")
"""Letters of scripts that put spaces between words: others have no ends of words to check."""


class SourceText:
    """A document in which quotes are found."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._plain: str | None = None
        self._positions = array("L")

    def find(self, path: str, quote: str | None) -> Evidence:
        """Verify the quote for the value at `path`."""
        if quote is None or not quote.strip():
            return Evidence(path, None, None)
        start = _find_whole(quote, self._text)
        if start >= 0:
            return Evidence(path, quote, "exact", start, start + len(quote))
        if self._plain is None:
            self._plain, self._positions = _normalise(self._text)
        wanted = _normalise(quote)[0].strip()
        at = _find_whole(wanted, self._plain) if wanted else -1
        if at < 0:
            return Evidence(path, quote, None)
        start = self._positions[at]
        end = self._positions[at + len(wanted) - 1] + 1
        return Evidence(path, self._text[start:end], "normalised", start, end)


def cite(value: Any, quotes: Any, text: SourceText) -> Iterator[Evidence]:
    """Verify the quote of each scalar in `value`, in the parallel structure `quotes`."""
    for path, quote in _leaves(value, quotes, ""):
        yield text.find(path, quote)


def _leaves(value: Any, quotes: Any, path: str) -> Iterator[tuple[str, str | None]]:
    if isinstance(value, dict):
        for name, part in value.items():
            step = name.replace("~", "~0").replace("/", "~1")
            inner = quotes.get(name) if isinstance(quotes, dict) else quotes
            yield from _leaves(part, inner, f"{path}/{step}")
    elif isinstance(value, list):
        for index, part in enumerate(value):
            inner = quotes
            if isinstance(quotes, list):
                inner = quotes[index] if index < len(quotes) else None
            yield from _leaves(part, inner, f"{path}/{index}")
    elif value is not None:
        # A quote for a whole object counts for each of its values.
        yield path, quotes if isinstance(quotes, str) else None


def _find_whole(quote: str, text: str) -> int:
    """Return the index of a quote that is no part of a word or number; -1 without one.

    Otherwise any digit would be supported by any date, and 450.00 by 1,450.00. Several words may
    end inside of a word: models cut quotes short.
    """
    before = after = ""
    word = not re.search(r"\s", quote)
    if quote[0].isdecimal():
        before = r"(?<!\d)" + (r"(?<!\d[.,'])" if re.match(r"\d{3}(?!\d)", quote) else "")
    elif word and _CASED.match(quote[0]):
        before = rf"(?<!{_CASED.pattern})"
    if quote[-1].isdecimal():
        after = r"(?!\d|[.,']\d{3}(?!\d))" if re.search(r"(?<!\d)\d{1,3}$", quote) else r"(?!\d)"
    elif word and _CASED.match(quote[-1]):
        after = rf"(?!{_CASED.pattern}|[\u0300-\u036f])"
    if not before and not after:
        return text.find(quote)
    found = re.compile(before + re.escape(quote) + after).search(text)
    return -1 if found is None else found.start()


def _normalise(text: str) -> tuple[str, array[int]]:
    """Return the text without differences of form, and the position of each character."""
    broken = {index for match in _HYPHENATED.finditer(text) for index in range(*match.span())}
    plain: list[str] = []
    positions = array("L")
    for index, char in enumerate(text):
        if index in broken:
            continue
        if char.isspace():
            if plain and plain[-1] != " ":
                plain.append(" ")
                positions.append(index)
            continue
        form = unicodedata.normalize("NFKD", _FORMS.get(char, char)).casefold()
        for part in form:
            if not (part == " " and plain and plain[-1] == " "):
                plain.append(part)
                positions.append(index)
    return "".join(plain), positions
