"""Options of an extraction, and their validation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, TypedDict

from .._core._arguments import mapping_of, parts_of, path_of, require, require_function
from .._core._json import sha256_of
from .._dataclass import dataclass
from .._generation._question import Validator, read_examples
from ..errors import UsageError
from ..models._model import Turn
from ..models._open import ModelSource
from ..structured import Contract
from ._merge import MergeKeys, read_merge_keys
from ._row import ExtractionReport

__all__ = ["DEFAULT_PROMPT", "ExtractOptions", "Plan", "make_plan"]

DEFAULT_PROMPT = "Extract the data from this document."
_MAX_CONCURRENCY = 1_000
_MAX_IN_BATCHES = 100_000
_BATCH_DEFAULTS = {"concurrency": 10_000, "max_retries": 2}


class ExtractOptions(TypedDict, total=False):
    """The options of `Session.extract_many`."""

    prompt: str
    """The task. The text of the document is appended to it."""
    output: str | Path | None
    """JSONL file that each row is written to as soon as it is known; ``.parquet`` needs pyarrow.
    Documents that have a row there are not sent again. None: nothing is written."""
    retry_failed: bool
    """True: send documents again whose row failed or is dead; with another model, if you like."""
    batch: bool
    """True: use the provider's batch API, at its lower price. Answers take up to a day. Needs
    `output`, beside which the batches are recorded."""
    poll_ms: int
    """Longest time between two looks at a batch. Default: 60,000."""
    concurrency: int
    """Most requests in flight, 1 to 1,000. Fewer are sent while the provider refuses them.
    Default: 8. With `batch`: most documents in flight, 1 to 100,000. Default: 10,000."""
    rpm: float | None
    """Requests a minute at most."""
    tpm: float | None
    """Tokens a minute at most, input and output together; estimated first, corrected later."""
    max_cost: float | None
    """US dollars to spend at most in this call."""
    max_total_tokens: int | None
    """Tokens to spend at most in this call."""
    prices: tuple[float, float] | None
    """US dollars for a million tokens of input and of output. Default: known prices."""
    max_retries: int
    """Times a request is sent again after the provider failed or was overloaded. Default: 10, or 2
    with `batch`."""
    evidence: bool
    """True: the model quotes the source of each value, and the quotes are verified."""
    split_chars: int
    """Characters of a document beyond which it is split into parts. Default: 100,000."""
    overlap_chars: int
    """Characters that a part repeats of the one before. Default: 1,000."""
    merge_keys: Mapping[str, str | Sequence[str]] | None
    """Fields that identify the items of a list, by path of the list: ``{"lines": "number"}``. Items
    of different parts with equal fields are merged."""
    on_progress: Callable[[ExtractionReport], None] | None
    """Receives the state after each row. Must return at once and not raise."""
    schema_name: str
    """As for `generate_object`, like all that follow."""
    schema_description: str | None
    system: str | None
    examples: Sequence[tuple[str, Any]]
    """Pairs of the text of a document and its right object. Not with `evidence`."""
    context: Any
    null_for_missing: bool
    mode: Literal["auto", "tool", "native", "prompt"]
    max_repair_attempts: int
    validators: Sequence[Validator]
    model: ModelSource | None
    settings: Mapping[str, Any] | None
    timeout_ms: int
    """Time limit of one request. Time spent waiting for the provider does not count.
    Default: 120,000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Validated options of an extraction."""

    contract: Contract
    prompt: str = DEFAULT_PROMPT
    output: Path | None = None
    retry_failed: bool = False
    batch: bool = False
    poll_ms: int = 60_000
    concurrency: int = 8
    rpm: float | None = None
    tpm: float | None = None
    max_cost: float | None = None
    max_total_tokens: int | None = None
    prices: tuple[float, float] | None = None
    max_retries: int = 10
    evidence: bool = False
    split_chars: int = 100_000
    overlap_chars: int = 1_000
    merge_keys: MergeKeys = field(default_factory=dict)
    on_progress: Callable[[ExtractionReport], None] | None = None
    schema_description: str | None = None
    system: str | None = None
    examples: tuple[tuple[str, Any], ...] = ()
    null_for_missing: bool = False
    mode: Literal["auto", "tool", "native", "prompt"] = "auto"
    max_repair_attempts: int = 2
    validators: tuple[Validator, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    timeout_ms: int = 120_000

    def __post_init__(self) -> None:
        require("prompt", self.prompt, str, "text")
        require_function("on_progress", self.on_progress)
        require("batch", self.batch, bool, "True or False")
        require("null_for_missing", self.null_for_missing, bool, "True or False")
        if self.examples and self.evidence:
            msg = "examples cannot be combined with evidence: they quote no sources"
            raise UsageError(msg)
        most = _MAX_IN_BATCHES if self.batch else _MAX_CONCURRENCY
        _require_number("concurrency", self.concurrency, 1, most, whole=True)
        _require_number("poll_ms", self.poll_ms, 1, 3_600_000, whole=True)
        _require_number("max_retries", self.max_retries, 0, 100, whole=True)
        _require_number("split_chars", self.split_chars, 1_000, 100_000_000, whole=True)
        _require_number("overlap_chars", self.overlap_chars, 0, self.split_chars // 2, whole=True)
        _require_number("timeout_ms", self.timeout_ms, 1, 86_400_000, whole=True)
        for name in ("rpm", "tpm", "max_cost", "max_total_tokens"):
            if getattr(self, name) is not None:
                _require_number(name, getattr(self, name), 0, math.inf, above=True)
        if self.prices is not None:
            require("prices", self.prices, tuple, "a pair of numbers")
            if len(self.prices) != 2:
                msg = f"prices must be (input, output) for a million tokens, not {self.prices!r}"
                raise UsageError(msg)
            for price in self.prices:
                _require_number("prices", price, 0, 1e9)

    @property
    def has_form(self) -> bool:
        """True if examples or nulls change the form of the questions."""
        return bool(self.examples) or self.null_for_missing

    def digest(self) -> str:
        """Return the digest of all that decides about the object of a document, but the model."""
        parts = (
            self.contract.schema,
            self.contract.name,
            self.prompt,
            self.schema_description,
            self.system,
            self.mode,
            self.evidence,
            self.split_chars,
            self.overlap_chars,
            self.merge_keys,
            {name: repr(value) for name, value in self.settings.items()},
            *((self.examples, self.null_for_missing) if self.has_form else ()),
        )
        return sha256_of(parts)[:16]


def make_plan(schema: Any, options: Mapping[str, Any]) -> Plan:
    """Validate the options of an extraction.

    Raises:
        UsageError: If one is unknown or invalid.
    """
    given = dict(options)
    known = ExtractOptions.__annotations__.keys() - {"model"}
    if unknown := given.keys() - known:
        msg = f"unknown option {min(unknown)!r}; options: {', '.join(sorted(known))}"
        raise UsageError(msg)
    name = given.pop("schema_name", "result")
    if given.get("batch") is True:
        _check_batch(given)
        given = {**_BATCH_DEFAULTS, **given}
    given["contract"] = schema if isinstance(schema, Contract) else Contract(schema, name=name)
    if (context := given.pop("context", None)) is not None:
        given["contract"] = given["contract"].with_context(context)
    given["examples"] = _read_examples(given.get("examples", ()), given["contract"])
    if given.get("output") is not None:
        given["output"] = path_of("output", given["output"])
    if "validators" in given:
        given["validators"] = parts_of("validators", given["validators"], "a list of functions")
    given["settings"] = mapping_of("settings", given.get("settings"), "a dict by name")
    given["merge_keys"] = read_merge_keys(given.get("merge_keys"))
    return Plan(**given)


def _check_batch(given: Mapping[str, Any]) -> None:
    if given.get("output") is None:
        raise UsageError("batch needs output, beside which the batches are recorded")
    for name in ("rpm", "tpm", "timeout_ms"):
        if given.get(name) is not None:
            msg = f"{name} cannot be combined with batch: the provider decides when it runs a batch"
            raise UsageError(msg)


def _read_examples(examples: Any, contract: Contract) -> tuple[tuple[str, Any], ...]:
    def read(text: Any, where: str) -> tuple[Turn, ...]:
        require(where, text, str, "the text of a document")
        return (Turn("user", text),)

    pairs = parts_of("examples", examples, "a list of pairs")
    return tuple((turn.text, value) for (turn,), value in read_examples(pairs, contract, read))


def _require_number(
    name: str,
    value: Any,
    least: float,
    most: float,
    *,
    whole: bool = False,
    above: bool = False,
) -> None:
    numbers = int if whole else (int, float)
    valid = isinstance(value, numbers) and not isinstance(value, bool)
    if not valid or not least <= value <= most or (above and value == least):
        kind = "an integer" if whole else "a number"
        span = f"from {least:,} to {most:,}" if math.isfinite(most) else f"of at least {least}"
        msg = f"{name} must be {kind} {'above 0' if above else span}, not {value!r:.80}"
        raise UsageError(msg)
