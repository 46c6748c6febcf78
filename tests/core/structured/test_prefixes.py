"""Partial answers under each rule of a schema: nothing is shown that later text takes back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ptc import ModelError, TruncatedError
from ptc.structured import Contract, StreamParser

OPEN_STRINGS = {"type": "object", "properties": {"k": {"type": "string"}}}


def stream(schema: Any, text: str, **options: Any) -> list[Any]:
    """The partial values after each character."""
    parser = StreamParser(schema, step_chars=0, **options)
    return [partial.value for char in text if (partial := parser.feed(char)) is not None]


@pytest.mark.parametrize(
    "choice",
    [
        {"enum": ["cat", "category"]},
        {"enum": ["cat", "category", None]},
        {"anyOf": [{"const": "cat"}, {"const": "category"}]},
        {"oneOf": [{"const": "cat"}, {"type": "null"}, {"enum": ["category"]}]},
        {"$ref": "#/$defs/kind"},
        {"type": "string", "allOf": [{"enum": ["cat", "category"]}]},
    ],
    ids=["enum", "nullable", "anyOf", "oneOf", "reference", "allOf"],
)
@pytest.mark.parametrize("value", ["cat", "category"])
def test_choice_is_shown_only_when_its_string_is_closed(choice: Any, value: str) -> None:
    schema = {"type": "object", "properties": {"k": choice, "n": {"type": "integer"}}}
    schema["$defs"] = {"kind": {"enum": ["cat", "category"]}}
    shown = stream(schema, json.dumps({"k": value, "n": 1}))
    assert shown == [{}, {"k": value}, {"k": value, "n": 1}, {"k": value, "n": 1}][: len(shown)]


def test_text_that_may_be_a_choice_or_free_grows_as_text() -> None:
    choice = {"anyOf": [{"enum": ["cat", "category"]}, {"type": "string"}]}
    shown = stream({"properties": {"k": choice}, "type": "object"}, '{"k": "cats"}')
    assert [one.get("k") for one in shown] == [None, "", "c", "ca", "cat", "cats", "cats"]


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
def test_discriminator_is_shown_when_closed_and_then_decides_the_branch(word: str) -> None:
    branches: list[dict[str, Any]] = [
        {"properties": {"kind": {"const": "in"}, "v": {"type": "integer"}}},
        {"properties": {"kind": {"const": "invoice"}, "v": {"type": "string"}}},
    ]
    for branch in branches:
        branch |= {"type": "object", "required": ["kind", "v"], "additionalProperties": False}
    shown = stream({word: branches}, '{"kind": "invoice", "v": "xy"}')
    assert shown[:3] == [{}, {"kind": "invoice"}, {"kind": "invoice", "v": ""}]
    # A text is not the number that the chosen branch requires.
    assert stream({word: branches}, '{"kind": "in", "v": "xy"}')[-1] == {"kind": "in"}


@pytest.mark.parametrize(
    "rules",
    [
        {"required": ["k", "m"], "properties": {"k": {}, "m": {}}, "unevaluatedProperties": False},
        {"allOf": [{"properties": {"k": {}, "m": {}}}], "unevaluatedProperties": False},
        {
            "anyOf": [{"properties": {"k": {}, "m": {}}, "required": ["m"]}, {"required": ["z"]}],
            "unevaluatedProperties": False,
        },
        {
            "if": {"properties": {"m": {"const": 1}}, "required": ["m"]},
            "then": {"properties": {"k": {"type": "string"}}},
            "else": {"properties": {"k": False}},
        },
        {"minProperties": 2},
        {"dependentRequired": {"k": ["m"]}},
        {"dependentSchemas": {"k": {"required": ["m"]}}},
        {"not": {"properties": {"k": {}, "m": {"const": 2}}}},
        {"not": {"required": ["z"]}},
        {"properties": {"k": {"minLength": 4, "pattern": "^abcd$"}}},
        {"patternProperties": {"^[km]$": {"maxLength": 4}}, "additionalProperties": False},
    ],
    ids=lambda rules: ",".join(rules),
)
def test_rule_that_more_text_satisfies_does_not_stall_the_stream(rules: Any) -> None:
    text = '{"k": "abcd", "m": 1}'
    assert Contract(rules).conforms(json.loads(text))
    shown = stream(rules, text)
    assert [one.get("k") for one in shown[:6]] == [None, "", "a", "ab", "abc", "abcd"]
    assert shown[-1] == json.loads(text)


@pytest.mark.parametrize(
    "rules",
    [
        {"minItems": 3},
        {"contains": {"const": "ab"}},
        {"prefixItems": [{"type": "integer"}], "items": {"type": "string"}},
        {"prefixItems": [True], "contains": {"type": "string"}, "unevaluatedItems": False},
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}],
         "additionalItems": {"type": "string"}},
    ],
    ids=lambda rules: ",".join(rules),
)  # fmt: skip
def test_rule_for_a_list_does_not_stall_the_stream(rules: Any) -> None:
    assert Contract(rules).conforms([1, "ab", "ab"])
    shown = stream(rules, '[1, "ab", "ab"]')
    assert shown[:5] == [[], [1], [1, ""], [1, "a"], [1, "ab"]]
    assert shown[-1] == [1, "ab", "ab"]


@pytest.mark.parametrize(
    ("rules", "text", "last"),
    [
        ({"maxProperties": 1}, '{"k": 1, "m": 2}', {"k": 1}),
        ({"not": {"required": ["m"]}}, '{"k": 1, "m": 2}', {"k": 1}),
        ({"properties": {"k": {"maxLength": 2}}}, '{"k": "abc"}', {"k": "ab"}),
        ({"properties": {"k": {"format": "date"}}}, '{"k": "x", "m": 1}', {"k": "x"}),
        ({"propertyNames": {"maxLength": 1}}, '{"k": 1, "mm": 2}', {"k": 1}),
        (
            {"properties": {"k": {}}, "anyOf": [{"properties": {"m": {}}, "required": ["z"]}],
             "unevaluatedProperties": False},
            '{"k": 1, "m": 2, "y": 3}', {"k": 1, "m": 2},
        ),
        (
            {"if": {"properties": {"k": {"const": 1}}, "required": ["k"]},
             "then": {"properties": {"m": {"type": "integer"}}}},
            '{"k": 1, "m": "x"}', {"k": 1},
        ),
    ],
    ids=lambda case: next(iter(case)) if isinstance(case, dict) else "",
)  # fmt: skip
def test_value_that_can_no_longer_conform_is_not_shown(rules: Any, text: str, last: Any) -> None:
    assert stream({"type": "object", **rules}, text)[-1] == last


def test_container_that_is_itself_a_choice_is_shown_when_closed() -> None:
    shown = stream({"properties": {"k": {"enum": [{"a": "x"}]}}}, '{"k": {"a": "x"}, "m": 1}')
    assert shown[:2] == [{}, {"k": {"a": "x"}}]


def test_answer_that_ended_is_repaired_or_rejected_but_never_truncated() -> None:
    for text, value in [('{"k": "x"\n', {"k": "x"}), ('{"k": "x', None)]:
        parser = StreamParser(OPEN_STRINGS)
        parser.feed(text)
        last = parser.finish()
        assert (last and last.value) == value


@pytest.mark.parametrize("text", ['{"k": "x"\n', '{"k": "x'])
def test_cut_answer_and_lost_answer_raise_different_errors(text: str) -> None:
    parser = StreamParser(OPEN_STRINGS)
    parser.feed(text)
    with pytest.raises(TruncatedError, match="ask again with a higher token limit"):
        parser.finish(ended=False)
    with pytest.raises(ModelError, match="the connection broke during the answer") as lost:
        parser.finish(ended=False, lost=True)
    assert lost.value.lost
    assert lost.value.retryable


def test_whole_answer_is_accepted_however_it_ended() -> None:
    parser = StreamParser(OPEN_STRINGS)
    parser.feed('{"k": "x"}')
    last = parser.finish(ended=False, lost=True)
    assert last is not None
    assert last.value == {"k": "x"}


def test_schema_of_a_metaschema_of_its_own_is_streamed() -> None:
    uri = "https://example.com/meta"
    own = {
        "$id": uri,
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$vocabulary": {"https://json-schema.org/draft/2020-12/vocab/applicator": True},
    }
    contract = Contract({"$schema": uri, "properties": {"k": {"minimum": 9}}}, resources={uri: own})
    assert stream(contract, '{"k": 1}')[-1] == {"k": 1}
    assert contract.list_of().conforms([{"k": 1}])
