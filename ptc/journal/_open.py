"""Open a journal by its file or its address."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ..errors import SetupError
from ._address import EMBEDDED, is_address

if TYPE_CHECKING:
    from ._journal import Journal

__all__ = ["ClosedAtOnce", "open_journal"]


@runtime_checkable
class ClosedAtOnce(Protocol):
    """Interface of the journals that `open_journal` opens, beside `Journal`."""

    def close_now(self) -> None:
        """As `Journal.close`, for callers without an event loop."""


def open_journal(
    source: str | Path | None, *, schema: str = "ptc", lease_seconds: float | None = None
) -> Journal:
    """Open a journal, and create its file or its tables if they are missing.

    Args:
        source: Path of a SQLite file, or an address such as ``postgresql://user@host/database``,
            which needs the extra ``ptc-host[postgres]``. ``embedded:`` and ``embedded:FOLDER``
            start a server on this machine, and need ``ptc-host[embedded]``. None: in memory, lost
            when it is closed.
        schema: Schema of the tables in PostgreSQL.
        lease_seconds: Of a server: time without a heartbeat after which others may resume the runs
            of this process. None: 15 seconds.

    Raises:
        SetupError: If the package for a server is not installed.
        UsageError: If an address is malformed.
        JournalError: If it cannot be opened, is damaged, or was made by a later version.
    """
    if not isinstance(source, str) or not is_address(source):
        from ._sqlite import SqliteJournal

        return SqliteJournal(None if source is None else Path(source))
    if importlib.util.find_spec("asyncpg") is None:
        msg = "a journal in PostgreSQL needs asyncpg: pip install 'ptc-host[postgres]'"
        raise SetupError(msg)
    from ._postgres._journal import LEASE_SECONDS, PostgresJournal

    seconds = lease_seconds or LEASE_SECONDS
    if not source.startswith(EMBEDDED):
        return PostgresJournal(source, schema=schema, lease_seconds=seconds)
    from ._postgres._embedded import EmbeddedServer

    server = EmbeddedServer.acquire(source)
    try:
        return PostgresJournal(server.url, schema=schema, lease_seconds=seconds, embedded=server)
    except BaseException:
        server.release()
        raise
