"""SQL of the journal in PostgreSQL."""

from __future__ import annotations

from typing import Final

from .._journal import REPLAYABLE
from .._writes import CALL_COLUMNS, RUN_COLUMNS

__all__ = [
    "ACQUIRE",
    "ACQUIRE_FOR_ROLLBACK",
    "ALIVE",
    "ARCHIVE",
    "DECIDE",
    "DELETE",
    "ENDED",
    "EVENTS",
    "FAILED",
    "HEARTBEAT",
    "IS_DECIDED",
    "LOCK_NUMBER",
    "LOCK_RUN",
    "POSITION",
    "RELEASE_FAILED",
    "REPEATED",
    "REVISE",
    "STATE",
    "TABLES",
    "TABLES_OF_RUNS",
    "TAKE_BACK",
    "UNDECIDED",
]

ALIVE: Final = (
    "EXISTS (SELECT 1 FROM workers w WHERE w.worker=r.owner"
    " AND greatest(w.alive, pg_postmaster_start_time())"
    " > clock_timestamp() - make_interval(secs => w.lease_seconds))"
)
"""While the server is away, no worker can send a heartbeat: a lease outlives its start by as long.
"""
_STATUSES: Final = ", ".join(f"'{status}'" for status in REPLAYABLE)
ACQUIRE: Final = f"""
WITH acquired AS (UPDATE runs r SET owner=$2, epoch=r.epoch+1, options=coalesce($4, r.options),
  engine=CASE WHEN r.engine='' THEN $5 ELSE r.engine END,
  attempts=CASE WHEN r.status IN ('paused', 'queued') THEN 1 ELSE r.attempts+1 END,
  size_bytes=greatest(0, r.size_bytes-coalesce(length(r.result), 0)),
  status='running', result=NULL, ended_ms=NULL
WHERE r.run_id=$1 AND r.rolled_back_ms IS NULL AND r.status IN ({_STATUSES})
  AND ($3::int IS NULL OR r.status='paused' OR r.attempts<$3) AND strpos(r.run_id, '.')=0
  AND (r.owner IS NULL OR NOT {ALIVE})
  RETURNING r.number, r.epoch
), served AS (UPDATE submissions s SET cancel=FALSE FROM acquired a JOIN runs r USING (number)
  WHERE s.run=a.number AND s.cancel AND r.status='cancelled'
)
SELECT number, epoch FROM acquired
"""  # noqa: S608  # our names
"""Deletes the request that cancelled the run, if its worker died before it could do that. The
statement reads the status before its update."""
LOCK_RUN: Final = (
    f"SELECT r.status, r.rolled_back_ms, r.revision, r.owner IS NOT NULL AND {ALIVE}, r.number,"  # noqa: S608
    " r.owner, r.epoch"
    " FROM runs r WHERE r.run_id=$1 FOR UPDATE"
)
ARCHIVE: Final = f"""
INSERT INTO runs(number, {RUN_COLUMNS}, epoch)
SELECT $2, $3, source, filename, inputs, options, seed, clock, created_ms,
  CASE WHEN status IN ('running', 'paused') THEN 'cancelled' ELSE status END,
  result, coalesce(ended_ms, $4), NULL, revision, attempts, tenant, size_bytes, engine, epoch
FROM runs WHERE number=$1
"""  # noqa: S608  # our names
REVISE: Final = """
UPDATE runs SET owner=$2, epoch=epoch+1, source=$3, filename=$4, options=$5,
  revision=revision+1, attempts=1, status='running', result=NULL, ended_ms=NULL
WHERE number=$1 RETURNING epoch
"""
ACQUIRE_FOR_ROLLBACK: Final = f"""
UPDATE runs r SET owner=$2, epoch=r.epoch+1, rolled_back_ms=coalesce(r.rolled_back_ms, $3),
  ended_ms=coalesce(r.ended_ms, $3),
  status=CASE WHEN r.status IN ('running', 'paused') THEN 'cancelled' ELSE r.status END
WHERE r.run_id=$1 AND (r.owner IS NULL OR NOT {ALIVE})
RETURNING r.number, r.epoch
"""  # noqa: S608  # our names
TAKE_BACK: Final = (
    "UPDATE runs SET owner=NULL, attempts=greatest(attempts-1, 0) WHERE run_id=$1 AND owner=$2"
    " RETURNING 1"
)
"""Release a run that a worker owns by the table alone; that start of it does not count."""
RELEASE_FAILED: Final = (
    "UPDATE runs r SET owner=NULL FROM unnest($2::bigint[], $3::int[]) AS l(number, epoch)"
    " WHERE r.number=l.number AND r.epoch=l.epoch AND r.owner=$1"
)
LOCK_NUMBER: Final = "SELECT number FROM runs WHERE run_id=$1 FOR UPDATE"
IS_DECIDED: Final = (
    "SELECT 1 FROM verdicts WHERE run=$1 AND path=$2 AND split_part(kind, ' ', 1)=$3 AND action=$4"
    " AND value=$5 AND decided_by=$6 AND comment=$7 AND at_ms=$8"
)
"""The kind of a decision that was used has a number after it."""
DECIDE: Final = (
    "INSERT INTO verdicts VALUES($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING RETURNING 1"
)
POSITION: Final = (
    "SELECT greatest(coalesce((SELECT max(place) FROM calls WHERE run=$1), 0),"
    " coalesce((SELECT max(place) FROM ticks WHERE run=$1), 0))"
)
STATE: Final = (
    "SELECT r.status, r.rolled_back_ms, r.attempts, r.owner, w.description FROM runs r"
    " LEFT JOIN workers w ON w.worker=r.owner WHERE r.run_id=$1"
)
HEARTBEAT: Final = (
    "INSERT INTO workers VALUES($1, clock_timestamp(), $2, $3)"
    " ON CONFLICT (worker) DO UPDATE SET alive=clock_timestamp()"
)
TABLES_OF_RUNS: Final = ("calls", "ticks", "pending", "verdicts", "reverts", "events")
TABLES: Final = (
    f"SELECT {CALL_COLUMNS} FROM calls WHERE run=$1",  # noqa: S608  # our names
    "SELECT place, elapsed FROM ticks WHERE run=$1",
    "SELECT path, kind, tool, fingerprint, details, at_ms FROM pending WHERE run=$1"
    " AND kind IN ('approval', 'unknown') ORDER BY sequence",
    "SELECT path, kind, action, value, decided_by, comment, at_ms FROM verdicts WHERE run=$1"
    " AND kind IN ('approval', 'unknown')",
    "SELECT path, status, attempt, error, at_ms FROM reverts WHERE run=$1 ORDER BY sequence",
    "SELECT coalesce(max(number), 0), count(*), coalesce(sum(length(body)), 0)::bigint,"
    " coalesce(bool_or(kind='left_out'), false) FROM events WHERE run=$1",
)
EVENTS: Final = """
SELECT e.number, r.revision, e.kind, e.at_ms, e.body FROM events e JOIN runs r ON e.run=r.number
WHERE r.run_id=$1 AND e.number>$2 ORDER BY e.number LIMIT $3
"""
UNDECIDED: Final = """
SELECT r.run_id, p.path, p.kind, p.tool, p.fingerprint, p.details, p.at_ms
FROM runs r JOIN pending p ON p.run=r.number
WHERE r.status='paused' AND r.rolled_back_ms IS NULL AND p.kind IN ('approval', 'unknown')
  AND NOT EXISTS (SELECT 1 FROM verdicts v WHERE v.run=p.run AND v.path=p.path AND v.kind=p.kind)
ORDER BY p.at_ms, p.sequence
"""
ENDED: Final = (
    "SELECT ended_ms, number, size_bytes FROM runs"
    " WHERE ended_ms IS NOT NULL AND strpos(run_id, '.')=0{}"
    " ORDER BY ended_ms DESC, number DESC LIMIT $1"
)
FAILED: Final = (
    "SELECT {} FROM runs WHERE ended_ms>=$1"
    " AND status IN ('failed', 'crashed', 'timed_out', 'limit_exceeded')"
    " AND rolled_back_ms IS NULL AND strpos(run_id, '.')=0 ORDER BY ended_ms DESC LIMIT $2"
)
REPEATED: Final = f"""
SELECT r.run_id, c.tool FROM ({FAILED.format("number, run_id, ended_ms")}) r
JOIN calls c ON c.run=r.number
WHERE c.side_effect AND c.status IN ('succeeded', 'started', 'unknown')
  AND (c.tool, c.arguments) IN (
    SELECT tool, arguments FROM calls WHERE run=(SELECT number FROM runs WHERE run_id=$3)
    AND side_effect AND status IN ('succeeded', 'started', 'unknown'))
ORDER BY r.ended_ms DESC, c.started_ms LIMIT $2
"""  # noqa: S608  # our names
DELETE: Final = """
WITH ended AS (
  SELECT run_id, revision FROM runs
  WHERE ended_ms IS NOT NULL AND strpos(run_id, '.')=0 AND (ended_ms, number)<($1::bigint, $2)
  ORDER BY ended_ms, number LIMIT $3
  FOR UPDATE SKIP LOCKED  -- a run that is being resumed stays
), old AS (
  DELETE FROM runs WHERE run_id IN (
    SELECT run_id FROM ended
    UNION ALL SELECT run_id || '.' || n FROM ended, generate_series(1, revision-1) AS n)
  RETURNING number
), c AS (DELETE FROM calls WHERE run IN (SELECT number FROM old)),
t AS (DELETE FROM ticks WHERE run IN (SELECT number FROM old)),
p AS (DELETE FROM pending WHERE run IN (SELECT number FROM old)),
v AS (DELETE FROM verdicts WHERE run IN (SELECT number FROM old)),
x AS (DELETE FROM reverts WHERE run IN (SELECT number FROM old)),
e AS (DELETE FROM events WHERE run IN (SELECT number FROM old))
SELECT count(*) FROM ended
"""
"""An archived record is deleted with its run, which needs it to repeat no effect."""
