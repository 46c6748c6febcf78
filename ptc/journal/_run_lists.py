"""Lists of recorded runs: filters, pages, and the SQL that the stores share.

A list is read by index, in windows of a bounded number of runs: a filter that no index answers,
such as that of a tool, must not keep the thread of a journal from its writes.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, overload

from .._dataclass import dataclass
from ..errors import UsageError

__all__ = ["NEWEST_RUNS", "EndedRun", "RunPage", "RunQuery", "RunSummary", "list_runs"]

_MAX_WINDOW: Final = 2_000
"""Runs that one statement examines."""


@dataclass(frozen=True, slots=True)
class RunQuery:
    """Filters of a list of runs; the list is ordered by start, the newest first."""

    statuses: tuple[str, ...] = ()
    """Statuses to list; ``()``: all."""
    tool: str | None = None
    """Only runs with a recorded or pending call of this tool."""
    tenant: str | None = None
    """Only runs of this tenant."""
    since_ms: int | None = None
    """Earliest start, in ms since 1970."""
    until_ms: int | None = None
    """The runs started before this time."""
    limit: int = 50
    """Runs of a page at most."""
    after: str | None = None
    """Cursor of the page before, as `RunPage.next_cursor`; None: the first page."""


NEWEST_RUNS: Final = RunQuery()


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a list: without its script, inputs and result, which may be large."""

    run_id: str
    filename: str
    status: str
    created_ms: int
    ended_ms: int | None
    rolled_back_ms: int | None
    revision: int
    attempts: int
    tenant: str
    size_bytes: int
    calls: int
    """Number of recorded calls."""
    cost_usd: float | None = None
    """Price of the models that its calls used; None if they used none, or a price is unknown."""


@dataclass(frozen=True, slots=True)
class RunPage(Sequence[RunSummary]):
    """A page of a list of runs."""

    rows: tuple[RunSummary, ...]
    next_cursor: str | None
    """Cursor of the next page; None: this is the last one."""

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[RunSummary]:
        return iter(self.rows)

    @overload
    def __getitem__(self, index: int) -> RunSummary: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[RunSummary, ...]: ...

    def __getitem__(self, index: int | slice) -> RunSummary | tuple[RunSummary, ...]:
        return self.rows[index]


class EndedRun(NamedTuple):
    """A run that has ended, for retention."""

    ended_ms: int
    number: int
    """Number of the run in its journal: the order of runs that ended at the same time."""
    size_bytes: int
    """As `RunRow.size_bytes`."""


class _Position(NamedTuple):
    """Position in a list: that of the run with this start and number."""

    created_ms: int
    number: int


_Row: TypeAlias = Sequence[Any]
_Fetch: TypeAlias = Callable[[str, Sequence[Any]], Awaitable[Sequence[_Row]]]
_CURSOR: Final = re.compile(r"(\d{1,18})-(\d{1,18})")


async def list_runs(
    query: RunQuery,
    fetch: _Fetch,
    build: Callable[[_Row], RunSummary],
    *,
    mark: str,
    names_index: bool,
) -> RunPage:
    """Read a page of runs.

    Args:
        query: The filters.
        fetch: Executes a statement with its values, and returns the rows.
        build: Converts a row to a summary.
        mark: Start of a parameter in SQL, before its number.
        names_index: True: the statement names the index to use, as SQLite needs it, which has no
            statistics of the tables.

    Raises:
        UsageError: If the cursor is not one.
    """
    position = _first_position(query)
    has_filter = bool(query.tool or (query.tenant and query.statuses))
    window = query.limit + 1
    found: list[_Row] = []
    while True:
        statement = _Statement(mark, names_index=names_index)
        sql = statement.select(query, position, window)
        rows = await fetch(sql, statement.values)
        found += [row for row in rows if row[2] is not None]
        if len(rows) < window or len(found) > query.limit:
            break
        position = _Position(*rows[-1][:2])
        window = min(4 * window, max(_MAX_WINDOW, query.limit + 1)) if has_filter else window
    page = found[: query.limit]
    more = len(found) > len(page)
    cursor = "{}-{}".format(*page[-1][:2]) if more and page else None
    return RunPage(tuple(build(row[2:]) for row in page), cursor)


def _first_position(query: RunQuery) -> _Position | None:
    """Return the position that the page follows. Raises `UsageError` for a wrong cursor."""
    positions = []
    if query.until_ms is not None:
        # No number is below 0.
        positions.append(_Position(query.until_ms, 0))
    if query.after is not None:
        match = _CURSOR.fullmatch(query.after)
        if match is None:
            msg = (
                f"{query.after!r:.80} is not a cursor of a list of runs; pass `next_cursor` of the "
                "page before as it is"
            )
            raise UsageError(msg)
        positions.append(_Position(int(match[1]), int(match[2])))
    return min(positions, default=None)


