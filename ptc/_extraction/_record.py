"""Progress of an extraction as a document of the journal, for the page of `ptc ui` and others.

The rows stay in the output file: the record says where that is, and how far the extraction has
come. An extraction is its output file, so continuing one continues its record.

Rule 1: a record that cannot be written never fails the extraction.
    tests/core/extraction/test_record.py::test_journal_that_fails_does_not_fail_the_extraction
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio
import anyio.to_thread

from .._core._background import running
from .._core._clock import now_ms
from ..errors import PtcError
from ..journal._documents import Document, Documents
from ._options import Plan
from ._row import ExtractionReport

__all__ = ["BEAT_MS", "PREFIX", "OpenDocuments", "record_name", "recording"]

PREFIX: Final = "ptc/extractions/"
BEAT_MS: Final = 5_000
"""A running extraction writes its record at least this often."""
_SECONDS: Final = 1.0
_LAST_SECONDS: Final = 5.0
"""Time that the last write may take; the rows are on the disk by then."""
_VOLATILE: Final = ("seconds", "waiting_s", "waited_s")
_log = logging.getLogger("ptc")

OpenDocuments: TypeAlias = Callable[[], Awaitable[Documents]]
"""Opens the journal and returns its documents."""


def record_name(output: Path) -> str:
    """Return the name of the document of an output file on this machine."""
    place = f"{platform.node()}\0{output.resolve()}"
    return PREFIX + hashlib.sha256(os.fsencode(place)).hexdigest()[:24]


@asynccontextmanager
async def recording(
    open_documents: OpenDocuments | None,
    plan: Plan,
    model: str,
    read: Callable[[], ExtractionReport],
) -> AsyncIterator[None]:
    """Record the progress while the block is executed.

    Args:
        open_documents: Opens the documents. None: nothing is recorded.
        plan: The options. Without an output file, nothing is recorded.
        model: Name of the model.
        read: Returns the state.
    """
    if open_documents is None or plan.output is None:
        yield
        return
    record = _Record(open_documents, plan, plan.output, model, read)
    try:
        async with running(record.follow):
            yield
    finally:
        with anyio.move_on_after(_LAST_SECONDS, shield=True):
            await record.write(ended=True)


class _Record:
    """The document of one extraction."""

    def __init__(
        self,
        open_documents: OpenDocuments,
        plan: Plan,
        output: Path,
        model: str,
        read: Callable[[], ExtractionReport],
    ) -> None:
        self._open = open_documents
        self._read = read
        self._name = record_name(output)
        self._failed = False
        self._last: Any = None
        self._written_ms = 0
        self._head = {
            "output": str(output.resolve()),
            "host": platform.node(),
            "process": os.getpid(),
            "model": model,
            "schema": plan.contract.name,
            "settings": plan.digest(),
            "merge_keys": {path: list(names) for path, names in plan.merge_keys.items()},
            "started_ms": now_ms(),
        }

    async def follow(self) -> None:
        """Write the state when it has changed, until cancelled."""
        while not self._failed:
            await self.write(ended=False)
            await anyio.sleep(_SECONDS)

    async def write(self, *, ended: bool) -> None:
        """Write the state, if it has changed or the last write is long ago."""
        report = self._read()
        state = {
            item.name: getattr(report, item.name)
            for item in fields(report)
            if item.name not in _VOLATILE
        }
        is_due = now_ms() - self._written_ms >= BEAT_MS
        if self._failed or not (ended or is_due or state != self._last):
            return
        usage, batches = asdict(report.usage), report.batches
        data = {
            **self._head,
            **state,
            "usage": usage,
            "batches": None if batches is None else asdict(batches),
            "errors": dict(report.errors),
            "updated_ms": now_ms(),
            "ended_ms": now_ms() if ended else None,
        }
        self._last, self._written_ms = state, now_ms()
        try:
            documents = await self._open()
            await anyio.to_thread.run_sync(_replace, documents, self._name, data)
        except (PtcError, OSError) as error:
            self._failed = True
            _log.warning("the progress of the extraction is not recorded: %s", error)


def _replace(documents: Documents, name: str, data: dict[str, Any]) -> None:
    def replace(_: Document | None) -> dict[str, Any]:
        return data

    documents.change(name, replace)
