"""Link a schema: one document whose only references are ``#/$defs/<name>``.

Providers resolve no other form (``$id``, ``$anchor``, ``$dynamicRef``) and no second document. A
linked schema can also be moved, for example into a wrapper.

Rule 1: a linked schema accepts every value that the original accepts. A dynamic reference with
several possible targets becomes a schema that accepts anything.
Rule 2: no document is fetched: a reference to a document that was not passed in accepts anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from .._dataclass import dataclass
from ._keywords import iter_subschemas, map_children

__all__ = ["Linked", "is_old", "link"]

_ROOT = "https://schema.invalid/answer"
"""Base of a schema without an ``$id``; it never appears in a linked schema."""
_OLD = re.compile(r"draft-0([3467])")
_DROPPED = frozenset(
    {
        "$anchor",
        "$defs",
        "$dynamicAnchor",
        "$dynamicRef",
        "$id",
        "$recursiveAnchor",
        "$recursiveRef",
        "$ref",
        "$schema",
        "$vocabulary",
        "definitions",
    }
)
_NOTES = frozenset({"default", "deprecated", "description", "examples", "title"})
_STEM_ENDS = re.compile(r"[/#~]")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


@dataclass(frozen=True, slots=True)
class Linked:
    """A linked schema."""

    root: Any
    """The schema without its definitions."""
    definitions: dict[str, Any]
    """The schemas that references name, by name."""
    root_name: str | None
    """The name of the root in `definitions`, if a reference leads to it."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Location of a subschema."""

    base: str
    """URI of the resource that contains it."""
    old: bool
    """True up to draft 7, in which ``$ref`` hides its siblings."""


def link(schema: Any, resources: Mapping[str, Any]) -> Linked:
    """Link `schema`.

    Args:
        schema: A JSON Schema that compiles.
        resources: Documents that its references may name, by URI.
    """
    return _Linker(schema, resources).link()


