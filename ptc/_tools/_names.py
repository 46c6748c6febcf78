"""Names of tools: syntax, reserved names, and the warnings of a definition."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable, Sequence

from .._core._arguments import caller_frame
from ..errors import UsageError

__all__ = [
    "RESERVED",
    "list_known",
    "list_within",
    "provider_names",
    "validate_name",
    "warn_definition",
]

_NAME = re.compile(r"(?=.{1,64}\Z)[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
"""``name`` or ``namespace.name``, which a script can write as ``ctx.name``. OpenAI and Anthropic
accept 64 characters."""
_SNAKE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?")
_MAX_NAME_CHARS = 256
_MESSAGE_CHARS = 2_000
_MAX_PROVIDER_CHARS = 64
"""Anthropic, OpenAI and Google refuse longer names, and other characters than these."""
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")

RESERVED = frozenset({"budget", "call", "describe", "emit", "log", "search_tools", "tools"})
"""Names of the methods and attributes of `ctx` itself."""


def validate_name(name: str) -> str:
    """Return `name` if callers can call a tool by it. Warn if it is unusual.

    Raises:
        UsageError: If it is not text, or is reserved for `ctx`.
    """
    usable = isinstance(name, str) and name.isprintable()
    if not usable or not 1 <= len(name) <= _MAX_NAME_CHARS:
        msg = f"tool name {name!r:.80}: use 1-64 letters, digits and _, not starting with a digit"
        raise UsageError(msg)
    if name.partition(".")[0] in RESERVED:
        reserved = ", ".join(sorted(RESERVED))
        msg = f"tool name {name!r} is reserved for ctx; choose another than {reserved}"
        raise UsageError(msg)
    if not _NAME.fullmatch(name) or re.search(r"(^|\.)_", name):
        warn_definition(
            f"tool name {name!r} cannot be a method of ctx; a script calls it with "
            f"ctx.call({name!r}, ...)"
        )
    elif not _SNAKE.fullmatch(name):
        warn_definition(f"tool name {name!r} is not snake_case")
    return name


def provider_names(names: Iterable[str]) -> dict[str, str]:
    """Return names that providers accept: ``github.create_issue`` becomes ``github__create_issue``.

    A name that is too long, or equal to another one then, ends with a digest of its own.

    Args:
        names: Names of tools, each once.
    """
    found: dict[str, str] = {}
    for name in names:
        plain = _FORBIDDEN.sub("_", name.replace(".", "__"))
        if len(plain) > _MAX_PROVIDER_CHARS or not name.isascii() or plain in found.values():
            digest = hashlib.sha256(name.encode()).hexdigest()[:8]
            plain = f"{plain[: _MAX_PROVIDER_CHARS - 9]}_{digest}"
        found[name] = plain
    return found


def list_known(names: Iterable[str]) -> str:
    """List the names that a caller may use, as many as the message of an error should have."""
    return list_within(list(names), _MESSAGE_CHARS).removesuffix(".")


def list_within(names: Sequence[str], room: int) -> str:
    """List as many names as fit, then the number of the others."""
    if not names:
        return "none"
    whole = ", ".join(names)
    if len(whole) < room:
        return f"{whole}."
    shown, size = 0, len(f" and {len(names)} more.")
    while size + len(names[shown]) < room:
        size += len(names[shown]) + len(", ")
        shown += 1
    if not shown:
        return f"{len(names)}."
    return f"{', '.join(names[:shown])} and {len(names) - shown} more."


def warn_definition(message: str) -> None:
    """Warn at the line outside of `ptc` that defines the tool."""
    # `caller_frame` counts itself and this function: the level of the frame that it found.
    _, level = caller_frame()
    warnings.warn(message, UserWarning, stacklevel=level)
