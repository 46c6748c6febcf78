"""Published schemas: every dialect accepts the values of the original schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptc.models._dialects import DIALECTS, ROWS
from ptc.models._publish import find_lost_references, publish
from ptc.models._reduce import UnpublishableError, reduce_schema
from ptc.structured import Contract
from ptc.structured._keywords import map_subschemas

NAMES = ("a", "b", "c")
SHARED_REFERENCE = {"$ref": "#/definitions/shared"}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"

SCALARS: dict[str, list[dict[str, Any]]] = {
    "string": [{"type": "string"}, {"type": "string", "minLength": 2, "pattern": "^x"}],
    "number": [{"type": "integer", "minimum": 3}, {"type": "number", "multipleOf": 0.5}],
    "choice": [{"enum": ["x", 3, None]}, {"const": True}, {"type": ["string", "null"]}],
    "format": [{"type": "string", "format": "date"}, {"type": "string", "format": "uri"}],
}


def objects(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects whose properties are all declared and, by chance, required, closed or conditional."""
    more: list[dict[str, Any]] = [
        {},
        {"additionalProperties": False},
        {"not": {"required": ["a"]}},
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"minProperties": 1},
    ]
    return st.builds(
        lambda properties, needed, extra: {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name in needed],
            **extra,
        },
        st.dictionaries(st.sampled_from(NAMES), parts, min_size=1, max_size=3),
        st.frozensets(st.sampled_from(NAMES)),
        st.sampled_from(more),
    )


def containers(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    pairs = st.lists(parts, min_size=1, max_size=2)
    return st.one_of(
        objects(parts),
        st.builds(lambda items: {"type": "array", "items": items, "minItems": 1}, parts),
        st.builds(lambda p: {"type": "array", "prefixItems": p, "items": False}, pairs),
        st.builds(lambda p: {"anyOf": p}, pairs),
        st.builds(lambda p: {"oneOf": p, "description": "One of them."}, pairs),
        st.builds(lambda p: {"allOf": p}, st.lists(objects(parts), min_size=1, max_size=2)),
        st.just({**SHARED_REFERENCE, "title": "T"}),
        st.builds(
            lambda part: {**part, "allOf": [{"$ref": "#/definitions/shared"}]}, objects(parts)
        ),
    )


PARTS = st.recursive(
    st.sampled_from([one for group in SCALARS.values() for one in group]), containers, max_leaves=6
)
SHARED: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "up": {"$ref": "#/definitions/shared"}},
}
VALUES = st.recursive(
    st.sampled_from(["x", "xx", "xyz", "2026-01-01", "urn:x", 3, 4, 0.5, None, True]),
    lambda parts: st.one_of(
        st.lists(parts, max_size=2),
        st.dictionaries(st.sampled_from([*NAMES, "up"]), parts, max_size=3),
    ),
    max_leaves=6,
)


def close(node: dict[str, Any]) -> dict[str, Any]:
    """Reject keys that an object does not declare, as closed dialects do."""
    return {**node, "additionalProperties": False} if "properties" in node else node


def examples(schema: Any) -> Iterator[Any]:
    """Yield values built from the schema itself, some of which conform to it."""
    if not isinstance(schema, dict):
        return
    yield from schema.get("enum", [schema["const"]] if "const" in schema else [])
    kind = schema.get("type", [])
    pool: dict[str, list[Any]] = {
        "string": ["xx", "2026-01-01", "urn:x"],
        "integer": [3, 4],
        "number": [0.5],
        "null": [None],
    }
    for one in [kind] if isinstance(kind, str) else kind:
        yield from pool.get(one, [])
    yield from structures(schema)


def structures(schema: dict[str, Any]) -> Iterator[Any]:
    parts = schema.get("properties", {})
    if parts:
        firsts = {n: next(examples(p), None) for n, p in parts.items()}
        yield firsts
        yield {n: v for n, v in firsts.items() if n in schema.get("required", ())}
        yield from ({n: v} for n, v in firsts.items())
    if "items" in schema and schema["items"] is not False:
        yield [next(examples(schema["items"]), None)]
    if "prefixItems" in schema:
        yield [next(examples(part), None) for part in schema["prefixItems"]]
    for word in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(word, ()):
            yield from examples(part)
    if "$ref" in schema:
        yield {"a": "x", "up": {"a": "y"}}


@settings(max_examples=15)
@given(PARTS, st.lists(VALUES, max_size=4))
def test_every_dialect_accepts_the_values_of_the_original(schema: Any, values: list[Any]) -> None:
    schema = {**schema, "definitions": {"shared": SHARED}}
    contract = Contract(schema, formats=False)
    # `allOf` of closed objects has no values: there, nothing is demanded of closed dialects.
    declared = Contract(map_subschemas(schema, close), formats=False)
    conforming = [v for v in [*values, *examples(schema)] if contract.conforms(v)]
    published = contract.object_schema()
    for name, dialect in DIALECTS.items():
        try:
            reduced = reduce_schema(published, dialect)
        except UnpublishableError:
            continue
        assert not list(find_lost_references(reduced))
        form = Contract(reduced, formats=False)
        for value in conforming:
            sent = value if contract.wrapper is None else {contract.wrapper: value}
            if dialect.closed and not declared.conforms(value):
                continue
            assert form.conforms(sent), (name, reduced, sent, form.violations(sent))


