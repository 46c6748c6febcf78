"""Request for one structured answer: its options, and their validation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias, TypedDict

from .._dataclass import dataclass
from ..errors import UsageError
from ..models._model import MODES, Turn
from ..models._open import ModelSource
from ..structured import Contract, Partial
from ._prompt import Prompt

__all__ = [
    "Example",
    "Examples",
    "GenerateOptions",
    "OnPartial",
    "Question",
    "Validator",
    "read_examples",
]

NAME = re.compile(r"[A-Za-z0-9_-]{1,59}")
"""Valid name of an answer. OpenAI and Anthropic limit tool names to 64 characters."""
MAX_TIMEOUT_MS = 2_592_000_000
"""30 days. A batch of a provider takes up to a day, and an answer may need several batches."""
MAX_EXAMPLES = 100
MAX_OBJECTIONS = 20

Validator: TypeAlias = Callable[[Any], Any]
"""Validates the object. It rejects it by raising `ValueError` or by returning text or a list of
texts, which the model receives, and accepts it by returning None. It may be async."""
OnPartial: TypeAlias = Callable[[Partial], None]
Example: TypeAlias = tuple[tuple[Turn, ...], Any]
"""A prompt and its answer, as JSON data."""
Examples: TypeAlias = Sequence[tuple[Prompt, Any] | Mapping[str, Any]]
"""Pairs of a prompt and its right answer: JSON data, or an instance of the requested type. As data,
a pair is ``{"input": ..., "output": ...}``."""


class GenerateOptions(TypedDict, total=False):
    """The options of `Session.generate_object`."""

    schema_name: str
    """Name of the answer: 1 to 59 letters, digits, ``_`` and ``-``. Default: ``result``."""
    schema_description: str | None
    """Description of the answer, for the model."""
    system: str | None
    """System instructions."""
    examples: Examples
    """Pairs of a prompt and its right answer, which the model sees as earlier turns."""
    context: Any
    """Context of a pydantic type's validators, their ``info.context``. None: there is none."""
    null_for_missing: bool
    """True: the model writes null for an optional property instead of leaving it out, as OpenAI's
    strict mode requires. The object lacks it, unless the schema allows null there."""
    previous: Any
    """Conforming answer of an earlier call that is to be corrected; see `objections`."""
    objections: Sequence[str]
    """Objections to `previous`, which the model receives like violations of the schema."""
    mode: Literal["auto", "tool", "native", "prompt"]
    """Method of requesting structured output, see `ptc.models.Mode`. ``auto``, the default, uses
    the first that works; any other mode that does not work raises an error."""
    max_repair_attempts: int
    """Times the model is asked again after an answer that does not conform, 0 to 5. Default: 2."""
    validators: Sequence[Validator]
    """Additional checks of a conforming object; an objection is a violation like any other."""
    model: ModelSource | None
    """Model to use. Default: the session's."""
    settings: Mapping[str, Any] | None
    """``max_tokens``, ``temperature`` and other settings of the provider."""
    timeout_ms: int
    """Time limit for all attempts together. Default: 120,000."""
    on_partial: OnPartial | None
    """Receives partial answers while the model streams. Must return at once and not raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request for one answer, validated before any model is called.

    Raises:
        UsageError: If an argument is invalid, or no answer can conform.
    """

    contract: Contract
    turns: tuple[Turn, ...]
    """The prompt."""
    examples: tuple[Example, ...] = ()
    null_for_missing: bool = False
    previous: Any = None
    objections: tuple[str, ...] = ()
    description: str | None = None
    system: str | None = None
    mode: Literal["auto", "tool", "native", "prompt"] = "auto"
    max_repair_attempts: int = 2
    validators: tuple[Validator, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    timeout_ms: int = 120_000

    def __post_init__(self) -> None:
        name: Any = self.contract.name
        if not isinstance(name, str) or not NAME.fullmatch(name):
            msg = f"schema_name {name!r:.80} is invalid; use 1 to 59 letters, digits, _ and -"
            raise UsageError(msg)
        for name in ("description", "system"):
            if not isinstance(getattr(self, name), str | None):
                msg = f"{name} must be a string, not {getattr(self, name)!r:.80}"
                raise UsageError(msg)
        if self.mode not in ("auto", *MODES):
            msg = f"mode {self.mode!r:.80} is unknown; modes: auto, {', '.join(MODES)}"
            raise UsageError(msg)
        _require_range("max_repair_attempts", self.max_repair_attempts, 0, 5)
        _require_range("timeout_ms", self.timeout_ms, 1, MAX_TIMEOUT_MS)
        if invalid := [v for v in self.validators if not callable(v)]:
            msg = f"validators must be functions that take the object, not {invalid[0]!r:.80}"
            raise UsageError(msg)
        if type(self.null_for_missing) is not bool:
            msg = f"null_for_missing must be True or False, not {self.null_for_missing!r:.80}"
            raise UsageError(msg)
        if (why := self.contract.why_impossible()) is not None:
            raise UsageError(why)
        self._check_objections()

    def _check_objections(self) -> None:
        if len(self.objections) > MAX_OBJECTIONS or not all(
            isinstance(text, str) and text.strip() for text in self.objections
        ):
            msg = f"objections must be 1 to {MAX_OBJECTIONS} texts that are not blank"
            raise UsageError(msg)
        if self.objections:
            _require_conforming("previous", self.contract, self.previous)
        elif self.previous is not None:
            msg = "previous needs objections: texts that say what is wrong with it"
            raise UsageError(msg)


def _require_range(name: str, value: int, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        msg = f"{name} must be an integer from {least} to {most:,}, not {value!r:.80}"
        raise UsageError(msg)


def read_examples(
    examples: Sequence[Any], contract: Contract, read: Callable[[Any, str], tuple[Turn, ...]]
) -> tuple[Example, ...]:
    """Validate examples.

    Args:
        examples: Pairs of a prompt and its answer.
        contract: The contract of the answers.
        read: Reads a prompt; the second argument is its name in messages.

    Raises:
        UsageError: If one is malformed, or its answer does not conform; the message names it.
    """
    if len(examples) > MAX_EXAMPLES:
        msg = f"there are {len(examples):,} examples; pass at most {MAX_EXAMPLES}"
        raise UsageError(msg)
    found: list[Example] = []
    for number, example in enumerate(examples):
        where = f"examples[{number}]"
        if isinstance(example, Mapping) and example.keys() == {"input", "output"}:
            example = (example["input"], example["output"])
        if not isinstance(example, tuple | list) or len(example) != 2:
            msg = f"{where} must be a pair of a prompt and its answer, not {example!r:.80}"
            raise UsageError(msg)
        turns = read(example[0], f"{where}[0]")
        answer = contract.plain(example[1])
        _require_conforming(where, contract, answer)
        found.append((turns, answer))
    return tuple(found)


def _require_conforming(name: str, contract: Contract, value: Any) -> None:
    if violations := contract.violations(value, 5):
        problems = "; ".join(str(violation) for violation in violations)
        msg = f"{name}: the answer does not conform to the schema: {problems}"
        raise UsageError(msg)
