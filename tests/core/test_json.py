"""The one JSON form: what it holds exactly, and the path to what it does not."""

from __future__ import annotations

import dataclasses
import math
import tracemalloc
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from pydantic import BaseModel

from ptc._core import _json


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: float | None = None


class Colour(Enum):
    RED = "red"


class Bad(Enum):
    NOT_A_NUMBER = math.nan


class Pair(NamedTuple):
    first: int
    second: int


class Same:
    def model_dump(self, mode: str) -> Any:
        return Same()


class Row(BaseModel):
    name: str
    when: date


def test_the_types_that_tools_return_have_a_json_form() -> None:
    value = {
        "point": Point(1),
        "colour": Colour.RED,
        "row": Row(name="a", when=date(2026, 1, 2)),
        "set": {3, 1, 2},
        "decimal": Decimal("1.10"),
        "path": Path("a/b"),
        "uuid": UUID(int=5),
        "delta": timedelta(seconds=90),
        "tuple": (1, None),
    }
    assert _json.loads(_json.dumps(value)) == {
        "point": {"x": 1, "y": None},
        "colour": "red",
        "row": {"name": "a", "when": "2026-01-02"},
        "set": [1, 2, 3],
        "decimal": "1.10",
        "path": "a/b",
        "uuid": "00000000-0000-0000-0000-000000000005",
        "delta": 90.0,
        "tuple": [1, None],
    }


def cycle() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"stats": [1.0, math.nan]}, r"value\.stats\[1\]: nan has no JSON form"),
        ({"a": math.inf}, r"value\.a: inf has no JSON form"),
        ([10**4300], r"value\[0\]: integer of more than 4,300 digits; send hex"),
        ({"a": {1: "x"}}, r"value\.a: key 1 is not a string"),
        ({"a": b"x"}, r"value\.a: bytes has no JSON form"),
        ({"a": object()}, r"value\.a: object has no JSON form"),
        (["\ud800"], r"value\[0\]: text with a lone surrogate"),
        (Point(1, math.nan), r"value\.y: nan has no JSON form"),
        (cycle(), r"nested deeper than 200 levels"),
        ([Bad.NOT_A_NUMBER], r"value\[0\]: nan has no JSON form"),
        ({"a": Pair(1, 2)}, r"value\.a: Pair has no JSON form"),
        ([Same()], r"value\[0\]: Same has no JSON form"),
    ],
)
def test_a_value_without_an_exact_form_is_refused_with_its_path(value: Any, message: str) -> None:
    with pytest.raises(_json.JsonError, match=message):
        _json.dumps(value)


def test_none_beside_numbers_is_not_treated_as_nan() -> None:
    assert _json.dumps({"a": None, "b": 1.5}) == b'{"a":null,"b":1.5}'


def test_an_array_beside_a_none_is_written() -> None:
    numpy = pytest.importorskip("numpy")
    assert _json.dumps([numpy.array([1.5, 2.5]), None]) == b"[[1.5,2.5],null]"
    with pytest.raises(_json.JsonError, match=r"^value\[0\]\[1\]: nan has no JSON form"):
        _json.dumps([numpy.array([1.5, math.nan])])


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert _json.sha256_of({"a": 1, "b": [2]}) == _json.sha256_of({"b": [2], "a": 1})
    assert _json.sha256_of({"a": 1}) != _json.sha256_of({"a": 2})


@pytest.mark.parametrize("write", [_json.dumps, _json.dumps_unchecked])
def test_stored_json_takes_the_memory_of_its_text(write: Callable[[object], bytes]) -> None:
    tracemalloc.start()
    try:
        stored = [write({"n": number}) for number in range(1_000)]
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(stored) == 1_000
    assert used < 1_000 * 200
