"""Contract of a tool: its schemas and flags, by which a resumed run finds out what changed.

A recorded run relies on the contract that its tools had: a call that was interrupted is repeated
only if the tool is repeatable, and a script was written for the parameters of that time. Texts,
prompts, time-outs and retries may change at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from .._core import _json

if TYPE_CHECKING:
    from ._tool import Tool

__all__ = [
    "CONTRACT_FLAGS",
    "describe_changes",
    "describe_contract",
    "describe_schema",
    "letters_of",
    "mark_of",
]

_ANNOTATIONS: Final = {"title", "description", "examples", "$comment", "deprecated"}
"""Keywords of JSON Schema that accept and reject nothing."""
_BY_NAME: Final = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
"""Keywords whose value maps names, which may be those of annotations, to schemas."""
_LITERAL: Final = {"enum", "const", "default"}
"""Keywords whose value is data."""
CONTRACT_FLAGS: Final = {
    "side_effect": "s",
    "idempotent": "i",
    "uses_key": "k",
    "needs_approval": "a",
    "reversible": "r",
    "cache": "c",
    "unrecorded": "u",
}
"""Flags of the contract, each with its letter in `mark_of`. Never change a letter."""
_SCHEMA_DIGITS: Final = 12
"""Hex digits of the digest of a schema: of two versions of one tool, 2**48 are enough."""


def describe_contract(tool: Tool) -> dict[str, Any]:
    """Return the contract of a tool as JSON data: the content of `Tool.digest`."""
    returns = tool.result_schema
    return {
        "name": tool.name,
        "parameters": describe_schema(tool.parameters),
        "result_schema": None if returns is None else describe_schema(returns),
        **_flags_of(tool),
        "cache": None if tool.cache is None else tool.cache.scope,
        "unrecorded": sorted(tool.unrecorded),
    }


def _flags_of(tool: Tool) -> dict[str, bool]:
    return {
        "side_effect": tool.side_effect,
        "idempotent": tool.idempotent,
        "uses_key": tool.uses_key,
        # A predicate requires approval of some calls.
        "needs_approval": tool.needs_approval is not False,
        "reversible": tool.revert is not None,
        "cache": tool.cache is not None,
        "unrecorded": bool(tool.unrecorded),
    }


def describe_schema(schema: Any) -> Any:
    """Return a JSON Schema without its annotations."""
    if isinstance(schema, Mapping):
        return {
            key: _describe_keyword(key, value)
            for key, value in schema.items()
            if key not in _ANNOTATIONS
        }
    if isinstance(schema, Sequence) and not isinstance(schema, str | bytes):
        return [describe_schema(item) for item in schema]
    return schema


def _describe_keyword(key: str, value: Any) -> Any:
    if key in _LITERAL:
        return value
    if key in _BY_NAME and isinstance(value, Mapping):
        return {name: describe_schema(part) for name, part in value.items()}
    return describe_schema(value)


def mark_of(tool: Tool) -> str:
    """Return the contract in a short text, for the record of each run.

    Letters of the flags, then digests of the parameters and of the result's schema.
    """
    contract = describe_contract(tool)
    details = [contract["parameters"], contract["cache"], contract["unrecorded"]]
    digests = (_json.sha256_of(part) for part in (details, contract["result_schema"]))
    return ":".join([letters_of(tool), *(digest[:_SCHEMA_DIGITS] for digest in digests)])


def letters_of(tool: Tool) -> str:
    """Return the first part of `mark_of`, which needs no schema to be derived."""
    flags = _flags_of(tool)
    return "".join(letter for name, letter in CONTRACT_FLAGS.items() if flags[name])


def describe_changes(before: str, now: str) -> list[str]:
    """Describe the differences between a recorded mark and `mark_of`.

    If only the letters were recorded, only they are compared.
    """
    (letters, *digests), (new_letters, *new_digests) = before.split(":"), now.split(":")
    changes = [
        f"{name} was {letter in letters} and is {letter in new_letters}"
        for name, letter in CONTRACT_FLAGS.items()
        if (letter in letters) != (letter in new_letters)
    ]
    if digests and digests[:1] != new_digests[:1]:
        changes.append("its parameters changed")
    if digests and digests[1:] != new_digests[1:]:
        changes.append("the schema of its result changed")
    return changes
