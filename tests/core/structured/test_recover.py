"""Recovery without a model: one value that the text says and the schema takes, or nothing."""

from __future__ import annotations

import json
import re
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from ptc.structured import EDITS, Contract, Recovered, _reading, recover
from ptc.structured._reading import json_equal
from tests.fuzz import slips

ROWS = Path(__file__).parents[2] / "programs" / "structured" / "recover.jsonl"
PROPERTIES: dict[str, Any] = {
    "name": {"type": "string"},
    "age": {"type": "integer"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "sentiment": {"enum": ["positive", "negative", "neutral"]},
    "score": {"type": "number"},
    "active": {"type": "boolean"},
    "in_stock": {"type": "boolean"},
    "note": {"type": ["string", "null"]},
    "status": {"enum": ["in_progress", "done"]},
}
NOTHING = object()


def load() -> list[Any]:
    rows = map(json.loads, ROWS.read_text(encoding="utf-8").splitlines())
    return [pytest.param(row, id=row["name"]) for row in rows]


def schema_requiring(*required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": PROPERTIES,
        "required": list(required),
        "additionalProperties": False,
    }


@pytest.mark.parametrize("row", load())
def test_text_yields_its_one_value_or_nothing(row: dict[str, Any]) -> None:
    """`expect` null is: must give up. A wrong value is worse than none."""
    found = recover(row["text"], row.get("schema") or schema_requiring(*row["required"]))
    value = None if found is None else found.value
    assert json.dumps(value, sort_keys=True) == json.dumps(row["expect"], sort_keys=True)


def test_conforming_text_is_returned_without_repairs() -> None:
    assert recover('{"name": "x", "age": 1.0}', schema_requiring("name")) == Recovered(
        {"name": "x", "age": 1.0}, ()
    )


def test_every_repair_reports_path_kind_before_and_after() -> None:
    text = "Sure:\n{'name': 'x', 'age': '5', 'inStock': True,}"
    found = recover(text, schema_requiring("name", "in_stock"))
    assert found is not None
    assert found.value == {"name": "x", "age": 5, "in_stock": True}
    made = {(r.path, r.kind, r.before, r.after) for r in found.repairs}
    assert ("/age", "text_to_number", '"5"', "5") in made
    assert ("/inStock", "key_spelling", "inStock", "in_stock") in made
    assert ("/inStock", "literal", "True", "true") in made
    assert ("", "surrounding_text", "Sure:", "") in made
    assert ("", "trailing_comma", ",", "") in made


def test_every_listed_repair_kind_is_produced_and_justified() -> None:
    """The table is neither longer nor shorter than what is done."""
    made = set()
    for row in map(json.loads, ROWS.read_text(encoding="utf-8").splitlines()):
        found = recover(row["text"], row.get("schema") or schema_requiring(*row["required"]))
        made |= {repair.kind for repair in found.repairs} if found else set()
    assert made == set(EDITS)
    assert all(EDITS.values())


def test_pydantic_model_is_a_schema_and_its_validators_apply() -> None:
    class Even(BaseModel):
        n: int

        def model_post_init(self, context: object) -> None:
            if self.n % 2:
                msg = "odd"
                raise ValueError(msg)

    found = recover("{'n': '4'}", Even)
    assert found is not None
    assert found.value == {"n": 4}
    assert recover("{'n': '5'}", Even) is None


def test_contract_can_be_reused_for_recovery() -> None:
    contract = Contract(schema_requiring("age"), name="person")
    found = recover('{"person": {"age": 5}}', contract)
    assert found is not None
    assert found.value == {"age": 5}


# -- answers that ended by themselves, and answers that were truncated -----------------------------

TOTAL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "total": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "paid": {"type": "boolean"},
    },
}
UNCLOSED = [
    ('{"total": 1', {"total": 1}),
    ('{"paid": true', {"paid": True}),
    ('{"total": 1, "tags": ["a", "b"', {"total": 1, "tags": ["a", "b"]}),
    ('Here: {"total": 31', {"total": 31}),
    ("{'total': 1", {"total": 1}),
]


@pytest.mark.parametrize(("text", "value"), UNCLOSED)
def test_missing_closers_are_added_only_to_an_answer_that_ended_by_itself(
    text: str, value: Any
) -> None:
    found = recover(text, TOTAL, ended=True)
    assert found is not None
    assert json_equal(found.value, value)
    assert recover(text, TOTAL) is None
    assert recover(text, TOTAL, ended=False) is None


