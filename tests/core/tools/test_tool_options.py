"""Options of a tool, and those that are refused at its definition."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel

from ptc import Cache, Retry, Session, ToolContext, ToolError, UsageError, define_tool, tool


class Colour(Enum):
    RED = "red"


class Inner(BaseModel):
    words: list[str] = []


class Node(BaseModel):
    children: list[Node] = []


async def _later(error: Exception, attempt: int) -> bool:
    return True


def parameters_of(hint: Any, default: Any = ...) -> Any:
    def take(value: Any = default) -> None:
        """Take."""

    take.__annotations__["value"] = hint
    if default is ...:
        take.__defaults__ = None
    made = tool(take)
    return made.parameters["properties"]["value"], made


# --- arguments ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "schema", "good", "bad"),
    [
        (str, {"type": "string"}, "a", 1),
        (float, {"type": "number"}, 1.5, "x"),
        (int, {"type": "integer"}, 3, 3.5),
        (bool, {"type": "boolean"}, True, "maybe"),
        (None, {"type": "null"}, None, 0),
        (Literal["a", 2], {"enum": ["a", 2]}, 2, "b"),
        (Colour, {"enum": ["red"], "type": "string"}, "red", "blue"),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, "x"),
        (list[int], {"items": {"type": "integer"}, "type": "array"}, [1], ["x"]),
        (
            dict[str, float],
            {"additionalProperties": {"type": "number"}, "type": "object"},
            {"a": 1.5},
            {"a": "x"},
        ),
        (dict[str, Any], {"additionalProperties": True, "type": "object"}, {"a": [1, {}]}, [1]),
        (str | int, {"anyOf": [{"type": "string"}, {"type": "integer"}]}, 3, [1]),
        (
            Inner,
            {
                "properties": {
                    "words": {"default": [], "items": {"type": "string"}, "type": "array"}
                },
                "type": "object",
            },
            {"words": ["a"]},
            {"words": [1]},
        ),
        (
            Annotated[int, Field(ge=1, description="Count.")],
            {"type": "integer", "minimum": 1, "description": "Count."},
            1,
            0,
        ),
    ],
)
def test_supported_type_has_a_schema_and_validates_values(
    hint: Any, schema: Any, good: Any, bad: Any
) -> None:
    found, made = parameters_of(hint)
    assert found == schema
    made.validate({"value": good})
    with pytest.raises(ToolError, match="`value") as refused:
        made.validate({"value": bad})
    assert refused.value.code == "invalid_arguments"


@pytest.mark.parametrize(
    ("hint", "why"),
    [
        (Any, "`value`: `Any` does not describe a value"),
        (datetime, "`value`: a date and time is not a JSON type"),
        (list[datetime], r"`value\[\]`: a date and time"),
        (bytes, "`value`: bytes is not a JSON type"),
        (Path, "`value`: a path is not a JSON type"),
        (Node, r"`value.children\[\]`: its type is recursive"),
        (type(lambda: 1), "no JSON Schema"),
    ],
)
def test_type_without_a_json_form_is_refused_at_definition(hint: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parameters_of(hint)


def nested(levels: int, lists: bool) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        inner = {"type": "array", "items": schema} if lists else schema
        schema = {"type": "object", "properties": {"a": inner}}
    return {"type": "object", "properties": {"top": schema}}


@pytest.mark.parametrize("lists", [False, True])
def test_nesting_of_more_than_seven_objects_is_refused(lists: bool) -> None:
    assert define_tool("deep", "D.", nested(7, lists), lambda a: a).parameters == nested(7, lists)
    with pytest.raises(UsageError, match="more than 7 nested objects"):
        define_tool("deep", "D.", nested(8, lists), lambda a: a)


def test_references_are_inlined() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/x~1y", "description": "One."}, "title": {"const": 1}},
        "$defs": {"x/y": {"type": "integer", "title": "X"}},
    }
    assert define_tool("flat", "D.", schema, lambda a: a).parameters == {
        "type": "object",
        "properties": {"a": {"type": "integer", "description": "One."}, "title": {"const": 1}},
    }


@pytest.mark.parametrize(
    ("defs", "why"),
    [
        ({"x": {"type": "array", "items": {"$ref": "#/$defs/x"}}}, "its type is recursive"),
        (
            {f"x{n or ''}": {"allOf": [{"$ref": f"#/$defs/x{n + 1}"}] * 3} for n in range(9)}
            | {"x9": {}, "x1": {"allOf": [{"$ref": "#/$defs/x2"}] * 200}},
            "parts",
        ),
    ],
)
def test_recursive_or_exploding_schema_is_refused(defs: Any, why: str) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": defs}
    with pytest.raises(UsageError, match=why):
        define_tool("bomb", "D.", schema, lambda a: a)


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "array", "items": [{"$ref": "#/definitions/x"}]}}},
        {"properties": {"a": {"type": "object", "unevaluatedProperties": {"$ref": "#/$defs/x"}}}},
        {"properties": {"a": {"contains": {"$ref": "#/$defs/x"}}}},
        {"properties": {"a": {"dependentSchemas": {"b": {"$ref": "#/$defs/x"}}}}},
        {"patternProperties": {"^a": {"not": {"$ref": "#/$defs/x"}}}},
        {"properties": {"a": {"if": {"$ref": "#/$defs/x"}, "then": {"$ref": "#/$defs/x"}}}},
    ],
)
def test_no_reference_remains_anywhere_in_a_schema(schema: Any) -> None:
    defs = {"x": {"type": "integer"}}
    made = define_tool(
        "flat",
        "D.",
        {
            "$schema": "http://json-schema.org/draft-07/schema#"
            if "items" in str(schema)
            else "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": defs,
            "definitions": defs,
            **schema,
        },
        lambda a: a,
    )
    assert "$ref" not in str(made.parameters)
    assert "'integer'" in str(made.parameters)


def test_discriminated_union_is_published_without_references() -> None:
    @tool
    def feed(pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> str:
        """Feed."""
        return pet.kind

    text = str(feed.parameters)
    assert "$ref" not in text
    assert "#/$defs" not in text
    assert [
        kind["properties"]["kind"]["const"]
        for kind in feed.parameters["properties"]["pet"]["oneOf"]
    ] == ["cat", "dog"]
    assert feed.validate({"pet": {"kind": "cat"}})["pet"] == Cat(kind="cat")
    with pytest.raises(ToolError, match=r"`pet\.dog\.tricks` is required"):
        feed.validate({"pet": {"kind": "dog"}})


def test_top_level_alternatives_are_published_flat_and_enforced() -> None:
    by_id = {
        "properties": {"id": {"type": "integer"}, "kind": {"const": "id"}},
        "required": ["id", "kind"],
    }
    by_name = {
        "properties": {"name": {"type": "string"}, "kind": {"const": "name"}},
        "required": ["name", "kind"],
    }
    schema = {
        "type": "object",
        "properties": {"limit": {"type": "integer"}},
        "oneOf": [by_id, by_name],
        "allOf": [{"properties": {"page": {"type": "integer"}}, "required": ["page"]}],
        "not": {"required": ["id", "name"]},
    }
    made = define_tool("find", "D.", schema, lambda a: a)
    assert made.parameters == {
        "type": "object",
        "properties": {
            "limit": {"type": "integer"},
            "page": {"type": "integer"},
            "id": {"type": "integer"},
            "kind": {"anyOf": [{"const": "id"}, {"const": "name"}]},
            "name": {"type": "string"},
        },
        "required": ["page", "kind"],
    }
    made.validate({"page": 1, "kind": "id", "id": 3})
    for wrong in ({"page": 1}, {"page": 1, "kind": "id", "id": 3, "name": "x"}):
        with pytest.raises(ToolError):
            made.validate(wrong)
    assert define_tool("none", "D.", {"type": "object"}, lambda a: a).parameters == {
        "type": "object",
        "properties": {},
    }


def test_a_parameter_may_have_any_name_that_python_has() -> None:
    @tool
    def odd(schema: str, copy: int, model_config: bool, _private: int = 3, json: str = "j") -> None:
        """Take.

        Args:
            _private: A number.
        """

    assert list(odd.parameters["properties"]) == [
        "schema",
        "copy",
        "model_config",
        "_private",
        "json",
    ]
    assert odd.parameters["properties"]["_private"]["description"] == "A number."
    given = {"schema": "s", "copy": 1, "model_config": True}
    assert odd.validate(given) == {**given, "_private": 3, "json": "j"}
    with pytest.raises(ToolError, match="`_private`: Input should be a valid integer"):
        odd.validate({**given, "_private": "x"})


def test_positional_only_parameter_is_refused() -> None:
    def sole(word: str, /) -> None: ...

    with pytest.raises(UsageError, match="parameter `word` is positional-only"):
        tool(name="sole", description="D.")(sole)


def test_optional_or_annotated_context_is_recognized() -> None:
    def optional(word: str, ctx: ToolContext | None = None) -> None: ...
    def noted(ctx: Annotated[ToolContext, "of the call"], word: str) -> None: ...

    for function in (optional, noted):
        made = tool(description="D.")(function)
        assert (list(made.parameters["properties"]), made.context_parameter) == (["word"], "ctx")


def test_partial_arguments_are_hidden_and_fixed_for_callers() -> None:
    def send(to: str, key: str = "none") -> str:
        return key

    made = tool(name="send", description="D.")(partial(send, key="own key"))
    assert list(made.parameters["properties"]) == ["to"]
    assert "own key" not in str(made.definition)
    with pytest.raises(ToolError, match="unknown argument `key`"):
        made.validate({"to": "a", "key": "b"})


@pytest.mark.parametrize(
    ("parameters", "function", "why"),
    [
        (RootModel[list[int]], lambda a: a, "has no fields"),
        ({"type": "object"}, lambda: 1, "must take the arguments as one dict"),
        ({"type": "object"}, 3, "function must be callable"),
        ({"type": "object", "properties": []}, lambda a: a, r"object\"$"),
    ],
)
def test_uncallable_definition_is_refused(parameters: Any, function: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        define_tool("never", "D.", parameters, function)


def test_model_allowing_extra_keys_is_published_without_them() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        word: str

    made = define_tool("open_ended", "D.", Open, lambda a: a)
    assert made.parameters["additionalProperties"] is False


def test_defaults_are_applied_and_unknown_keys_are_refused() -> None:
    @tool
    def take(inner: Inner, count: int = 10) -> None:
        """Take."""

    assert take.validate({"inner": {}}) == {"inner": Inner(), "count": 10}
    assert "count" not in take.parameters["required"]
    with pytest.raises(ToolError, match=r"unknown argument `cuont` \(did you mean `count`\?\)"):
        take.validate({"inner": {}, "cuont": 3})
    raw = define_tool(
        "raw", "D.", {"type": "object", "properties": {"a": {"default": [1]}}}, lambda a: a
    )
    first, second = raw.validate({}), raw.validate({})
    first["a"].append(2)
    assert second == {"a": [1]}


@pytest.mark.anyio
async def test_arguments_model_instance_is_passed_to_the_function(tmp_path: Path) -> None:
    class Ask(BaseModel):
        model_config = ConfigDict(extra="allow")
        word: str
        limit: int = Field(5, ge=1)

    def answer(ask: Ask, ctx: ToolContext) -> str:
        return f"{ask.word} {ask.limit} {ctx.tool_name}"

    ask = define_tool("ask", "Ask.", Ask, answer)
    async with Session(tmp_path, tools=[ask], toolsets=()) as session:
        assert await session.ask(word="hi") == "hi 5 ask"  # type: ignore[attr-defined]  # a tool as a method
        with pytest.raises(ToolError, match=r"unknown argument `wrod` \(did you mean `word`\?\)"):
            await session.ask(word="hi", wrod=1)  # type: ignore[attr-defined]  # a tool as a method
        with pytest.raises(ToolError, match="`limit`"):
            await session.ask(word="hi", limit=0)  # type: ignore[attr-defined]  # a tool as a method


# --- options --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"side_efect": True}, r"unknown option 'side_efect' \(did you mean `side_effect`\?\)"),
        ({"side_effect": "yes"}, "side_effect must be True or False, not 'yes'"),
        ({"needs_approval": "yes"}, "needs_approval must be True, False or a function"),
        ({"max_executions_per_run": -1}, "max_executions_per_run must be an integer from 0"),
        ({"max_executions_per_run": 2.7}, "max_executions_per_run must be an integer"),
        ({"max_executions_per_run": True}, "max_executions_per_run must be an integer"),
        ({"timeout_ms": 0}, "timeout_ms must be an integer from 1"),
        ({"cache": "yes"}, "cache must be True, a function or a Cache"),
        ({"cache": True, "side_effect": True}, "a side effect cannot be cached"),
        ({"tags": "one"}, "tags must be a list of words"),
        ({"tags": 3}, "tags must be a list of words"),
        ({"tags": [3]}, "tags must be a list of words"),
        ({"render": "json"}, "render must be a function"),
        ({"retry": 3}, "retry must be a Retry"),
        ({"approval_defaults": "x"}, "approval_defaults must be a mapping"),
        ({"result_schema": "x"}, "result_schema must be a JSON Schema"),
    ],
)
def test_meaningless_tool_option_is_refused_at_definition(options: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        tool(name="odd", description="D.", **options)(lambda: None)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Cache(scope="agent"), "'run' or 'session'"),  # type: ignore[arg-type]  # the point
        (lambda: Cache(ttl_ms=-1), "ttl_ms"),
        (lambda: Cache(key=3), "a function of the arguments"),  # type: ignore[arg-type]  # the point
        (lambda: Retry(max_retries=101), "max_retries"),
        (lambda: Retry(backoff_ms=-1), "backoff_ms"),
        (lambda: Retry(jitter=1.5), "jitter"),
        (lambda: Retry(breaker_threshold=0), "breaker_threshold"),
        (lambda: Retry(cool_down_ms=5), "without breaker_threshold"),
        (lambda: Retry(should_retry=_later), "must be a plain function"),  # type: ignore[arg-type]  # the point
    ],
)
def test_meaningless_cache_or_retry_is_refused(make: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        make()


def test_cache_option_accepts_a_bool_a_function_or_a_cache() -> None:
    def key(arguments: Mapping[str, Any]) -> Any:
        return arguments["a"]

    def with_cache(cache: Any) -> Cache | None:
        return tool(name="c", description="D.", cache=cache)(lambda: None).cache

    own = Cache(ttl_ms=5, scope="session")
    assert [with_cache(c) for c in (False, True, key, own)] == [None, Cache(), Cache(key), own]


def test_non_idempotent_tool_without_context_warns_once_by_name() -> None:
    def blind(*args: int) -> None: ...

    def seeing(arguments: Any, ctx: ToolContext) -> None: ...

    def make(function: Any, **options: Any) -> None:
        schema = {"type": "object"}
        define_tool("pay_once", "Pay.", schema, function, side_effect=True, **options)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(seeing)
        make(blind, idempotent=True)
    with pytest.warns(UserWarning, match=r"pass ctx\.idempotency_key on") as caught:
        make(blind)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(blind)
