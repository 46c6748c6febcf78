"""A server that counts requests, even if its clients die."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ptc import ToolContext

__all__ = ["Request", "Server", "answer", "count_effects"]

Request = tuple[str, int, str]
"""Tool, number and idempotency key."""

_KEYED = ("put", "send", "keyed", "give", "wire", "owe")


class Server:
    """Records requests as lines of a file, each written in one piece."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def move(self, path: Path) -> None:
        """Record to another file."""
        self._path = path

    def of(self, ctx: ToolContext) -> Server:
        """Return the server of a call's run: this one."""
        return self

    def look(self, tool: str, n: int) -> None:
        """Handle a request that has no effect."""

    def take(self, tool: str, n: int, key: str | None) -> None:
        """Record a request that has an effect."""
        line = json.dumps([tool, n, key]).encode() + b"\n"
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, line)
        finally:
            os.close(file)

    def requests(self) -> list[Request]:
        """Return all requests."""
        if not self._path.exists():
            return []
        return [tuple(json.loads(line)) for line in self._path.read_bytes().splitlines()]

    def count(self, tool: str, n: int) -> int:
        """Count the requests of a tool about one number."""
        return sum(row[:2] == (tool, n) for row in self.requests())

    def effects(self) -> Counter[Request]:
        """Count effects; a request with a known key has no further effect."""
        return count_effects(self.requests())


def count_effects(requests: Iterable[Request]) -> Counter[Request]:
    """Count the effects of requests; one with a known key has no further effect."""
    found: Counter[Request] = Counter()
    for (tool, n, key), count in Counter(requests).items():
        if tool.endswith(" drawn"):
            # Random, and so is its key: two runs draw different numbers.
            found[tool, n, ""] += count
        elif tool != "again":
            found[tool, n, key] = 1 if tool in _KEYED else count
    return found


def answer(tool: str, n: int) -> Any:
    """Return a tool's answer, which is the same for every call."""
    return {"tool": tool, "n": n, "square": n * n}
