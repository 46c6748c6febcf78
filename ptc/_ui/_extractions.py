"""Extractions of a journal: their progress from its documents, their rows from the output files."""

from __future__ import annotations

import platform
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread

from .._core import _json
from .._core._clock import now_ms
from .._extraction._compare import compare
from .._extraction._extraction import journal_of
from .._extraction._merge import read_merge_keys
from .._extraction._record import BEAT_MS, PREFIX
from ..errors import UsageError
from ._row_file import Row, RowFile, integer, items, mapping, price
from ._views import MAX_CHARS, bounded

if TYPE_CHECKING:
    from .._runs._history import History
    from ..journal._documents import Document

__all__ = ["SHOWN", "Extractions", "head_of"]

_ID: Final = re.compile(r"[0-9a-f]{24}")
_MOST_LISTED: Final = 500
_MOST_FILES: Final = 8
_MOST_PAGE: Final = 500
_MOST_FIELDS: Final = 300
_MOST_VALUES: Final = 100
_VALUE_CHARS: Final = 500
_COMPARED_ROWS: Final = 20_000
_COMPARED_BYTES: Final = 32 << 20
_COMPARED_SHOWN: Final = 2_000
_ERROR: Final = ("reason", "message")
_NUMBERS: Final = ("total", "done", "failed", "dead", "reused", "in_flight", "repaired")
_STOPS: Final = {"budget": "limit_exceeded", "interrupted": "cancelled", "model": "failed"}
SHOWN: Final[Mapping[str, Callable[[Row], bool]]] = {
    "all": lambda row: True,
    "failed": lambda row: row.status != "done",
    "conflicts": lambda row: bool(row.conflicts),
    "unsupported": lambda row: bool(row.unsupported),
    "repaired": lambda row: row.repairs > 0 or row.attempts > 1,
}
"""Filters of the list of documents."""


