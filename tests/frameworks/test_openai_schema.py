"""Strict schemas of OpenAI, without the SDK."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from ptc import Session, UsageError, tool
from ptc_bindings._export import Exports
from ptc_bindings._openai_offers import offers
from ptc_bindings._openai_schema import relaxed, strict_schema, without_nulls

from .openai_rules import schema_problems


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Node(BaseModel):
    """A node of a tree."""

    name: str = Field(pattern="^[a-z]+$", min_length=1)
    children: list[Node] = Field(default_factory=list, max_length=3)
    note: str | None = None
    size: int = Field(default=3, ge=0)


@dataclass
class Point:
    x: float
    y: float = 0.0


class Order(BaseModel):
    node: Node = Field(description="A described reference.")
    points: list[Point | Colour] = Field(default_factory=list)
    kind: Literal["a", "b"] = "a"


def test_schema_of_a_model_has_a_strict_form() -> None:
    for kind in (Node, Order, Point):
        made = strict_schema(TypeAdapter(kind).json_schema())
        if kind is Node:  # its root is a reference
            made = strict_schema(
                {
                    "type": "object",
                    **Node.model_json_schema()["$defs"]["Node"],
                    "$defs": Node.model_json_schema()["$defs"],
                }
            )
        assert made is not None
        assert list(schema_problems(made)) == []


@pytest.mark.parametrize(
    "part",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "array"},
        {},
        {"prefixItems": [{"type": "string"}], "type": "array"},
        {"allOf": [{"type": "string"}, {"minLength": 1}]},
        {"$ref": "#/$defs/missing"},
        {"$ref": "https://example.org/schema"},
        True,
    ],
)
def test_free_form_data_has_no_strict_form(part: Any) -> None:
    schema = {"type": "object", "properties": {"a": part}, "required": ["a"]}
    assert strict_schema(schema) is None
    assert strict_schema({"anyOf": [{"type": "object", "properties": {}}]}) is None


def test_deep_and_wide_schemas_have_no_strict_form() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(11):
        deep = {"type": "object", "properties": {"a": deep}, "required": ["a"]}
    assert strict_schema(deep) is None
    many = {"type": "object", "properties": {"a": {"enum": list(range(1_001))}}}
    assert strict_schema(many) is None


def test_null_of_an_optional_property_is_dropped_and_others_are_kept() -> None:
    schema = Order.model_json_schema()
    sent = {
        "node": {
            "name": "a",
            "note": None,
            "size": None,
            "children": [{"name": "b", "children": None, "note": "n", "size": 1}],
        },
        "points": [{"x": 1.0, "y": None}, "red"],
        "kind": None,
    }
    read = without_nulls(sent, schema)
    assert read == {
        "node": {
            "name": "a",
            "note": None,
            "children": [{"name": "b", "note": "n", "size": 1}],
        },
        "points": [{"x": 1.0}, "red"],
    }
    Order.model_validate(read)


def test_default_is_described_and_makes_a_property_optional_again() -> None:
    strict = strict_schema(Node.model_json_schema()["$defs"]["Node"] | Node.model_json_schema())
    assert strict is not None
    size = strict["$defs"]["Node"]["properties"]["size"]
    assert size == {
        "anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}],
        "description": "Null: 3.",
    }
    schema = {"properties": {"a": {}, "b": {"default": 1}}, "required": ["a", "b"]}
    assert relaxed(schema)["required"] == ["a"]


@tool
def order(item: str, count: int = 2, tags: list[str] | None = None) -> dict[str, Any]:
    """Order an item."""
    return {"item": item, "count": count, "tags": tags}


@tool
def keep(data: dict[str, Any]) -> str:
    """Keep any data."""
    return str(sorted(data))


@pytest.mark.anyio
@pytest.mark.shared_zygote
async def test_strict_arguments_are_read_back(tmp_path: Path) -> None:
    async with Session(tmp_path, tools=[order, keep], toolsets=(), workers=1) as session:
        exports = Exports(session, direct=True)
        found = {offer.tool.name: offer for offer in offers(exports, strict=True)}
        assert {name: offer.strict for name, offer in found.items()} == {
            "program": True,
            "order": True,
            "keep": False,
        }
        for offer in found.values():
            assert not offer.strict or list(schema_problems(offer.parameters)) == []
            assert len(offer.description) <= 1_024
        sent = '{"item": "tea", "count": null, "tags": null}'
        reply = await exports.call("order", found["order"].read(sent))
        assert reply.data == {"item": "tea", "count": 2, "tags": None}
        program = found["program"]
        assert program.read('{"source": "1", "inputs": "{\\"n\\": 1}"}')["inputs"] == {"n": 1}
        with pytest.raises(UsageError, match="`inputs` must be valid JSON"):
            program.read('{"source": "1", "inputs": "{n: 1}"}')
        with pytest.raises(UsageError, match="send the arguments as one JSON object"):
            program.read("[1]")
        with pytest.raises(UsageError, match="the arguments must be valid JSON"):
            program.read('{"source": NaN}')
        assert found["keep"].read("") == {}
