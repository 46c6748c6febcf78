"""Publish a schema to a model: an object at the root, of draft 2020-12, with plain references.

That is what tools of all providers take. `ptc.models` reduces it further where a provider accepts
less; answers are validated by the original schema in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ._keywords import CONTAINERS, map_subschemas
from ._linking import Linked, link

__all__ = [
    "linked_schema",
    "list_schema",
    "object_schema",
    "outer_schema",
    "wrap_schema",
    "wrapper_key",
]

_REFUSED_AT_ROOT = frozenset(
    {
        "$dynamicRef",
        "$recursiveRef",
        "$ref",
        "allOf",
        "anyOf",
        "const",
        "else",
        "enum",
        "if",
        "not",
        "oneOf",
        "then",
    }
)
"""Keywords with which OpenAI or Anthropic reject the parameters of a tool, even of an object."""


def wrapper_key(schema: Any) -> str | None:
    """Return the key that wraps answers of `schema`: ``elements``, ``value``, or None."""
    if isinstance(schema, Mapping):
        if schema.get("type") == "object" and not schema.keys() & _REFUSED_AT_ROOT:
            return None
        if schema.get("type") == "array":
            return "elements"
    return "value"


def object_schema(schema: Any, resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema to send to a model.

    Args:
        schema: A JSON Schema that compiles.
        resources: Documents that its references may name, by URI.
    """
    published: dict[str, Any] = map_subschemas(_wrap(schema, resources), _upgrade)
    return published


def linked_schema(schema: Any, resources: Mapping[str, Any]) -> Any:
    """Return the schema as `object_schema` does, but never wrapped."""
    if not isinstance(schema, Mapping):
        return schema
    linked = link(schema, resources)
    return map_subschemas(_with_definitions(linked.root, linked), _upgrade)


def outer_schema(schema: Any, resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the wrapped schema in its own draft, to validate wrapped answers."""
    return _in_draft_of(schema, _wrap(schema, resources))


def wrap_schema(schema: Any, key: str, resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema, in the draft of `schema`, of an object with it as the one value `key`."""
    return _in_draft_of(schema, _wrap_as(key, link(schema, resources)))


def list_schema(schema: Any, resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema, in the draft of `schema`, of a list of its values."""
    linked = link(schema, resources)
    listed = {"type": "array", "items": _root_of(linked)}
    return _in_draft_of(schema, _with_definitions(listed, linked))


def _in_draft_of(schema: Any, outer: dict[str, Any]) -> dict[str, Any]:
    if isinstance(schema, Mapping) and "$schema" in schema:
        return {"$schema": schema["$schema"], **outer}
    return outer


def _wrap(schema: Any, resources: Mapping[str, Any]) -> dict[str, Any]:
    key, linked = wrapper_key(schema), link(schema, resources)
    return _with_definitions(linked.root, linked) if key is None else _wrap_as(key, linked)


def _wrap_as(key: str, linked: Linked) -> dict[str, Any]:
    outer = {
        "type": "object",
        "properties": {key: _root_of(linked)},
        "required": [key],
        "additionalProperties": False,
    }
    return _with_definitions(outer, linked)


def _root_of(linked: Linked) -> Any:
    return linked.root if linked.root_name is None else {"$ref": f"#/$defs/{linked.root_name}"}


def _with_definitions(root: dict[str, Any], linked: Linked) -> dict[str, Any]:
    return {**root, "$defs": linked.definitions} if linked.definitions else root


def _upgrade(node: dict[str, Any]) -> dict[str, Any]:
    """Write the keywords of older drafts as draft 2020-12 does.

    Anthropic rejects a schema that is not valid in that draft.
    """
    # Parts of a file that no keyword holds, such as `defs`: what was referred to is in `$defs`.
    parts = [w for w, v in node.items() if w not in CONTAINERS and isinstance(v, Mapping | list)]
    node = _without(node, parts)
    # Older drafts do not know these, and so allow them any value.
    unknown = [w for w in ("deprecated", "readOnly") if not isinstance(node.get(w, True), bool)]
    node = _without(node, unknown)
    for word, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        # Draft 4: a flag of `minimum` and `maximum`.
        if isinstance(node.get(word), bool) and node.pop(word) and limit in node:
            node[word] = node.pop(limit)
    rest = node.pop("additionalItems", None)
    if isinstance(items := node.get("items"), list):
        moved = {"prefixItems": items or None, "items": rest}
        node = {**_without(node, ("items",)), **{w: v for w, v in moved.items() if v is not None}}
    for name, needed in node.pop("dependencies", {}).items():
        word = "dependentRequired" if isinstance(needed, list) else "dependentSchemas"
        node.setdefault(word, {})[name] = needed
    return node


def _without(node: dict[str, Any], words: Iterable[str]) -> dict[str, Any]:
    return {word: value for word, value in node.items() if word not in words}