class Extractions:
    """Reads the extractions of one journal."""

    def __init__(self, history: History) -> None:
        """Use the documents of a journal."""
        self._history = history
        self._files: OrderedDict[Path, RowFile] = OrderedDict()
        self._totals: dict[Path, tuple[tuple[int, int], dict[str, Any]]] = {}

    async def rows_of_list(self) -> list[dict[str, Any]]:
        """Return all extractions, the newest first."""
        await self._history.open()
        return await anyio.to_thread.run_sync(self._list)

    def _list(self) -> list[dict[str, Any]]:
        documents = self._history.documents
        found = []
        for name in documents.names(PREFIX)[:_MOST_LISTED]:
            document = documents.read(name)
            if document is not None and isinstance(document.data, dict):
                found.append(head_of(document))
        return sorted(found, key=lambda head: -head["start"])

    async def head(self, extraction: str) -> dict[str, Any]:
        """Return an extraction with what its rows add up to.

        Raises:
            UsageError: If the journal has no such extraction.
        """
        await self._history.open()
        return await anyio.to_thread.run_sync(self._read_head, extraction)

    def _read_head(self, extraction: str) -> dict[str, Any]:
        head, file = self._find(extraction)
        head |= {"rows": None, "problem": "", "generation": 0, "whole": True}
        if file is None:
            head["problem"] = f"The rows are on another machine, {head['host'][:100] or 'unknown'}."
            return head
        try:
            file.refresh()
        except UsageError as error:
            head["problem"] = f"The rows cannot be shown: {error}."
            return head
        head |= self._sum(file)
        # Newer than the record, which is written once a second.
        head |= {name: head["statuses"][name] for name in ("done", "failed", "dead")}
        head |= {"generation": file.generation, "whole": file.is_whole}
        return head

    def _find(self, extraction: str) -> tuple[dict[str, Any], RowFile | None]:
        if not _ID.fullmatch(extraction):
            msg = f"there is no extraction {extraction!r:.80}"
            raise UsageError(msg)
        document = self._history.documents.read(PREFIX + extraction)
        if document is None or not isinstance(document.data, dict):
            msg = f"there is no extraction {extraction!r:.80}"
            raise UsageError(msg)
        head = head_of(document)
        if head["host"] != platform.node():
            return head, None
        path = journal_of(Path(head["output"]))
        file = self._files.setdefault(path, RowFile(path))
        self._files.move_to_end(path)
        while len(self._files) > _MOST_FILES:
            oldest, _ = self._files.popitem(last=False)
            self._totals.pop(oldest, None)
        return head, file

    def _sum(self, file: RowFile) -> dict[str, Any]:
        """Return sums over the rows, which are computed again when rows were added."""
        path = next(path for path, other in self._files.items() if other is file)
        version = (file.generation, len(file.rows))
        found = self._totals.get(path)
        if found is None or found[0] != version:
            found = self._totals[path] = (version, _totals(list(file.rows)))
        return found[1]

    async def page(self, extraction: str, options: Mapping[str, str]) -> dict[str, Any]:
        """Return rows for the parameters of a request: ``show``, ``field``, ``text``, ``after``.

        Raises:
            UsageError: If a parameter is wrong, or the rows cannot be read.
        """
        await self._history.open()
        return await anyio.to_thread.run_sync(self._page, extraction, options)

    def _page(self, extraction: str, options: Mapping[str, str]) -> dict[str, Any]:
        rows = self._rows(extraction)
        show, field = options.get("show") or "all", options.get("field", "")
        text = options.get("text", "").strip().casefold()
        after = options.get("after") or "0"
        if show not in SHOWN or not after.isascii() or not after.isdigit() or len(after) > 9:
            raise UsageError("show or after is wrong")
        matches = SHOWN[show]
        found: list[list[Any]] = []
        number = int(after)
        while number < len(rows) and len(found) < _MOST_PAGE:
            row = rows[number]
            if (
                matches(row)
                and (not field or field in row.conflicts or field in row.unsupported)
                and (not text or text in row.id.casefold() or text in row.message.casefold())
            ):
                found.append(_short(number, row))
            number += 1
        return {"rows": found, "next": number, "more": number < len(rows)}

    def _rows(self, extraction: str) -> list[Row]:
        return list(self._file(extraction).rows)

    def _file(self, extraction: str) -> RowFile:
        _, file = self._find(extraction)
        if file is None:
            raise UsageError("the rows are on another machine")
        file.refresh()
        return file

    async def row(self, extraction: str, number: str) -> dict[str, Any]:
        """Return one row with its object, conflicts and unsupported values, bounded.

        Raises:
            UsageError: If there is no such row.
        """
        await self._history.open()
        return await anyio.to_thread.run_sync(self._row, extraction, number)

    def _row(self, extraction: str, number: str) -> dict[str, Any]:
        if not number.isascii() or not number.isdigit() or len(number) > 9:
            raise UsageError("there is no such row")
        return _details(self._file(extraction).read(int(number)))

    async def compare(self, left: str, right: str) -> dict[str, Any]:
        """Compare the objects of two extractions, field by field.

        Raises:
            UsageError: If one cannot be read.
        """
        await self._history.open()
        return await anyio.to_thread.run_sync(self._compare, left, right)

    def _compare(self, left: str, right: str) -> dict[str, Any]:
        (head, _), (other_head, _) = self._find(left), self._find(right)
        one = dict(self._file(left).objects(_COMPARED_ROWS, _COMPARED_BYTES))
        other = dict(self._file(right).objects(_COMPARED_ROWS, _COMPARED_BYTES))
        ids = [name for name in one if one[name] is not None and other.get(name) is not None]
        keys = read_merge_keys(head["merge_keys"])
        found = compare(
            {name: other[name] for name in ids}, {name: one[name] for name in ids}, keys
        )
        fields = sorted(found.fields, key=lambda score: score.right - _all(score))
        return {
            "left": head,
            "right": other_head,
            "documents": len(ids),
            "same": found.right_documents,
            "fields": [
                [score.field[:300], score.right, score.wrong, score.missing, score.extra]
                for score in fields[:_MOST_FIELDS]
            ],
            "rows": [
                [item.id[:300], item.path[:300], _short_json(item.gold), _short_json(item.found)]
                for item in found.disagreements[:_COMPARED_SHOWN]
            ],
            "all": len(found.disagreements),
            "whole": len(one) < _COMPARED_ROWS and len(other) < _COMPARED_ROWS,
        }


def _all(score: Any) -> int:
    return int(score.right + score.wrong + score.missing + score.extra)