class _Linker:
    """The subschemas of all documents, and the definitions that were referenced so far."""

    def __init__(self, schema: Any, resources: Mapping[str, Any]) -> None:
        # A copy in which no two subschemas are the same object: a place is found by identity.
        documents = {_ROOT: schema, **{urldefrag(u)[0]: d for u, d in resources.items()}}
        self._documents = json.loads(json.dumps(documents))
        self._schema = self._documents[_ROOT]
        self._places: dict[int, _Place] = {}
        self._targets: dict[str, Any] = {}
        self._dynamic: dict[str, list[Any]] = {}
        self._names: dict[int, str] = {}
        self._taken: set[str] = set()
        self._queue: list[Any] = []
        old = is_old(self._schema, False)
        for uri, document in self._documents.items():
            self._targets[uri] = document
            self._index(document, _Place(uri, is_old(document, old)))

    def link(self) -> Linked:
        root = self._emit(self._schema)
        definitions: dict[str, Any] = {}
        while self._queue:
            node = self._queue.pop(0)
            definitions[self._names[id(node)]] = self._emit(node)
        return Linked(root, definitions, self._names.get(id(self._schema)))

    # -- the documents -----------------------------------------------------------------------

    def _index(self, node: Any, place: _Place) -> None:
        """Record where `node` and its subschemas are, and the names that they have."""
        if not isinstance(node, dict) or id(node) in self._places:
            return
        if "$schema" in node:
            place = _Place(place.base, is_old(node, place.old))
        own = node.get("$id", node.get("id") if place.old else None)
        if isinstance(own, str) and not (place.old and "$ref" in node):
            uri, fragment = urldefrag(_resolve(place.base, own))
            if own.startswith("#"):
                self._targets.setdefault(f"{place.base}#{fragment}", node)
            else:
                place = _Place(uri, place.old)
                self._targets.setdefault(uri, node)
        self._places[id(node)] = place
        for word in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := node.get(word), str):
                self._targets.setdefault(f"{place.base}#{name}", node)
        if isinstance(name := node.get("$dynamicAnchor"), str):
            self._dynamic.setdefault(name, []).append(node)
        if node.get("$recursiveAnchor") is True:
            self._dynamic.setdefault("", []).append(node)
        for child in iter_subschemas(node):
            self._index(child, place)

    def _find(self, reference: str, place: _Place) -> Any:
        """Return the target of `reference`; None if no document has it."""
        uri, fragment = urldefrag(_resolve(place.base, reference))
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._targets.get(f"{uri}#{fragment}")
        node: Any = self._targets.get(uri)
        inside = self._places.get(id(node), place)
        for part in fragment.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(key)] if isinstance(node, list) else node[key]
            except (KeyError, IndexError, TypeError, ValueError):
                return None
            inside = self._places.get(id(node), inside)
        # A pointer may lead below a keyword that holds no schemas.
        self._index(node, inside)
        return node

    def _find_dynamic(self, word: str, reference: str, place: _Place) -> Any:
        """Return the target of a dynamic reference if the schema alone decides it, else True."""
        target = self._find(reference, place)
        name = urldefrag(reference)[1] if word == "$dynamicRef" else ""
        candidates = self._dynamic.get(name, [])
        if not any(target is candidate for candidate in candidates):
            return target
        # The outermost resource decides: that of the root, if it has the anchor.
        outermost = self._places[id(self._schema)].base
        own = [c for c in candidates if self._places[id(c)].base == outermost]
        if own:
            return own[0]
        return target if len(candidates) == 1 else True

    # -- the linked schema -------------------------------------------------------------------

    def _emit(self, node: Any) -> Any:
        """Copy `node` with its references rewritten."""
        if not isinstance(node, dict):
            return node
        place = self._places[id(node)]
        found = list(self._references(node, place))
        if any(target is False for target, _ in found):
            return False
        hidden = place.old and "$ref" in node
        words = {
            word: value
            for word, value in node.items()
            if word not in _DROPPED
            and not (word == "id" and place.old and isinstance(value, str))
            and not (hidden and word not in _NOTES)
        }
        copied = map_children(words, self._emit)
        names = [self._name(node, stem) for node, stem in found if isinstance(node, dict)]
        links = [{"$ref": f"#/$defs/{name}"} for name in names]
        if links:
            copied = {**links.pop(0), **copied}
        if links:
            copied["allOf"] = [*copied.get("allOf", ()), *links]
        return copied

    def _references(self, node: dict[str, Any], place: _Place) -> Iterator[tuple[Any, str]]:
        """Yield the targets of the references of `node`, each with a name for it."""
        for word in ("$ref",) if place.old else _REFERENCES:
            reference = node.get(word)
            if isinstance(reference, str):
                stem = _STEM_ENDS.split(unquote(reference).rstrip("/#"))[-1]
                if word == "$ref":
                    yield self._find(reference, place), stem
                else:
                    yield self._find_dynamic(word, reference, place), stem

    def _name(self, node: dict[str, Any], stem: str) -> str:
        """Return the name of a definition; give it one, and queue it, on its first use."""
        if id(node) not in self._names:
            title = node.get("title")
            stem = stem or (title if isinstance(title, str) else "")
            stem = re.sub(r"[^A-Za-z0-9_-]+", "_", stem).strip("_")[:64] or "answer"
            name, number = stem, 1
            while name in self._taken:
                number += 1
                name = f"{stem}_{number}"
            self._taken.add(name)
            self._names[id(node)] = name
            self._queue.append(node)
        return self._names[id(node)]


def is_old(schema: Any, default: bool = False) -> bool:
    """True if `schema` is of draft 7 or older, in which ``$ref`` hides its siblings."""
    named = schema.get("$schema") if isinstance(schema, dict) else None
    return _OLD.search(named) is not None if isinstance(named, str) else default


def _resolve(base: str, reference: str) -> str:
    # `urljoin` knows no base like `urn:...`, against which a fragment still resolves.
    return base + reference if reference.startswith("#") else urljoin(base, reference)
