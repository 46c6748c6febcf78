"""The repair loop without the model: it takes an answer and returns the next action.

It knows no provider, message format or clock. Only an answer that did not end by itself raises
`TruncatedError`, which does not use up an attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from .._dataclass import dataclass
from ..errors import TruncatedError, UsageError
from ._candidates import AmbiguousTextError, Candidate, find_candidates
from ._contract import Contract
from ._envelopes import unwrap_layers
from ._position import describe_unreadable
from ._reading import Repair, Work
from ._recover import recover, recover_wrapped
from ._violations import Violation

__all__ = [
    "Accepted",
    "Again",
    "Attempt",
    "GaveUp",
    "RepairLoop",
    "contains_value",
    "diagnose",
    "write_feedback",
]

MAX_VIOLATIONS = 20
"""Violations listed in the feedback. A model fixes the first few; more only cost prompt tokens."""
MAX_FOUND = 200
"""Violations that are looked for, to count those that are not listed."""
MAX_FEEDBACK_CHARS = 8_000
"""Longest list of violations in the feedback; violations that do not fit are counted."""
_ANSWER_AGAIN = "Answer with the complete corrected value, as JSON and nothing else."


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

    def __init__(
        self,
        schema: Any,
        *,
        max_repair_attempts: int = 2,
        wrapped: bool = False,
        request: str = _ANSWER_AGAIN,
    ) -> None:
        """Validate answers against `schema`.

        Args:
            schema: A `Contract`, a JSON Schema, a pydantic model or any type.
            max_repair_attempts: Times the model may be asked again, 0 to 5.
            wrapped: True if the model received `Contract.object_schema`.
            request: Last sentence of the feedback: how the model is to answer again.

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
        self._request = request
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
            found = recover_wrapped(text, self._contract, self._requested, ended=ended)
        else:
            found = recover(text, self._contract, ended=ended)
        if not ended and found is None:
            msg = (
                f"the answer was truncated after {len(text)} characters; ask again with a higher "
                "token limit"
            )
            raise TruncatedError(msg, text=text)
        if found is None:
            value, violations = diagnose(text, self._contract, self._requested)
            return self._reject(Attempt(text, value, (), ()), violations)
        self.attempts.append(Attempt(text, found.value, found.repairs, ()))
        return Accepted(found.value, found.repairs)

    def refuse(self, violations: Iterable[Violation]) -> Again | GaveUp:
        """Reject the last accepted answer: it conforms, but a validator reported violations."""
        return self._reject(self.attempts.pop(), list(violations))

    def _reject(self, attempt: Attempt, violations: list[Violation]) -> Again | GaveUp:
        """Record `attempt` with its violations and return the next action."""
        last = tuple(violations[:MAX_VIOLATIONS])
        self.attempts.append(replace(attempt, violations=last))
        before = self.attempts[-2].violations if len(self.attempts) > 1 else None
        if before is not None and set(before) == set(last):
            return GaveUp("no_progress")
        if self._left == 0:
            return GaveUp("attempts")
        self._left -= 1
        return Again(write_feedback(violations, self._request))


def diagnose(text: str, contract: Contract, requested: Contract) -> tuple[Any, list[Violation]]:
    """Return the most likely value of `text`, or None, and its violations.

    Args:
        text: The model's answer.
        contract: The contract of the value.
        requested: The contract sent to the model: `contract` or ``contract.outer()``.
    """
    found = _find_values(text)
    if not found:
        return None, [Violation("", "json", describe_unreadable(text))]
    values = [c.reading.value for c in found]
    valid = [value for value in values if requested.conforms(value)]
    if valid and requested is not contract:
        inner = contract.unwrap(valid[-1])
        if violations := contract.violations(inner, MAX_FOUND):
            return inner, violations
    if valid:
        message = "the answer contains more than one value, and they differ; write exactly one"
        return valid[-1], [Violation("", "one_value", message)]
    # The last value is the final one; of its unwrappings, report the nearest to the contract.
    best: tuple[Any, list[Violation]] | None = None
    for shape in unwrap_layers(values[-1], frozenset(), work=Work(text)):
        violations = requested.violations(shape.value, MAX_FOUND)
        if not violations:
            message = describe_unreadable(text, "the value is wrapped in another value")
            violations = [Violation("", "json", message)]
        if best is None or _distance(violations) < _distance(best[1]):
            best = shape.value, violations
    assert best is not None  # noqa: S101  # a value is its own first shape
    return best


def contains_value(text: str) -> bool:
    """True if `text` contains a list or an object, valid or not."""
    return bool(_find_values(text))


def _find_values(text: str) -> list[Candidate]:
    try:
        return find_candidates(text, ())
    except AmbiguousTextError:
        return []


def _distance(violations: list[Violation]) -> tuple[bool, int]:
    """Rank a value of the wrong type behind one with many violations."""
    return any(v.pointer == "" and v.rule == "type" for v in violations), len(violations)


def write_feedback(violations: Sequence[Violation], request: str = _ANSWER_AGAIN) -> str:
    """Return the text that asks a model to correct its answer."""
    lines: list[str] = []
    size = 0
    for violation in violations[:MAX_VIOLATIONS]:
        line = f"- {violation}"
        size += len(line)
        if size > MAX_FEEDBACK_CHARS:
            break
        lines.append(line)
    left = sum(1 + violation.more for violation in violations[len(lines) :])
    if left:
        least = "at least " if len(violations) >= MAX_FOUND else ""
        lines.append(f"- and {least}{left:,} more")
    problems = "\n".join(lines)
    if any(violation.rule == "json" for violation in violations):
        rest = ""
    elif left or any(violation.more for violation in violations):
        rest = "The list is incomplete: check all values that are like those listed. "
    else:
        rest = "Everything that is not listed is correct: do not change it. "
    return f"The answer does not conform to the schema:\n{problems}\n{rest}{request}"
