"""Integers over 64 bits in JSON: exact, marked by a tab, read in bounded time."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptc._core import _json
from ptc._wire import _wide
from ptc._wire._bodies import MAX_DEPTH, ProtocolError, decode

integers = st.integers() | st.integers(-(10**60), 10**60) | st.sampled_from([2**64, -(2**63) - 1])
values = st.recursive(
    st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet="\t\n\"\\0123456789abc\u1234", max_size=40),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=30,
)  # fmt: skip


@given(values)
def test_integers_of_any_size_are_written_and_read_exactly(value: Any) -> None:
    body = _json.dumps(value)
    assert json.loads(body) == value
    assert _json.loads(body) == value
    assert decode(body) == value
    # Ordinary values are written as orjson writes them.
    assert (b"\t" in body) or body == orjson.dumps(value)


@given(st.lists(st.text(alphabet="\t,]0123456789", max_size=60)))
def test_texts_are_never_read_as_integers(texts: list[str]) -> None:
    body = b"[\t123456789012345678901," + json.dumps(texts).encode() + b"]"
    assert decode(body) == [123456789012345678901, texts]


@dataclass
class Row:
    n: int
    _hidden: int = 0


class Kind(Enum):
    WIDE = 2**80


def test_wide_integers_in_other_types_are_written() -> None:
    value = {"row": Row(2**70), "kind": Kind.WIDE, "set": {2**90}, "pair": (2**70, 1)}
    expected = {"row": {"n": 2**70}, "kind": 2**80, "set": [2**90], "pair": [2**70, 1]}
    assert _json.loads(_json.dumps(value)) == expected
    assert _json.sha256_of({"b": 2**70, "a": 1}) == _json.sha256_of({"a": 1, "b": 2**70})


@pytest.mark.parametrize(
    "body",
    [
        b"{\t123456789012345678901:1}",
        b"[\t0123456789012345678901]",
        b"[\t123456789012345678901x]",
        b"[\tNaN]",
        b'[\t1,"\\ud800"]',
        b"[\t" + b"1" * 4_301 + b"]",
        b"\t",
        b"[\t123456789012345678901",
    ],
)
def test_marked_bodies_are_as_strict_as_others(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(body)


def test_marked_bodies_are_bounded_in_depth() -> None:
    def nested(levels: int) -> bytes:
        return b"[" * levels + b"\t123456789012345678901" + b"]" * levels

    assert decode(nested(MAX_DEPTH)) is not None
    for levels in (MAX_DEPTH + 1, 1_000, 5_000):
        with pytest.raises(ProtocolError):
            decode(nested(levels))


def test_longest_integers_are_read_in_bounded_time() -> None:
    longest = 10**4300 - 1
    body = _json.dumps([longest, -longest])
    assert decode(body) == [longest, -longest]
    with pytest.raises(_json.JsonError, match="more than 4,300 digits"):
        _json.dumps([longest + 1])


def test_lower_limit_of_the_process_does_not_matter() -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        number = 7**2_000
        assert decode(_json.dumps([number, -number])) == [number, -number]
    finally:
        sys.set_int_max_str_digits(before)
    assert _wide.fragment(-(10**700)) is not None