def test_dialects_use_only_their_own_keywords() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1, "description": "Count."},
            "s": {"type": ["string", "null"], "pattern": "(?=x)", "maxLength": 9},
            "k": {"const": "kind"},
            "l": {"type": "array", "items": {"type": "string"}, "minItems": 2, "uniqueItems": True},
        },
        "required": ["n", "s", "k", "l"],
        "additionalProperties": False,
    }
    found = {name: reduce_schema(schema, row)["properties"] for name, row in DIALECTS.items()}
    assert found["any"] == schema["properties"]
    assert found["anthropic_native"]["n"] == {
        "type": "integer",
        "description": "Count. (minimum: 1)",
    }
    assert found["anthropic_native"]["s"]["anyOf"][1] == {"type": "null"}
    assert found["anthropic_native"]["l"]["minItems"] == 1
    assert found["openai_strict"]["n"]["minimum"] == 1
    assert "pattern" not in found["openai_strict"]["s"]
    assert found["gemini"]["k"] == {"enum": ["kind"]}
    assert found["grammar"]["s"]["maxLength"] == 9
    long = {"type": "object", "properties": {"s": {"type": "string", "maxLength": 4_000}}}
    assert reduce_schema(long, DIALECTS["grammar"])["properties"]["s"] == {
        "type": "string",
        "description": "(maxLength: 4000)",
    }
    for name, row in DIALECTS.items():
        used = {word for part in found[name].values() for word in part}
        assert row.keywords is None or used <= row.keywords


@pytest.mark.parametrize(
    ("row", "schema", "reason"),
    [
        ("openai_strict", {"a": {"type": "string"}}, "optional properties"),
        ("anthropic_native", {"a": {"type": "object"}}, "arbitrary keys"),
        ("anthropic_native", {"a": {}}, "a value of any type"),
        ("anthropic_native", {"a": {"$ref": "#/$defs/node"}}, "recursive schemas"),
        ("gemini", {"a": {"$ref": "#/$defs/node"}}, "recursive schemas"),
    ],
)
def test_schema_beyond_a_dialect_is_reported_with_the_reason(
    row: str, schema: dict[str, Any], reason: str
) -> None:
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/node"}},
        "required": ["next"],
    }
    whole = {"type": "object", "properties": schema, "$defs": {"node": node}}
    with pytest.raises(UnpublishableError, match=reason):
        reduce_schema(whole, DIALECTS[row])
    if row == "gemini":
        # A reference that may be absent ends somewhere.
        del node["required"]
        assert reduce_schema(whole, DIALECTS[row])["$defs"]["node"] == node


def test_openai_gets_strict_output_where_it_loses_nothing() -> None:
    part = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert publish("openai", "native", part).strict is True
    optional = {**part, "required": []}
    assert publish("openai", "native", optional).strict is False
    assert publish("openai", "native", optional).schema == optional
    assert publish("openai", "tool", part).strict is False
    with pytest.raises(UnpublishableError, match="arbitrary keys"):
        publish("openai", "native", {"type": "object"})


def test_definition_that_contains_itself_beside_other_keywords_is_reduced() -> None:
    node = {
        "properties": {"up": {"$ref": "#/$defs/node", "minProperties": 1}},
        "allOf": [{"$ref": "#/$defs/node"}, {"required": ["up"]}],
    }
    schema = {"type": "object", "properties": {"n": {"$ref": "#/$defs/node"}}}
    reduced = reduce_schema({**schema, "$defs": {"node": node}}, DIALECTS["grammar"])
    assert len(json.dumps(reduced)) < 10_000
    assert not list(find_lost_references(reduced))


def installed_schemas() -> Iterator[tuple[str, Any]]:
    """The meta-schemas of all drafts: recursive, dynamic, and in several documents."""
    pytest.importorskip("jsonschema_specifications", reason="a dependency of jsonschema")
    for path in resources.files("jsonschema_specifications").joinpath("schemas").rglob("*"):  # type: ignore[attr-defined]  # a folder of files
        # The library that validates knows drafts from 4 on.
        if path.is_file() and "draft-03" not in (text := path.read_text()):
            yield path.name, json.loads(text)


def test_meta_schemas_of_all_drafts_publish_in_every_form() -> None:
    schemas = list(installed_schemas())
    documents = {s.get("$id", s.get("id")).rstrip("#"): s for _, s in schemas}
    values = [True, {"type": "string"}, {"properties": {"a": {"items": {"minimum": 1}}}}]
    for _, schema in schemas:
        contract = Contract(schema, formats=False, resources=documents)
        published = contract.object_schema()
        for name in {"any", *ROWS.values()}:
            try:
                reduced = reduce_schema(published, DIALECTS[name])
            except UnpublishableError:
                continue
            form = Contract(reduced, formats=False)
            for value in filter(contract.conforms, values):
                sent = value if contract.wrapper is None else {contract.wrapper: value}
                assert DIALECTS[name].closed or form.conforms(sent), (name, sent)
    assert len(schemas) > 5


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "any"])
def test_definitions_that_multiply_are_merged_once(dialect: str) -> None:
    last = 200
    steps: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(last)
    }
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/d0"}},
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {**steps, f"d{last}": {"type": "string"}},
    }
    reduced = reduce_schema(schema, DIALECTS[dialect])
    assert len(json.dumps(reduced)) < 1_000
