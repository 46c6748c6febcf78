"""Options of a tool: `ToolOptions`, and the validation of each value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypedDict, get_args

from .._core._arguments import nearest
from .._core._deferred import Deferred, peek
from .._core._pydantic import pydantic
from ..errors import UsageError
from ._approval import ApprovalGate, ApprovalPrompt
from ._cache import Cache, CacheKey
from ._retry import Retry
from ._revert import RevertFunction
from ._tool_result import Render
from ._untrusted import UntrustedMode

__all__ = ["ToolOptions", "fields_from", "validate_fields"]


class ToolOptions(TypedDict, total=False):
    """Options of `tool` and `define_tool`."""

    side_effect: bool
    """True if a call changes anything outside the run. Default: False."""
    idempotent: bool
    """True if executing a call twice has the same effect as once. Default: `not side_effect`."""
    uses_key: bool
    """True if the function passes `ToolContext.idempotency_key` to a service that deduplicates
    requests by it. Calls may then be retried although the tool is not idempotent."""
    needs_approval: ApprovalGate
    """True, or a predicate of the validated arguments, async or not: the call requires approval.
    If the predicate raises, approval is required. Default: False."""
    approval_prompt: ApprovalPrompt
    """Text for the approver, or a function of the validated arguments that returns it."""
    approval_defaults: Mapping[str, Any]
    """Values that the tool's author proposes for the approver's form; JSON-able."""
    max_executions_per_run: int
    """Most executions in one run; failed calls and cached results do not count. The direct calls of
    a session count as one run. 0: none. Default: only the run's limits apply."""
    cache: bool | CacheKey | Cache
    """True: cache results for the rest of the run, by validated arguments. A function of the
    validated arguments returns the cache key instead. Not with a side effect."""
    retry: Retry
    """Retries and circuit breaker."""
    timeout_ms: int
    """Time-out of one attempt. On expiry the call raises `ToolError` with code ``timeout``."""
    env: type[pydantic.BaseModel]
    """Pydantic model of values that the tool needs and no caller may see. The session provides
    them, and the function reads them from `ToolContext.env`."""
    unrecorded: Iterable[str]
    """Parameters whose values are too large or too private to record: the record of a call has only
    their size and SHA-256."""
    revert: RevertFunction
    """Undoes a call, described by an `Effect`, when its run is rolled back. It is called until it
    has returned once, each time with the same `Effect.revert_key`: if there is nothing left to
    undo, it must return. A plain function runs in a thread. Only with a side effect. Default: the
    calls are listed as not undone."""
    tags: Iterable[str]
    """Words to select tools by."""
    result_schema: Mapping[str, Any] | None
    """JSON Schema of the value. Default: from the return type hint, if it has a schema."""
    render: Render | None
    """Formats a value as text for a model. Default: strings as they are, others as JSON."""
    untrusted: UntrustedMode | None
    """For a tool that returns text which strangers wrote: treatment of the text that a model reads.
    ``"mark"`` puts it between markers, shows hidden characters as escapes and puts a backslash into
    imitations of a conversation; ``"strip"`` removes both. Scripts and applications receive the
    value unchanged. Default: `Session`, ``untrusted=``."""


def fields_from(name: str, options: ToolOptions) -> dict[str, Any]:
    """Convert options to fields of `Tool`.

    Raises:
        UsageError: If an option is unknown, or one with a short form has the wrong type.
    """
    for option in options:
        if option not in ToolOptions.__annotations__:
            near = nearest(option, ToolOptions.__annotations__)
            msg = f"tool {name!r}: unknown option {option!r}{near}"
            raise UsageError(msg)
    fields: dict[str, Any] = dict(options)
    fields.setdefault("idempotent", not options.get("side_effect", False))
    fields["cache"] = _cache_from(name, options.get("cache", False))
    words = {"tags": options.get("tags", ()), "unrecorded": options.get("unrecorded", ())}
    for option, value in words.items():
        is_list = isinstance(value, Iterable) and not isinstance(value, str)
        if not is_list or not all(isinstance(word, str) for word in value):
            msg = f"tool {name!r}: {option} must be a list of words, not {value!r:.80}"
            raise UsageError(msg)
        fields[option] = frozenset(value)
    return fields


def _cache_from(name: str, cache: bool | CacheKey | Cache) -> Cache | None:
    if isinstance(cache, Cache):
        return cache
    if callable(cache):
        return Cache(key=cache)
    if not isinstance(cache, bool):
        msg = f"tool {name!r}: cache must be True, a function or a Cache, not {cache!r:.80}"
        raise UsageError(msg)
    return Cache() if cache else None


def _is_a(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


def _is_a_or_callable(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types) or callable(value)


def _is_whole(least: int, most: int, value: Any) -> bool:
    # Not isinstance: True is an int.
    return value is None or (type(value) is int and least <= value <= most)


def _is_model_class(value: Any) -> bool:
    return value is None or (isinstance(value, type) and issubclass(value, pydantic.BaseModel))


_Check = tuple[Callable[[Any], bool], str]


def _whole(least: int, most: int) -> _Check:
    return partial(_is_whole, least, most), f"an integer from {least:,} to {most:,}"


_NONE = type(None)
_MODES: tuple[Any, ...] = (None, *get_args(UntrustedMode))
_DAY_MS = 86_400_000
_CHECKS: dict[str, _Check] = {
    "side_effect": (_is_a(bool), "True or False"),
    "idempotent": (_is_a(bool), "True or False"),
    "uses_key": (_is_a(bool), "True or False"),
    "needs_approval": (_is_a_or_callable(bool), "True, False or a function of the arguments"),
    "approval_prompt": (_is_a_or_callable(str), "text or a function of the arguments"),
    "function": (callable, "callable"),
    "render": (_is_a_or_callable(_NONE), "a function of the value"),
    "revert": (_is_a_or_callable(_NONE), "a function of an Effect"),
    "approval_defaults": (_is_a(Mapping), "a mapping"),
    "result_schema": (_is_a(Mapping, _NONE, Deferred), "a JSON Schema"),
    "retry": (_is_a(Retry, _NONE), "a Retry"),
    "max_executions_per_run": _whole(0, 1_000_000),
    "timeout_ms": _whole(1, _DAY_MS),
    "untrusted": (_MODES.__contains__, '"mark", "strip" or None'),
    "env": (_is_model_class, "a pydantic model class"),
}
"""Predicate of each field and the words for the values that it accepts."""


def validate_fields(tool: object, name: str) -> None:
    """Validate the fields of a `Tool`, each by itself.

    Raises:
        UsageError: If a field has a value of the wrong type or out of range.
    """
    for field, (accepts, wanted) in _CHECKS.items():
        value = peek(tool, field)
        if not accepts(value):
            msg = f"tool {name!r}: {field} must be {wanted}, not {value!r:.80}"
            raise UsageError(msg)
