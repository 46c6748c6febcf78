"""Search for tools by words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ._tool import Tool

__all__ = ["Found", "SearchIndex"]


@dataclass(frozen=True, slots=True)
class Found:
    """A tool that matches a search."""

    name: str
    """Name; ``ctx.<name>(...)`` calls it."""
    summary: str
    """First line of the description."""


class SearchIndex:
    """Words in the names, descriptions and parameters of tools."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = list(tools)
        self._lengths: list[float] = []
        self._tools_by_word: dict[str, list[tuple[int, int]]] = {}
        """By word: the index of each tool that has it, and how often."""
        for at, tool in enumerate(self._tools):
            text = Counter(
                _words(tool.name) * 3
                + _words(tool.description)
                + _words(" ".join(tool.parameter_names))
            )
            self._lengths.append(0.5 + 0.5 * sum(text.values()) / 40)
            for word, count in text.items():
                self._tools_by_word.setdefault(word, []).append((at, count))

    def find(self, query: str, limit: int = 10) -> list[Found]:
        """Return the tools that have a word of `query`, best match first.

        A word that fewer tools have weighs more (as in BM25), and a word in a name counts three
        times. An empty query returns the first tools in their order.
        """
        wanted = set(_words(query))
        scores = dict.fromkeys(() if wanted else range(len(self._tools)), 0.0)
        # In a fixed order, since the sum of floats depends on it.
        for word in sorted(wanted):
            found = self._tools_by_word.get(word, ())
            for at, count in found:
                weight = math.log(1 + len(self._tools) / len(found))
                score = weight * count / (count + self._lengths[at])
                scores[at] = scores.get(at, 0.0) + score
        best = sorted(scores, key=lambda at: (-scores[at], at))[:limit]
        chosen = [self._tools[at] for at in best]
        return [Found(tool.name, tool.description.splitlines()[0]) for tool in chosen]


def _words(text: str) -> list[str]:
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    # A plural matches its singular.
    return [word.rstrip("s") or word for word in re.findall(r"[a-z0-9]+", spaced.lower())]
