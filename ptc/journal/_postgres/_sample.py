"""Numbers of the queue in PostgreSQL."""

from __future__ import annotations

from typing import Any, Final

from .._sample import QueueSample, TenantSample

__all__ = ["read_sample"]

_ENTRIES: Final = """
SELECT entrypoint,
  count(*) FILTER (WHERE status='queued'), count(*) FILTER (WHERE status='picked'),
  coalesce(extract(epoch FROM now() - min(greatest(created, execute_after))
    FILTER (WHERE status='queued' AND execute_after <= now())), 0)::float8
FROM queue_entries GROUP BY entrypoint
"""
_UNKNOWN: Final = """
SELECT count(*) FROM runs r JOIN pending p ON p.run=r.number
WHERE r.status='paused' AND r.rolled_back_ms IS NULL AND p.kind='unknown'
  AND NOT EXISTS (SELECT 1 FROM verdicts v WHERE v.run=p.run AND v.path=p.path AND v.kind=p.kind)
"""
_DEAD: Final = "SELECT count(*) FROM runs WHERE status='dead'"
_INSTALLED: Final = "SELECT to_regclass('queue_entries') IS NOT NULL"


async def read_sample(connection: Any) -> QueueSample:
    """Read the numbers of the queue; its tables need not exist yet."""
    rows = await connection.fetch(_ENTRIES) if await connection.fetchval(_INSTALLED) else ()
    tenants: dict[str, TenantSample] = {}
    for entrypoint, queued, running, oldest in rows:
        # `tenant/toolset`. Grouped here: a function of the text triples the time of the query.
        name = entrypoint.rpartition("/")[0]
        other = tenants.get(name, TenantSample(name, 0, 0, 0))
        tenants[name] = TenantSample(
            name, other.queued + queued, other.running + running, max(other.oldest_seconds, oldest)
        )
    return QueueSample(
        tuple(tenants.values()),
        await connection.fetchval(_UNKNOWN),
        await connection.fetchval(_DEAD),
    )
