"""Caching of a tool's results (`Cache`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from .._core import _json
from .._core._arguments import describe_error
from .._dataclass import dataclass
from ..errors import ToolError, UsageError

__all__ = ["Cache", "CacheKey"]

CacheKey: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""Returns a JSON-able key for the validated arguments: calls with the same key are the same."""

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Cache:
    """Options for caching the results of a tool.

    Errors and values that cannot be copied are not cached. A tool with a side effect cannot have a
    cache. Equal calls that run at the same time are executed once and share the result.
    """

    key: CacheKey | None = None
    """Function that returns the cache key. None: the key is the validated arguments, defaults
    included."""
    ttl_ms: int | None = None
    """Lifetime of a result. None: that of its scope. 0: only the calls that were waiting for the
    result share it."""
    scope: Literal["run", "session"] = "run"
    """Calls that share a result: those of one run, or of all runs and direct calls of the session.
    If a run has its own ``env``, results of tools that declare ``env=`` are not shared with other
    runs. If a tool called other tools for its result, only callers that may call the same tools
    share it."""

    def __post_init__(self) -> None:
        if self.scope not in ("run", "session"):
            msg = f"Cache.scope must be 'run' or 'session', not {self.scope!r}"
            raise UsageError(msg)
        if self.key is not None and not callable(self.key):
            msg = f"Cache.key must be a function of the arguments, not {self.key!r}"
            raise UsageError(msg)
        ttl = self.ttl_ms
        if ttl is not None and (type(ttl) is not int or not 0 <= ttl <= 365 * _DAY_MS):
            msg = f"Cache.ttl_ms must be an integer from 0 to a year, not {ttl!r}"
            raise UsageError(msg)

    def digest(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Return the name of a cache entry: a digest, since an argument may be a secret.

        Raises:
            ToolError: If the key function fails or returns a value without a JSON form.
        """
        try:
            key = arguments if self.key is None else self.key(arguments)
            return _json.sha256_of([tool, self.key is None, key])
        except Exception as error:  # the tool author's own function may raise anything
            msg = f"{tool}: its cache key failed: {describe_error(error)}"
            raise ToolError(msg, code="internal", tool=tool) from error
