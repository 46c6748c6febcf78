"""The pool of worker processes of a session, for tests that look into it."""

from __future__ import annotations

from ptc import Session
from ptc._workers._pool import Pool

__all__ = ["pool_of"]


def pool_of(session: Session) -> Pool:
    """Return the pool of a session whose engine is `process`."""
    pool = session._pool
    assert isinstance(pool, Pool)
    return pool