@pytest.mark.parametrize(
    "text",
    ['{"total": 1,', '{"total": 1.', '{"total": -', '{"total":', '{"paid": tru', '{"tags": ["a',
     '{"tags": [', "{", '{"total": 1e', "{'total': 1,"],
)  # fmt: skip
def test_answer_that_ended_by_itself_inside_a_part_yields_nothing(text: str) -> None:
    assert recover(text, TOTAL, ended=True) is None


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("42", {"type": "integer"}),
        ("```\n42", {"type": "integer"}),
        ("in pro", {"enum": ["in pro", "in progress"]}),
        ('{"total": 1}\n{"total": 2}', {"type": "array", "items": TOTAL}),
        ('{"total": 1}', {"type": "array", "items": TOTAL}),
        ('[{"total": 1}', {"type": "array", "items": TOTAL}),
        ('{"a": {"total": 1}', {"type": "object", "properties": {"a": TOTAL}}),
    ],
)
def test_truncated_answer_whose_end_may_be_missing_yields_nothing(text: str, schema: Any) -> None:
    assert recover(text, schema, ended=False) is None
    assert recover(text, schema, ended=True) is not None


def test_truncated_answer_with_a_complete_value_yields_it() -> None:
    found = recover("{'total': 1}\nThis is", TOTAL, ended=False)
    assert found is not None
    assert found.value == {"total": 1}


# -- pathological text -------------------------------------------------------------------------

