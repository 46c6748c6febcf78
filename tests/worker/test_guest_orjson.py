"""The stand-in for orjson in a guest, beside orjson."""

from __future__ import annotations

import enum
import json
import uuid
from collections import UserString
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptc.worker.guest import _orjson as guest


class Colour(enum.Enum):
    RED = "red"


class Text(str):
    __slots__ = ()


class Row(dict[Any, Any]):
    pass


OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats()
    | st.text(st.characters(codec=None, exclude_categories=()))
    | st.sampled_from([Colour.RED, Text("é\n"), uuid.UUID(int=7), UserString("x"), 1j])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner).map(Row)
        | st.dictionaries(st.text(), inner)
    ),
)


def written(module: Any, value: object) -> Any:
    """Return what a module writes, decoded by the library, or the type of its refusal."""
    try:
        return json.loads(module.dumps(value, default=lambda each: str(each) + "!", option=OPTIONS))
    except module.JSONEncodeError:
        return "refused"


@given(VALUES)
def test_values_are_written_and_refused_as_by_orjson(value: object) -> None:
    assert written(guest, value) == written(orjson, value)


@pytest.mark.parametrize("depth", [250, 252, 253, 254, 255, 300, 100_000])
def test_nested_lists_are_written_and_refused_as_by_orjson(depth: int) -> None:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    assert written(guest, value) == written(orjson, value)


@given(st.text() | st.binary() | VALUES.map(repr))
def test_texts_are_read_and_refused_as_by_orjson(text: str | bytes) -> None:
    def read(module: Any) -> Any:
        try:
            return repr(module.loads(text))
        except ValueError:
            return "refused"

    assert read(guest) == read(orjson)


def test_fragment_is_inserted() -> None:
    assert guest.dumps([guest.Fragment(b'{"a":1}')]) == b'[{"a":1}]'
