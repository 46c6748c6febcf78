"""The repair loop without the model: it takes an answer and returns the next action.

It knows no provider, message format or clock. A truncated answer raises `TruncatedError` and does
not use up an attempt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ..errors import TruncatedError, UsageError
from ._candidates import AmbiguousTextError, find_candidates
from ._contract import Contract
from ._edits import Repair
from ._envelopes import unwrap_layers
from ._recover import recover, recover_wrapped, was_cut
from ._violations import Violation

__all__ = ["Accepted", "Again", "Attempt", "GaveUp", "RepairLoop", "diagnose"]

MAX_VIOLATIONS = 20
"""Violations listed in the feedback. A model fixes the first few; more only cost prompt tokens."""
MAX_FEEDBACK_CHARS = 8_000
"""Longest list of violations in the feedback; violations that do not fit are counted."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One answer of the model and its validation result."""

    text: str
    """The answer as the model wrote it."""
    value: Any
    """The value parsed from `text`; None if there is none."""
    repairs: tuple[Repair, ...]
    """Edits made while parsing."""
    violations: tuple[Violation, ...]
    """Violations of the contract; empty for the accepted answer."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer conforms."""

    value: Any
    """Plain JSON data."""
    repairs: tuple[Repair, ...]
    """Edits made while parsing."""


@dataclass(frozen=True, slots=True)
class Again:
    """Ask the model again with `feedback`."""

    feedback: str
    """The violations, as text for the model."""


@dataclass(frozen=True, slots=True)
class GaveUp:
    """Do not ask again."""

    reason: str
    """``attempts`` (none left) or ``no_progress`` (the same violations twice in a row)."""


class RepairLoop:
    """Validates successive answers to one request.

    Attributes:
        attempts: All answers so far, in order.
    """

    def __init__(self, schema: Any, *, max_repair_attempts: int = 2, wrapped: bool = False) -> None:
        """Validate answers against `schema`.

        Args:
            schema: A `Contract`, a JSON Schema, a pydantic model or any type.
            max_repair_attempts: Times the model may be asked again, 0 to 5.
            wrapped: True if the model received `Contract.object_schema`.

        Raises:
            UsageError: If an argument is invalid.
        """
        if not 0 <= max_repair_attempts <= 5:
            msg = f"max_repair_attempts is {max_repair_attempts}; it must be from 0 to 5"
            raise UsageError(msg)
        self._contract = schema if isinstance(schema, Contract) else Contract(schema)
        self._wrapped = wrapped
        self._requested = self._contract.outer() if wrapped else self._contract
        self._left = max_repair_attempts
        self.attempts: list[Attempt] = []

    def take(self, text: str, *, ended: bool = True) -> Accepted | Again | GaveUp:
        """Validate the next answer.

        Args:
            text: The model's text, or the arguments of its tool call.
            ended: True if the model reported that it had finished.

        Raises:
            TruncatedError: If the answer was truncated. It does not count as an attempt.
        """
        if self._wrapped:
            found = recover_wrapped(text, self._contract, self._requested)
        else:
            found = recover(text, self._contract)
        closed = found is not None and any(r.kind == "missing_closer" for r in found.repairs)
        if (found is None and was_cut(text)) or (not ended and (found is None or closed)):
            msg = (
                f"the answer was truncated after {len(text)} characters; ask again with a higher "
                "token limit"
            )
            raise TruncatedError(msg, text=text)
        if found is None:
            value, violations = diagnose(text, self._contract, self._requested)
            self.attempts.append(Attempt(text, value, (), tuple(violations)))
            return self._next_action()
        self.attempts.append(Attempt(text, found.value, found.repairs, ()))
        return Accepted(found.value, found.repairs)

    def refuse(self, violations: Iterable[Violation]) -> Again | GaveUp:
        """Reject the last accepted answer: it conforms, but a validator reported violations."""
        self.attempts[-1] = replace(self.attempts[-1], violations=tuple(violations))
        return self._next_action()

    def _next_action(self) -> Again | GaveUp:
        last = self.attempts[-1].violations
        before = self.attempts[-2].violations if len(self.attempts) > 1 else None
        if before is not None and set(before) == set(last):
            return GaveUp("no_progress")
        if self._left == 0:
            return GaveUp("attempts")
        self._left -= 1
        return Again(_feedback(last))


def diagnose(text: str, contract: Contract, requested: Contract) -> tuple[Any, list[Violation]]:
    """Return the most likely value of `text`, or None, and its violations.

    Args:
        text: The model's answer.
        contract: The contract of the value.
        requested: The contract sent to the model: `contract` or ``contract.outer()``.
    """
    try:
        found = find_candidates(text, ())
    except AmbiguousTextError:
        found = []
    if not found:
        return None, [Violation("", "json", "the answer contains no readable JSON value")]
    values = [c.reading.value for c in found]
    valid = [value for value in values if requested.conforms(value)]
    if valid and requested is not contract:
        inner = contract.unwrap(valid[-1])
        if violations := contract.violations(inner, MAX_VIOLATIONS):
            return inner, violations
    if valid:
        message = "the answer contains more than one value, and they differ; write exactly one"
        return valid[-1], [Violation("", "one_value", message)]
    # The last value is the final one; of its unwrappings, report the nearest to the contract.
    best: tuple[Any, list[Violation]] | None = None
    for shape in unwrap_layers(values[-1], frozenset()):
        violations = requested.violations(shape.value, MAX_VIOLATIONS)
        if not violations:
            message = "the value is wrapped in another value, or its JSON is ambiguous"
            violations = [Violation("", "json", message)]
        if best is None or _distance(violations) < _distance(best[1]):
            best = shape.value, violations
    assert best is not None  # noqa: S101  # a value is its own first shape
    return best


def _distance(violations: list[Violation]) -> tuple[bool, int]:
    """Rank a value of the wrong type behind one with many violations."""
    return any(v.pointer == "" and v.rule == "type" for v in violations), len(violations)


def _feedback(violations: tuple[Violation, ...]) -> str:
    lines: list[str] = []
    size = 0
    for violation in violations[:MAX_VIOLATIONS]:
        line = f"- {violation}"
        size += len(line)
        if size > MAX_FEEDBACK_CHARS:
            break
        lines.append(line)
    left = len(violations) - len(lines)
    if left:
        lines.append(f"- and {left} more")
    problems = "\n".join(lines)
    return (
        f"The answer does not conform to the schema:\n{problems}\n"
        "Everything that is not listed is correct: do not change it. Answer with the complete "
        "corrected value, as JSON and nothing else."
    )
