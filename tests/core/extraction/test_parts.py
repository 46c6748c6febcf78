"""Long documents are split by structure and merged by keys."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from ptc import UsageError
from ptc._extraction._merge import merge_parts, part_schema, read_merge_keys
from ptc._extraction._split import split_document
from ptc.structured import Contract


def test_parts_without_overlap_are_the_document() -> None:
    dice = random.Random(7)
    pieces = ["word ", "sentence. ", "\n", "\n\n", "# Head\n", "\f", "| a | b |\n", "ä" * 40]
    for _ in range(200):
        text = "".join(dice.choices(pieces, k=dice.randint(1, 120)))
        parts = split_document(text, 100, 0)
        assert "".join(parts) == text


def test_part_ends_at_the_strongest_boundary() -> None:
    text = "intro\n\n" + "a" * 60 + "\n\n# Two\n" + "b" * 20 + "\n\n" + "c" * 60 + "\n"
    assert [part[:5] for part in split_document(text, 120, 0)] == ["intro", "# Two"]
    pages = "\f".join(f"page {n}\n" + "x" * 50 for n in range(4))
    assert [part.count("page") for part in split_document(pages, 130, 0)] == [2, 2]


def test_overlap_repeats_whole_paragraphs() -> None:
    text = "".join(f"paragraph {n} {'x' * 30}\n\n" for n in range(10))
    parts = split_document(text, 120, 60)
    assert len(parts) > 2
    for before, after in pairwise(parts):
        assert after.startswith("paragraph")
        assert after.split("\n")[0] in before


def test_row_of_a_table_is_whole_and_its_head_is_repeated() -> None:
    rows = [f"| {n} | item {n} {'x' * 20} |\n" for n in range(40)]
    table = "| no | item |\n|----|------|\n" + "".join(rows)
    parts = split_document(table, 200, 0)
    assert all(part.startswith("| no | item |\n|----|") for part in parts)
    assert [line for part in parts for line in part.splitlines(True)[2:]] == rows
    long_row = f"| {'x' * 500} | y |\n"
    assert long_row in "".join(split_document(table + long_row, 200, 0))


def test_long_line_without_structure_is_split_at_words() -> None:
    text = "word " * 100
    parts = split_document(text, 60, 0)
    assert "".join(parts) == text
    assert all(len(part) <= 60 and part.endswith(" ") for part in parts)


def test_items_are_merged_by_declared_keys_and_conflicts_are_reported() -> None:
    keys = read_merge_keys({"lines": "number", "lines/marks": ["a", "b"]})
    values: list[Any] = [
        {"name": "Ada  Ltd", "lines": [{"number": "1", "sum": 5}, {"number": "2", "sum": 6}]},
        {"name": "ada ltd", "lines": [{"number": "2", "sum": 7, "note": "x"}], "tax": None},
        {"name": "Bo", "lines": [{"number": "2", "sum": 7}, {"number": "3", "sum": 8}]},
    ]
    merged, conflicts = merge_parts(values, keys)
    assert merged == {
        "name": "Ada  Ltd",
        "lines": [
            {"number": "1", "sum": 5},
            {"number": "2", "sum": 7, "note": "x"},
            {"number": "3", "sum": 8},
        ],
    }
    assert [(c.path, c.values) for c in conflicts] == [
        ("/name", ("Ada  Ltd", "Bo")),
        ("/lines/1/sum", (7, 6)),
    ]


def test_items_without_keys_are_merged_where_parts_overlap_only() -> None:
    merged, conflicts = merge_parts([["a", "b", "b"], ["b", "b", "c"], ["a"]], {})
    assert (merged, conflicts) == (["a", "b", "b", "c", "a"], ())


def test_part_may_lack_fields_of_the_root_and_items_may_not() -> None:
    schema = {
        "$ref": "#/$defs/Order",
        "$defs": {
            "Order": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "lines": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Line"}},
                },
                "required": ["name", "lines"],
            },
            "Line": {
                "type": "object",
                "properties": {"n": {"type": "integer"}},
                "required": ["n"],
            },
        },
    }
    part = Contract(part_schema(schema))
    assert part.conforms({})
    assert part.conforms({"name": None, "lines": []})
    assert not part.conforms({"lines": [{}]})
    assert not part.conforms({"name": 1})


def test_wrong_merge_keys_are_refused() -> None:
    with pytest.raises(UsageError, match="merge_keys must name fields"):
        read_merge_keys({"lines": []})
