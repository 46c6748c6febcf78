"""Partial answers out of a stream: what is shown stays true, and the end is the answer."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

import pytest

from ptc import TruncatedError
from ptc.structured import Contract, Partial, StreamParser

WORDS = ("alpha", 'He said "hi"', "{x}", "[1]", "```", "a: b", "ü", "\\d", "line\nbreak", "😀", "")
NAMES = ("name", "age", "items", "data", "type", "tags")
ENUM = ["in_progress", "in_review", "done"]
AROUND = ("{}", "Sure {{x}}:\n```json\n{}\n```", '<think>{{"a": 1}} [</think>{}', "see [1]. {} ok")


def schema(random: Random, depth: int = 0) -> dict[str, Any]:
    kinds = ["string", "integer", "number", "boolean", "enum", "union"]
    kind = random.choice([*kinds, "array", "object"] if depth < 3 else kinds)
    if depth == 0 or kind == "object":
        keys = random.sample(NAMES, random.randint(1, 4))
        return {
            "type": "object",
            "properties": {key: schema(random, depth + 1) for key in keys},
            "required": keys[: random.randint(0, len(keys))],
            "additionalProperties": False,
        }
    if kind == "array":
        return {"type": "array", "items": schema(random, depth + 1), "minItems": 1}
    if kind == "union":
        branch = {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]}
        return {"oneOf": [branch, {"type": "integer"}, {"type": "string", "minLength": 3}]}
    return {"enum": ENUM} if kind == "enum" else {"type": kind}


def value(random: Random, of: dict[str, Any]) -> Any:
    if "enum" in of:
        return random.choice(ENUM)
    if "oneOf" in of:
        return random.choice([{"kind": "b"}, 17, "long text"])
    match of["type"]:
        case "object":
            parts = of["properties"].items()
            return {
                key: value(random, part)
                for key, part in parts
                if key in of["required"] or random.random() < 0.6
            }
        case "array":
            return [value(random, of["items"]) for _ in range(random.randint(1, 3))]
        case "string":
            return random.choice(WORDS) + random.choice(WORDS)
        case "integer":
            return random.randint(-5, 5_000)
        case "number":
            return random.choice([0.5, 1.25, -2.75, 1e20])
    return random.random() < 0.5


def documents(count: int) -> Iterator[tuple[Random, Contract, Any, str, bool]]:
    """Contracts, an answer to each, the text of it, and whether it is in the wrapper."""
    for seed in range(count):
        random = Random(seed)
        asked = schema(random)
        answer = value(random, asked)
        wrapped = False
        if random.random() < 0.3:
            asked, answer = {"type": "array", "items": asked}, [answer, answer]
            wrapped = random.random() < 0.5
        contract = Contract(asked)
        said = {"elements": answer} if wrapped else answer
        body = json.dumps(said, indent=random.choice([None, 2]), ensure_ascii=random.random() < 0.5)
        yield random, contract, answer, random.choice(AROUND).format(body), wrapped


def chunks(random: Random, text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        size = random.choice([1, 1, 2, 3, 7, 30])
        yield text[position : position + size]
        position += size


def partials(parser: StreamParser, pieces: Iterable[str]) -> list[Partial]:
    return [partial for piece in pieces if (partial := parser.feed(piece)) is not None]


def is_part(before: Any, after: Any) -> bool:
    """Keys stay, lists grow, strings extend, all else is equal."""
    if isinstance(before, dict) and isinstance(after, dict):
        return all(key in after and is_part(item, after[key]) for key, item in before.items())
    if isinstance(before, list) and isinstance(after, list):
        head = after[: len(before)]
        return len(head) == len(before) and all(map(is_part, before, head))
    if isinstance(before, str) and isinstance(after, str):
        return after.startswith(before)
    return type(before) is type(after) and bool(before == after)


def has_whole_enums(partial: Any, answer: Any, of: dict[str, Any]) -> bool:
    """A value of an enum is shown whole, and so is a branch's discriminator."""
    if "enum" in of:
        return bool(partial == answer)
    if isinstance(partial, dict) and "properties" in of:
        parts = of["properties"]
        return all(has_whole_enums(v, answer[k], parts[k]) for k, v in partial.items())
    if isinstance(partial, dict):
        return partial in ({}, answer)
    if isinstance(partial, list):
        pairs = zip(partial, answer, strict=False)
        return all(has_whole_enums(one, other, of["items"]) for one, other in pairs)
    return True


def is_complete_elsewhere(partial: Any, answer: Any, pending: list[str]) -> bool:
    """Return True if all parts that `pending` does not lead into are final."""
    if not pending:
        return True
    head, rest = pending[0], pending[1:]
    if isinstance(partial, dict):
        return all(
            is_complete_elsewhere(item, answer[key], rest) if key == head else item == answer[key]
            for key, item in partial.items()
        )
    return all(
        is_complete_elsewhere(item, answer[i], rest) if str(i) == head else item == answer[i]
        for i, item in enumerate(partial)
    )


@pytest.mark.parametrize("every_prefix", [True, False], ids=["every prefix", "random chunks"])
def test_no_partial_of_150_documents_is_retracted(every_prefix: bool) -> None:
    shown = 0
    for random, contract, answer, text, wrapped in documents(150):
        parser = StreamParser(contract, wrapped=wrapped, step_chars=0)
        before: Any = None
        for partial in partials(parser, text if every_prefix else chunks(random, text)):
            shown += 1
            assert not partial.final
            assert not partial.reset
            assert before is None or is_part(before, partial.value), (before, partial)
            assert is_part(partial.value, answer), (partial, answer)
            assert has_whole_enums(partial.value, answer, contract.schema), partial
            if partial.pending is None:
                assert partial.value == answer
            else:
                pending = partial.pending.split("/")[1:]
                assert is_complete_elsewhere(partial.value, answer, pending), partial
            before = partial.value
        last = parser.finish()
        assert last is not None
        assert (last.value, last.final, last.reset) == (answer, True, False)
    assert shown > 500


