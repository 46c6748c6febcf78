"""Records of the earlier revisions of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..errors import DamagedRunError, UnknownRunError
from ..journal._continuable import archived_id
from ..journal._journal import CallRow, DecisionRow, Journal, RunRecord, RunRow

__all__ = ["load_earlier", "with_earlier_effects"]


async def load_earlier(journal: Journal, run: RunRow) -> list[RunRecord]:
    """Load the records of the earlier revisions of a run, the oldest first.

    Raises:
        DamagedRunError: If one is missing. Without it, effects that it records would be repeated.
    """
    try:
        return [
            await journal.load(archived_id(run.run_id, revision))
            for revision in range(1, run.revision)
        ]
    except UnknownRunError as error:
        msg = f"run {run.run_id!r} is damaged: the record of an earlier revision is missing"
        raise DamagedRunError(msg) from error


def with_earlier_effects(recorded: RunRecord, earlier: Sequence[RunRecord]) -> RunRecord:
    """Add the effects that only earlier revisions made, at paths such as ``1:3`` for revision 1."""
    calls: list[CallRow] = list(recorded.calls)
    decisions: list[DecisionRow] = list(recorded.decisions)
    known = {row.key for row in recorded.calls if not _is_unstarted(row)}
    for record in reversed(earlier):
        found = [
            row
            for row in record.calls
            if row.side_effect and row.key not in known and not _is_unstarted(row)
        ]
        known.update(row.key for row in found)
        paths = {row.path: f"{record.run.revision}:{row.path}" for row in found}
        calls += [row._replace(path=paths[row.path]) for row in found]
        decisions += [replace(d, path=paths[d.path]) for d in record.decisions if d.path in paths]
    return replace(recorded, calls=tuple(calls), decisions=tuple(decisions))


def _is_unstarted(row: CallRow) -> bool:
    return row.end is not None and row.end.status == "not_started"
