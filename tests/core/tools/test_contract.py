"""Contracts of tools: the digest, and the differences that a resumed run reports."""

from __future__ import annotations

from typing import Any

import pytest

from ptc import Cache, Tool, define_tool
from ptc._tools._contract import describe_changes, mark_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"title": {"type": "string", "description": "Name."}},
    "required": ["title"],
}


def _tool(schema: dict[str, Any] = SCHEMA, description: str = "Read.", **options: Any) -> Tool:
    return define_tool("read", description, schema, lambda arguments: arguments, **options)


def test_digest_ignores_texts_and_order_and_is_stable_between_processes() -> None:
    other = {
        "required": ["title"],
        "properties": {"title": {"description": "Another text.", "type": "string"}},
        "type": "object",
    }
    same = _tool(other, "Another description.", timeout_ms=5, tags=["a"])
    assert same.digest == _tool().digest
    assert len(_tool().digest) == 64
    assert mark_of(same) == mark_of(_tool())


def test_parameter_that_is_named_like_an_annotation_counts() -> None:
    without = {"type": "object", "properties": {}}
    assert _tool(without).digest != _tool().digest
    assert describe_changes(mark_of(_tool()), mark_of(_tool(without))) == ["its parameters changed"]


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({"side_effect": True, "idempotent": True}, "side_effect was False and is True"),
        ({"idempotent": False}, "idempotent was True and is False"),
        ({"uses_key": True}, "uses_key was False and is True"),
        ({"needs_approval": lambda _: False}, "needs_approval was False and is True"),
        ({"cache": True}, "cache was False and is True"),
        ({"result_schema": {"type": "integer"}}, "the schema of its result changed"),
    ],
)
def test_each_flag_changes_the_digest_and_is_named(options: dict[str, Any], change: str) -> None:
    changed = _tool(**options)
    assert changed.digest != _tool().digest
    assert change in describe_changes(mark_of(_tool()), mark_of(changed))


def test_scope_of_a_cache_changes_the_digest() -> None:
    assert _tool(cache=Cache(scope="session")).digest != _tool(cache=True).digest


def test_name_changes_the_digest() -> None:
    renamed = define_tool("look", "Read.", SCHEMA, lambda arguments: arguments)
    assert renamed.digest != _tool().digest