@pytest.mark.slow
def test_every_truncation_of_a_stream_is_an_error_or_the_whole_answer() -> None:
    for _, contract, answer, text, wrapped in documents(40):
        for end in range(1, len(text)):
            parser = StreamParser(contract, wrapped=wrapped)
            parser.feed(text[:end])
            last = None
            with contextlib.suppress(TruncatedError):
                last = parser.finish(ended=False)
                assert last is not None
            assert last is None or last.value == answer


def test_truncated_number_is_never_shown() -> None:
    parser = StreamParser({"properties": {"n": {"type": "integer"}}}, step_chars=0)
    seen = partials(parser, '{"n": 1234')
    assert [partial.value for partial in seen] == [{}]
    with pytest.raises(TruncatedError, match="inside its outermost value; ask again with a higher"):
        parser.finish(ended=False)
    final = parser.finish()
    assert final is not None
    assert final.value == {"n": 1234}, "the model had finished, so the number is complete"
    assert parser.feed("5") is None


def test_missing_closer_is_repaired_only_if_the_model_finished() -> None:
    contract = Contract({"type": "object", "properties": {"n": {"type": "string"}}})
    text = '{\n "n": "x"\n'
    parser = StreamParser(contract)
    parser.feed(text)
    with pytest.raises(TruncatedError):
        parser.finish(ended=False)
    last = parser.finish(ended=True)
    assert last is not None
    assert last.value == {"n": "x"}
    assert [repair.kind for repair in last.repairs] == ["missing_closer"]


def test_disallowed_property_is_never_shown_nor_anything_after_it() -> None:
    asked = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
    parser = StreamParser({**asked, "additionalProperties": False}, step_chars=0)
    seen = partials(parser, '{"a": "x", "c": 1, "b": 2}')
    assert seen[-1].value == {"a": "x"}
    assert parser.finish() is None


def test_partial_stops_growing_at_a_closed_part_that_breaks_a_rule() -> None:
    row = {"type": "object", "required": ["id"], "properties": {"id": {"pattern": "^x{3}$"}}}
    parser = StreamParser({"type": "array", "items": row}, step_chars=0)
    seen = partials(parser, '[{"id": "xxx"}, {"id": "xx"}, {')
    assert {"id": "xx"} in seen[-1].value
    assert seen[-1].pending == "/1/id"


def test_repair_that_changes_shown_text_causes_a_reset() -> None:
    """The strict part of the text said something else than the text does as a whole."""
    asked = {"type": "object", "properties": {"n": {"type": "string"}}}
    parser = StreamParser(asked, step_chars=0)
    text = '{"n": "draft"} was thinking.</think>{"n": "final"}'
    assert partials(parser, text)[-1].value == {"n": "draft"}
    last = parser.finish()
    assert last is not None
    assert (last.value, last.reset, last.final) == ({"n": "final"}, True, True)


def test_new_attempt_starts_with_a_reset_and_no_earlier_values() -> None:
    parser = StreamParser({"required": ["n"], "type": "object"}, step_chars=0)
    parser.feed('{"m": 1} ')
    assert parser.finish() is None
    parser.restart()
    seen = partials(parser, '{"n": 1} ')
    assert [(p.attempt, p.reset) for p in seen] == [(2, True), *[(2, False)] * (len(seen) - 1)]
    assert seen[0].value == {}
    last = parser.finish()
    assert last is not None
    assert (last.value, last.attempt, last.reset) == ({"n": 1}, 2, False)


def test_damaged_text_shows_nothing_until_it_is_repaired() -> None:
    asked = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    parser = StreamParser(asked, step_chars=0)
    assert [p.value for p in partials(parser, "{'n': '5'}")] in ([], [{}])
    last = parser.finish()
    assert last is not None
    assert last.value == {"n": 5}
    assert {r.kind for r in last.repairs} == {"quotes", "text_to_number"}


def test_snapshot_can_be_mutated_by_the_caller() -> None:
    parser = StreamParser({"type": "array"}, step_chars=0)
    first = parser.feed("[[1, ")
    assert first is not None
    first.value.append("mine")
    second = parser.feed("2], 3")
    assert second is not None
    assert second.value == [[1, 2]]


def test_small_chunks_of_a_long_answer_are_shown_in_batches() -> None:
    parser = StreamParser({"type": "array", "items": {"type": "integer"}})
    text = json.dumps(list(range(20_000)))
    seen = partials(parser, text)
    assert 100 < len(seen) < 400
    assert seen[-1].value == list(range(20_000))


def steps(text: str, feed: Callable[[str], object]) -> int:
    """Lines of Python run: a count of work that no load on the machine changes."""
    count = 0

    def trace(*_: object) -> Callable[..., Any]:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for position in range(0, len(text), 4):
            feed(text[position : position + 4])
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "text",
    [
        lambda n: json.dumps([{"id": i} for i in range(n)]),
        lambda n: json.dumps({"text": "word " * n}),
        lambda n: json.dumps({"text": '\\"\n' * n}),
        lambda n: "prose {x} [y " * n,
        lambda n: "<think>" + "{ " * n,
    ],
    ids=["rows", "text", "escapes", "prose", "thinking"],
)
def test_stream_parsing_work_is_linear_in_the_text(text: Callable[[int], str]) -> None:
    contract = Contract(True)
    small = steps(text(200), StreamParser(contract).feed)
    large = steps(text(1_600), StreamParser(contract).feed)
    assert large < 8 * small * 2
