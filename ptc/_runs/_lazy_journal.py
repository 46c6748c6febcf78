"""The journal of a session, opened on first use."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Self, TypeAlias, TypeGuard

import anyio

from .._core._arguments import path_of, require
from .._core._threads import complete_in_thread
from ..errors import JournalError
from ..journal._address import is_address
from ..journal._journal import Journal
from ..journal._location import check_journal, default_journal
from ..journal._open import ClosedAtOnce, open_journal

__all__ = ["JournalSource", "LazyJournal"]

JournalSource: TypeAlias = str | Path | Journal
"""Path of a file, ``:memory:``, address of a server, or a journal."""
_log = logging.getLogger("ptc")


class LazyJournal:
    """A journal that is opened when it is first needed."""

    def __init__(
        self, source: JournalSource | Callable[[], Path] | None, *, required: bool = True
    ) -> None:
        """Configure the journal without opening it.

        Args:
            source: Path of the file, or a function that returns it or raises `JournalError`; or the
                address of a server, or a journal, which stays open. None: memory.
            required: False: if the file cannot be created, runs are recorded in memory, with a
                warning.
        """
        self.source: JournalSource | Callable[[], Path] | None = source
        self._required = required
        self._journal: Journal | None = None
        self._closed = False
        self._opening = threading.Lock()
        self.warning: str | None = None
        """Reason that runs are recorded in memory only; None if they are in the file."""

    @classmethod
    def of_session(
        cls, root: Path, journal: JournalSource | None, *, in_root: bool, writers: Iterable[str]
    ) -> Self:
        """Configure the journal of a session; the arguments are those of `Session`.

        Args:
            root: As for `Session`.
            journal: As for `Session`.
            in_root: ``journal_in_root`` of `Session`.
            writers: Names of tools with side effects, and of sources of tools that are not known
                yet.

        Raises:
            UsageError: If an argument is wrong, or a tool could change the journal.
        """
        require("journal_in_root", in_root, bool, "True or False")
        names = [] if in_root else list(writers)
        source: JournalSource | Callable[[], Path] | None = None
        if journal is None:
            source = partial(default_journal, root, names)
        elif is_address(journal) or _is_journal(journal):
            source = journal
        elif journal != ":memory:":
            path = path_of("journal", journal)  # type: ignore[arg-type]  # checked there
            check_journal(root, path, names)
            source = path
        return cls(source, required=journal is not None)

    @property
    def is_durable(self) -> bool:
        """True if runs are recorded in a file, as far as is known."""
        return self.source is not None and self.warning is None

    @property
    def journal(self) -> Journal:
        """The journal. Raises `JournalError` if it cannot be opened.

        Opens it if necessary, which may wait for a disk: in the event loop, `open` comes first.
        """
        if self._journal is None:
            # Tools in threads use its documents.
            with self._opening:
                self._journal = self._journal or self._create()
        return self._journal

    async def open(self) -> Journal:
        """Return the journal, which is opened if necessary. Raises `JournalError` on failure."""
        if self._journal is None:
            if self._closed:
                msg = "the journal is closed"
                raise JournalError(msg)
            return await complete_in_thread(self._open_in_thread)
        return self._journal

    def _open_in_thread(self) -> Journal:
        journal = self.journal
        if self._closed and isinstance(journal, ClosedAtOnce) and journal is not self.source:
            # The task that opened it was cancelled, and `close` did not see it.
            journal.close_now()
        return journal

    def _create(self) -> Journal:
        try:
            source = self.source() if callable(self.source) else self.source
            if source is None or isinstance(source, str | Path):
                return open_journal(source)
            return source
        except JournalError as error:
            if self._required:
                raise
            self.warning = f"runs are recorded in memory and cannot be resumed later: {error}"
            _log.warning("%s", self.warning)
            return open_journal(None)

    def refuse(self) -> None:
        """Open the journal no more."""
        self._closed = True

    async def close(self) -> None:
        """Write all pending entries and close the file. The journal of a caller stays open."""
        self._closed = True
        with anyio.CancelScope(shield=True):
            if self._journal is not None and self._journal is not self.source:
                await self._journal.close()


def _is_journal(given: object) -> TypeGuard[Journal]:
    return all(callable(getattr(given, name, None)) for name in ("append", "barrier", "load"))
