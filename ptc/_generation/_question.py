"""Request for one structured answer: its options, and their validation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict

from ..errors import UsageError
from ..models._model import MODES
from ..models._open import ModelSource
from ..structured import Contract, Partial

__all__ = ["GenerateOptions", "OnPartial", "Question", "Validator"]

NAME = re.compile(r"[A-Za-z0-9_-]{1,59}")
"""Valid name of an answer. OpenAI and Anthropic limit tool names to 64 characters."""
MAX_TIMEOUT_MS = 2_592_000_000
"""30 days. A batch of a provider takes up to a day, and an answer may need several batches."""

Validator: TypeAlias = Callable[[Any], Any]
"""Validates the object. It rejects it by raising `ValueError` or by returning text or a list of
texts, which the model receives, and accepts it by returning None. It may be async."""
OnPartial: TypeAlias = Callable[[Partial], None]


class GenerateOptions(TypedDict, total=False):
    """The options of `Session.generate_object`."""

    schema_name: str
    """Name of the answer: 1 to 59 letters, digits, ``_`` and ``-``. Default: ``result``."""
    schema_description: str | None
    """Description of the answer, for the model."""
    system: str | None
    """System instructions."""
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
    prompt: str
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
        if not isinstance(self.prompt, str) or not self.prompt.strip():
            msg = "prompt must be a string that is not blank"
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
        if (why := self.contract.why_impossible()) is not None:
            raise UsageError(why)


def _require_range(name: str, value: int, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        msg = f"{name} must be an integer from {least} to {most:,}, not {value!r:.80}"
        raise UsageError(msg)
