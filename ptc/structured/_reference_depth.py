"""How deep the references of a schema can lead a recursive algorithm.

jsonschema-rs follows references on the stack of the thread, and ends the process if that is full:
after some 1,200 references in a row with 8 MiB. A schema may come from a script.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["MAX_REFERENCE_DEPTH", "reference_depth", "uses_unevaluated"]

MAX_REFERENCE_DEPTH = 800
"""Nested schemas, through references, that jsonschema-rs may visit recursively."""
_MAX_STEPS = 1_000_000
"""Parts of a schema that are visited; of a larger one, the depth is taken to be too large."""


def reference_depth(schema: Any) -> int:
    """Return an upper bound of the nesting of `schema`, with each reference entered once.

    It is the sum of the depths of all referenced schemas, in whatever order they are entered, and
    at most one more than `MAX_REFERENCE_DEPTH`.

    Args:
        schema: A schema whose references have the form ``#/$defs/name`` or ``#``.
    """
    if not isinstance(schema, Mapping):
        return 1
    definitions = schema.get("$defs", {})
    waiting: list[Any] = [{word: part for word, part in schema.items() if word != "$defs"}]
    seen: set[str] = {"#"}
    depth = steps = 0
    while waiting:
        level = [waiting.pop()]
        while level:
            depth += 1
            steps += len(level)
            if depth > MAX_REFERENCE_DEPTH or steps > _MAX_STEPS:
                return MAX_REFERENCE_DEPTH + 1
            for node in level:
                reference = node.get("$ref") if isinstance(node, Mapping) else None
                if isinstance(reference, str) and reference not in seen:
                    seen.add(reference)
                    waiting.append(definitions.get(reference.removeprefix("#/$defs/")))
            level = [child for node in level for child in _children(node)]
    return depth


def uses_unevaluated(schema: Any) -> bool:
    """True if a keyword of `schema` depends on which parts the referenced schemas evaluate."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            if "unevaluatedProperties" in node or "unevaluatedItems" in node:
                return True
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return False


def _children(node: Any) -> list[Any]:
    parts = node.values() if isinstance(node, Mapping) else node
    return [part for part in parts or () if isinstance(part, Mapping | list)]
