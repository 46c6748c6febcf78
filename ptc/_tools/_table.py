"""Tools of an allow-list, with the forms in which runs and models read them.

A session has the same table for each run with the same allow-list, so each form is made once.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from functools import cached_property
from hashlib import sha256
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from .._core import _json
from ._contract import letters_of, mark_of
from ._listing import describe_tools
from ._search import SearchIndex
from ._tool import Tool

__all__ = ["ToolTable", "read_marks", "read_record"]


_MOST_PLAIN_BYTES: Final = 4_096
_MOST_SOURCES: Final = 16
"""Scripts whose marks are cached."""


def read_record(data: Any) -> dict[str, list[str]]:
    """Return the parameters by tool from the decoded `ToolTable.record`."""
    found: dict[str, list[str]] = _decompressed(data)
    return found


def read_marks(data: Any) -> list[str]:
    """Return the marks of the tools from the decoded `ToolTable.marks`, in their order."""
    found: list[str] = _decompressed(data)
    return found


def _decompressed(data: Any) -> Any:
    return _json.loads(zlib.decompress(b64decode(data))) if isinstance(data, str) else data


def _compressed(data: bytes) -> bytes:
    """Return JSON as it is, or as compressed text if it is long."""
    if len(data) <= _MOST_PLAIN_BYTES:
        return data
    return b'"%b"' % b64encode(zlib.compress(data))


class ToolTable:
    """Tools of an allow-list by name."""

    def __init__(self, tools: Mapping[str, Tool], known: Mapping[str, Tool] | None = None) -> None:
        """Create a table.

        Args:
            tools: Tools on the allow-list.
            known: All tools of the session, to tell one that is not allowed from a wrong name.
        """
        self.tools: Mapping[str, Tool] = MappingProxyType(dict(tools))
        """The tools. Read only: runs with the same allow-list share them."""
        self._known: Mapping[str, Tool] = {} if known is None else known
        self._last_named: tuple[str | None, list[Tool]] = (None, [])

    @cached_property
    def parameters(self) -> bytes:
        """JSON of the names of all parameters, by tool."""
        return _json.dumps({name: tool.parameter_names for name, tool in self.tools.items()})

    @cached_property
    def record(self) -> bytes:
        """JSON of `parameters` for the record of a run: itself, or compressed text if it is long.

        Each run has its own record, so that the file would grow by 40 kB for each run with a
        thousand tools.
        """
        return _compressed(self.parameters)

    def marks(self, source: str) -> bytes:
        """Return JSON of the marks of the tools, for the record of a run with this script.

        The mark of a tool that the script does not name has its flags only: to derive the schemas
        of all tools would delay the first run.
        """
        cached = self._marks_by_source.get(source)
        if cached is None:
            # To search a long script takes longer than all else about the record.
            while len(self._marks_by_source) >= _MOST_SOURCES:
                del self._marks_by_source[next(iter(self._marks_by_source))]
            cached = self._marks_by_source[source] = self._encode_marks(source)
        return cached

    def _encode_marks(self, source: str) -> bytes:
        found = dict(self._letters)
        for tool in self.named_in(source):
            mark = self._marks.get(tool.name)
            if mark is None:
                mark = self._marks[tool.name] = mark_of(tool)
            found[tool.name] = mark
        return _compressed(_json.dumps_unchecked(list(found.values())))

    @cached_property
    def _letters(self) -> dict[str, str]:
        return {name: letters_of(tool) for name, tool in self.tools.items()}

    @cached_property
    def _marks_by_source(self) -> dict[str, bytes]:
        return {}

    @cached_property
    def _marks(self) -> dict[str, str]:
        return {}

    @cached_property
    def index(self) -> SearchIndex:
        """Words of the tools."""
        return SearchIndex(self.tools.values())

    @cached_property
    def description(self) -> str:
        """The tools as a model reads them, in at most `TOOLS_CHARS` characters."""
        return describe_tools(list(self.tools.values()))

    @cached_property
    def digest(self) -> bytes:
        """Digest of the names and parameters."""
        return sha256(self.parameters).digest()

    def named_in(self, source: str) -> list[Tool]:
        """Return the tools whose names may be in the text of a script.

        A tool that is missing here is called by a name that the script computes.
        """
        # A new run asks twice, for its first frame and for its record.
        if source != self._last_named[0]:
            words = _words_of(source) & self._by_word.keys()
            found = [tool for word in words for tool in self._by_word[word]]
            self._last_named = source, sorted(found, key=attrgetter("name"))
        return self._last_named[1]

    def denied_in(self, source: str) -> dict[str, bool]:
        """Return the tools outside of the allow-list whose names may be in the text of a script.

        Returns:
            By name: True if the tool has a side effect.
        """
        words = _words_of(source) & self._denied_by_word.keys()
        denied = (tool for word in words for tool in self._denied_by_word[word])
        return {tool.name: tool.side_effect for tool in denied}

    @cached_property
    def _by_word(self) -> dict[str, list[Tool]]:
        """Tools by the last word of their names."""
        return _by_last_word(self.tools.values())

    @cached_property
    def _denied_by_word(self) -> dict[str, list[Tool]]:
        """Tools outside of the allow-list by the last word of their names."""
        return _by_last_word(t for name, t in self._known.items() if name not in self.tools)


def _by_last_word(tools: Iterable[Tool]) -> dict[str, list[Tool]]:
    found: dict[str, list[Tool]] = {}
    for tool in tools:
        words: list[str] = re.findall(r"\w+", tool.name)
        found.setdefault(words[-1] if words else "", []).append(tool)
    return found


def _words_of(source: str) -> set[str]:
    return {"", *re.findall(r"\w+", source)}
