"""Merge what was extracted from the parts of one document; conflicts are reported."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from .._core._json import sha256_of
from ..errors import UsageError
from ._row import Conflict

__all__ = ["MergeKeys", "merge_parts", "part_schema", "read_merge_keys"]

MergeKeys: TypeAlias = Mapping[str, tuple[str, ...]]
"""Path of a list, without indices -> the fields that identify its items."""

_COUNTS = ("required", "minItems", "minProperties", "contains", "minContains", "dependentRequired")


def read_merge_keys(value: Mapping[str, str | Sequence[str]] | None) -> MergeKeys:
    """Validate merge keys: ``{"lines": "number", "orders/items": ["sku", "day"]}``.

    Raises:
        UsageError: If they have another form.
    """
    found: dict[str, tuple[str, ...]] = {}
    for path, keys in (value or {}).items():
        names = (keys,) if isinstance(keys, str) else tuple(keys)
        if not isinstance(path, str) or not names or not all(isinstance(n, str) for n in names):
            msg = (
                'merge_keys must name fields by list, as in {"lines": "number"}, not '
                f"{{{path!r}: {keys!r:.40}}}"
            )
            raise UsageError(msg)
        found[path.strip("/")] = names
    return found


def part_schema(schema: Any) -> Any:
    """Relax the root object of a schema, of which one part of a document may lack any field."""
    if not isinstance(schema, Mapping):
        return schema
    relaxed = {word: part for word, part in schema.items() if word not in _COUNTS}
    target = relaxed.get("$ref")
    if isinstance(target, str) and target.startswith("#/"):
        node: Any = schema
        for step in target[2:].split("/"):
            step = step.replace("~1", "/").replace("~0", "~")
            node = node.get(step) if isinstance(node, Mapping) else None
        if isinstance(node, Mapping) and "$ref" not in node:
            del relaxed["$ref"]
            relaxed = {**part_schema(node), **relaxed}
    properties = relaxed.get("properties")
    if isinstance(properties, Mapping):
        relaxed["properties"] = {
            name: {"anyOf": [_relax_list(part), {"type": "null"}]}
            for name, part in properties.items()
        }
    return relaxed


def _relax_list(schema: Any) -> Any:
    if isinstance(schema, Mapping) and schema.get("type") == "array":
        return {word: part for word, part in schema.items() if word not in _COUNTS}
    return schema


def merge_parts(values: Sequence[Any], keys: MergeKeys) -> tuple[Any, tuple[Conflict, ...]]:
    """Merge the values of the parts, in the order of the document.

    Objects are merged field by field. Items of a list are the same if their declared keys are
    equal. Without declared keys, the first items of a part that equal the last ones of the previous
    part are taken for its overlap. Of different scalars, the most frequent is chosen, or else the
    earliest.
    """
    merger = _Merger(keys)
    merged = merger.merge([value for value in values if value is not None], "", "")
    return merged, tuple(merger.conflicts)


class _Merger:
    def __init__(self, keys: MergeKeys) -> None:
        self._keys = keys
        self.conflicts: list[Conflict] = []

    def merge(self, values: list[Any], path: str, place: str) -> Any:
        """Merge values of one place.

        Args:
            values: The values, without null.
            path: JSON Pointer to them.
            place: The same without indices, as in merge keys.
        """
        if not values:
            return None
        if all(isinstance(value, dict) for value in values):
            return self._merge_objects(values, path, place)
        if all(isinstance(value, list) for value in values):
            return self._merge_lists(values, path, place)
        return self._choose(values, path)

    def _merge_objects(self, values: list[dict[str, Any]], path: str, place: str) -> Any:
        names = dict.fromkeys(name for value in values for name in value)
        merged = {}
        for name in names:
            found = [value[name] for value in values if value.get(name) is not None]
            step = name.replace("~", "~0").replace("/", "~1")
            part = self.merge(found, f"{path}/{step}", f"{place}/{name}".lstrip("/"))
            # A part that lacks a field reports null; null counts only if that is all there is.
            if part is not None or all(name in value for value in values):
                merged[name] = part
        return merged

    def _merge_lists(self, values: list[list[Any]], path: str, place: str) -> list[Any]:
        names = self._keys.get(place)
        groups: dict[object, list[Any]] = {}
        before: list[Any] = []
        for number, items in enumerate(values):
            seen = _repeated(before, items)
            for index, item in enumerate(items):
                key = _identity(item, names)
                if key is not None:
                    groups.setdefault(key, []).append(item)
                elif index >= seen:
                    groups[number, index] = [item]
            before = items
        return [
            self.merge(same, f"{path}/{index}", place) if len(same) > 1 else same[0]
            for index, same in enumerate(groups.values())
        ]

    def _choose(self, values: list[Any], path: str) -> Any:
        different: dict[str, list[Any]] = {}
        for value in values:
            different.setdefault(_plain(value), []).append(value)
        ranked = sorted(different.values(), key=len, reverse=True)
        if len(ranked) > 1:
            self.conflicts.append(Conflict(path, tuple(same[0] for same in ranked)))
        return ranked[0][0]


def _repeated(before: list[Any], items: list[Any]) -> int:
    """Return how many of the first items are the last ones of the previous part."""
    most = min(len(before), len(items))
    return next((n for n in range(most, 0, -1) if before[-n:] == items[:n]), 0)


def _identity(item: Any, names: tuple[str, ...] | None) -> object:
    if names is None or not isinstance(item, dict):
        return None
    found = tuple(_plain(item[name]) for name in names if item.get(name) is not None)
    return found if len(found) == len(names) else None


def _plain(value: Any) -> str:
    """Return a text that is equal for values that differ in white space, case or form only."""
    if isinstance(value, str):
        return "s" + " ".join(unicodedata.normalize("NFKC", value).casefold().split())
    return sha256_of(value)
