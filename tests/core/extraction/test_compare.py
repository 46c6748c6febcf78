"""Precision and recall of each field, with equality by meaning."""

from __future__ import annotations

import json
import re

import pytest

from ptc._extraction._compare import _is_equal, compare
from ptc._extraction._compare_html import write_html


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1450, "1,450.00", True),
        (0.1, "0.10", True),
        ("0123", "123", False),  # a telephone number
        ("Ada  Ltd", "ada ltd", True),
        ("2025-01-31", "2025-01-31T00:00:00Z", True),
        ("2025-01-31", "2025-01-30", False),
        (True, 1, False),
        (True, "true", False),
        (None, "", False),
        ("1,45", "145", False),
        (2**70, str(2**70), True),
    ],
)
def test_values_are_equal_if_only_their_form_differs(
    one: object, other: object, equal: bool
) -> None:
    assert _is_equal(one, other) is equal
    assert _is_equal(other, one) is equal


def test_each_field_has_its_precision_and_recall() -> None:
    gold = {
        "a": {"name": "x", "tags": ["t", "u"], "lines": [{"n": 1, "s": 5}, {"n": 2, "s": 6}]},
        "b": {"name": "y", "extra": None},
        "c": {"name": "z"},
    }
    found = {
        "a": {"name": "X", "tags": ["u", "w"], "lines": [{"n": 2, "s": 7}, {"n": 1, "s": 5}]},
        "b": {"name": "q", "extra": 3},
        "c": None,
        "other": {"name": "not compared"},
    }
    result = compare(found, gold, {"lines": ("n",)})
    scores = {s.field: (s.right, s.wrong, s.missing, s.extra) for s in result.fields}
    assert scores == {
        "name": (1, 1, 1, 0),
        "tags[]": (1, 0, 1, 1),
        "lines[].n": (2, 0, 0, 0),
        "lines[].s": (1, 1, 0, 0),
        "extra": (0, 0, 0, 1),
    }
    name = next(s for s in result.fields if s.field == "name")
    assert (name.precision, name.recall) == (1 / 2, 1 / 3)
    assert (result.right_documents, result.documents, result.without_object) == (0, 3, ["c"])
    assert ("a", "/lines/1/s", 6, 7) in [
        (d.id, d.path, d.gold, d.found) for d in result.disagreements
    ]
    json.dumps(result.to_json())


def test_object_in_place_of_a_scalar_is_wrong() -> None:
    result = compare({"a": {"x": {"y": 1}}}, {"a": {"x": 1}}, {})
    assert (result.total.right, result.total.missing + result.total.wrong) == (0, 1)
    assert result.total.extra == 1


def test_html_report_escapes_values_and_loads_nothing() -> None:
    evil = "<script>alert('&')</script>"
    page = write_html(compare({evil: {evil: evil}}, {evil: {evil: "x\ud800"}}, {}))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"""(src|href)\s*=|url\(|@import""", page)
    assert "default-src 'none'" in page
    page.encode()


def test_long_and_deep_lists_are_compared_at_once() -> None:
    gold = [{"n": n, "text": f"a{n}", "rest": n % 7} for n in range(3_000)]
    found = [{"n": n, "text": f"b{n}", "rest": n % 5} for n in reversed(range(3_000))]
    assert compare({"a": gold[::-1]}, {"a": gold}, {}).total.right == 9_000
    assert compare({"a": found}, {"a": gold}, {}).total.wrong > 0
    by_key = compare({"a": {"l": found}}, {"a": {"l": gold}}, {"l": ("n",)})
    assert [score.right for score in by_key.fields] == [3_000, 0, 430]
    one: object = 1
    other: object = 2
    for _ in range(60):
        one, other = [one, 0], [other, 0]
    assert compare({"a": other}, {"a": one}, {}).total.right == 60


def test_equal_item_is_not_taken_by_a_similar_one() -> None:
    gold = [{"a": 1, "b": 2}, {"a": 1, "b": 3}]
    result = compare({"x": [{"a": 1, "b": 3}]}, {"x": gold}, {})
    assert (result.total.right, result.total.missing, result.total.wrong) == (2, 2, 0)
