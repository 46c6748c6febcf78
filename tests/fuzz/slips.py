"""Measure recovery from single structural slips.

One structural sign of a valid document is lost, doubled or replaced, and `recover` gets the text
with the document's schema::

    python -m tests.fuzz.slips SOURCE... [--seed 1] [--documents 250] [--each 3]

A source is a JSONL file with ``schema`` and ``expected_object`` in each row, or a folder of JSON
files with ``schema`` and ``tests`` (each with ``data`` and ``valid``). The table counts right,
wrong and refused by kind of slip. A slip is unavoidable if its text has another conforming reading
at one edit: such a wrong value is counted apart, and so is the refusal.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptc.errors import UsageError
from ptc.structured import Contract, recover
from ptc.structured._strict import StrictJsonError, loads

__all__ = [
    "Slip",
    "judge",
    "list_slips",
    "read_documents",
    "structural_positions",
    "within_one_edit",
]

SIGNS = '{}[]:,"'
MAX_SCHEMA_CHARS = 8_000
MAX_DOCUMENT_CHARS = 1_500
MIN_DOCUMENT_CHARS = 20


@dataclass(frozen=True, slots=True)
class Slip:
    """A damaged document."""

    kind: str
    """``lost ","``, ``doubled "["``, ``replaced ":"``."""
    text: str
    value: Any
    """The value of the undamaged document."""
    contract: Contract


def read_documents(source: Path) -> Iterator[tuple[Any, Any]]:
    """Yield schemas with a valid document each."""
    if source.is_dir():
        for path in sorted(source.glob("*.json")):
            row = json.loads(path.read_text(encoding="utf-8"))
            valid = [test["data"] for test in row["tests"] if test["valid"]]
            yield from ((row["schema"], value) for value in valid)
        return
    for line in source.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["recoverable"]:
            yield row["schema"], row["expected_object"]


def structural_positions(text: str) -> list[int]:
    """Return the offsets of the structural signs of a JSON text."""
    found = []
    inside = escaped = False
    for position, sign in enumerate(text):
        if inside:
            if escaped:
                escaped = False
            elif sign == "\\":
                escaped = True
            elif sign == '"':
                inside = False
                found.append(position)
        elif sign in SIGNS:
            inside = sign == '"'
            found.append(position)
    return found


def list_slips(
    documents: list[tuple[Any, Any]], chance: random.Random, each: int, limit: int
) -> Iterator[Slip]:
    """Yield slips of at most `limit` documents: `each` of every kind for every layout."""
    used = 0
    for schema, value in documents:
        if used >= limit:
            return
        contract = _usable(schema, value)
        if contract is None:
            continue
        used += 1
        for indent in (None, 2):
            text = json.dumps(value, indent=indent, ensure_ascii=False)
            positions = structural_positions(text)
            for kind in ("lost", "doubled", "replaced"):
                for _ in range(each):
                    slip = _damage(text, chance.choice(positions), kind, chance)
                    if not _is_valid(slip[1], contract):
                        yield Slip(*slip, value, contract)


def _usable(schema: Any, value: Any) -> Contract | None:
    """Return the contract of a document worth damaging."""
    size = len(json.dumps(value))
    if not isinstance(value, dict | list) or not MIN_DOCUMENT_CHARS < size < MAX_DOCUMENT_CHARS:
        return None
    if not isinstance(schema, dict) or len(json.dumps(schema)) > MAX_SCHEMA_CHARS:
        return None
    try:
        contract = Contract(schema)
    except UsageError:
        return None
    return contract if contract.conforms(value) else None


def _damage(text: str, at: int, kind: str, chance: random.Random) -> tuple[str, str]:
    sign = text[at]
    if kind == "lost":
        changed = ""
    elif kind == "doubled":
        changed = sign * 2
    else:
        changed = chance.choice([other for other in SIGNS if other != sign])
    return f"{kind} {sign}", text[:at] + changed + text[at + 1 :]


def _is_valid(text: str, contract: Contract) -> bool:
    """True if the slip left a valid text: nothing shows that it happened."""
    try:
        return contract.conforms(loads(text))
    except StrictJsonError:
        return False


def within_one_edit(text: str, contract: Contract) -> dict[str, Any]:
    """Return the distinct conforming values of all texts at one edit of one structural sign.

    Independent of recovery: every position and every sign is tried. A sign is not inserted between
    two letters or digits.
    """
    found: dict[str, Any] = {}
    try:
        json.loads(text)
        limit = len(text)
    except json.JSONDecodeError as error:
        limit = error.pos
    for at in range(min(limit + 2, len(text) + 1)):
        changed = []
        if at < len(text) and text[at] in SIGNS:
            changed = [text[:at] + sign + text[at + 1 :] for sign in ("", *SIGNS)]
        if not (text[at - 1 : at].isalnum() and text[at : at + 1].isalnum()):
            changed += [text[:at] + sign + text[at:] for sign in SIGNS]
        for one in changed:
            try:
                json.loads(one)
                value = loads(one)
            except ValueError:
                continue
            if contract.conforms(value):
                found[json.dumps(value, sort_keys=True)] = value
    return found


def judge(slip: Slip) -> str:
    """Return ``right``, ``wrong``, ``refused``, or one of the two with ``unavoidable``."""
    found = recover(slip.text, slip.contract)
    expected = json.dumps(slip.value, sort_keys=True)
    result = None if found is None else json.dumps(found.value, sort_keys=True)
    if result == expected:
        return "right"
    readings = within_one_edit(slip.text, slip.contract)
    if result is None:
        return "unavoidably refused" if len(readings) > 1 else "refused"
    return "unavoidably wrong" if result in readings else "wrong"


COLUMNS = ("right", "wrong", "unavoidably wrong", "refused", "unavoidably refused")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path, nargs="+")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--documents", type=int, default=250)
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("--show", metavar="RESULT", help="print the slips with this result")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    documents = [row for source in options.source for row in read_documents(source)]
    chance.shuffle(documents)
    table: dict[str, Counter[str]] = {}
    spent = 0.0
    for slip in list_slips(documents, chance, options.each, options.documents):
        before = time.process_time()
        result = judge(slip)
        spent += time.process_time() - before
        table.setdefault(slip.kind, Counter())[result] += 1
        if result == options.show:
            found = recover(slip.text, slip.contract)
            print(slip.kind, slip.text, json.dumps(slip.value, ensure_ascii=False))  # noqa: T201  # a report
            print("  ->", found, "\n  readings", list(within_one_edit(slip.text, slip.contract)))  # noqa: T201  # a report
    print("| slip | cases | " + " | ".join(COLUMNS) + " |\n|---|" + "---|" * (len(COLUMNS) + 1))  # noqa: T201  # a report
    table = dict(sorted(table.items()))
    table["all"] = sum(table.values(), Counter())
    for kind, row in table.items():
        print(f"| `{kind}` | {row.total()} | " + " | ".join(str(row[c]) for c in COLUMNS) + " |")  # noqa: T201  # a report
    row = table["all"]
    print(f"\nrecovered {row['right'] / row.total():.1%}, wrong {row['wrong']}, {spent:.1f} s")  # noqa: T201  # a report


if __name__ == "__main__":
    main()
