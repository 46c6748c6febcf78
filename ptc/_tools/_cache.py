"""How the results of a tool are cached (`Cache`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .. import _json
from .._arguments import words_of
from ..errors import ToolError, UsageError

__all__ = ["Cache", "CacheKey"]

CacheKey: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""Takes the validated arguments, gives a JSON-able value: calls with the same one are the same."""

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Cache:
    """How results of a tool are kept.

    Errors and values that cannot be copied never are. A tool with a side effect may have no cache.
    Calls that are the same and under way at once are made once, and all get the result.
    """

    key: CacheKey | None = None
    """What makes two calls the same. None: the validated arguments, defaults included."""
    ttl_ms: int | None = None
    """How long a result is good. None: as long as its scope. 0: it serves only the calls that were
    waiting for it."""
    scope: Literal["run", "session"] = "run"
    """Who shares it: the calls of one run, or of all runs and direct calls of the session. A run
    with an ``env`` of its own keeps results of tools that ask for one to itself, and a result for
    which other tools were called serves only those who may call the same tools."""

    def __post_init__(self) -> None:
        if self.scope not in ("run", "session"):
            msg = f"Cache.scope is 'run' or 'session', not {self.scope!r}"
            raise UsageError(msg)
        if self.key is not None and not callable(self.key):
            msg = f"Cache.key is a function of the arguments, not {self.key!r}"
            raise UsageError(msg)
        ttl = self.ttl_ms
        if ttl is not None and (type(ttl) is not int or not 0 <= ttl <= 365 * _DAY_MS):
            msg = f"Cache.ttl_ms must be an integer from 0 to a year, not {ttl!r}"
            raise UsageError(msg)

    def digest(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """The entry's name. A digest, so that no argument, a secret even, can be read from it.

        Raises:
            ToolError: If the key function fails or gives what has no JSON form.
        """
        try:
            what = arguments if self.key is None else self.key(arguments)
            return _json.sha256_of([tool, self.key is None, what])
        except Exception as error:  # the tool author's own function may raise anything
            msg = f"{tool}: its cache key failed: {words_of(error)}"
            raise ToolError(msg, code="internal", tool=tool) from error
