"""`stream_elements`: each finished object of a list once, in order, and only if it conforms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from pydantic import BaseModel, Field, field_validator

from ptc import (
    BlockingSession,
    ElementsChangedError,
    GenerationError,
    ModelError,
    Session,
    TruncatedError,
    UsageError,
)
from ptc._generation._elements import open_elements
from ptc.models import Delta, ModelReply, ModelRequest
from ptc.models._open import OpenModels
from ptc.structured import Contract, Partial, StreamParser
from ptc.testing import ScriptedModel, cut, lost

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


class Person(BaseModel):
    name: str
    age: int = Field(ge=0)

    @field_validator("name")
    @classmethod
    def is_not_blank(cls, name: str) -> str:
        if not name.strip():
            raise ValueError("the name is blank")
        return name


ANN, BOB, CY = ({"name": name, "age": age} for name, age in [("Ann", 3), ("Bob", 4), ("Cy", 5)])
PEOPLE = [Person(**row) for row in (ANN, BOB, CY)]  # type: ignore[arg-type]  # rows of two types


def people(*rows: Any) -> dict[str, Any]:
    return {"elements": list(rows)}


async def take_all(
    *answers: Any, schema: Any = Person, **options: Any
) -> tuple[list[Any], Exception | None, ScriptedModel]:
    """The elements, the error that ended them, and the model."""
    model, found = ScriptedModel(*answers, chunk_chars=3), []
    try:
        # Without a session, which would cost most of the time.
        async with open_elements(OpenModels(model), schema, "List them.", options) as elements:
            async for element in elements:
                found.append(element)
    except Exception as error:  # noqa: BLE001  # returned
        return found, error, model
    assert elements.result.object == found
    assert elements.result.attempts[-1].violations == ()
    return found, None, model


@pytest.mark.both_loops
async def test_each_element_is_yielded_once_when_it_is_complete() -> None:
    text = json.dumps(people(ANN, BOB, CY))
    sent: list[str] = []
    received = anyio.Event()
    seen: list[Any] = []

    class Slow(ScriptedModel):
        async def stream(self, request: ModelRequest, tell: Any) -> ModelReply:
            nonlocal received
            for part in text.split("}, "):
                part += "}, " if "]" not in part else ""
                received = anyio.Event()
                sent.append(part)
                tell(Delta(part, in_call=True))
                await received.wait()
            return ModelReply(arguments=(text,))

    async with Session(model=Slow()) as session:
        with anyio.fail_after(10):
            async with session.stream_elements(Person, "List them.") as elements:
                async for person in elements:
                    seen.append(person)
                    assert len(sent) == len(seen)
                    with pytest.raises(UsageError, match="the answer is not complete"):
                        _ = elements.result
                    received.set()
    assert seen == PEOPLE
    assert elements.result.object == PEOPLE
    assert elements.result.value == [ANN, BOB, CY]


@pytest.mark.parametrize("mode", ["tool", "native", "prompt"])
async def test_elements_of_every_mode_have_the_requested_type(
    mode: Literal["tool", "native", "prompt"],
) -> None:
    rows = [ANN, BOB] if mode == "prompt" else people(ANN, BOB)
    assert (await take_all(rows, mode=mode))[0] == PEOPLE[:2]
    plain, _, _ = await take_all(rows, schema=Contract(Person).schema, mode=mode)
    assert plain == [ANN, BOB]
    numbers = [1, 2.5, 30]
    answer = numbers if mode == "prompt" else people(*numbers)
    assert (await take_all(answer, schema=float, mode=mode))[0] == numbers


async def test_schema_with_references_is_listed() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"name": {"$ref": "#/definitions/name"}, "next": {"$ref": "#"}},
        "definitions": {"name": {"type": "string", "maxLength": 3}},
        "additionalProperties": False,
    }
    rows = [{"name": "a", "next": {"name": "b"}}, {"name": "c"}]
    assert (await take_all(people(*rows), schema=schema))[0] == rows
    found, error, _ = await take_all(people({"name": "long"}), schema=schema, max_repair_attempts=0)
    assert found == []
    assert isinstance(error, GenerationError)


@pytest.mark.parametrize(
    "interruption",
    [
        {"elements": [ANN, {**BOB, "age": -4}, CY]},
        {"elements": [ANN, {**BOB, "name": " "}, CY]},
        lost(json.dumps(people(ANN, BOB))[:-9]),
        cut(json.dumps(people(ANN, BOB))[:-2]),
        ModelError("reset by peer", lost=True),
    ],
    ids=["violation", "validator", "lost", "cut", "unreachable"],
)
async def test_repair_or_resend_continues_behind_the_yielded_elements(interruption: Any) -> None:
    found, error, model = await take_all(interruption, people(ANN, BOB, CY))
    assert (found, error, len(model.requests)) == (PEOPLE, None, 2)


async def test_answer_with_other_elements_raises_after_a_repair() -> None:
    bad = people(ANN, BOB, {"name": "Cy"})
    for second, equal in [(people(ANN, CY), 1), (people(ANN), 1), (people(), 0)]:
        found, error, _ = await take_all(bad, second)
        assert found == PEOPLE[:2]
        assert isinstance(error, ElementsChangedError)
        assert f"asked again after 2 elements were yielded, and element {equal} of" in str(error)
        assert (error.elements, len(error.attempts)) == (2, 2)
        assert error.usage is not None
        assert error.usage.requests == 2
    # A rejected answer may differ: only the accepted one counts.
    found, error, _ = await take_all(bad, people(CY, {"name": "x"}), people(ANN, BOB, CY))
    assert (found, error) == (PEOPLE, None)


async def test_objection_of_a_validator_to_the_whole_list_continues_it() -> None:
    def three(rows: list[Person]) -> str | None:
        return None if len(rows) == 3 else "there are three people"

    answers = people(ANN, BOB), people(ANN, BOB, CY)
    found, error, _ = await take_all(*answers, validators=[three])
    assert (found, error) == (PEOPLE, None)


async def test_damaged_answer_yields_the_elements_before_the_damage_and_then_the_rest() -> None:
    text = json.dumps(people(ANN, BOB, CY)).replace('"Bob"', "'Bob'")
    found, error, model = await take_all(text)
    assert (found, error, len(model.requests)) == (PEOPLE, None, 1)


async def test_text_beside_a_tool_call_yields_nothing() -> None:
    class Chatty(ScriptedModel):
        async def stream(self, request: ModelRequest, tell: Any) -> ModelReply:
            tell(Delta(f"Such as {json.dumps(people(CY))}? "))
            tell(Delta(json.dumps(people(ANN)), in_call=True))
            return ModelReply("Such as", arguments=(json.dumps(people(ANN)),))

    async with (
        Session(model=Chatty()) as session,
        session.stream_elements(Person, "List them.") as elements,
    ):
        assert [one async for one in elements] == PEOPLE[:1]


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ([people(ANN, {}), people(ANN, {})], GenerationError),
        ([cut('{"elements": [{"name": "Ann", "age": 3}, ')], TruncatedError),
        ([lost('{"elements": [{"name": "Ann", "age": 3}, ')] * 3, ModelError),
    ],
    ids=["not conforming", "cut", "lost"],
)
async def test_failure_is_raised_after_the_elements_before_it(answers: Any, kind: Any) -> None:
    found, error, _ = await take_all(*answers, mode="native", settings={"max_tokens": 9})
    assert found == PEOPLE[:1]
    assert isinstance(error, kind)


async def test_leaving_the_block_cancels_the_request() -> None:
    cancelled = anyio.Event()

    class Endless(ScriptedModel):
        async def stream(self, request: ModelRequest, tell: Any) -> ModelReply:
            tell(Delta('{"elements": [{"name": "Ann", "age": 3}, ', in_call=True))
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.set()
            raise AssertionError

    async with Session(model=Endless()) as session:
        with anyio.fail_after(10):
            async with session.stream_elements(Person, "List them.") as elements:
                async for person in elements:
                    assert person == PEOPLE[0]
                    break
            assert cancelled.is_set()
            with pytest.raises(KeyError, match="mine"):
                async with session.stream_elements(Person, "List them."):
                    raise KeyError("mine")


async def test_partials_of_the_list_are_reported_too() -> None:
    partials: list[Partial] = []
    found, _, _ = await take_all(people(ANN, BOB), on_partial=partials.append)
    assert found == PEOPLE[:2]
    assert (partials[-1].final, partials[-1].value) == (True, [ANN, BOB])


async def test_change_of_a_yielded_object_does_not_change_the_result() -> None:
    model = ScriptedModel(people(ANN, {}), people(ANN, BOB), chunk_chars=1)
    schema = Contract(Person).schema
    async with (
        Session(model=model) as session,
        session.stream_elements(schema, "List them.") as elements,
    ):
        async for row in elements:
            row.clear()
    assert elements.result.object == [ANN, BOB]


def test_blocking_session_streams_elements() -> None:
    with BlockingSession(model=ScriptedModel(people(ANN, BOB, CY))) as session:
        with session.stream_elements(Person, "List them.") as elements:
            assert list(elements) == PEOPLE
        assert elements.result.object == PEOPLE
        failing = session.stream_elements(Person, "List them.")
        with failing as elements, pytest.raises(ModelError, match="has no answer left"):
            list(elements)


# --- without a model ---------------------------------------------------------------------------


def taken(parser: StreamParser, text: str) -> list[tuple[int, Any]]:
    """The elements, each with the number of characters after which it was there."""
    found = []
    for count, char in enumerate(text, 1):
        parser.feed(char)
        found += [(count, element) for element in parser.take_elements()]
    return found


def test_parser_returns_an_element_when_the_text_completes_it() -> None:
    rows = {"type": "array", "items": {"type": ["integer", "string", "array"]}}
    assert taken(StreamParser(rows), '[12, "x", [1]]') == [(4, 12), (8, "x"), (13, [1])]
    wrapped = StreamParser(rows, wrapped=True)
    assert taken(wrapped, '{"elements": [1, 2]}') == [(16, 1), (19, 2)]
    assert taken(StreamParser({"type": "object"}), '{"a": [1]}') == []


def test_parser_stops_at_an_element_that_does_not_conform() -> None:
    tuples = {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}, "minItems": 9}
    parser = StreamParser(tuples)
    assert [element for _, element in taken(parser, '["a", 1, "b", 2]')] == ["a", 1]
    assert parser.finish() is None
    parser.restart()
    assert [element for _, element in taken(parser, "[1, 2]")] == []


def test_parser_returns_the_rest_of_a_repaired_list_at_its_end() -> None:
    parser = StreamParser({"type": "array", "items": {"enum": ["a", "b", "c"]}})
    assert [element for _, element in taken(parser, '["a", \'b\', "c"]')] == ["a"]
    last = parser.finish()
    assert last is not None
    assert not last.reset
    assert parser.take_elements() == ["b", "c"]
    assert parser.take_elements() == []


def test_parser_returns_elements_that_were_repaired_at_its_end() -> None:
    parser = StreamParser({"type": "array", "items": {"type": "integer"}})
    assert taken(parser, '[1, "2", 3]') == [(3, 1)]
    last = parser.finish()
    assert last is not None
    assert (last.value, last.reset, parser.take_elements()) == ([1, 2, 3], False, [2, 3])


def test_parser_marks_a_final_answer_that_contradicts_its_elements() -> None:
    parser = StreamParser({"type": "array", "items": {"type": "integer"}})
    assert taken(parser, "[1, 2] was thinking.</think>[3]") == [(3, 1), (6, 2)]
    last = parser.finish()
    assert last is not None
    assert (last.value, last.reset) == ([3], True)
    assert parser.take_elements() == []


async def test_elements_have_no_nulls_for_missing_properties(tmp_path: Path) -> None:
    person = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"],
    }
    answer = '[{"name": "Ann", "age": null}, {"name": "Bob", "age": 7}]'
    model = ScriptedModel(answer)
    async with (
        Session(tmp_path, toolsets=(), journal=":memory:", model=model) as session,
        session.stream_elements(person, "People?", mode="prompt", null_for_missing=True) as items,
    ):
        found = [item async for item in items]
    assert found == [{"name": "Ann"}, {"name": "Bob", "age": 7}]
    assert items.result.value == found