class _Statement:
    """A statement that examines some runs, and its values."""

    def __init__(self, mark: str, *, names_index: bool) -> None:
        self._mark = mark
        self._names_index = names_index
        self.values: list[Any] = []

    def select(self, query: RunQuery, position: _Position | None, window: int) -> str:
        """Return the SQL: the start and number of each examined run, and the row of each match."""
        branches = [
            self._branch(index, condition, query, position, window)
            for index, condition in self._indexed(query)
        ]
        examined = " UNION ALL ".join(branches) + _newest(window)
        return (
            "SELECT p.created_ms, p.number, r.run_id, r.filename, r.status, r.created_ms,"  # noqa: S608  # values are bound
            " r.ended_ms, r.rolled_back_ms, r.revision, r.attempts, r.tenant, r.size_bytes,"
            " (SELECT count(*) FROM calls c WHERE c.run=r.number),"
            f" {self._cost()}"
            f" FROM ({examined}) p LEFT JOIN runs r ON r.number=p.number{self._matches(query)}"
            " ORDER BY p.created_ms DESC, p.number DESC"
        )

    def _cost(self) -> str:
        """Return the expression of a run's cost. Usage that is not JSON has no cost."""
        if self._names_index:
            text = "CAST(c.usage AS TEXT)"
            cost = f"CASE WHEN json_valid({text}) THEN json_extract({text}, '$.cost_usd') END"
            hint = " INDEXED BY usage_of_calls"
        else:
            pattern = '"cost_usd":([0-9]+[0-9.]*(?:[eE][+-]?[0-9]+)?)'
            cost = f"substring(encode(c.usage, 'escape') FROM '{pattern}')::float8"
            hint = ""
        return (
            f"(SELECT CASE WHEN count(*)=count({cost}) THEN sum({cost}) END"  # noqa: S608  # our names
            f" FROM calls c{hint} WHERE c.run=r.number AND c.usage IS NOT NULL)"
        )

    def _indexed(self, query: RunQuery) -> Iterator[tuple[str, str]]:
        """Yield indexes, each with the condition that it answers."""
        if query.statuses:
            for status in dict.fromkeys(query.statuses):
                if status == "completed":
                    yield "completed_runs", " AND status='completed'"
                else:
                    yield (
                        "unfinished_runs",
                        f" AND status<>'completed' AND status={self._bind(status)}",
                    )
        elif query.tenant:
            yield "runs_of_tenants", f" AND tenant<>'' AND tenant={self._bind(query.tenant)}"
        else:
            yield "newest_runs", ""

    def _branch(
        self,
        index: str,
        condition: str,
        query: RunQuery,
        position: _Position | None,
        window: int,
    ) -> str:
        hint = f" INDEXED BY {index}" if self._names_index else ""
        if query.since_ms is not None:
            condition += f" AND created_ms>={self._bind(query.since_ms)}"
        if position is not None:
            created, number = self._bind(position.created_ms), self._bind(position.number)
            # The first condition is a bound of every index; the second one may not be.
            condition += (
                f" AND created_ms<={created} AND (created_ms, number)<({created}, {number})"
            )
        # Records of earlier revisions are not listed. PostgreSQL takes NOT LIKE for a condition
        # that few rows match, and would sort all rows instead of reading an index in order.
        is_listed = "CASE WHEN run_id LIKE '%.%' THEN false ELSE true END"
        # Without a limit of its own, PostgreSQL would read all rows of a branch.
        return (
            "SELECT * FROM (SELECT created_ms, number"  # noqa: S608  # our names
            f" FROM runs{hint} WHERE {is_listed}{condition}{_newest(window)}) AS branch"
        )

    def _matches(self, query: RunQuery) -> str:
        """Return the conditions that no index answers."""
        condition = ""
        if query.tenant and query.statuses:
            condition += f" AND r.tenant={self._bind(query.tenant)}"
        if query.tool:
            tool = self._bind(query.tool)
            found = (
                f"EXISTS (SELECT 1 FROM {table} c WHERE c.run=r.number AND c.tool={tool})"  # noqa: S608  # bound
                for table in ("calls", "pending")
            )
            condition += f" AND ({' OR '.join(found)})"
        return condition

    def _bind(self, value: Any) -> str:
        self.values.append(value)
        return f"{self._mark}{len(self.values)}"


def _newest(limit: int) -> str:
    return f" ORDER BY created_ms DESC, number DESC LIMIT {limit:d}"