def head_of(document: Document) -> dict[str, Any]:
    """Return the recorded state. Tools can write documents, so no part of it is trusted."""
    data: dict[str, Any] = document.data
    head: dict[str, Any] = {name: integer(data.get(name)) for name in _NUMBERS}
    ended = data.get("ended_ms")
    usage = mapping(data.get("usage"))
    return {
        **head,
        "id": document.name.removeprefix(PREFIX),
        **{
            name: str(data.get(name) or "")[:4_000]
            for name in ("output", "host", "model", "schema", "reason")
        },
        "start": integer(data.get("started_ms")) or document.changed_ms,
        "end": ended if isinstance(ended, int) else None,
        "status": _status(data, document.changed_ms),
        "total": integer(data["total"]) if isinstance(data.get("total"), int) else None,
        "tokens": [integer(usage.get(name)) for name in ("input_tokens", "output_tokens")],
        "cost": price(data.get("cost")),
        "merge_keys": mapping(data.get("merge_keys")),
    }


def _status(data: Mapping[str, Any], changed_ms: int) -> str:
    if not isinstance(data.get("ended_ms"), int):
        return "running" if now_ms() - changed_ms < 3 * BEAT_MS else "crashed"
    stopped = data.get("stopped")
    if isinstance(stopped, str):
        return _STOPS.get(stopped, "failed")
    rows = sum(integer(data.get(name)) for name in ("done", "failed", "dead"))
    total = data.get("total")
    return "cancelled" if isinstance(total, int) and rows < total else "completed"


def _totals(rows: Iterable[Row]) -> dict[str, Any]:
    """Add up rows."""
    statuses: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    models: Counter[str] = Counter()
    conflicts: Counter[str] = Counter()
    unsupported: Counter[str] = Counter()
    tokens = [0, 0]
    cost: float | None = None
    shown: Counter[str] = Counter()
    for row in rows:
        statuses[row.status] += 1
        models[row.model] += 1
        reasons[row.reason] += row.status != "done"
        conflicts.update(row.conflicts)
        unsupported.update(row.unsupported)
        tokens = [tokens[0] + row.tokens[0], tokens[1] + row.tokens[1]]
        if row.cost is not None:
            cost = (cost or 0.0) + row.cost
        shown.update(name for name, matches in SHOWN.items() if matches(row))
    fields = (conflicts + unsupported).most_common(_MOST_FIELDS)
    return {
        "rows": statuses.total(),
        "statuses": statuses,
        "reasons": [[name, count] for name, count in reasons.most_common(20) if count],
        "models": models.most_common(10),
        "fields": [[name, conflicts[name], unsupported[name]] for name, _ in fields],
        "row_tokens": tokens,
        "row_cost": cost,
        "shown": {name: shown[name] for name in SHOWN},
    }


def _short(number: int, row: Row) -> list[Any]:
    """Return a row of the list; the page names the columns in ``ROW``."""
    return [
        number,
        row.id,
        row.status,
        row.reason,
        row.message,
        row.attempts,
        row.repairs,
        row.tokens[0] + row.tokens[1],
        row.cost,
        row.conflicts[:20],
        row.unsupported[:20],
    ]


def _details(data: Mapping[str, Any]) -> dict[str, Any]:
    error, found = mapping(data.get("error")), data.get("object")
    return {
        "id": str(data["id"])[:_VALUE_CHARS],
        "source": str(data.get("source") or "")[:_VALUE_CHARS],
        "status": str(data["status"])[:20],
        "error": {name: str(error[name])[:MAX_CHARS] for name in _ERROR if error.get(name)},
        "object": None if found is None else bounded(_json.dumps_unchecked(found)),
        "model": str(data.get("model", ""))[:200],
        "attempts": integer(data.get("attempts")),
        "parts": integer(data.get("parts")),
        "repairs": [str(kind)[:100] for kind in items(data.get("repairs"))[:50]],
        "conflicts": [
            [str(item.get("path"))[:300], list(map(_short_json, items(item.get("values"))[:20]))]
            for item in map(mapping, items(data.get("conflicts"))[:_MOST_VALUES])
        ],
        "unsupported": [
            [str(item.get("path"))[:300], str(item.get("quote") or "")[:_VALUE_CHARS]]
            for item in map(mapping, items(data.get("evidence"))[: 10 * _MOST_VALUES])
            if not item.get("supported")
        ][:_MOST_VALUES],
        "cost": price(data.get("cost")),
    }


def _short_json(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else _json.dumps_unchecked(value).decode()
    return text if len(text) <= _VALUE_CHARS else text[:_VALUE_CHARS] + "…"
