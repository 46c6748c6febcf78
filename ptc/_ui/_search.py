"""Pages of the list of runs, and the search in ids and names of scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from .._runs._run_id import validate_run_id
from ..errors import UsageError
from ._views import summary_row

if TYPE_CHECKING:
    from .._runs._history import History
    from ..journal._run_lists import RunPage, RunSummary

__all__ = ["list_page"]

_MOST_ROWS: Final = 500
_WINDOW: Final = 2_000
_MOST_WINDOWS: Final = 10
"""Windows of runs that one request searches; the next page continues."""


async def list_page(history: History, options: Mapping[str, str]) -> dict[str, Any]:
    """Return a page of runs for the parameters of a request.

    Raises:
        UsageError: If a parameter is wrong.
    """
    limit = _number(options.get("limit", "200"))
    filters: dict[str, Any] = {
        name: options[name] for name in ("tool", "tenant", "since", "until") if options.get(name)
    }
    statuses = [status for status in options.get("status", "").split(",") if status]
    after = options.get("after") or None
    text = options.get("text", "").strip().lower()
    if not text:
        page = await history.runs(limit, statuses=statuses, after=after, **filters)
        return _page(list(page), page.next_cursor)
    found = [] if after else await _by_id(history, text)
    for _ in range(_MOST_WINDOWS):
        page = await history.runs(_WINDOW, statuses=statuses, after=after, **filters)
        found += [run for run in page if text in run.filename.lower()]
        after = page.next_cursor
        if after is None or len(found) >= limit:
            break
    return _page(list({run.run_id: run for run in found}.values()), after)


async def _by_id(history: History, text: str) -> list[RunSummary]:
    """Return the run whose id starts with the text, if it is one of the newest."""
    try:
        ids = set(await history.find_ids(validate_run_id(text), 20))
    except UsageError:
        return []
    found: list[RunSummary] = []
    for run_id in ids:
        row = await history.run(run_id)
        page: RunPage = await history.runs(_MOST_ROWS, until=_after(row.created_ms))
        found += [run for run in page if run.run_id == run_id]
    return found


def _after(ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp((ms + 1) / 1000, UTC).isoformat()


def _page(rows: list[RunSummary], cursor: str | None) -> dict[str, Any]:
    return {"runs": [summary_row(run) for run in rows], "next": cursor}


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _MOST_ROWS:
        msg = f"limit must be a number from 1 to {_MOST_ROWS}, not {text!r:.40}"
        raise UsageError(msg)
    return int(text)
