"""The final answer of a conversation: one answer, by schema, from a call or from a text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from ptc import FinalAnswer, GenerationError, Session, ToolError, TruncatedError, UsageError
from ptc.structured import Accepted, Again

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "integer"}, "status": {"enum": ["open", "paid"]}},
    "required": ["total"],
    "additionalProperties": False,
}


class Report(BaseModel):
    total: int
    lines: list[str] = []


def feedback(action: Accepted | Again) -> str:
    assert isinstance(action, Again)
    return action.feedback


# --- calls ------------------------------------------------------------------------------------


def test_tool_has_an_object_schema_unchanged_and_wraps_any_other() -> None:
    assert FinalAnswer(SCHEMA).tool.parameters == SCHEMA
    listed = FinalAnswer(list[int]).tool.parameters
    assert listed["properties"]["elements"]["type"] == "array"
    assert FinalAnswer({"type": "boolean"}).tool.parameters["required"] == ["value"]
    assert FinalAnswer(SCHEMA, name="submit", description="The end.").tool.definition == {
        "name": "submit",
        "description": "The end.",
        "parameters": SCHEMA,
    }


def test_call_that_conforms_ends_the_conversation() -> None:
    final = FinalAnswer(Report)
    assert not final.done
    assert final.take_call({"total": 3}) == Accepted({"total": 3}, ())
    assert final.done
    assert (final.value, final.typed) == ({"total": 3}, Report(total=3))


def test_second_call_is_an_error_and_the_first_answer_stays() -> None:
    final = FinalAnswer(SCHEMA)
    final.take_call({"total": 1})
    for arguments in ({"total": 2}, {"total": 1}, "garbage"):
        with pytest.raises(ToolError, match="already accepted") as caught:
            final.take_call(arguments)
        assert caught.value.code == "already_finished"
    with pytest.raises(ToolError, match="already accepted"):
        final.take_text('{"total": 4}')
    assert final.value == {"total": 1}
    assert len(final.attempts) == 1


def test_unambiguous_damage_is_repaired_without_asking_the_model() -> None:
    final = FinalAnswer(SCHEMA)
    assert isinstance(final.take_call("{'total': '12', 'status': 'Paid',}"), Accepted)
    assert final.value == {"total": 12, "status": "paid"}
    assert {repair.kind for repair in final.repairs} == {
        "quotes",
        "text_to_number",
        "allowed_spelling",
        "trailing_comma",
    }


def test_invalid_call_gets_the_violations_and_a_corrected_one_is_accepted() -> None:
    final = FinalAnswer(SCHEMA)
    text = feedback(final.take_call({"total": "many", "status": "payed"}))
    assert '- /total: "many" is not of type "integer"' in text
    assert 'did you mean "paid"?' in text
    assert text.endswith("Call `response` again, with the complete corrected answer.")
    assert isinstance(final.take_call({"total": 1, "status": "paid"}), Accepted)
    assert [len(attempt.violations) for attempt in final.attempts] == [2, 0]


def test_repairs_are_bounded_and_the_error_has_every_attempt() -> None:
    final = FinalAnswer(SCHEMA, max_repair_attempts=1)
    assert isinstance(final.take_call({"total": "many"}), Again)
    with pytest.raises(GenerationError, match="2 answers do not conform") as caught:
        final.take_call({"total": 1, "status": "gone"})
    assert caught.value.reason == "attempts"
    assert [attempt.value for attempt in caught.value.attempts] == [
        {"total": "many"},
        {"total": 1, "status": "gone"},
    ]
    with pytest.raises(GenerationError, match="2 answers do not conform"):
        final.take_call({"total": 1})
    assert not final.done


def test_same_violations_twice_end_the_conversation() -> None:
    final = FinalAnswer(SCHEMA, max_repair_attempts=5)
    assert isinstance(final.take_call({"total": "many"}), Again)
    with pytest.raises(GenerationError, match="same violations") as caught:
        final.take_call({"total": "many"})
    assert caught.value.reason == "no_progress"


def test_call_without_arguments_is_an_empty_object() -> None:
    assert FinalAnswer({"type": "object"}).take_call("") == Accepted({}, ())
    assert "required property" in feedback(FinalAnswer(SCHEMA).take_call(" "))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, 0),
        ({"type": "boolean"}, False),
        ({"type": "string"}, ""),
        ({"type": "null"}, None),
        ({"type": "array"}, []),
        ({"type": "object"}, {}),
    ],
)
def test_falsy_answer_survives(schema: dict[str, Any], value: Any) -> None:
    key = FinalAnswer(schema).tool.parameters.get("required", [None])[0]
    called = FinalAnswer(schema)
    called.take_call(value if key is None else {key: value})
    written = FinalAnswer(schema)
    written.take_text(json.dumps(value))
    for final in (called, written):
        assert final.done
        assert final.value == value
        assert type(final.value) is type(value)


# --- texts ------------------------------------------------------------------------------------


def test_answer_in_a_text_is_accepted() -> None:
    final = FinalAnswer(SCHEMA)
    final.take_text('Here it is:\n```json\n{"total": 7}\n```\nAnything else?')
    assert final.value == {"total": 7}
    assert FinalAnswer({"type": "boolean"}).take_text("false") == Accepted(False, ())


def test_text_without_an_answer_is_returned_with_a_reminder() -> None:
    final = FinalAnswer(SCHEMA)
    text = feedback(final.take_text("I have read everything."))
    assert text.startswith("There is no final answer yet")
    assert "`response`" in text
    assert isinstance(final.take_call({"total": 1}), Accepted)


def test_reminders_are_bounded_and_use_up_no_repairs() -> None:
    final = FinalAnswer(SCHEMA, max_reminders=2, max_repair_attempts=1)
    for _ in range(2):
        assert isinstance(final.take_text("Done."), Again)
    assert isinstance(final.take_text('{"total": "many"}'), Again)
    with pytest.raises(GenerationError, match="no complete answer") as caught:
        final.take_text("Done.")
    assert [attempt.text for attempt in caught.value.attempts] == [
        "Done.",
        "Done.",
        '{"total": "many"}',
        "Done.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0",
        "\ud800",
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"total": NaN}',
        "<think>",
        '"' * 9_999,
    ],
)
def test_hostile_text_is_an_answer_like_any_other_invalid_one(text: str) -> None:
    assert isinstance(FinalAnswer(SCHEMA).take_text(text), Again)
    assert isinstance(FinalAnswer(SCHEMA).take_call(text), Again)


def test_arguments_that_are_not_json_data_are_an_error_of_the_caller() -> None:
    with pytest.raises(UsageError, match="must be JSON data"):
        FinalAnswer(SCHEMA).take_call({"total": {1, 2}})


def test_unfinished_answer_is_requested_again_and_a_truncated_one_is_an_error() -> None:
    final = FinalAnswer(SCHEMA)
    assert "ends before its JSON value" in feedback(final.take_call('{"total": 1, "no'))
    with pytest.raises(TruncatedError) as caught:
        final.take_call('{"total": 1', ended=False)
    assert len(caught.value.attempts) == 1
    with pytest.raises(TruncatedError):
        FinalAnswer(SCHEMA).take_text("I was about to", ended=False)


# --- approvals, options -----------------------------------------------------------------------


@pytest.mark.parametrize("order", ["hold first", "call first"])
def test_answer_is_not_final_while_a_call_awaits_approval(order: str) -> None:
    final = FinalAnswer(SCHEMA)
    if order == "hold first":
        final.hold("pay")
    final.take_call({"total": 1})
    final.hold("pay")
    assert not final.done
    with pytest.raises(UsageError, match="pay awaits approval"):
        _ = final.value
    with pytest.raises(ToolError, match="already accepted"):
        final.take_call({"total": 2})
    final.release("pay")
    assert final.done
    assert final.value == {"total": 1}


def test_value_before_the_answer_is_an_error() -> None:
    with pytest.raises(UsageError, match="there is no final answer"):
        _ = FinalAnswer(SCHEMA).typed


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_reminders": 6}, "max_reminders must be"),
        ({"max_repair_attempts": -1}, "max_repair_attempts"),
        ({"name": ""}, "name"),
    ],
)
def test_invalid_option_is_an_error(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        FinalAnswer(SCHEMA, **options)


def test_schema_that_no_value_satisfies_is_an_error_before_the_first_request() -> None:
    with pytest.raises(UsageError, match="contradicts itself"):
        FinalAnswer({"type": "integer", "minimum": 2, "maximum": 1})


@pytest.mark.anyio
async def test_tool_can_be_called_through_a_session() -> None:
    final = FinalAnswer(Report)
    async with Session(tools=[final.tool]) as session:
        refused = await session.tool("response", {"total": "many"})
        accepted = await session.tool("response", {"total": "3"})
        again = await session.tool("response", {"total": 4})
    assert refused.error is not None
    assert refused.error.code == "not_conforming"
    assert "`response` again" in refused.text
    assert (accepted.value, accepted.text) == ({"total": 3}, "The answer was accepted.")
    assert again.error is not None
    assert again.error.code == "already_finished"
    assert final.typed == Report(total=3)
