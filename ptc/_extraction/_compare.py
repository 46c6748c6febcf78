"""Compare extracted objects with the right ones: precision and recall of each field."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from .._dataclass import dataclass
from ._merge import MergeKeys

__all__ = ["Comparison", "Disagreement", "FieldScore", "compare"]

_ABSENT = None
_MAX_PAIRS = 1_000_000
"""Pairs of items without an equal one that are compared; more are paired by their position."""
_Fact: TypeAlias = tuple[Hashable, Hashable]
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?|[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_MIDNIGHT = re.compile(r"(\d{4}-\d\d-\d\d)[T ]00:00(:00(\.0+)?)?(Z|\+00:00)?")


@dataclass(slots=True)
class FieldScore:
    """Counts of one field over all documents; ``[]`` stands for the items of a list."""

    field: str
    right: int = 0
    wrong: int = 0
    """Both have a value, and they differ."""
    missing: int = 0
    """Only the gold file has a value."""
    extra: int = 0
    """Only the extracted object has a value."""

    @property
    def precision(self) -> float | None:
        """Share of the extracted values that are right; None without any."""
        return _share(self.right, self.right + self.wrong + self.extra)

    @property
    def recall(self) -> float | None:
        """Share of the values of the gold file that were extracted; None without any."""
        return _share(self.right, self.right + self.wrong + self.missing)


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A value that differs from the gold file; None for one that is absent."""

    id: str
    path: str
    gold: Any
    found: Any


@dataclass(slots=True)
class Comparison:
    """Result for all documents of the gold file."""

    fields: list[FieldScore]
    total: FieldScore
    disagreements: list[Disagreement]
    documents: int
    """Documents of the gold file."""
    right_documents: int
    """Documents without a disagreement."""
    without_object: list[str] = field(default_factory=list)
    """Documents of the gold file that have no object."""

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        return {
            "documents": self.documents,
            "right_documents": self.right_documents,
            "without_object": self.without_object,
            "fields": [
                {
                    "field": score.field,
                    "precision": score.precision,
                    "recall": score.recall,
                    "right": score.right,
                    "wrong": score.wrong,
                    "missing": score.missing,
                    "extra": score.extra,
                }
                for score in (*self.fields, self.total)
            ],
            "disagreements": [
                {"id": d.id, "path": d.path, "gold": d.gold, "found": d.found}
                for d in self.disagreements
            ],
        }


def compare(values: Mapping[str, Any], gold: Mapping[str, Any], keys: MergeKeys) -> Comparison:
    """Compare the documents of the gold file.

    Numbers, dates and texts are equal if they differ in form only: ``"1,450.00"`` and 1450,
    ``2025-01-31T00:00:00`` and ``2025-01-31``, case and white space. Null is an absent value. Items
    of a list are paired by their declared keys, or else by the number of equal values.

    Args:
        values: Extracted objects by id; None for a document without one.
        gold: Right objects by id.
        keys: Fields that identify the items of lists.
    """
    scores: dict[str, FieldScore] = {}
    disagreements: list[Disagreement] = []
    wrong_documents = set()
    # Names of files have another normal form on macOS.
    by_form = {unicodedata.normalize("NFC", name): value for name, value in values.items()}
    for name, right in gold.items():
        object_ = values.get(name, by_form.get(unicodedata.normalize("NFC", name)))
        for place, path, expected, found in _pairs(right, object_, "", "", keys):
            score = scores.setdefault(place, FieldScore(place))
            if _is_equal(expected, found):
                score.right += 1
                continue
            if found is _ABSENT:
                score.missing += 1
            elif expected is _ABSENT:
                score.extra += 1
            else:
                score.wrong += 1
            wrong_documents.add(name)
            disagreements.append(Disagreement(name, path, expected, found))
    total = FieldScore("all fields")
    for score in scores.values():
        total.right += score.right
        total.wrong += score.wrong
        total.missing += score.missing
        total.extra += score.extra
    return Comparison(
        list(scores.values()),
        total,
        disagreements,
        len(gold),
        len(gold) - len(wrong_documents),
        [name for name in gold if values.get(name) is None],
    )