HOSTILE = {
    "5,000 [": "[" * 5_000,
    "20,000 {": "{" * 20_000,
    "1 MB string": '{"name": "' + "x" * 1_000_000 + '"}',
    "1 MB string, cut": '{"name": "' + "x" * 1_000_000,
    "1 MB in single quotes": "{'name': '" + "x" * 1_000_000 + "'}",
    "200 nested fences": "```json\n" * 200 + '{"name": "x",}' + "\n```" * 200,
    "20,000 keys deep": '{"name":' * 20_000,
    "quotes": '{"name": "' + '"' * 100_000,
    "backslashes": '{"name": "' + "\\" * 1_000_000,
    "closers": '{"name": "x"' + "]}" * 50_000,
    "wrong closers": '{"tags": [' + "}" * 1_000,
    "thinking that never ends": "<think>" * 20_000,
    "openers in prose": "[x " * 50_000,
    "nested lists, one closer missing": "[" * 5_000 + "]" * 4_999,
    "members, one closer missing": '{"a": {' + '"k": 1, ' * 500 + '"name": "x"}',
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_recovery_memory_is_linear_in_the_text(text: str) -> None:
    contract = Contract(schema_requiring("name"))
    tracemalloc.start()
    try:
        recover(text, contract)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(text) + 4_000_000


def steps(text: str, contract: Contract) -> int:
    """Lines of Python run: a count of work that no load on the machine changes."""
    import sys

    count = 0

    def trace(*_: object) -> Callable[..., Any]:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        recover(text, contract)
    finally:
        sys.settrace(before)
    return count


GROWING: dict[str, Callable[[int], str]] = {
    "rows": lambda n: "[" + '{"name": "x", "age": "5"},' * n + "]",
    "quotes": lambda n: '{"name": "' + '"' * n,
    "inner quotes": lambda n: '{"name": "' + 'a "b" c ' * n + '"}',
    "openers": lambda n: "{[" * n,
    "prose": lambda n: "see [1] and {x}. " * n + "{'name': 'x'}",
    "comments": lambda n: "{" + "// a\n" * n + "'name': 'x'}",
    "bare words": lambda n: "{name: " + "x " * n,
    "thinking": lambda n: "<think>{</think>" * n + "{'name': 'x'}",
    "closers": lambda n: "{'name': 'x'" + "]}" * n,
    "commas": lambda n: "{'name': 'x'" + ", " * n,
    "a colon missing behind rows": lambda n: "[" + '{"name": "x"}, ' * n + '{"name" "x"}]',
    "a mark missing before commas": lambda n: '{"name": "' + "a, " * n + '"age": 5}',
    "a closer missing behind members": lambda n: '{"name": {' + '"a": 1, ' * n + '"b": 1}',
    "marks missing": lambda n: "[" + '"a" ' * n + "]",
    "escaped": lambda n: '{\\"name\\": \\"' + "x\\n" * n + '\\"}',
}


@pytest.mark.parametrize("grown", GROWING.values(), ids=GROWING)
def test_recovery_work_is_linear_in_the_text(grown: Callable[[int], str]) -> None:
    contract = Contract(schema_requiring("name"))
    small, large = steps(grown(100), contract), steps(grown(800), contract)
    assert large < 8 * small * 1.5 + 2_000


def test_text_that_takes_too_much_work_recovers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    contract = Contract(schema_requiring("name"))
    text = GROWING["a colon missing behind rows"](100)
    rows = Contract({"type": "array", "items": contract.schema})
    assert recover(text, rows) is not None
    monkeypatch.setattr(_reading, "MAX_WORK", 2_000)
    assert recover(text, rows) is None


def test_number_beyond_the_digits_that_python_converts_recovers_nothing() -> None:
    digits = "f" * 10_000
    assert recover('{"name": "x", "age": 0x' + digits + "}", schema_requiring("name")) is None


CHOICES: dict[str, Any] = {
    "type": "array",
    "items": {
        "anyOf": [
            {"properties": {"kind": {"const": kind}, kind: {"type": "integer"}}, "required": [kind]}
            for kind in "abcdef"
        ]
    },
}
MEGABYTE: dict[str, Callable[[int], str]] = {
    "line breaks": lambda n: '{"name": "x"' + "\n" * n + "}",
    "other spaces": lambda n: '{"name":' + "\u00a0" * n + ' "x"}',
    "values of no branch": lambda n: "[" + '"a" ' * (n // 4) + "]",
    "damaged items of no branch": lambda n: "[" + '{"kind": "A", "a": "5"}, ' * (n // 26) + "]",
    "list in a string": lambda n: json.dumps("[" + '{"name": "x"}, ' * (n // 15) + "]"),
    "lists around items": lambda n: "[" * 90 + '{"name": 5},' * (n // 12) + "]" * 90,
    "deep lists": lambda n: ("[" * 99 + "]" * 99 + " ") * (n // 199),
    "one closer missing": lambda n: "{" + '"k": {"a": [1, 2]}, ' * (n // 20) + '"z": 1',
    "digits": lambda n: '{"name": "x", "age": ' + "9" * n + "}",
    "candidates": lambda n: 'see {"age": "5"} and ' * (n // 21),
    "marks before an escape": lambda n: '"' * n + ' x\\"',
    "code blocks": lambda n: '```json\n{"name": 1}\n```\n' * (n // 24),
    "keys that differ in style": lambda n: "{" + '"Na_me": "x", ' * (n // 14) + "}",
}


@pytest.mark.slow
@pytest.mark.parametrize("hostile", MEGABYTE.values(), ids=MEGABYTE)
@pytest.mark.parametrize("schema", [schema_requiring("name"), CHOICES, {"type": "object"}])
def test_time_of_hostile_text_grows_no_faster_than_the_text(
    hostile: Callable[[int], str], schema: Any
) -> None:
    """Also inside regular expressions and the validator, whose steps nobody can count."""
    contract = Contract(schema)
    small = min(seconds(hostile(50_000), contract) for _ in range(2))
    large = (seconds(hostile(800_000), contract) for _ in range(2))
    assert any(time < 16 * small * 4 + 0.5 for time in large), "neither of two attempts"


def seconds(text: str, contract: Contract) -> float:
    before = time.process_time()
    recover(text, contract)
    return time.process_time() - before


# -- properties --------------------------------------------------------------------------------

HARD = ("He said \"hi\"", "it's", "a, b", "{x}", "[1]", '5" pipe', "```", "//c", "#t", 'k": "v',
        "12", "true", "", "ü", "\\d", "line\nbreak", "...", "more", "</think>", "“s”", "'",
        'a"', '","', "alpha", "x y")  # fmt: skip
NAMES = ("name", "age", "first_name", "items", "data", "type", "tags", "note", "value", "x")
ENUM = ("in_progress", "done", "Not Started")


@st.composite
def schemas(draw: st.DrawFn, depth: int = 0) -> dict[str, Any]:
    kinds = ["string", "integer", "number", "boolean", "enum"]
    kind = draw(st.sampled_from([*kinds, "array", "object"] if depth < 3 else kinds))
    if depth == 0 or kind == "object":
        keys = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
        return {
            "type": "object",
            "properties": {key: draw(schemas(depth + 1)) for key in keys},
            "required": draw(st.lists(st.sampled_from(keys), unique=True)),
            "additionalProperties": draw(st.booleans()),
        }
    if kind == "array":
        return {"type": "array", "items": draw(schemas(depth + 1))}
    return {"enum": list(ENUM)} if kind == "enum" else {"type": kind}


def values(schema: dict[str, Any], texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema["type"] == "object":
        parts = {key: values(part, texts) for key, part in schema["properties"].items()}
        required = {key: part for key, part in parts.items() if key in schema["required"]}
        optional = {key: part for key, part in parts.items() if key not in required}
        return st.fixed_dictionaries(required, optional=optional)
    if schema["type"] == "array":
        return st.lists(values(schema["items"], texts), max_size=3)
    return {
        "string": texts,
        "integer": st.integers(-5, 5_000),
        "number": st.sampled_from([0.5, 1.25, 3, -2.75]),
        "boolean": st.booleans(),
    }[schema["type"]]


@st.composite
def documents(draw: st.DrawFn, words: tuple[str, ...] = HARD) -> tuple[dict[str, Any], Any]:
    """A schema and a value of it."""
    schema = draw(schemas())
    texts = st.lists(st.sampled_from(words), min_size=1, max_size=2).map("".join)
    value = draw(values(schema, texts))
    if draw(st.booleans()) and draw(st.booleans()):
        return {"type": "array", "items": schema}, [value]
    return schema, value


def value_of(text: str, schema: dict[str, Any]) -> Any:
    found = recover(text, schema)
    return NOTHING if found is None else found.value


@settings(deadline=None, derandomize=True)
@given(documents(), st.sampled_from([None, 2]))
def test_prefix_of_an_answer_yields_the_whole_answer_or_nothing(
    document: tuple[dict[str, Any], Any], indent: int | None
) -> None:
    schema, value = document
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    for end in range(len(text)):
        found = value_of(text[:end], schema)
        assert found is NOTHING or json_equal(found, value), (text[:end], found)


def change_spelling(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


def rename_keys(value: Any, schema: dict[str, Any]) -> Any:
    """Keys in camel case and allowed values in capitals.

    An optional key of an open object keeps its name: the other spelling is a valid extra key.
    """
    if isinstance(value, dict):
        closed = schema.get("additionalProperties") is False
        return {
            change_spelling(k) if closed or k in schema.get("required", ()) else k: rename_keys(
                v, schema["properties"][k]
            )
            for k, v in value.items()
        }
    if isinstance(value, list):
        return [rename_keys(item, schema["items"]) for item in value]
    return value.upper().replace("_", " ") if "enum" in schema else value


def stringify_scalars(value: Any) -> Any:
    """Numbers and booleans as strings."""
    if isinstance(value, dict):
        return {key: stringify_scalars(item) for key, item in value.items()}
    if isinstance(value, list):
        return [stringify_scalars(item) for item in value]
    return json.dumps(value) if isinstance(value, bool | int | float) else value


DAMAGE: dict[str, Callable[[Any, dict[str, Any]], str]] = {
    "prose": lambda v, s: f"Sure, here it is:\n\n{json.dumps(v)}\n\nAnything else?",
    "fence": lambda v, s: f"Using {{fields}} from [1]:\n```json\n{json.dumps(v, indent=1)}\n```\n",
    "thinking": lambda v, s: f'<think>like {{"a": 1}}?</think>\n{json.dumps(v)}',
    "token": lambda v, s: json.dumps(v) + "<|im_end|>",
    "python": lambda v, s: repr(v),
    "javascript": lambda v, s: f"const out = {json.dumps(v, indent=2)};",
    "encoded twice": lambda v, s: json.dumps(json.dumps(v)),
    "envelope": lambda v, s: json.dumps({"response": v}),
    "tool call": lambda v, s: json.dumps({"name": "result", "arguments": json.dumps(v)}),
    "in a list": lambda v, s: json.dumps([v]),
    "trailing commas": lambda v, s: re.sub(r"(?<=[^{\[\s])\n(\s*[}\]])", r",\n\1",
                                           json.dumps(v, indent=1)),
    "no commas": lambda v, s: json.dumps(v, indent=1).replace(",\n", "\n"),
    "no closer": lambda v, s: json.dumps(v, indent=1)[:-1],
    "closer too many": lambda v, s: json.dumps(v) + ("}" if isinstance(v, dict) else "]"),
    "style": lambda v, s: json.dumps(rename_keys(v, s)),
    "all strings": lambda v, s: json.dumps(stringify_scalars(v)),
    "comments": lambda v, s: json.dumps(v, indent=1).replace(",\n", ", // see {above}\n"),
    "unquoted keys": lambda v, s: re.sub(r'(?m)^(\s*)"(\w+)":', r"\1\2:", json.dumps(v, indent=1)),
}  # fmt: skip


FEWER = settings(max_examples=settings().max_examples // 5)
"""For each kind of damage."""


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@settings(FEWER, deadline=None, derandomize=True)
@given(documents())
def test_damaged_answer_yields_the_original_value_or_nothing(
    damage: Callable[[Any, dict[str, Any]], str], document: tuple[dict[str, Any], Any]
) -> None:
    schema, value = document
    text = damage(value, schema)
    found = value_of(text, schema)
    try:
        untouched = Contract(schema).conforms(json.loads(text))
    except ValueError:
        untouched = False
    # A valid text is the answer as it stands, envelope or not.
    expected = json.loads(text) if untouched else value
    assert found is NOTHING or json_equal(found, expected), (text, found)


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_simple_answer_yields_the_original_value(
    damage: Callable[[Any, dict[str, Any]], str],
) -> None:
    """The same damage to an answer without traps: giving up is no way out of the test above."""
    value = {"name": "Ada", "age": 36, "in_stock": True, "status": "in_progress"}
    schema = schema_requiring(*value)
    found = value_of(damage(value, schema), schema)
    assert json_equal(found, value), found


@settings(deadline=None, derandomize=True)
@given(documents(), documents(), st.sampled_from(["{}\n{}", "Not {} but {}", "{}, {}", "{} {}."]))
def test_two_different_answers_in_one_text_yield_nothing(
    one: tuple[dict[str, Any], Any], other: tuple[dict[str, Any], Any], pattern: str
) -> None:
    schema, value = one
    if not Contract(schema).conforms(other[1]) or json_equal(value, other[1]):
        return
    if isinstance(value, list):
        return
    text = pattern.replace("{}", json.dumps(value), 1).replace("{}", json.dumps(other[1]), 1)
    if text.count(json.dumps(value)) == 1:
        assert value_of(text, schema) is NOTHING, text


@settings(FEWER, deadline=None, derandomize=True)
@given(documents(), st.sampled_from([None, 2]), st.randoms(use_true_random=False))
def test_single_slip_yields_the_original_value_or_another_reading_at_one_edit(
    document: tuple[dict[str, Any], Any], indent: int | None, chance: Random
) -> None:
    schema, value = document
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    at = chance.choice(slips.structural_positions(text))
    text = text[:at] + chance.choice(["", text[at] * 2, *slips.SIGNS]) + text[at + 1 :]
    found = value_of(text, schema)
    if found is not NOTHING and not json_equal(found, value):
        readings = slips.within_one_edit(text, Contract(schema))
        assert json.dumps(found, sort_keys=True) in readings or found == json.loads(text), text


PLAIN = ("alpha", "beta", "x y", "n1", "zed", "Zorn", "in progress")


def said(text: str) -> str:
    """The letters and digits of a text, in order: what no edit of notation changes."""
    plain = "".join(c for c in text.replace("\\n", "") if c.isalnum()).casefold()
    return plain.replace("none", "null").replace("0", "")


@st.composite
def corrupted_texts(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    schema, value = draw(documents(PLAIN))
    notation: Callable[[Any], str] = draw(st.sampled_from([json.dumps, repr]))
    text = notation(value)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        end = draw(st.integers(at, min(len(text), at + 12)))
        text = text[:at] + draw(st.sampled_from([*list("{}[]\",:'\n "), ""])) + text[end:]
    return schema, text


@settings(deadline=None, derandomize=True)
@given(corrupted_texts())
def test_recovered_value_has_exactly_the_content_of_the_text(
    case: tuple[dict[str, Any], str],
) -> None:
    """Independent of how it works: letters and digits, in order, are those of the text."""
    schema, text = case
    found = recover(text, schema)
    if found is None or not found.repairs:
        return
    if any(r.kind in ("envelope", "repeated_key") for r in found.repairs):
        return
    assert said(json.dumps(found.value, ensure_ascii=False)) == said(text), (text, found)


def test_the_documentation_lists_every_kind_of_repair_with_its_argument() -> None:
    page = (Path(__file__).parents[3] / "docs" / "structured.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \| (.+) \|$", page, re.MULTILINE)
    assert dict(listed) == EDITS
