"""Search by words: an index of weighted texts, and the index of a session's tools."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from .._dataclass import dataclass
from ._tool import Tool

__all__ = ["Found", "SearchIndex", "WordIndex"]


@dataclass(frozen=True, slots=True)
class Found:
    """A tool that matches a search."""

    name: str
    """Name; ``ctx.<name>(...)`` calls it."""
    summary: str
    """First line of the description."""


class WordIndex:
    """Words of documents, ranked as in BM25."""

    def __init__(
        self, documents: Iterable[Mapping[str, int]], typical_length: float | None = None
    ) -> None:
        """Index the documents.

        Args:
            documents: For each, its texts, and how often each word of a text counts.
            typical_length: Words of a document that is neither short nor long. Default: the mean.
        """
        counts = [_count(texts) for texts in documents]
        lengths = [sum(words.values()) for words in counts]
        typical = typical_length or sum(lengths) / max(1, len(lengths)) or 1
        self._lengths = [0.5 + 0.5 * length / typical for length in lengths]
        self._by_word: dict[str, list[tuple[int, int]]] = {}
        """By word: the number of each document that has it, and how often."""
        for at, words in enumerate(counts):
            for word, count in words.items():
                self._by_word.setdefault(word, []).append((at, count))

    def find(self, query: str, limit: int) -> list[tuple[int, float]]:
        """Return numbers and scores of the documents that have a word of `query`, best match first.

        A word that fewer documents have weighs more. An empty query returns the first documents
        in their order.
        """
        wanted = set(_words(query))
        scores = dict.fromkeys(() if wanted else range(len(self._lengths)), 0.0)
        # In a fixed order, since the sum of floats depends on it.
        for word in sorted(wanted):
            found = self._by_word.get(word, ())
            for at, count in found:
                weight = math.log(1 + len(self._lengths) / len(found))
                score = weight * count / (count + self._lengths[at])
                scores[at] = scores.get(at, 0.0) + score
        return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:limit]


class SearchIndex:
    """Words in the names, descriptions and parameters of tools."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = list(tools)
        self._index = WordIndex(
            (
                {tool.name: 3, f"{tool.description} {' '.join(tool.parameter_names)}": 1}
                for tool in self._tools
            ),
            typical_length=40,
        )

    def find(self, query: str, limit: int = 10) -> list[Found]:
        """Return the tools that have a word of `query`, best match first.

        A word in a name counts three times. An empty query returns the first tools in their order.
        """
        chosen = [self._tools[at] for at, _ in self._index.find(query, limit)]
        return [Found(tool.name, tool.description.splitlines()[0]) for tool in chosen]


def _count(texts: Mapping[str, int]) -> Counter[str]:
    words: Counter[str] = Counter()
    for text, weight in texts.items():
        for word, count in Counter(_words(text)).items():
            words[word] += count * weight
    return words


def _words(text: str) -> list[str]:
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    # A plural matches its singular.
    return [word.rstrip("s") or word for word in re.findall(r"[a-z0-9]+", spaced.lower())]
