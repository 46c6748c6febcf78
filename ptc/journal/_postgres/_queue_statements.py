"""SQL of the queue, beside that of PgQueuer."""

from __future__ import annotations

from typing import Final

from .._writes import RUN_COLUMNS
from ._statements import ALIVE

__all__ = [
    "ANNOUNCE",
    "BURY",
    "BY_PRIORITY",
    "CANCELS",
    "DECIDED",
    "DEMAND",
    "DRAIN",
    "ENDS",
    "GIVE_UP",
    "INSERT_RUNS",
    "INSERT_SUBMISSIONS",
    "INSERT_TOOLSETS",
    "LOCK_LENGTHS",
    "LOCK_TENANTS",
    "LOST",
    "NO_CANCEL",
    "QUEUED",
    "RELEASE",
    "REMOVE",
    "ROWS",
    "SHORT_TIMEOUTS",
    "SORT",
    "SPEND",
    "START",
    "TENANTS",
    "TIDY",
    "TOOLSETS",
    "TRY_TIDY",
    "UNSERVED",
    "WORKERS",
]

_TYPES: Final = (
    *("bigint", "text", "bytea", "text", "bytea", "bytea", "bigint", "float8", "bigint", "text"),
    *("bytea", "bigint", "bigint", "int", "int", "text", "bigint", "text"),
)
_ARRAYS: Final = ", ".join(f"${index}::{kind}[]" for index, kind in enumerate(_TYPES, 1))
INSERT_RUNS: Final = f"""
INSERT INTO runs(number, {RUN_COLUMNS}, owner, epoch)
SELECT t.*, NULL, 0 FROM unnest({_ARRAYS}) AS t ON CONFLICT DO NOTHING RETURNING run_id
"""  # noqa: S608  # our names
INSERT_TOOLSETS: Final = (
    "INSERT INTO toolsets SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING"
)
INSERT_SUBMISSIONS: Final = """
INSERT INTO submissions(run, run_id, entrypoint, tenant, toolset, priority, not_before)
SELECT s.number, s.run_id, s.entrypoint, s.tenant, s.toolset, s.priority,
  CASE WHEN s.delay_ms > 0 THEN clock_timestamp() + make_interval(secs => s.delay_ms / 1000.0) END
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::int[], $7::bigint[])
  AS s(number, run_id, entrypoint, tenant, toolset, priority, delay_ms)
"""
_NAMES: Final = """
WITH RECURSIVE names AS (
  (SELECT entrypoint FROM queue_entries WHERE status='queued' ORDER BY entrypoint LIMIT 1)
  UNION ALL
  SELECT (SELECT q.entrypoint FROM queue_entries q
    WHERE q.status='queued' AND q.entrypoint > names.entrypoint ORDER BY q.entrypoint LIMIT 1)
  FROM names WHERE names.entrypoint IS NOT NULL
)"""
"""Names with queued entries. Reads one entry of the index for each, however many runs wait."""
QUEUED: Final = f"""{_NAMES}
SELECT count(*) FROM (SELECT 1 FROM queue_entries WHERE status='queued' AND entrypoint IN
  (SELECT entrypoint FROM names WHERE $1::text IS NULL OR starts_with(entrypoint, $1 || '/'))
  LIMIT $2) AS waiting
"""  # noqa: S608  # our names
DEMAND: Final = f"""{_NAMES}, picked AS (
  SELECT entrypoint, count(*) AS running,
    count(*) FILTER (WHERE heartbeat < now() - make_interval(secs => $2)) AS stale
  FROM queue_entries WHERE queue_manager_id IS NOT NULL GROUP BY entrypoint
)
SELECT coalesce(n.entrypoint, p.entrypoint), coalesce(p.running, 0), coalesce(p.stale, 0),
  (SELECT count(*) FROM (SELECT 1 FROM queue_entries q WHERE q.entrypoint=n.entrypoint
    AND q.status='queued' AND q.execute_after < now() LIMIT $1) AS ready)
FROM (SELECT entrypoint FROM names WHERE entrypoint IS NOT NULL) n
FULL JOIN picked p ON p.entrypoint=n.entrypoint
"""  # noqa: S608  # our names
LOCK_LENGTHS: Final = """
SELECT pg_advisory_xact_lock(hashtext(current_schema() || ' length'), place)
FROM (SELECT DISTINCT hashtext(name) AS place FROM unnest($1::text[]) AS name ORDER BY place) t
"""
LOCK_TENANTS: Final = """
SELECT name, max_running, rate_per_second, burst,
  least(burst, tokens + CASE WHEN rate_per_second IS NULL THEN 0
    WHEN refilled='-infinity' THEN burst
    ELSE rate_per_second * extract(epoch FROM clock_timestamp() - refilled)::float8 END) AS tokens
FROM tenants WHERE name=ANY($1::text[]) ORDER BY name FOR UPDATE
"""
SHORT_TIMEOUTS: Final = (
    "SET LOCAL idle_in_transaction_session_timeout='1s'; SET LOCAL lock_timeout='2s'"
)
SPEND: Final = """
UPDATE tenants t SET tokens=s.tokens, refilled=clock_timestamp()
FROM unnest($1::text[], $2::float8[]) AS s(name, tokens) WHERE t.name=s.name
"""
BY_PRIORITY: Final = """
SELECT entrypoint, count(*) FROM (SELECT entrypoint FROM queue_entries
  WHERE entrypoint=ANY($1::text[]) AND status='queued' AND execute_after < now()
  ORDER BY priority DESC, id LIMIT $2) AS first GROUP BY entrypoint
"""
START: Final = f"""
UPDATE runs r SET owner=$2, epoch=r.epoch+1, status='running', result=NULL, ended_ms=NULL,
  attempts=CASE WHEN o.status='running' THEN r.attempts+1 ELSE 1 END,
  clock=CASE WHEN o.status='queued' THEN extract(epoch FROM clock_timestamp()) ELSE r.clock END,
  engine=CASE WHEN r.engine='' THEN $5 ELSE r.engine END
FROM (SELECT number, status FROM runs WHERE run_id=ANY($1::text[]) FOR UPDATE) AS o
WHERE r.number=o.number AND r.status IN ('queued', 'running', 'paused')
  AND r.rolled_back_ms IS NULL AND (r.owner IS NULL OR NOT {ALIVE}
    OR r.owner=$2 AND NOT r.number=ANY($4::bigint[]))
  AND (r.status<>'running' OR r.attempts<$3)
  AND (r.engine='' OR starts_with(r.engine || ' ', $6 || ' '))
RETURNING r.number, r.epoch, o.status, {", ".join(f"r.{n}" for n in RUN_COLUMNS.split(", "))}
"""  # noqa: S608  # our names
"""Also acquires a run that this worker owns and does not hold: the answer to an earlier round was
lost with the connection."""
ROWS: Final = f"SELECT {RUN_COLUMNS} FROM runs WHERE run_id=ANY($1::text[])"  # noqa: S608
ENDS: Final = f"""
SELECT r.run_id, r.status, r.owner=$2 AS own, r.owner IS NOT NULL AND {ALIVE} AS alive
FROM runs r WHERE r.run_id=ANY($1::text[]) ORDER BY r.number FOR UPDATE OF r
"""  # noqa: S608  # our names
RELEASE: Final = """
UPDATE runs r SET owner=NULL, attempts=greatest(r.attempts-1, 0),
  engine=CASE WHEN EXISTS (SELECT 1 FROM calls WHERE run=r.number)
    OR EXISTS (SELECT 1 FROM ticks WHERE run=r.number)
    OR EXISTS (SELECT 1 FROM events WHERE run=r.number) THEN r.engine ELSE '' END
WHERE r.run_id=ANY($1::text[]) AND r.status='running' AND (r.owner IS NULL OR r.owner=$2)
"""
"""The worker stopped, not the run: that start does not count. A run that received nothing yet can
start on any engine."""
SORT: Final = """
WITH sorted AS (
  UPDATE submissions s SET entrypoint=t.entrypoint, toolset=t.toolset
  FROM unnest($1::text[], $2::text[], $3::text[]) AS t(run_id, entrypoint, toolset)
  WHERE s.run_id=t.run_id
)
UPDATE queue_entries q SET entrypoint=t.entrypoint, status='queued', queue_manager_id=NULL,
  updated=now()
FROM unnest($2::text[], $4::bigint[]) AS t(entrypoint, id) WHERE q.id=t.id
"""
"""Give runs back that other engines have started, under names that only those take."""
GIVE_UP: Final = "UPDATE runs SET owner=NULL WHERE number=ANY($1::bigint[]) AND owner=$2"
DECIDED: Final = """
SELECT DISTINCT r.run_id FROM runs r,
  json_array_elements(convert_from(r.result, 'UTF8')::json -> 'pending') AS p
JOIN LATERAL (SELECT p ->> 'call' AS path, p ->> 'kind' AS kind) AS call ON TRUE
JOIN verdicts v ON v.path=call.path AND v.kind=call.kind
WHERE r.run_id=ANY($1::text[]) AND r.status='paused' AND v.run=r.number
"""
"""Paused runs that can go on: a decision was made while they paused."""
BURY: Final = f"""
UPDATE runs r SET status='dead', result=$2, ended_ms=$3, owner=NULL, epoch=r.epoch+1
WHERE r.run_id=$1 AND r.status IN ('queued', 'running') AND r.rolled_back_ms IS NULL
  AND (r.owner IS NULL OR NOT {ALIVE})
RETURNING 1
"""  # noqa: S608  # our names
TRY_TIDY: Final = "SELECT pg_try_advisory_xact_lock(hashtext(current_schema() || ' queue'))"
TIDY: Final = (
    # A run of the lowest priority is among the highest after some minutes, however many come.
    "UPDATE queue_entries SET priority=priority+1, updated=now() WHERE id IN"
    " (SELECT id FROM queue_entries WHERE status='queued' AND priority<10"
    " AND execute_after < now() AND greatest(updated, execute_after) < now() - interval '10s'"
    " ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED)",
    # Runs of dead workers that no live one can take wait like others, and fill no limit.
    "UPDATE queue_entries SET status='queued', queue_manager_id=NULL, updated=now()"
    " WHERE status='picked' AND heartbeat < now() - make_interval(secs => 3 *"
    " (SELECT coalesce(max(lease_seconds), 15) FROM workers WHERE tools IS NOT NULL))",
    "DELETE FROM queue_log WHERE id IN (SELECT id FROM queue_log"
    " WHERE created < now() - interval '1 day' ORDER BY id LIMIT 5000)",
    "DELETE FROM workers w WHERE w.alive < now() - interval '1 day'"
    " AND NOT EXISTS (SELECT 1 FROM runs WHERE owner=w.worker)",
)
LOST: Final = f"""
SELECT s.run_id, s.entrypoint, s.priority FROM runs r JOIN submissions s ON s.run=r.number
WHERE r.status='running' AND (r.owner IS NULL OR NOT {ALIVE}) AND NOT EXISTS (
  SELECT 1 FROM queue_entries q WHERE q.dedupe_key=s.run_id AND q.status IN ('queued', 'picked'))
LIMIT 100
"""  # noqa: S608  # our names
"""Submitted runs that were continued without the queue, by a process that died."""
ANNOUNCE: Final = "UPDATE workers SET tools=$2, slots=$3, draining=FALSE WHERE worker=$1"
DRAIN: Final = "UPDATE workers SET draining=TRUE WHERE worker=$1"
CANCELS: Final = (
    "SELECT s.run_id FROM submissions s JOIN queue_entries q ON q.dedupe_key=s.run_id"
    " WHERE s.cancel AND q.id=ANY($1::bigint[])"
)
NO_CANCEL: Final = "UPDATE submissions SET cancel=FALSE WHERE run_id=ANY($1::text[]) AND cancel"
REMOVE: Final = (
    "SELECT id FROM queue_entries WHERE dedupe_key=$1 AND status IN ('queued', 'picked')"
)
TOOLSETS: Final = "SELECT digest, tools FROM toolsets WHERE digest=ANY($1::text[])"
TENANTS: Final = """
SELECT t.name, t.max_running, t.rate_per_second, t.burst, t.max_queued,
  coalesce(sum(n.entries) FILTER (WHERE n.status='queued'), 0)::int,
  coalesce(sum(n.entries) FILTER (WHERE n.status='picked'), 0)::int
FROM tenants t LEFT JOIN (
  SELECT regexp_replace(entrypoint, '/[^/]*$', '') AS tenant, status, count(*) AS entries
  FROM queue_entries GROUP BY 1, 2) n ON n.tenant=t.name
GROUP BY t.name ORDER BY t.name
"""
WORKERS: Final = """
SELECT w.worker, w.description, w.slots, w.draining, w.tools,
  (SELECT count(*) FROM queue_entries q WHERE q.queue_manager_id=w.worker::uuid)
FROM workers w WHERE w.tools IS NOT NULL
  AND w.alive > clock_timestamp() - make_interval(secs => w.lease_seconds)
ORDER BY w.description, w.worker
"""
UNSERVED: Final = """
SELECT s.run_id, t.tools FROM queue_entries q JOIN submissions s ON s.run_id=q.dedupe_key
JOIN toolsets t ON t.digest=s.toolset
WHERE q.status='queued' AND NOT s.toolset=ANY($1::text[]) ORDER BY q.id LIMIT $2
"""