def _pairs(
    gold: Any, found: Any, place: str, path: str, keys: MergeKeys
) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield field, JSON Pointer and the two values of each scalar that either has."""
    if isinstance(gold, dict) or isinstance(found, dict):
        first = gold if isinstance(gold, dict) else {}
        second = found if isinstance(found, dict) else {}
        for name in dict.fromkeys([*first, *second]):
            step = name.replace("~", "~0").replace("/", "~1")
            inner = f"{place}.{name}" if place else name
            yield from _pairs(first.get(name), second.get(name), inner, f"{path}/{step}", keys)
        stray = [value for value in (gold, found) if not isinstance(value, dict)]
        if stray and stray[0] is not _ABSENT:
            yield place, path, *_scalars(gold, found)
    elif isinstance(gold, list) or isinstance(found, list):
        first_items = gold if isinstance(gold, list) else []
        second_items = found if isinstance(found, list) else []
        names = keys.get(place.replace("[]", "").replace(".", "/"))
        for index, (one, other) in enumerate(_align(first_items, second_items, names)):
            yield from _pairs(one, other, f"{place}[]", f"{path}/{index}", keys)
    elif gold is not _ABSENT or found is not _ABSENT:
        yield place, path, gold, found


def _scalars(gold: Any, found: Any) -> tuple[Any, Any]:
    """Return the values without the object, whose fields are compared one by one."""
    return (
        _ABSENT if isinstance(gold, dict) else gold,
        _ABSENT if isinstance(found, dict) else found,
    )


def _align(
    gold: Sequence[Any], found: Sequence[Any], names: tuple[str, ...] | None
) -> Iterator[tuple[Any, Any]]:
    """Pair the items of two lists; the items that are left over are paired with None."""
    ours = [_facts(item, names) for item in gold]
    theirs = [_facts(item, names) for item in found]
    places: dict[frozenset[_Fact], list[int]] = defaultdict(list)
    for index, facts in enumerate(theirs):
        places[facts].append(index)
    # Equal items first: they are most of them, and no less similar one may take their place.
    pairs = {number: places[facts].pop(0) for number, facts in enumerate(ours) if places.get(facts)}
    left = sorted(set(range(len(found))) - set(pairs.values()))
    others = [number for number in range(len(gold)) if number not in pairs]
    if len(left) * len(others) > _MAX_PAIRS:
        pairs |= zip(others, left, strict=False)
    else:
        for number in others:
            likeness = {index: _likeness(ours[number], theirs[index]) for index in left}
            # Of equally similar items, the one in the same position.
            best = max(left, key=lambda i: (likeness[i], i == number), default=None)
            if best is not None and likeness[best] > 0:
                pairs[number] = best
                left.remove(best)
    for number, item in enumerate(gold):
        yield item, found[pairs[number]] if number in pairs else _ABSENT
    for index in sorted(set(range(len(found))) - set(pairs.values())):
        yield _ABSENT, found[index]


def _facts(item: Any, names: tuple[str, ...] | None) -> frozenset[_Fact]:
    """Return field and value of each scalar of an item, or of its declared keys."""
    if names is not None and isinstance(item, dict):
        return frozenset([(tuple((name, _form(item.get(name))) for name in names), "keys")])
    return frozenset(_scalars_of(item, ""))


def _scalars_of(value: Any, place: str) -> Iterator[_Fact]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _scalars_of(part, f"{place}.{name}")
    elif isinstance(value, list):
        for part in value:
            yield from _scalars_of(part, f"{place}[]")
    elif value is not _ABSENT:
        yield place, _form(value)


def _likeness(one: frozenset[_Fact], other: frozenset[_Fact]) -> float:
    return 2 * len(one & other) / max(1, len(one) + len(other))


def _is_equal(one: Any, other: Any) -> bool:
    return _form(one) == _form(other)


def _form(value: Any) -> Hashable:
    """Return a form that is equal for values which differ in form only."""
    if value is _ABSENT or isinstance(value, bool):
        return "literal", value
    number = _to_number(value)
    return ("text", _plain(value)) if number is None else ("number", number)


def _to_number(value: Any) -> Decimal | None:
    if isinstance(value, int):
        return Decimal(value)
    if isinstance(value, float):
        return Decimal(repr(value)) if math.isfinite(value) else None
    # A leading zero is part of a number plate or a telephone number, not of a number.
    if not isinstance(value, str) or not _NUMBER.fullmatch(value.strip()):
        return None
    text = value.strip().replace(",", "")
    if re.match(r"[+-]?0\d", text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:  # pragma: no cover  # the pattern admits numbers only
        return None


def _plain(value: Any) -> str:
    text = " ".join(unicodedata.normalize("NFKC", str(value)).casefold().split())
    day = _MIDNIGHT.fullmatch(text.upper())
    return day[1] if day is not None else text


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
