"""Recover the one conforming value of a damaged text, or nothing.

Rule 1: no data is invented, dropped, rounded or chosen; every edit is in `EDITS`.
Rule 2: two different conforming values, or one that contradicts the other, recover nothing. The
        readings of a damaged text at one structural edit are all compared.
Rule 3: a truncated text is not completed: closers are added only after a complete value.
Rule 4: time is linear in the text and bounded for any text; so is depth.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any

from .._dataclass import dataclass
from ._candidates import (
    AmbiguousTextError,
    Candidate,
    are_adjacent,
    are_space_separated,
    find_candidates,
)
from ._contract import Contract
from ._envelopes import unwrap_layers
from ._fit import Fitter
from ._names import collect_property_names, normalize
from ._places import Place, property_names_at
from ._reading import OpenEnd, Reading, Repair, Repairs, Work, WorkExceededError, json_equal
from ._search import SlipSearch
from ._strict import StrictJsonError, loads

__all__ = ["MAX_TEXT_CHARS", "Recovered", "recover", "recover_wrapped", "was_cut"]

READING_WORK = 100
MAX_TEXT_CHARS = 8_000_000
"""Longest text that is parsed; the longest answers of models today are near 500,000."""

_OUTER = re.compile(r"(?:```\w*[ \t]*\n)?(.*?)(?:\n?```)?", re.DOTALL)
_END_TOKEN = re.compile(r"(?:<\|\w{1,40}\|>|</s>)\Z")

_ENTITY = re.compile(r"&(?:quot|#34|#x22);")
_BRACE_INSIDE = re.compile(r"\"[^\"{}:,]*[{}][^\"{}:,]*[{}][^\"{}:,]*\"")
_MARK_AROUND = re.compile(r"(?<![\\\"])\"++(?=[{\[])|(?<=[}\]])\"++")
_LENIENT = json.JSONDecoder(strict=False)
_OPENER = re.compile(r"[{\[]")
_CODE_AFTER = re.compile(
    r"^[ \t]*\w+(?:\[[^\]\n]{1,80}\]|\.\w{1,80})[ \t]*[+|]?=[^=]"
    r"|\.(?:append|extend|update|push|insert|assign|pop|remove)\(",
    re.MULTILINE,
)
"""Code that changes the value after its literal: the final value is not in the text."""

_VALUE_PART = re.compile(
    r"(?:(?:[^{}\[\]\"'<`]*?)```\w*[ \t]*\n(?P<fenced>.*?)\n[ \t]*```[^{}\[\]\"<`]*"
    r"|(?:[^{}\[\]\"'<`,:]*(?=[{\[])|[^{}\[\]\"'<`]*\n(?=[{\[])|(?=[\",:}\]]))(?P<bare>[^`]*))",
    re.DOTALL,
)
"""Prose without signs, a code block or none, and one value that may be damaged."""
_STRUCTURAL = frozenset(
    {"missing_closer", "extra_closer", "inner_quote",
     "missing_opener", "missing_comma", "unquoted_text"}
)  # fmt: skip
"""Repairs that are compared with all others at one edit."""
_KEY_INSIDE = re.compile(r"(\w[^\"',:]*?)(?=[\"']?\s*:|\"\s)")


@dataclass(frozen=True, slots=True)
class Recovered:
    """A conforming value and the repairs it took."""

    value: Any
    """Plain JSON data."""
    repairs: tuple[Repair, ...]
    """Every edit, in order; empty if the text was valid."""


def recover(text: str, schema: Any, *, ended: bool | None = None) -> Recovered | None:
    """Return the one value in `text` that conforms to `schema`, or None.

    A pure function that calls no model. None means: ask the model again. It is returned for a text
    that is truncated, ambiguous, or not repairable without a guess.

    Args:
        text: The model's answer.
        schema: A `Contract`, a JSON Schema, a pydantic model or any type.
        ended: True if the model reported that it had finished: missing closing brackets are then
            added. False if the text was truncated: nothing is added at its end. None if unknown.

    Raises:
        UsageError: If `schema` is invalid.
    """
    contract = schema if isinstance(schema, Contract) else Contract(schema)
    if len(text) > MAX_TEXT_CHARS:
        return None
    if ended is False and text[-1:].isalnum() and not _OPENER.search(text):
        # The last digit or letter may be missing.
        return None
    try:
        value = loads(text)
    except StrictJsonError:
        value = None
    else:
        if contract.conforms(value):
            return Recovered(value, ())
    work = Work(text, ended)
    try:
        if isinstance(value, str):
            # The whole text is one string: only its content is left.
            return _Recovery(text, contract, work).recover_string(value)
        return _recover_damaged(text, contract, work)
    except WorkExceededError:
        return None


def _recover_damaged(text: str, contract: Contract, work: Work) -> Recovered | None:
    work.spend(len(text) // 16)
    found = _Recovery(text, contract, work).recover_any()
    if found is not None and not any(r.kind in _STRUCTURAL for r in found.repairs):
        return found
    decided = _decide(found, text, contract, work)
    return _recover_encoded(text, contract, work) if decided is None and found is None else decided


def _recover_encoded(text: str, contract: Contract, work: Work) -> Recovered | None:
    """Recover from a text in which every quotation mark, or every brace, is escaped."""
    plain = text.strip()
    if _ENTITY.search(plain) and '"' not in plain:
        plain = html.unescape(plain)
    elif _is_doubled(plain, '"') or (
        plain[:2] + plain[-2:] == '"{}"' and _is_doubled(plain[1:-1], '"')
    ):
        plain = plain.removeprefix('"').removesuffix('"').replace('""', '"')
    elif _is_doubled(plain, "{") and _is_doubled(plain, "}"):
        plain = plain.replace("{{", "{").replace("}}", "}")
        if _BRACE_INSIDE.search(plain):
            # `"{{x}}"` may be a text with two braces.
            return None
    elif '\\"' in plain:
        try:
            plain = _LENIENT.decode(f'"{_MARK_AROUND.sub("", plain)}"')
        except ValueError:
            # A quotation mark is not escaped.
            return None
    else:
        return None
    found = _Recovery(plain, contract, work).recover_any()
    if found is None or any(repair.kind in _STRUCTURAL for repair in found.repairs):
        return None
    escaped = Repair("", "escaped_text", text[:40], plain[:40])
    return Recovered(found.value, (escaped, *found.repairs))


def _strip(text: str) -> str:
    """Remove the space around `text`, and tokens that end an answer."""
    text = text.strip()
    while (token := _END_TOKEN.search(text, max(0, len(text) - 50))) is not None:
        text = text[: token.start()].rstrip()
    return text


def _is_doubled(text: str, sign: str) -> bool:
    runs = re.findall(f"{re.escape(sign)}+", text)
    return bool(runs) and all(len(run) % 2 == 0 for run in runs)


def _decide(found: Recovered | None, text: str, contract: Contract, work: Work) -> Recovered | None:
    """Compare `found`, which took a structural repair, with the readings at one edit."""
    if found is not None and _swallows_key(found, contract):
        found = None
    place = Place(contract.schema)
    around = _VALUE_PART.fullmatch(_strip(text))
    if around is None:
        return found
    body = around.group("fenced") or around.group("bare")
    search = SlipSearch(body, place, work)
    slips = search.find()
    work.spend(len(slips) * len(text) // 32)
    if not (slips := [slip for slip in slips if contract.conforms(slip.value)]):
        return found
    best = min(slip.weight for slip in slips)
    first, *others = [slip for slip in slips if slip.weight == best]
    if not all(json_equal(first.value, other.value) for other in others):
        return None
    if first.swallows:
        return None
    if found is not None or (search.truncated and not (work.ended and body[-1:] not in ",:{[.")):
        return found if found is not None and json_equal(found.value, first.value) else None
    outside = [
        Repair("", "surrounding_text", part.strip()[:200], "")
        for part in text.split(body, 1)
        if part.strip()
    ]
    return Recovered(first.value, (*outside, *search.list_repairs(first.edit)))


def _swallows_key(found: Recovered, contract: Contract) -> bool:
    """True if a repaired text holds a declared key and its mark or colon, or is quoted twice."""
    names = collect_property_names(contract.schema)
    texts = [repair.after for repair in found.repairs if repair.kind == "inner_quote"]
    return any(text.startswith('"\\"') and text.endswith('\\""') for text in texts) or any(
        name in names
        for text in texts
        for name in _KEY_INSIDE.findall(text.replace('\\"', '"')[1:-1])
    )


def recover_wrapped(
    text: str, contract: Contract, outer: Contract, *, ended: bool | None = None
) -> Recovered | None:
    """Recover the value from the answer to a request for `Contract.object_schema`.

    Args:
        text: The model's answer.
        contract: The contract of the value.
        outer: ``contract.outer()``, the contract sent to the model.
        ended: See `recover`.
    """
    key = contract.wrapper
    if key is None:
        return recover(text, contract, ended=ended)
    found = recover(text, outer, ended=ended)
    if found is None:
        # A model may omit the requested wrapper.
        return None if was_cut(text) else recover(text, contract, ended=ended)
    value = found.value[key]
    return Recovered(value, found.repairs) if contract.conforms(value) else None


def was_cut(text: str) -> bool:
    """True if `text` ends inside a value or inside thinking.

    Feedback cannot fix a truncated answer: the model needs a higher token limit.
    """
    try:
        found = find_candidates(text[:MAX_TEXT_CHARS], ())
    except AmbiguousTextError as error:
        return error.cut
    return any(one.reading.open_ends for one in found)


class _Recovery:
    """Recovery of one text against one contract."""

    def __init__(self, text: str, contract: Contract, work: Work) -> None:
        self._text = text
        self._work = work
        self._contract = contract
        names = collect_property_names(contract.schema)
        self._names = frozenset(map(normalize, names))
        title = contract.schema.get("title") if isinstance(contract.schema, dict) else None
        own = [contract.name, title if isinstance(title, str) else ""]
        self._answer_names = frozenset(normalize(name) for name in own if name)

    def recover_string(self, value: str) -> Recovered | None:
        """Recover from a text that was one JSON string, `value`."""
        values = self._conforming_values(Reading(value, len(self._text), Repairs(), {}))
        return values[0] if len(values) == 1 else None

    def recover_any(self) -> Recovered | None:
        """Recover the only conforming value of the text."""
        try:
            found = find_candidates(self._text, self._names, self._work)
        except (AmbiguousTextError, RecursionError):
            return None
        if not found:
            return self._recover_scalar()
        if _CODE_AFTER.search(self._text, found[0].end):
            return None
        if len(found) > 1:
            if (row := self._recover_rows(found)) is not None:
                return row
            if are_adjacent(self._text, found) and not are_space_separated(self._text, found):
                # Items of a list that the contract does not ask for.
                return None
            found = [c for c in found if not c.bare_list] or found
        return self._recover_one(found)

    def _recover_one(self, found: list[Candidate]) -> Recovered | None:
        """Recover the value on which all conforming candidates agree."""
        values: list[tuple[Candidate, Recovered]] = []
        failed: list[Candidate] = []
        for candidate in found:
            own = self._conforming_values(candidate.reading)
            values += [(candidate, one) for one in own]
            if not own:
                failed.append(candidate)
        if not values:
            return None
        candidate, first = values[0]
        if not all(json_equal(first.value, other.value) for _, other in values):
            return None
        if any(self._contradicts(c, first.value) for c in failed):
            return None
        repairs = (*self._surrounding_repairs(candidate), *first.repairs)
        if _is_doubtful(first, repairs, len(values), ended=self._work.ended is not False):
            return None
        return Recovered(first.value, repairs)

    # -- a single reading --------------------------------------------------------------------

    def _conforming_values(self, reading: Reading) -> list[Recovered]:
        """Return the conforming interpretations of `reading`; two or more mean ambiguity."""
        self._work.spend(READING_WORK)
        if self._contract.conforms(reading.value) and self._is_complete(reading.open_ends, ()):
            return [Recovered(reading.value, tuple(reading.repairs.made))]
        found: list[Recovered] = []
        for shape in unwrap_layers(
            reading.value, self._answer_names, self._names, sources=reading.sources, work=self._work
        ):
            if not self._is_complete(reading.open_ends, shape.path):
                continue
            repairs = Repairs(tuple(reading.repairs.made))
            for kind, before in shape.steps:
                repairs.add("", kind, before, shape.value if kind == "json_in_string" else "...")
            fitted = Fitter(self._contract, self._work).fit(shape.value, shape.sources, repairs)
            if fitted is not None and not any(json_equal(fitted[0], one.value) for one in found):
                found.append(Recovered(fitted[0], tuple(repairs.made)))
        return found

    def _is_complete(self, ends: list[OpenEnd], path: tuple[str | int, ...] | None) -> bool:
        """True if nothing can be missing from the containers that the text left open.

        Either the layout shows that the last part is complete, or the container is an object that
        has all its declared properties.
        """
        for end in ends:
            if end.certain:
                continue
            if end.opener != "{" or path is None:
                return False
            if len(end.path) < len(path):
                # The wrapper has a single part, unless it is itself a truncated answer.
                if normalize(str(path[len(end.path)])) in self._names:
                    return False
                continue
            declared = property_names_at(self._contract.schema, end.path[len(path) :])
            if not declared or not declared <= end.keys:
                return False
        return True

    # -- several values, and the text around them --------------------------------------------

    def _recover_rows(self, found: list[Candidate]) -> Recovered | None:
        """Recover consecutive objects as the list that the contract requires."""
        readings = [c.reading for c in found]
        ends = any(r.open_ends for r in readings)
        whole = all(isinstance(r.value, dict) for r in readings)
        if self._work.ended is False or not whole or ends or not are_adjacent(self._text, found):
            return None
        repairs = Repairs(tuple(repair for r in readings for repair in r.repairs.made))
        repairs.add("", "items_listed", self._text, f"a list of {len(found)}")
        sources = {index: r.sources for index, r in enumerate(readings)}
        values = [r.value for r in readings]
        fitted = Fitter(self._contract, self._work).fit(values, sources, repairs)
        return None if fitted is None else Recovered(fitted[0], tuple(repairs.made))

    def _contradicts(self, candidate: Candidate, chosen: Any) -> bool:
        """True if a non-conforming value has the same fields with other values."""
        value = candidate.reading.value
        return self._mentions_fields(value) and not _is_subset(value, chosen)

    def _mentions_fields(self, value: Any) -> bool:
        if isinstance(value, list):
            return any(self._mentions_fields(item) for item in value)
        if not isinstance(value, dict):
            return False
        if value.get("type") == "object" and isinstance(value.get("properties"), dict):
            # A schema, shown before the answer.
            return False
        inner = any(self._mentions_fields(item) for item in value.values())
        return inner or any(normalize(key) in self._names for key in value)

    def _surrounding_repairs(self, candidate: Candidate) -> Iterator[Repair]:
        before, after = self._text[: candidate.start], self._text[candidate.end :]
        for part in (before, after):
            text = part.strip()
            if not text:
                continue
            kind = "surrounding_text"
            if part is after and text != ";" and not text.strip("}] \t\r\n;"):
                kind = "extra_closer"
            elif part is before and re.search(r"<\s*/?\s*think|THINK\]", text, re.IGNORECASE):
                kind = "thinking"
            yield Repair("", kind, text[:200], "")

    def _recover_scalar(self) -> Recovered | None:
        """Recover a text that is a number, word or allowed value, bare or in a code block."""
        plain = _strip(self._text)
        match = _OUTER.fullmatch(plain) if len(plain) < 400 else None
        body = match.group(1).strip() if match is not None else ""
        if not body or len(body) > 200 or "\n" in body:
            return None
        around = (Repair("", "surrounding_text", self._text, body),) if body != self._text else ()
        try:
            value = loads(body)
            bare: tuple[Repair, ...] = ()
        except StrictJsonError:
            value = body
            bare = (Repair("", "unquoted_text", body, json.dumps(body)),)
            if self._contract.conforms(f"{body} and more"):
                # The contract accepts any text, and this one may be an excuse.
                return None
        repairs = Repairs((*around, *bare))
        fitted = Fitter(self._contract, self._work).fit(value, {}, repairs)
        return None if fitted is None else Recovered(fitted[0], tuple(repairs.made))


def _is_doubtful(found: Recovered, repairs: tuple[Repair, ...], count: int, *, ended: bool) -> bool:
    """True if a value that was written `count` times may be another one, or one of several."""
    more = count > 1 or not ended
    if more and any(r.kind == "single_item_wrapped" and not r.path for r in found.repairs):
        # A list of one item, or of as many as were written?
        return True
    # Nothing, and a misplaced closer: the content is outside of it.
    return found.value in ({}, []) and any(r.kind.endswith("_closer") for r in repairs)


def _is_subset(part: Any, whole: Any) -> bool:
    """True if `whole` contains all data of `part`."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and _is_subset(value, whole[key]) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return all(any(_is_subset(item, other) for other in whole) for item in part)
    return json_equal(part, whole)
