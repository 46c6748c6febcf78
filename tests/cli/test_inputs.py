"""``--input NAME=VALUE`` and JSON objects on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ptc import UsageError
from ptc._cli._inputs import merge_inputs, parse_object, read_object


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("TODO", "TODO"),
        ("3", 3),
        ("-0.5", -0.5),
        ("true", True),
        ("null", None),
        ("[1, 2]", [1, 2]),
        ('{"a": {"b": 1}}', {"a": {"b": 1}}),
        ('"007"', "007"),
        ("007", "007"),
        ("a=b=c", "a=b=c"),
        ("", ""),
        ("True", "True"),
        ("NaN", "NaN"),
        ("[1, NaN]", "[1, NaN]"),
        ("{half", "{half"),
        ("[" * 100_000, "[" * 100_000),
        ("9" * 5_000, "9" * 5_000),
        (str(2**70), 2**70),
    ],
)
def test_input_value_is_json_if_valid_and_a_string_otherwise(text: str, value: Any) -> None:
    (found,) = merge_inputs([f"name={text}"], {}).values()
    assert (type(found), found) == (type(value), value)


def test_single_inputs_override_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "inputs.json"
    file.write_bytes(b'\xef\xbb\xbf{"a": 1, "b": 2}')
    base = read_object(str(file), "--inputs")
    assert merge_inputs(["b=3", "c=4"], base) == {"a": 1, "b": 3, "c": 4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ARGUMENTS is not JSON: Expecting value at line 1, column 1"),
        ("{a: 1}", "ARGUMENTS is not JSON: Expecting property name enclosed in double quotes at"),
        ('{"a":\n 1,}', "ARGUMENTS is not JSON: .* at line 2, column"),
        ("[]", "ARGUMENTS must be a JSON object, .*, not an array"),
        ("null", "ARGUMENTS must be a JSON object, .*, not null"),
        ("1", "ARGUMENTS must be a JSON object, .*, not a number"),
        ('{"a": NaN}', "ARGUMENTS is not JSON: NaN is not a JSON number"),
        ('{"a": 1, "a": 2}', "JSON object has the key 'a' twice"),
        ('{"a":' * 100_000, "ARGUMENTS is not JSON: it is nested too deeply"),
    ],
)
def test_arguments_that_are_not_an_object_are_refused_with_the_position(
    text: str, message: str
) -> None:
    with pytest.raises(UsageError, match=f"^{message}"):
        parse_object(text, "ARGUMENTS")


def test_inputs_file_that_is_not_utf8_is_refused_naming_the_byte(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(UsageError, match=r"--inputs '.*x\.json' is not UTF-8 text: byte 7 is 0xff"):
        read_object(str(tmp_path / "x.json"), "--inputs")
