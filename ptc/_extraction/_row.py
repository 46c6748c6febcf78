"""Rows of an extraction, one for each document, and the report about all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from .._core._json import plain_text
from .._dataclass import dataclass
from .._facts import ModelUsage

__all__ = [
    "BatchProgress",
    "Conflict",
    "Evidence",
    "ExtractedRow",
    "ExtractionReport",
    "RowError",
    "RowStatus",
    "row_from_json",
    "row_to_json",
]

T = TypeVar("T")

RowStatus: TypeAlias = Literal["done", "failed", "dead"]
"""``done``: the object conforms. ``failed``: the provider failed; the same request may succeed
later (``retry_failed``). ``dead``: the document, schema or model has to change first."""


@dataclass(frozen=True, slots=True)
class RowError:
    """Reason that a row has no object."""

    reason: str
    """``unreadable``, ``not_conforming``, ``truncated``, ``refused``, ``merge``, ``no_result`` or
    ``model_failed``."""
    message: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Source of one value: the text that the model quoted for it, verified in the document."""

    path: str
    """JSON Pointer to the value in the object."""
    quote: str | None
    """Text of the document if it was found, else the quote of the model; None without a quote."""
    match: Literal["exact", "normalised"] | None
    """``normalised``: apart from white space, case and typographic forms. None: the quote is not in
    the document, so nothing supports the value."""
    start: int | None = None
    """Index of the first character in the document's text."""
    end: int | None = None

    @property
    def supported(self) -> bool:
        """True if the quote is in the document."""
        return self.match is not None


@dataclass(frozen=True, slots=True)
class Conflict:
    """Different values of one field in the parts of a long document."""

    path: str
    values: tuple[Any, ...]
    """The values, the chosen one first: the most frequent, or else the earliest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedRow(Generic[T]):
    """Outcome for one document."""

    id: str
    source: str | None
    status: RowStatus
    object: T | None
    """The object of a row that is done: of the requested type, or JSON data for a JSON Schema."""
    value: Any
    """The object as plain JSON data."""
    error: RowError | None = None
    attempts: int = 0
    """Answers of the model."""
    parts: int = 1
    """Parts that a long document was split into."""
    repairs: tuple[str, ...] = ()
    """Kinds of the edits made to the answers without the model (`ptc.structured.EDITS`)."""
    usage: ModelUsage = field(default_factory=ModelUsage)
    cost: float | None = None
    """US dollars; None if the price of the model is unknown."""
    evidence: tuple[Evidence, ...] | None = None
    """Source of each value; None unless requested."""
    conflicts: tuple[Conflict, ...] = ()
    model: str = ""
    digest: str = ""
    """Digest of the document's text."""
    settings: str = ""
    """Digest of schema, prompt, model and options."""
    reused: bool = False
    """True if the row was read from the output file and cost nothing now."""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """Batches at the provider."""

    open: int = 0
    """Batches whose results were not read yet."""
    requests: int = 0
    """Requests in them."""
    finished: int = 0
    """Requests in them that have an outcome, as far as the provider reports it before the end."""
    ignored_lines: int = 0
    """Lines of results that could not be read, or belong to no request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionReport:
    """State of an extraction: at its end the report, before that the progress."""

    total: int | None
    """Number of documents; None if unknown."""
    done: int = 0
    failed: int = 0
    dead: int = 0
    reused: int = 0
    """Rows that were read from the output file; they are counted above, too."""
    in_flight: int = 0
    """Requests that await their answer."""
    repaired: int = 0
    """Rows whose answers needed an edit or a second answer."""
    conflicts: int = 0
    unsupported: int = 0
    """Values whose quote is not in the document."""
    usage: ModelUsage = field(default_factory=ModelUsage)
    """Usage of this process; rows that were reused cost nothing."""
    cost: float | None = None
    retries: int = 0
    """Requests that were sent again after an overload or a failure of the provider."""
    waited_s: float = 0.0
    """Seconds in which no request was sent because the provider asked to wait."""
    waiting_s: float = 0.0
    """Seconds for which no request will be sent, because the provider asks to wait."""
    seconds: float = 0.0
    batches: BatchProgress | None = None
    """Batches at the provider; None unless requested."""
    stopped: Literal["budget", "interrupted", "model"] | None = None
    """Reason that not all documents were processed; None if they were, or are still."""
    reason: str = ""
    """Explanation of `stopped`."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Number of rows without an object, by reason."""

    @property
    def rows(self) -> int:
        """Documents that have a row."""
        return self.done + self.failed + self.dead

    @property
    def rate(self) -> float:
        """New rows a second."""
        return (self.rows - self.reused) / self.seconds if self.seconds > 0 else 0.0

    @property
    def remaining_s(self) -> float | None:
        """Estimated seconds to the end; None if unknown."""
        if self.total is None or self.rate == 0:
            return None
        return (self.total - self.rows) / self.rate


def row_to_json(row: ExtractedRow[Any]) -> dict[str, Any]:
    """Convert a row to its line of the output file."""
    return {
        "id": row.id,
        "source": row.source,
        "status": row.status,
        "object": row.value,
        "error": None if row.error is None else _error_to_json(row.error),
        "attempts": row.attempts,
        "parts": row.parts,
        "repairs": list(row.repairs),
        "usage": asdict(row.usage),
        "cost": row.cost,
        "evidence": None if row.evidence is None else [_to_json(e) for e in row.evidence],
        "conflicts": [{"path": c.path, "values": list(c.values)} for c in row.conflicts],
        "model": row.model,
        "digest": row.digest,
        "settings": row.settings,
    }


def row_from_json(data: Mapping[str, Any], to_object: Any) -> ExtractedRow[Any]:
    """Convert a line of the output file to a row; `to_object` converts the value.

    Raises:
        KeyError, TypeError: If the line is not such a row.
    """
    done = data["status"] == "done"
    return ExtractedRow(
        id=data["id"],
        source=data["source"],
        status=data["status"],
        object=to_object(data["object"]) if done else None,
        value=data["object"],
        error=None if data["error"] is None else RowError(**data["error"]),
        attempts=data["attempts"],
        parts=data["parts"],
        repairs=tuple(data["repairs"]),
        usage=ModelUsage(**data["usage"]),
        cost=data["cost"],
        evidence=None
        if data["evidence"] is None
        else tuple(
            Evidence(e["path"], e["quote"], e["match"], e["start"], e["end"])
            for e in data["evidence"]
        ),
        conflicts=tuple(Conflict(c["path"], tuple(c["values"])) for c in data["conflicts"]),
        model=data["model"],
        digest=data["digest"],
        settings=data["settings"],
        reused=True,
    )


def _error_to_json(error: RowError) -> dict[str, Any]:
    # A message may quote the text of a model, which need not be valid Unicode.
    return {"reason": error.reason, "message": plain_text(error.message, len(error.message))}


def _to_json(evidence: Evidence) -> dict[str, Any]:
    return {**asdict(evidence), "supported": evidence.supported}
