"""Values as JSON: long texts are written in pieces, and nobody can tell."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from ptc.worker._values import Record, ValueRefused, dumps

LONG = 1 << 20
ALPHABETS = {
    "letters": "abc",
    "what JSON escapes": '"\\\b\f\n\r\t\x00\x1f\x7f/',
    "of two, three and four bytes": "é€\U0001f600a",
}


@pytest.mark.parametrize("name", list(ALPHABETS))
@pytest.mark.parametrize("length", [LONG - 1, LONG, LONG + 1, 2 * LONG + 7])
def test_a_long_text_is_written_as_any_other(name: str, length: int) -> None:
    alphabet = ALPHABETS[name]
    text = (alphabet * (length // len(alphabet) + 1))[:length]
    for value in (text, {"a": [1, text, {"b": text}], "c": None}, [text], Record(row=text)):
        written = dumps(value, "result")
        assert written == orjson.dumps(value)
        assert json.loads(written) == value


def test_what_is_refused_beside_a_long_text_is_refused_with_its_path() -> None:
    text = "x" * (LONG + 1)
    endless: dict[str, Any] = {"text": text}
    endless["self"] = endless
    for value, message in (
        ({"a": [text, float("nan")]}, r"result.a\[1\]: nan has no JSON form"),
        ({"a": text, 1: 2}, "key 1 is not a string"),
        ([text + "\ud800"], r"result\[0\]: text with a lone surrogate"),
        ([text, b"x"], r"result\[1\]: bytes has no JSON form"),
        (endless, "contains itself"),
    ):
        with pytest.raises(ValueRefused, match=message):
            dumps(value, "result")


def test_a_long_text_behind_many_parts_is_written_all_the_same() -> None:
    value = [*range(1_000), "é" * (LONG + 1)]
    assert json.loads(dumps(value, "result")) == value
