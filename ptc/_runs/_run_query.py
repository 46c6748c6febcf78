"""Arguments of a list of runs, checked and converted to a query of the journal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, TypeAlias, get_args

from .._core._arguments import nearest, parts_of, require_range
from .._core._clock import now_ms
from .._records._result import Status
from ..errors import UsageError
from ..journal._run_lists import RunQuery

__all__ = ["RUN_STATUSES", "Moment", "create_query"]

Moment: TypeAlias = datetime | timedelta | str
"""A time: a `datetime`; a period before now; or text, as ``2h``, ``3d`` or in ISO 8601."""

RUN_STATUSES: Final = tuple(dict.fromkeys(("queued", "running", *get_args(Status))))
"""Statuses of a recorded run."""
_MOST_ROWS: Final = 10_000
_PERIOD: Final = re.compile(r"(\d{1,9})\s*([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def create_query(
    statuses: Iterable[str],
    tool: str | None,
    tenant: str | None,
    since: Moment | None,
    until: Moment | None,
    limit: int,
    after: str | None,
) -> RunQuery:
    """Convert the arguments of `History.runs`.

    Raises:
        UsageError: If one is wrong.
    """
    require_range("limit", limit, _MOST_ROWS)
    listed = parts_of("statuses", statuses, "a list of statuses")
    for status in listed:
        if status not in RUN_STATUSES:
            known = ", ".join(RUN_STATUSES)
            msg = f"there is no status {status!r}{nearest(status, RUN_STATUSES)}; statuses: {known}"
            raise UsageError(msg)
    for argument, value in (("tool", tool), ("tenant", tenant), ("after", after)):
        if value is not None and not isinstance(value, str):
            msg = f"{argument} must be a string, not {type(value).__name__}"
            raise UsageError(msg)
    return RunQuery(
        statuses=tuple(listed),
        tool=tool,
        tenant=tenant,
        since_ms=None if since is None else _milliseconds("since", since),
        until_ms=None if until is None else _milliseconds("until", until),
        limit=limit,
        after=after,
    )


def _milliseconds(argument: str, moment: Moment) -> int:
    """Return a time in ms since 1970. A time without an offset is local."""
    try:
        if isinstance(moment, str):
            moment = _parse(moment)
        if isinstance(moment, timedelta):
            return now_ms() - int(moment.total_seconds() * 1000)
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError, AttributeError):
        msg = (
            f"{argument} must be a period before now, such as 90m, 2h or 3d, or a date or time in "
            f"ISO 8601, such as 2026-11-23 or 2026-11-23T14:00, not {str(moment)!r:.80}"
        )
        raise UsageError(msg) from None


def _parse(text: str) -> datetime | timedelta:
    if period := _PERIOD.fullmatch(text.strip()):
        return timedelta(**{_UNITS[period[2]]: int(period[1])})
    return datetime.fromisoformat(text.strip())
