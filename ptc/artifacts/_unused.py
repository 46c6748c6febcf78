"""Deletion of artifacts that no recorded run refers to.

Rule 1: a value that any record names, by 16 digits of its digest or more, is not deleted; if one
    record cannot be read, nothing is.
    tests/core/artifacts/test_unused.py::test_only_old_values_that_no_run_names_are_deleted
Rule 2: a value that was stored, or stored again, within two hours is not deleted: the record of its
    run may be on its way.
    tests/core/artifacts/test_unused.py::test_young_value_is_not_deleted
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .._core import _json
from .._core._clock import now_ms
from .._records._stored_file import HANDLE_CHARS
from ..errors import UnknownRunError
from ..journal._journal import Journal, RunRecord
from ._store import ArtifactStore, StoredArtifact

__all__ = ["delete_unused"]

_LEAST_AGE_MS: Final = 2 * 3_600_000
_ALL_RUNS: Final = 2**31 - 1
_HEX: Final = re.compile(rb"[0-9a-f]{16,}")


async def delete_unused(journal: Journal, store: ArtifactStore, before_ms: int) -> int:
    """Delete old values that no run, and no document, in the journal refers to.

    Reads every record, one at a time. All runs that use the store must be in this journal.

    Args:
        journal: The journal.
        store: The store.
        before_ms: Delete values last stored before this time, in milliseconds since 1970; never
            those of the last two hours.

    Returns:
        The number of deleted values.

    Raises:
        JournalError: If a record cannot be read; nothing is deleted then.
        ArtifactError: If the store cannot be read or written.
    """
    limit_ms = min(before_ms, now_ms() - _LEAST_AGE_MS)
    unused = {row.digest[:HANDLE_CHARS].encode(): row.digest for row in await _old(store, limit_ms)}
    for run_id in await journal.find_ids("", _ALL_RUNS) if unused else ():
        try:
            record = await journal.load(run_id)
        except UnknownRunError:
            continue  # deleted meanwhile
        for data in _parts(record):
            _forget_named(unused, data)
    if unused:
        for name in journal.documents.names():
            found = journal.documents.read(name)
            _forget_named(unused, b"" if found is None else _json.dumps(found.data))
    deleted = 0
    for digest in unused.values():
        deleted += await store.delete(digest, before_ms=limit_ms)
    return deleted


async def _old(store: ArtifactStore, before_ms: int) -> list[StoredArtifact]:
    found: list[StoredArtifact] = []
    while page := await store.list_older(before_ms, after=found[-1].digest if found else ""):
        found += page
    return found


def _parts(record: RunRecord) -> Iterator[bytes]:
    run = record.run
    yield from (run.source.encode(errors="replace"), run.inputs, run.options, run.result or b"")
    for call in record.calls:
        yield call.arguments
        if call.end is not None:
            yield call.end.body
    for pending in record.pending:
        yield pending.details
    for decision in record.decisions:
        yield decision.value


def _forget_named(unused: dict[bytes, str], data: bytes) -> None:
    """Remove the values that `data` names, at any place of a longer text, from `unused`."""
    for token in _HEX.findall(data) if unused else ():
        for start in range(len(token) - HANDLE_CHARS + 1):
            unused.pop(token[start : start + HANDLE_CHARS], None)
