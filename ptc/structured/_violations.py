"""Violations of a contract: location, rule, message, allowed values and closest match.

Turns the errors of jsonschema-rs into messages that a person or a model can act on. For a value
that matches no branch of ``anyOf`` or ``oneOf``, only the best branch is reported: all branches
together read as noise.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from .._dataclass import dataclass

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

__all__ = ["Violation", "collect_violations", "pointer", "preview"]

PREVIEW_CHARS = 200
"""Characters of a value in a message. The conversation already contains the whole value."""
MAX_ALLOWED = 20
"""Allowed values listed in a message."""
MAX_ALIKE = 3
"""Violations listed of those that are alike."""
MAX_COUNTED = 10_000
"""Errors of the validator that are read."""
_MAX_BRANCH_DEPTH = 8
"""Nested branches that are followed."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation of a contract."""

    pointer: str
    """JSON Pointer to the invalid part; empty for the whole value."""
    rule: str
    """The violated schema keyword, or pydantic's error type."""
    message: str
    """The problem, in one sentence."""
    found: str = ""
    """The invalid part as JSON, truncated."""
    allowed: tuple[str, ...] = ()
    """The allowed values or names as JSON, if they can be listed; truncated."""
    closest: str = ""
    """The closest match in `allowed` or, for an unknown property, the declared name that is most
    similar to it; empty if nothing is."""
    more: int = 0
    """Violations of the same rule at similar locations, such as other items of a list, that are
    not listed."""

    def __str__(self) -> str:
        text = f"{self.pointer or '(root)'}: {self.message}"
        if self.allowed:
            text += f"; allowed: {', '.join(self.allowed)}"
        if self.closest:
            text += f"; did you mean {self.closest}?"
        return f"{text} (and {self.more:,} more like this)" if self.more else text


