"""The repair loop: what a model is told, and when it is not asked again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from ptc import TruncatedError, UsageError
from ptc.structured import Accepted, Again, GaveUp, RepairLoop, Violation

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "sentiment": {"enum": ["positive", "negative"]},
        "score": {"type": "integer", "maximum": 10},
    },
    "required": ["sentiment"],
    "additionalProperties": False,
}


def test_damaged_answer_is_repaired_and_accepted_without_a_request() -> None:
    loop = RepairLoop(SCHEMA)
    verdict = loop.take("{'sentiment': 'Positive'}")
    assert isinstance(verdict, Accepted)
    assert verdict.value == {"sentiment": "positive"}
    assert {repair.kind for repair in verdict.repairs} == {"quotes", "allowed_spelling"}
    assert [attempt.violations for attempt in loop.attempts] == [()]


def test_feedback_lists_location_rule_value_and_allowed_values() -> None:
    verdict = RepairLoop(SCHEMA).take('{"sentiment": "positiv", "score": 11}')
    assert isinstance(verdict, Again)
    assert verdict.feedback == (
        "The answer does not conform to the schema:\n"
        '- /sentiment: "positiv" is not one of the 2 allowed values; '
        'allowed: "positive", "negative"; did you mean "positive"?\n'
        "- /score: 11 is greater than the maximum of 10\n"
        "Everything that is not listed is correct: do not change it. Answer with the complete "
        "corrected value, as JSON and nothing else."
    )


def test_feedback_refers_to_the_value_inside_an_envelope() -> None:
    verdict = RepairLoop(SCHEMA).take('{"result": {"sentiment": "good"}}')
    assert isinstance(verdict, Again)
    assert '- /sentiment: "good" is not one of' in verdict.feedback


def test_feedback_length_is_capped() -> None:
    loop = RepairLoop({"type": "array", "items": {"type": "integer"}})
    verdict = loop.take(json.dumps(["x" * 5_000] * 100))
    assert isinstance(verdict, Again)
    assert len(verdict.feedback) < 9_000
    verdict = loop.take(json.dumps([f"{n} things" for n in range(500)]))
    assert isinstance(verdict, Again)
    assert verdict.feedback.count("\n- ") <= 21


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("I cannot do that.", 'contains no JSON value; it starts with "I cannot do that."'),
        ('{"sentiment": "pos', 'ends before its JSON value does, after "{\\"sentiment\\": \\"pos"'),
        ('{"score": 1,\n "sentiment" ""positive" x}', "is not JSON at line 2, column 14"),
        ('{"sentiment": "positive"} or {"sentiment": "negative"}', "more than one value"),
    ],
)
def test_answer_without_a_single_value_gets_specific_feedback(text: str, told: str) -> None:
    verdict = RepairLoop(SCHEMA).take(text)
    assert isinstance(verdict, Again)
    assert told in verdict.feedback


def test_loop_stops_when_two_answers_break_the_same_rules() -> None:
    loop = RepairLoop(SCHEMA, max_repair_attempts=5)
    assert isinstance(loop.take('{"sentiment": "good"}'), Again)
    assert loop.take('Sorry! {"sentiment": "good"}') == GaveUp("no_progress")
    assert [attempt.value for attempt in loop.attempts] == [{"sentiment": "good"}] * 2


@pytest.mark.parametrize("allowed", [0, 1, 5])
def test_loop_allows_its_maximum_of_attempts_and_records_each(allowed: int) -> None:
    loop = RepairLoop(SCHEMA, max_repair_attempts=allowed)
    for number in range(allowed):
        assert isinstance(loop.take(f'{{"sentiment": "good {number}"}}'), Again)
    assert loop.take('{"sentiment": "bad"}') == GaveUp("attempts")
    assert len(loop.attempts) == allowed + 1


def test_truncated_answer_does_not_count_as_an_attempt() -> None:
    loop = RepairLoop(SCHEMA, max_repair_attempts=0)
    for text in ('{"sentiment": "pos', "", "<think>hm", '{"sentiment": "positive", "score": 1'):
        with pytest.raises(TruncatedError):
            loop.take(text, ended=False)
    assert loop.attempts == []
    assert isinstance(loop.take('{"sentiment": "positive"}'), Accepted)


@pytest.mark.parametrize("text", ['{"sentiment": "pos', "<think>hm", '{"sentiment": "positive"'])
def test_answer_that_ended_by_itself_is_never_truncated(text: str) -> None:
    assert isinstance(RepairLoop(SCHEMA).take(text), Accepted | Again)


def test_alike_violations_are_counted_and_the_rest_is_not_called_correct() -> None:
    rows = {"type": "array", "items": {"properties": {"n": {"type": "integer"}}}}
    verdict = RepairLoop(rows).take(json.dumps([{"n": "x"}] * 84))
    assert isinstance(verdict, Again)
    assert verdict.feedback.count("\n- ") == 3
    assert '- /2/n: "x" is not of type "integer" (and 81 more like this)\n' in verdict.feedback
    assert "The list is incomplete" in verdict.feedback
    assert "correct: do not change" not in verdict.feedback


def test_violations_of_different_rules_beyond_the_list_are_counted() -> None:
    names = [f"n{number}" for number in range(100)]
    schema = {"properties": {name: {"type": "integer"} for name in names}}
    verdict = RepairLoop(schema).take(json.dumps(dict.fromkeys(names, "x")))
    assert isinstance(verdict, Again)
    assert "- and 80 more\nThe list is incomplete" in verdict.feedback


def test_validator_can_reject_a_conforming_value() -> None:
    loop = RepairLoop(SCHEMA)
    assert isinstance(loop.take('{"sentiment": "positive", "score": 1}'), Accepted)
    verdict = loop.refuse([Violation("/score", "validator", "positive is 6 or more")])
    assert isinstance(verdict, Again)
    assert "- /score: positive is 6 or more" in verdict.feedback
    assert loop.attempts[0].violations


@pytest.mark.parametrize(
    "text", ['{"elements": [1, 2]}', "[1, 2]", '```\n{"elements": [1, 2,]}\n```']
)
def test_wrapped_answer_is_accepted_with_and_without_the_wrapper(text: str) -> None:
    loop = RepairLoop({"type": "array", "items": {"type": "integer"}}, wrapped=True)
    verdict = loop.take(text)
    assert isinstance(verdict, Accepted)
    assert verdict.value == [1, 2]


def test_max_repair_attempts_out_of_range_is_refused() -> None:
    with pytest.raises(UsageError, match="from 0 to 5"):
        RepairLoop(SCHEMA, max_repair_attempts=6)


def test_wrapped_answer_is_checked_by_the_validators_of_its_type() -> None:
    class Even(BaseModel):
        n: int

        def model_post_init(self, context: object) -> None:
            if self.n % 2:
                msg = "odd"
                raise ValueError(msg)

    loop = RepairLoop(list[Even], wrapped=True)
    verdict = loop.take('{"elements": [{"n": 2}, {"n": 3}]}')
    assert isinstance(verdict, Again)
    assert "- /1: Value error, odd" in verdict.feedback
    assert isinstance(loop.take('{"elements": [{"n": 2}]}'), Accepted)
