"""How deep the references of a schema can lead a recursive algorithm.

jsonschema-rs follows references on the stack of the thread, and ends the process if that is full:
after some 1,200 references in a row with 8 MiB. A schema may come from a script.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["MAX_REFERENCE_DEPTH", "reference_depth", "uses_unevaluated"]

MAX_REFERENCE_DEPTH = 800
"""Nested schemas, through references, that jsonschema-rs may visit recursively."""
_MAX_STEPS = 1_000_000
"""Parts of a schema that are visited; of a larger one, the depth is taken to be too large."""


def reference_depth(schema: Any) -> int:
    """Return an upper bound of the nesting of `schema`, with each reference entered once.

    It is the depth of the deepest path through the referenced schemas. Schemas that refer to one
    another in a circle count as one, with the sum of their depths: no path through them is deeper.

    Args:
        schema: A schema whose references have the form ``#/$defs/name`` or ``#``.
    """
    if not isinstance(schema, Mapping):
        return 1
    definitions = schema.get("$defs", {})
    depths: dict[str, int] = {}
    edges: dict[str, list[str]] = {}
    waiting, steps = ["#"], 0
    while waiting:
        name = waiting.pop()
        if name in depths:
            continue
        node: Any = definitions.get(name.removeprefix("#/$defs/"))
        if name == "#":
            node = {word: part for word, part in schema.items() if word != "$defs"}
        depths[name], edges[name], visited = _own_depth(node)
        steps += visited
        if steps > _MAX_STEPS:
            return MAX_REFERENCE_DEPTH + 1
        waiting += edges[name]
    return _longest_path(depths, edges)


def _own_depth(node: Any) -> tuple[int, list[str], int]:
    """Return the depth of a schema without its references, these, and the number of its parts."""
    depth = visited = 0
    references: dict[str, None] = {}
    level = [node]
    while level:
        depth += 1
        visited += len(level)
        for part in level:
            reference = part.get("$ref") if isinstance(part, Mapping) else None
            if isinstance(reference, str):
                references[reference] = None
        level = [child for part in level for child in _children(part)]
    return depth, list(references), visited


def _longest_path(depths: Mapping[str, int], edges: Mapping[str, list[str]]) -> int:
    """Return the largest sum of depths on a path, with a circle as one node (Kosaraju)."""
    reverse: dict[str, list[str]] = {name: [] for name in edges}
    for name, targets in edges.items():
        for target in targets:
            reverse[target].append(name)
    # In this order, a circle comes before all that its schemas refer to.
    order = [name for circle in _search(edges, list(edges)) for name in circle][::-1]
    circle_of: dict[str, int] = {}
    longest: list[int] = []
    for number, circle in enumerate(_search(reverse, order)):
        before = {circle_of[name] for node in circle for name in reverse[node] if name in circle_of}
        circle_of.update(dict.fromkeys(circle, number))
        longest.append(
            max((longest[one] for one in before), default=0) + sum(depths[n] for n in circle)
        )
    return max(longest)


def _search(edges: Mapping[str, list[str]], starts: list[str]) -> Iterator[list[str]]:
    """Search depth first from each of `starts`; yield what each search finishes, in that order."""
    seen: set[str] = set()
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        finished: list[str] = []
        path = [(start, iter(edges[start]))]
        while path:
            name, targets = path[-1]
            for target in targets:
                if target not in seen:
                    seen.add(target)
                    path.append((target, iter(edges[target])))
                    break
            else:
                finished.append(name)
                path.pop()
        yield finished


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
