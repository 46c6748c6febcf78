"""Contracts: the draft, the formats, the limits, the wrapper; and the official test suite."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator

from ptc import UsageError
from ptc.structured import Contract, recover
from ptc.structured._reference_depth import reference_depth

SUITE = Path(os.environ.get("PTC_JSON_SCHEMA_TEST_SUITE", "/nonexistent"))
DRAFTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}


class Line(BaseModel):
    item: str
    quantity: int = Field(ge=1)


class Invoice(BaseModel):
    number: str
    when: datetime
    lines: list[Line]


@dataclass
class Point:
    x: int
    y: int


# -- the official suite ------------------------------------------------------------------------


@pytest.mark.skipif(
    not (SUITE / "tests").is_dir(),
    reason="no JSON-Schema-Test-Suite: set PTC_JSON_SCHEMA_TEST_SUITE to a checkout of it",
)
@pytest.mark.parametrize("draft", DRAFTS)
def test_the_official_suite_passes_for_a_draft(draft: str) -> None:  # noqa: C901  # a list of cases, one after another
    """All required tests; the published schema accepts each valid value; none is impossible."""
    remotes = SUITE / "remotes"
    resources = {}
    for path in remotes.rglob("*.json"):
        name = path.relative_to(remotes)
        if not name.parts[0].startswith(("draft", "v1")) or name.parts[0] == draft:
            resources[f"http://localhost:1234/{name.as_posix()}"] = json.loads(path.read_text())
    wrong, count, loose = [], 0, 0
    for path in sorted((SUITE / "tests" / draft).glob("*.json")):
        # `format` is asserted by us, which the suite tests as optional; in these files it is not.
        formats = path.name != "format.json"
        for group in json.loads(path.read_text()):
            schema = group["schema"]
            if isinstance(schema, dict):
                schema = {"$schema": DRAFTS[draft], **schema}
            contract = Contract(schema, formats=formats, resources=resources)
            if any(test["valid"] for test in group["tests"]):
                assert contract.why_impossible() is None, group["description"]
            # A meta-schema may lack the keywords of the wrapper; the published schema has them.
            own = path.name != "vocabulary.json"
            published = Contract(contract.object_schema(), formats=formats)
            outer = contract.outer()
            for test in group["tests"]:
                count += 1
                where = f"{path.name}: {group['description']}: {test['description']}"
                sent = (
                    test["data"] if contract.wrapper is None else {contract.wrapper: test["data"]}
                )
                if (
                    own
                    and test["valid"]
                    and not (outer.conforms(sent) and published.conforms(sent))
                ):
                    wrong.append(f"narrowed: {where}")
                loose += not test["valid"] and published.conforms(sent)
                if contract.conforms(test["data"]) != test["valid"]:
                    wrong.append(where)
                if bool(contract.violations(test["data"])) == test["valid"]:
                    wrong.append(f"violations: {where}")
    assert not wrong
    # References to meta-schemas, and dynamic ones that no schema decides, accept anything.
    assert loose <= 12
    assert count > 600


# -- drafts, formats, references ---------------------------------------------------------------


def test_draft_is_selected_by_the_schema() -> None:
    tuples = {"items": [{"type": "integer"}], "additionalItems": False}
    assert not Contract({"$schema": DRAFTS["draft7"], **tuples}).conforms([1, 2])
    prefix = {"prefixItems": [{"type": "integer"}], "items": False}
    assert not Contract(prefix).conforms([1, 2])
    assert Contract({"$schema": DRAFTS["draft7"], **prefix, "items": {}}).conforms([1, 2])


@pytest.mark.parametrize(
    ("format_", "bad"),
    [("email", "not an email"), ("date", "31st of Nope"), ("uuid", "1234"), ("ipv4", "1.2.3")],
)
def test_formats_are_asserted(format_: str, bad: str) -> None:
    contract = Contract({"type": "string", "format": format_})
    assert not contract.conforms(bad)
    assert contract.violations(bad)[0].rule == "format"


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:
            pass

    listening = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{listening.server_port}", asked
    listening.shutdown()
    thread.join()
    listening.server_close()


def test_a_remote_reference_is_refused_and_nothing_is_fetched(
    server: tuple[str, list[str]], tmp_path: Path
) -> None:
    address, asked = server
    secret = tmp_path / "schema.json"
    secret.write_text("{}")
    for target in (f"{address}/s.json", secret.as_uri()):
        with pytest.raises(UsageError, match="schema is not a valid JSON Schema"):
            Contract({"$ref": target})
    assert asked == []


def test_provided_document_can_be_referenced() -> None:
    resources = {"https://example.com/age.json": {"type": "integer"}}
    contract = Contract({"$ref": "https://example.com/age.json"}, resources=resources)
    assert contract.conforms(5)
    assert not contract.conforms("5")


# -- what is no JSON, no schema, or no possible schema -----------------------------------------


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("nan")]}, {1: 2}, b""])
def test_nan_and_the_infinities_are_refused_by_the_widest_schema(value: Any) -> None:
    contract = Contract(True)
    assert not contract.conforms(value)
    assert contract.violations(value)[0].rule == "json"


@pytest.mark.parametrize("value", ["\ud800", {"a": ["\udfff"]}, {"\ud800": 1}])
def test_lone_surrogates_are_refused_and_end_no_recovery(value: Any) -> None:
    contract = Contract({})
    assert not contract.conforms(value)
    assert contract.violations(value)[0].rule == "json"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    for answer in (text, f"{text} and more", text.replace('"', "'")):
        assert recover(answer, Contract({"type": "object", "required": ["n"]})) is None


def test_contract_refuses_a_self_referencing_value() -> None:
    value: list[Any] = []
    value.append(value)
    assert not Contract({}).conforms(value)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 5, "maximum": 4},
        {"type": "object", "required": ["a"], "properties": {"a": False}},
        {"allOf": [{"type": "string"}, {"type": "integer"}]},
        {"enum": []},
        False,
    ],
)
def test_unsatisfiable_schema_is_detected_with_a_reason(schema: Any) -> None:
    try:
        why = Contract(schema).why_impossible()
    except UsageError:
        # Some drafts call an empty `enum` no schema at all.
        return
    assert why is not None
    assert "no value conforms" in why


@pytest.mark.parametrize("schema", [{}, True, {"type": "object"}, {"$ref": "#"}])
def test_satisfiable_schema_is_not_reported_as_impossible(schema: Any) -> None:
    assert Contract(schema).why_impossible() is None


def test_invalid_schema_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match="schema is not a valid JSON Schema"):
        Contract({"type": "objekt"})
    with pytest.raises(UsageError, match="must be a JSON Schema or a type, not 5"):
        Contract(5)
    with pytest.raises(UsageError, match="cannot be written as JSON"):
        Contract({"const": float("nan")})


def test_a_schema_too_large_or_too_deep_is_refused() -> None:
    with pytest.raises(UsageError, match="over the limit of 2,097,152"):
        Contract({"enum": ["x" * 1000] * 2_100})
    deep: dict[str, Any] = {}
    for _ in range(70):
        deep = {"not": deep}
    with pytest.raises(UsageError, match="deeper than 64 levels"):
        Contract(deep)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "step",
    [
        {},
        {"type": "object", "required": ["n"], "properties": {"n": None}},
        {"allOf": [None]},
        {"not": None},
    ],
)
@pytest.mark.parametrize("named", ["$defs", "$id", "$anchor"])
def test_long_chain_of_references_does_not_end_the_process(
    step: dict[str, Any], named: str
) -> None:
    # Regression: jsonschema-rs recursed until the stack of the thread was full.
    def refer(number: int) -> dict[str, Any]:
        prefix = {"$defs": "#/$defs/T", "$id": "urn:t:", "$anchor": "#T"}[named]
        reference = {"$ref": f"{prefix}{number}"}
        word = next((word for word in step if word != "type" and word != "required"), None)
        if word is None:
            return reference
        inner: Any = {"properties": {"n": reference}, "allOf": [reference]}.get(word, reference)
        return {**step, word: inner}

    definitions = {f"T{n}": refer(n - 1) for n in range(1, 2_000)}
    definitions["T0"] = {"type": "string"}
    if named != "$defs":
        for name, definition in definitions.items():
            definition[named] = name if named == "$anchor" else f"urn:t:{name[1:]}"
    schema = {**refer(1_999), "$defs": definitions}
    assert Contract(schema).why_impossible() is None
    with pytest.raises(UsageError, match="deeper than 800 levels through its references"):
        Contract({**schema, "unevaluatedProperties": False})


def test_reference_depth_is_that_of_the_deepest_path() -> None:
    def refer(*names: str) -> dict[str, Any]:
        return {"properties": {name: {"$ref": f"#/$defs/{name}"} for name in names}}

    # Each object with properties is three deep.
    definitions = {"a": refer("b", "c"), "b": refer("d"), "c": refer("d"), "d": {}}
    assert reference_depth({**refer("a"), "$defs": definitions}) == 3 * 3 + 1
    assert reference_depth({**refer("d", "a"), "$defs": definitions}) == 3 * 3 + 1
    circle = {**definitions, "d": refer("a")}
    assert reference_depth({**refer("c"), "$defs": circle}) == 3 + 4 * 3
    assert reference_depth({"items": {"$ref": "#"}}) == 2
    assert reference_depth(True) == 1


# -- types -------------------------------------------------------------------------------------


def test_model_type_is_checked_by_its_schema_and_by_pydantic() -> None:
    contract = Contract(Invoice)
    value = {"number": "7", "when": "2026-01-02T03:04:05", "lines": [{"item": "a", "quantity": 1}]}
    assert contract.conforms(value)
    assert contract.typed(value) == Invoice.model_validate(value)
    # pydantic alone would make a number of the text.
    assert not contract.conforms({**value, "lines": [{"item": "a", "quantity": "1"}]})
    # The schema alone takes any text for a time.
    violation = contract.violations({**value, "when": "soon"})[0]
    assert (violation.pointer, violation.found) == ("/when", "'soon'")


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Point, {"x": 1, "y": 2}, {"x": 1}),
        (list[Line], [{"item": "a", "quantity": 2}], [{"item": "a", "quantity": 0}]),
        (dict[str, date], {"a": "2026-01-02"}, {"a": "no"}),
        (int | None, None, "5"),
        (int, 5, 5.5),
    ],
)
def test_any_pydantic_type_can_be_a_contract(kind: Any, good: Any, bad: Any) -> None:
    contract = Contract(kind)
    assert contract.conforms(good)
    assert not contract.conforms(bad)


def test_typed_refuses_a_nonconforming_value() -> None:
    with pytest.raises(UsageError, match="does not conform"):
        Contract(Point).typed({"x": 1})


# -- the wrapper -------------------------------------------------------------------------------


def test_object_schema_is_sent_unchanged() -> None:
    schema = {"type": "object", "properties": {"a": {}}}
    contract = Contract(schema)
    assert contract.wrapper is None
    assert contract.object_schema() == schema
    assert contract.unwrap({"value": 1}) == {"value": 1}


def test_array_schema_is_wrapped_with_its_definitions_at_the_root() -> None:
    contract = Contract(list[Line])
    sent = contract.object_schema()
    assert sent["type"] == "object"
    assert sent["required"] == ["elements"]
    assert list(sent["$defs"]) == ["Line"]
    good = {"elements": [{"item": "a", "quantity": 1}]}
    assert Contract(sent).conforms(good)
    assert not Contract(sent).conforms({"elements": [{"item": "a"}]})
    assert contract.unwrap(good) == good["elements"]


def test_root_references_are_rewritten_for_the_wrapper() -> None:
    tree = {
        "anyOf": [{"type": "integer"}, {"$ref": "#/$defs/list"}],
        "$defs": {"list": {"type": "array", "items": {"$ref": "#"}}},
        "properties": {"$ref": {"const": {"$ref": "#"}}},
    }
    sent = Contract(tree).object_schema()
    outer = Contract(sent)
    root = sent["$defs"][sent["properties"]["value"]["$ref"].removeprefix("#/$defs/")]
    assert outer.conforms({"value": [1, [2, [3]]]})
    assert not outer.conforms({"value": [1, ["x"]]})
    # A property called `$ref` and data under `const` are no references.
    assert root["properties"] == tree["properties"]


MEMBER: dict[str, Any] = {"type": "object", "properties": {"up": {"$ref": "#/definitions/M"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": DRAFTS["draft7"], "$id": "https://example.com/m", "$ref": "#/definitions/M"}
        | {"definitions": {"M": MEMBER}},
        {"oneOf": [{"$ref": "#/definitions/M"}], "definitions": {"M": MEMBER}},
        {"anyOf": [{"$ref": "#/$defs/a~1b%25"}], "$defs": {"a/b%": {"type": "object"}}},
        {"allOf": [{"$ref": "#m"}], "$defs": {"M": {"$anchor": "m", "type": "object"}}},
        {"type": "object", "allOf": [{"$ref": "urn:m"}], "$defs": {"M": {"$id": "urn:m"}}},
        {"type": "object", "not": {"required": ["x"]}, "$id": "urn:uuid:1", "$comment": "#"},
        {"$dynamicAnchor": "m", "anyOf": [{"properties": {"up": {"$dynamicRef": "#m"}}}]},
        {"$schema": DRAFTS["draft2019-09"], "if": True, "then": {"items": {"$recursiveRef": "#"}}},
        {"$ref": "https://example.com/shared#/$defs/M"},
        {"properties": {"up": {"$ref": "#/allOf/0"}}, "allOf": [{"type": ["object", "array"]}]},
    ],
)
def test_references_survive_the_wrapper_in_one_form(schema: dict[str, Any]) -> None:
    shared = {"$defs": {"M": {"type": "object", "properties": {"up": {"$ref": "#/$defs/M"}}}}}
    contract = Contract(schema, resources={"https://example.com/shared": shared})
    sent = contract.object_schema()
    text = json.dumps(sent)
    assert sent["type"] == "object"
    assert not sent.keys() & {"anyOf", "oneOf", "allOf", "not", "$ref", "$id", "$schema"}
    assert text.count('"$ref"') == text.count('"$ref": "#/$defs/')
    assert not any(f'"{word}"' in text for word in ("$id", "$anchor", "$dynamicRef", "definitions"))
    assert Contract(sent).conforms({"value": {"up": {"up": {}}}})
    assert contract.outer().conforms({"value": {"up": {"up": {}}}})


def test_keywords_of_old_drafts_are_published_in_their_new_form() -> None:
    old = {
        "$schema": DRAFTS["draft4"],
        "type": "object",
        "properties": {
            "n": {"minimum": 1, "exclusiveMinimum": True},
            "pair": {"items": [{"type": "string"}, {}], "additionalItems": False},
        },
        "dependencies": {"n": ["pair"], "pair": {"required": ["n"]}},
    }
    assert Contract(old).object_schema() == {
        "type": "object",
        "properties": {
            "n": {"exclusiveMinimum": 1},
            "pair": {"prefixItems": [{"type": "string"}, {}], "items": False},
        },
        "dependentRequired": {"n": ["pair"]},
        "dependentSchemas": {"pair": {"required": ["n"]}},
    }


# -- violations --------------------------------------------------------------------------------


def test_violation_contains_pointer_rule_value_and_allowed_values() -> None:
    contract = Contract({"properties": {"a/b": {"items": {"enum": ["positive", "negative"]}}}})
    (violation,) = contract.violations({"a/b": ["positiv"]})
    assert violation.pointer == "/a~1b/0"
    assert violation.rule == "enum"
    assert violation.found == '"positiv"'
    assert violation.allowed == ('"positive"', '"negative"')
    assert violation.closest == '"positive"'
    assert str(violation) == (
        '/a~1b/0: "positiv" is not one of the 2 allowed values; '
        'allowed: "positive", "negative"; did you mean "positive"?'
    )


def test_only_violations_of_the_best_matching_branch_are_reported() -> None:
    def kind(name: str, **properties: Any) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"kind": {"const": name}, **properties},
            "required": ["kind", *properties],
        }

    contract = Contract(
        {"oneOf": [kind("a", x={"type": "integer"}), kind("b", y={"type": "integer"}), kind("c")]}
    )
    (violation,) = contract.violations({"kind": "b", "y": "5"})
    assert (violation.pointer, violation.rule) == ("/y", "type")
    (violation,) = contract.violations(5)
    assert violation.allowed == ("object",)


def test_large_values_are_truncated_and_violations_are_capped() -> None:
    contract = Contract({"items": {"type": "integer"}})
    violations = contract.violations(["x" * 100_000] * 50)
    assert [violation.more for violation in violations] == [0, 0, 47]
    assert max(len(str(v)) for v in violations) < 800
    names = [str(number) for number in range(50)]
    many = Contract({"properties": {name: {"type": "integer"} for name in names}})
    assert len(many.violations(dict.fromkeys(names, "x"))) == 20


def test_misspelt_property_is_reported_with_the_closest_declared_name() -> None:
    line = {
        "type": "object",
        "properties": {"quantity": {"type": "integer"}, "unit": {}},
        "additionalProperties": False,
    }
    contract = Contract({"items": {"$ref": "#/$defs/line"}, "$defs": {"line": line}})
    (violation,) = contract.violations([{"quantitiy": 1, "unit": "kg"}])
    assert str(violation) == ('/0: unknown properties: "quantitiy"; did you mean "quantity"?')


def test_violations_of_schema_and_type_are_reported_together() -> None:
    class Order(BaseModel):
        number: str
        total: int
        currency: str

        @field_validator("currency")
        @classmethod
        def known(cls, value: str) -> str:
            if value != "EUR":
                raise ValueError("must be EUR")
            return value

    found = Contract(Order).violations({"total": "x", "currency": "USD"})
    assert sorted((v.pointer, v.rule) for v in found) == [
        ("", "required"),
        ("/currency", "value_error"),
        ("/total", "type"),
    ]


def test_importing_ptc_structured_loads_no_dependency() -> None:
    import subprocess
    import sys

    script = "import ptc.structured, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert not {"pydantic", "jsonschema_rs", "anyio"} & set(done.stdout.split())


def test_published_schema_has_no_parts_that_no_keyword_holds() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/parts/text"}},
        "parts": {"text": {"type": "string"}, "unused": {"$ref": "#/parts/text"}},
        "x-order": ["a"],
    }
    published = Contract(schema).object_schema()
    assert published.keys() == {"type", "properties", "$defs"}
    assert Contract(published).conforms({"a": "b"})
    assert not Contract(published).conforms({"a": 1})
