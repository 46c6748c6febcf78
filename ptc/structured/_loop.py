"""The repair loop without the model: a text goes in, what to do next comes out.

It knows no provider, no message format and no clock. A truncated answer is no turn of the loop: it
raises `TruncatedError`, and so costs none of the attempts.
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
"""How many are told. A model mends the first few; the rest is prompt that is paid for."""
MAX_FEEDBACK_CHARS = 8_000
"""Longest feedback; what does not fit is counted."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One answer of the model, and what became of it."""

    text: str
    """What it wrote."""
    value: Any
    """What was read; None if nothing was."""
    repairs: tuple[Repair, ...]
    """Edits that it took."""
    violations: tuple[Violation, ...]
    """What is wrong with it; empty for the one that was accepted."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer conforms."""

    value: Any
    """Plain JSON data."""
    repairs: tuple[Repair, ...]
    """Edits that it took."""


@dataclass(frozen=True, slots=True)
class Again:
    """Ask the model again, with this."""

    feedback: str
    """What is wrong, in words for a model."""


@dataclass(frozen=True, slots=True)
class GaveUp:
    """Do not ask again."""

    reason: str
    """``attempts`` (all are used) or ``no_progress`` (twice the same violations)."""


class RepairLoop:
    """Judges the answers to one question, one after the other.

    Attributes:
        attempts: All answers so far, in order.
    """

    def __init__(self, schema: Any, *, max_repair_attempts: int = 2, wrapped: bool = False) -> None:
        """Judge answers by `schema`.

        Args:
            schema: A `Contract`, a JSON Schema, a pydantic model or any type.
            max_repair_attempts: How often the model may be asked again, 0 to 5.
            wrapped: True if the model was given `Contract.object_schema`.

        Raises:
            UsageError: If an argument is none of these.
        """
        if not 0 <= max_repair_attempts <= 5:
            msg = f"max_repair_attempts is {max_repair_attempts}; it goes from 0 to 5"
            raise UsageError(msg)
        self._contract = schema if isinstance(schema, Contract) else Contract(schema)
        self._wrapped = wrapped
        self._asked = self._contract.outer() if wrapped else self._contract
        self._left = max_repair_attempts
        self.attempts: list[Attempt] = []

    def take(self, text: str, *, ended: bool = True) -> Accepted | Again | GaveUp:
        """Judge the next answer.

        Args:
            text: What the model wrote, or the arguments of its tool call.
            ended: Whether the model said that it had finished.

        Raises:
            TruncatedError: If the answer was cut. It is no attempt.
        """
        if self._wrapped:
            found = recover_wrapped(text, self._contract, self._asked)
        else:
            found = recover(text, self._contract)
        closed = found is not None and any(r.kind == "missing_closer" for r in found.repairs)
        if (found is None and was_cut(text)) or (not ended and (found is None or closed)):
            msg = f"the answer ended after {len(text)} characters; ask again with more room"
            raise TruncatedError(msg, text=text)
        if found is None:
            read, violations = diagnose(text, self._contract, self._asked)
            self.attempts.append(Attempt(text, read, (), tuple(violations)))
            return self._next()
        self.attempts.append(Attempt(text, found.value, found.repairs, ()))
        return Accepted(found.value, found.repairs)

    def refuse(self, violations: Iterable[Violation]) -> Again | GaveUp:
        """Take back the acceptance of the last answer: it conforms, but a validator objects."""
        self.attempts[-1] = replace(self.attempts[-1], violations=tuple(violations))
        return self._next()

    def _next(self) -> Again | GaveUp:
        last = self.attempts[-1].violations
        before = self.attempts[-2].violations if len(self.attempts) > 1 else None
        if before is not None and set(before) == set(last):
            return GaveUp("no_progress")
        if self._left == 0:
            return GaveUp("attempts")
        self._left -= 1
        return Again(_feedback(last))


def diagnose(text: str, contract: Contract, asked: Contract) -> tuple[Any, list[Violation]]:
    """The value that `text` most likely means, or None, and what is wrong with it.

    Args:
        text: What a model wrote.
        contract: What was meant.
        asked: What it was asked for: the same, or ``contract.outer()``.
    """
    try:
        found = find_candidates(text, ())
    except AmbiguousTextError:
        found = []
    if not found:
        return None, [Violation("", "json", "no JSON value could be read")]
    values = [c.readings[0].value for c in found]
    valid = [value for value in values if asked.conforms(value)]
    if valid and asked is not contract:
        inner = contract.unwrap(valid[-1])
        if refused := contract.violations(inner, MAX_VIOLATIONS):
            return inner, refused
    if valid:
        told = "it has more than one value, and they differ; give one"
        return valid[-1], [Violation("", "one_value", told)]
    # The last is what it came to; of its wrappings the one that is nearest to what was asked for.
    best: tuple[Any, list[Violation]] | None = None
    for shape in unwrap_layers(values[-1], frozenset()):
        violations = asked.violations(shape.value, MAX_VIOLATIONS)
        if not violations:
            told = "what was asked for is wrapped in something else, or was not written clearly"
            violations = [Violation("", "json", told)]
        if best is None or _distance(violations) < _distance(best[1]):
            best = shape.value, violations
    assert best is not None  # noqa: S101  # a value is its own first shape
    return best


def _distance(violations: list[Violation]) -> tuple[bool, int]:
    """A value of another type is farther than one with many faults."""
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
        "All that is not listed was accepted: keep it. Answer with the whole value, corrected, as "
        "JSON and nothing else."
    )
