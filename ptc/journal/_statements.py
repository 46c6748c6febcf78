"""SQL of the journal in SQLite, for the values of `_writes`."""

from __future__ import annotations

from typing import Final

from ._writes import CALL_COLUMNS, EVENT_COLUMNS, RUN_COLUMNS, Kind

__all__ = ["SQL"]

ACQUIRE: Final = (
    "UPDATE runs SET owner=?, epoch=?, options=coalesce(?, options),"
    " engine=CASE WHEN engine='' THEN ? ELSE engine END,"
    " attempts=CASE WHEN status='paused' THEN 1 ELSE attempts+1 END,"
    " size_bytes=max(0, size_bytes-coalesce(length(result), 0)),"
    " status='running', result=NULL, ended_ms=NULL WHERE number=?"
)
ARCHIVE: Final = (
    f"INSERT INTO runs(number, {RUN_COLUMNS}, epoch)"  # noqa: S608  # our names
    " SELECT ?, ?, source, filename, inputs, options, seed, clock, created_ms,"
    " CASE WHEN status IN ('running', 'paused') THEN 'cancelled' ELSE status END,"
    " result, coalesce(ended_ms, ?), NULL, revision, attempts, tenant, size_bytes, engine, epoch"
    " FROM runs WHERE number=?"
)
REVISE: Final = (
    "UPDATE runs SET owner=?, epoch=?, source=?, filename=?, options=?,"
    " revision=revision+1, attempts=1, status='running', result=NULL, ended_ms=NULL"
    " WHERE number=?"
)
TABLES_OF_RUNS: Final = ("calls", "ticks", "pending", "verdicts", "reverts", "events")
ACQUIRE_FOR_ROLLBACK: Final = (
    "UPDATE runs SET owner=?, epoch=?, rolled_back_ms=coalesce(rolled_back_ms, ?),"
    " ended_ms=coalesce(ended_ms, ?),"
    " status=CASE WHEN status IN ('running', 'paused') THEN 'cancelled' ELSE status END"
    " WHERE number=?"
)
_CALL_VALUES: Final = "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
_SPEND: Final = "UPDATE OR REPLACE {} SET kind=? WHERE run=? AND path=? AND kind='unknown'"

SQL: Final[dict[Kind, tuple[str, ...]]] = {
    "start_run": (
        f"INSERT INTO runs(number, {RUN_COLUMNS}, owner, epoch)"
        " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,1) ON CONFLICT DO NOTHING",
    ),
    "end_run": (
        "UPDATE runs SET status=?, result=?, ended_ms=?, size_bytes=size_bytes+?, owner=NULL"
        " WHERE number=?",
    ),
    "release": ("UPDATE runs SET size_bytes=size_bytes+?, owner=NULL WHERE number=?",),
    "call": (f"INSERT OR REPLACE INTO calls({CALL_COLUMNS}) VALUES {_CALL_VALUES}",),  # noqa: S608  # our names
    "tick": ("INSERT INTO ticks VALUES(?,?,?)",),
    "pending": ("INSERT OR REPLACE INTO pending VALUES(?,?,?,?,?,?,?)",),
    "decision": ("INSERT OR IGNORE INTO verdicts VALUES(?,?,?,?,?,?,?,?)",),
    "revert": ("INSERT OR REPLACE INTO reverts VALUES(?,?,?,?,?,?)",),
    "event": (f"INSERT OR IGNORE INTO events({EVENT_COLUMNS}) VALUES(?,?,?,?,?)",),
    # The used decision stays in the file for audits; `load` does not return it.
    "used": (_SPEND.format("verdicts"), _SPEND.format("pending")),
}
ROWS_AT_ONCE: Final = 50
"""Calls in one statement: sqlite3 releases the interpreter lock for each statement, and acquiring
it from a busy event loop takes longer than the insert."""
MANY_CALLS: Final = SQL["call"][0] + f",{_CALL_VALUES}" * (ROWS_AT_ONCE - 1)
"""The statement of ``call`` for `ROWS_AT_ONCE` calls."""
FAILED: Final = (
    "SELECT {} FROM runs INDEXED BY failed_runs WHERE ended_ms>=?"
    " AND status IN ('failed', 'crashed', 'timed_out', 'limit_exceeded')"
    " AND rolled_back_ms IS NULL AND instr(run_id, '.')=0 ORDER BY ended_ms DESC LIMIT ?"
)
ENDED: Final = (
    "SELECT ended_ms, number, size_bytes FROM runs INDEXED BY ended_runs"
    " WHERE ended_ms IS NOT NULL AND instr(run_id, '.')=0{}"
    " ORDER BY ended_ms DESC, number DESC LIMIT ?1"
)
OLDEST_ENDED: Final = (
    "SELECT number, run_id, revision FROM runs INDEXED BY ended_runs"
    " WHERE ended_ms IS NOT NULL AND instr(run_id, '.')=0"
    " AND (ended_ms, number)<(?, ?) ORDER BY ended_ms, number LIMIT ?"
)
_HAD_EFFECT: Final = "side_effect AND status IN ('succeeded', 'started', 'unknown')"
REPEATED: Final = (
    f"SELECT r.run_id, c.tool FROM ({FAILED.format('number, run_id, ended_ms')}) r"  # noqa: S608
    f" JOIN calls c ON c.run=r.number WHERE c.{_HAD_EFFECT.replace(' status', ' c.status')}"
    " AND (c.tool, c.arguments) IN (SELECT tool, arguments FROM calls"
    f" WHERE run=(SELECT number FROM runs WHERE run_id=?) AND {_HAD_EFFECT})"
    " ORDER BY r.ended_ms DESC, c.rowid LIMIT ?"
)
EVENTS: Final = (
    "SELECT e.number, r.revision, e.kind, e.at_ms, e.body FROM events e, runs r"
    " WHERE r.run_id=? AND e.run=r.number AND e.number>? ORDER BY e.number LIMIT ?"
)
UNDECIDED: Final = (
    "SELECT r.run_id, p.path, p.kind, p.tool, p.fingerprint, p.details, p.at_ms"
    " FROM runs r JOIN pending p ON p.run=r.number"
    " WHERE r.status='paused' AND r.rolled_back_ms IS NULL AND p.kind IN ('approval', 'unknown')"
    " AND NOT EXISTS (SELECT 1 FROM verdicts v"
    " WHERE v.run=p.run AND v.path=p.path AND v.kind=p.kind)"
    " ORDER BY p.at_ms, p.rowid"
)
"""Reads paused runs only, by the index `paused_runs`, however many runs there are."""
