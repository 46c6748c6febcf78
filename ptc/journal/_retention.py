"""Deletion of old runs from a journal file, and the return of its unused pages."""

from __future__ import annotations

from typing import Final

from ._continuable import archived_numbers
from ._database import Database
from ._statements import OLDEST_ENDED, TABLES_OF_RUNS

__all__ = ["delete_oldest", "reclaim_space"]

_PAGES: Final = 64
"""Pages that one transaction returns, in some 40 ms."""
_UNUSED: Final = 4
"""One page of so many may be unused, for new runs."""
_INCREMENTAL: Final = 2
"""Value of ``PRAGMA auto_vacuum``."""


def delete_oldest(db: Database, before: tuple[int, int], limit: int) -> int:
    """As `Journal.delete_ended`.

    Args:
        db: The file.
        before: End and number that the runs precede.
        limit: Runs at most.
    """
    with db.errors("written"), db.lock:
        # Another transaction syncs the file in time: a deletion that is lost is repeated.
        db.set_synchronous("NORMAL")
        connection = db.connection
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            rows = connection.execute(OLDEST_ENDED, (*before, limit)).fetchall()
            for number, run_id, revision in rows:
                # An archived record stays until then: its run needs it to repeat no effect.
                for each in (number, *archived_numbers(run_id, revision)):
                    for table in TABLES_OF_RUNS:
                        connection.execute(f"DELETE FROM {table} WHERE run=?", (each,))  # noqa: S608  # our names
                    connection.execute("DELETE FROM runs WHERE number=?", (each,))
    return len(rows)


def reclaim_space(db: Database, *, whole: bool) -> bool:
    """As `Journal.reclaim_space`.

    A file of an earlier version cannot return single pages. With `whole`, it is written anew, and
    no other process can write meanwhile; afterwards it can return them.
    """
    with db.errors("written"), db.lock:
        mode, unused, pages = (
            db.fetch_one(f"PRAGMA {name}", ())[0]
            for name in ("auto_vacuum", "freelist_count", "page_count")
        )
        if mode != _INCREMENTAL:
            if whole:
                db.connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
                db.connection.execute("VACUUM")
            return False
        if unused == 0 or (not whole and unused * _UNUSED < pages):
            return False
        # Each step returns a page, and before Python 3.12 `execute` takes one step only.
        db.connection.executescript(f"PRAGMA incremental_vacuum({_PAGES})")
        if unused <= _PAGES:
            db.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        return bool(unused > _PAGES)