def pointer(path: Iterable[str | int]) -> str:
    """Format `path` as a JSON Pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def preview(value: Any) -> str:
    """Format `value` as JSON, truncated in the middle to about `PREVIEW_CHARS`."""
    text = (
        value
        if isinstance(value, _JsonText)
        else json.dumps(value, ensure_ascii=False, default=repr)
    )
    if len(text) <= PREVIEW_CHARS:
        return str(text)
    half = PREVIEW_CHARS // 2
    return f"{text[:half]}... ({len(text) - 2 * half} characters) ...{text[-half:]}"


class _JsonText(str):
    """Text that is already formatted for a message."""

    __slots__ = ()


def collect_violations(
    errors: Iterable[ValidationError], limit: int, schema: Any = None
) -> list[Violation]:
    """Return at most `limit` distinct violations; those that are alike are counted.

    Args:
        errors: The validator's errors.
        limit: Violations to return.
        schema: The schema, to find the declared name that is closest to an unknown one.
    """
    groups: dict[tuple[object, ...], _Group] = {}
    listed = 0
    for error in islice(errors, MAX_COUNTED):
        for leaf in _leaves(error, 0):
            # A thousand bad rows violate one rule a thousand times.
            parts = tuple("*" if isinstance(part, int) else part for part in leaf.instance_path)
            group = groups.setdefault((leaf.kind.name, *leaf.schema_path, "", *parts), _Group())
            if len(group.shown) < MAX_ALIKE and listed < limit:
                violation = _to_violation(leaf, schema)
                if violation not in group.shown:
                    group.shown[violation] = None
                    listed += 1
            else:
                group.more += 1
    found: list[Violation] = []
    for group in groups.values():
        shown = list(group.shown)
        if shown and group.more:
            shown[-1] = replace(shown[-1], more=group.more)
        found += shown
    return found


@dataclass(slots=True)
class _Group:
    """Violations of one rule at similar locations."""

    shown: dict[Violation, None] = field(default_factory=dict)
    more: int = 0


def _leaves(error: ValidationError, depth: int) -> list[ValidationError]:
    """Return the errors of the best branch, or the error itself."""
    branches = [branch for branch in getattr(error.kind, "context", ()) if branch]
    if not branches or depth > _MAX_BRANCH_DEPTH:
        return [error]
    here = len(error.instance_path)
    best = min(branches, key=lambda branch: _distance(branch, here))
    if all(_is_type_error(branch, here) for branch in branches):
        # No branch has the right type: the message lists the types instead.
        return [error]
    return [leaf for inner in best for leaf in _leaves(inner, depth + 1)]


def _is_type_error(branch: list[ValidationError], here: int) -> bool:
    return any(len(e.instance_path) == here and e.kind.name == "type" for e in branch)


def _distance(branch: list[ValidationError], here: int) -> tuple[bool, bool, int]:
    """Rank a wrong type behind a wrong discriminator, and that behind many small errors."""
    discriminated = any(
        len(e.instance_path) == here + 1 and e.kind.name in ("const", "enum") for e in branch
    )
    return _is_type_error(branch, here), discriminated, len(branch)


def _to_violation(error: ValidationError, schema: Any) -> Violation:
    kind, instance = error.kind, error.instance
    rule = kind.name
    where = pointer(error.instance_path)
    found = preview(instance)
    if rule == "enum":
        return _choice_violation(where, rule, instance, list(kind.options))  # type: ignore[attr-defined]  # kinds are classes nested at run time
    if rule == "const":
        return _choice_violation(where, rule, instance, [kind.expected_value])  # type: ignore[attr-defined]  # as above
    if rule in ("additionalProperties", "unevaluatedProperties"):
        unknown: list[str] = kind.unexpected  # type: ignore[attr-defined]  # as above
        names = ", ".join(json.dumps(name, ensure_ascii=False) for name in unknown[:MAX_ALLOWED])
        if len(unknown) > MAX_ALLOWED:
            names += f" and {len(unknown) - MAX_ALLOWED:,} more"
        closest = _closest_declared(unknown, instance, _schema_at(schema, error.schema_path[:-1]))
        return Violation(where, rule, f"unknown properties: {names}", found, (), closest)
    branches = [branch for branch in getattr(kind, "context", ()) if branch]
    if branches:
        types = [_expected_types(branch) for branch in branches]
        allowed = tuple(dict.fromkeys(t for group in types for t in group))[:MAX_ALLOWED]
        return Violation(where, rule, "matches none of the alternatives", found, allowed)
    return Violation(where, rule, _describe(error, found), found)


def _schema_at(schema: Any, path: Iterable[str | int]) -> Any:
    """Return the part of `schema` at `path`; None if it is in another document."""
    for part in path:
        try:
            schema = schema[part]
        except (KeyError, IndexError, TypeError):
            return None
    return schema


def _closest_declared(unknown: list[str], instance: Any, schema: Any) -> str:
    """Return the declared names that the unknown ones resemble, as JSON."""
    declared = schema.get("properties", {}) if isinstance(schema, Mapping) else {}
    free = {name.casefold(): name for name in declared if name not in instance}
    near: dict[str, None] = {}
    for name in unknown[:MAX_ALLOWED]:
        for match in difflib.get_close_matches(name[:PREVIEW_CHARS].casefold(), list(free), 1, 0.6):
            near[free[match]] = None
    return ", ".join(json.dumps(name, ensure_ascii=False) for name in near)


def _describe(error: ValidationError, found: str) -> str:
    """Return the validator's message. The value that it starts with is truncated."""
    message = error.message
    whole = json.dumps(error.instance, ensure_ascii=False, separators=(",", ":"))
    if message.startswith(whole):
        return found + message[len(whole) :]
    return preview(_JsonText(message))


def _expected_types(branch: list[ValidationError]) -> list[str]:
    return [str(t) for e in branch if e.kind.name == "type" for t in getattr(e.kind, "types", ())]


def _choice_violation(where: str, rule: str, value: Any, options: list[Any]) -> Violation:
    allowed = tuple(preview(option) for option in options[:MAX_ALLOWED])
    closest = ""
    if isinstance(value, str):
        names = {option.casefold(): option for option in options if isinstance(option, str)}
        near = difflib.get_close_matches(value[:PREVIEW_CHARS].casefold(), list(names), 1, 0.6)
        closest = preview(names[near[0]]) if near else ""
    message = f"{preview(value)} is not one of the {len(options)} allowed values"
    if rule == "const" or len(options) == 1:
        message = f"{preview(value)} is not the allowed value"
    return Violation(where, rule, message, preview(value), allowed, closest)
