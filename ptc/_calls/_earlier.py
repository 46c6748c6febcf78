"""Calls that earlier revisions of a run made, for the script that continues it.

A corrected script makes its calls at other positions than the script before it. They are matched by
key: tool, validated arguments, and number among equal calls.

Rule 1: a recorded effect is never repeated, in whichever order the script makes its calls.
    tests/core/runs/test_revise.py::test_corrected_scripts_repeat_no_effect
Rule 2: no new effect is made while the script has not made all calls that are recorded as effects,
    unless the caller allows it.
    tests/core/runs/test_revise.py::test_changed_effect_is_reported_before_anything_new_is_done
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from .._records._result import RunWarning
from ..journal._journal import CallEnd, CallRow, DecisionRow, RunRecord
from ._call import OpenCall
from ._rows import encode_arguments

__all__ = ["EarlierCalls", "Reads"]

Reads: TypeAlias = Literal["reuse", "refresh"]
"""``reuse``: recorded results of calls without a side effect are returned until the script makes
its first new effect. ``refresh``: such calls are made again."""
_MAX_WARNINGS = 20
_MAX_SHOWN = 10
_ARGUMENT_CHARS = 120


class _Made(NamedTuple):
    """A recorded execution."""

    row: CallRow
    below: Sequence[CallRow]
    """Calls that its tool made, and theirs."""


class EarlierCalls:
    """Effects and reads of the earlier revisions of a run."""

    def __init__(
        self, records: Sequence[RunRecord], *, reads: Reads, allow_unmatched: bool
    ) -> None:
        """Index the calls.

        Args:
            records: Records of the earlier revisions, the oldest first.
            reads: Treatment of calls without a side effect.
            allow_unmatched: True: the script may make new effects although it did not make all
                recorded ones.
        """
        self._allows_unmatched = allow_unmatched
        self._reuses_reads = reads == "reuse"
        self._made: dict[str, _Made] = {}
        self._decisions: dict[str, tuple[str, DecisionRow]] = {}
        self._reads: defaultdict[tuple[str, bytes], deque[_Made]] = defaultdict(deque)
        self._found: dict[str, _Made | None] = {}
        self._unmatched: dict[str, CallRow] = {}
        self.held: list[str] = []
        """Paths of new effects that wait until all recorded ones are matched."""
        for record in records:
            self._index(record)
        effects = ((key, made.row) for key, made in self._made.items())
        self._unmatched = {key: row for key, row in effects if row.side_effect}

    def _index(self, record: RunRecord) -> None:
        reads: defaultdict[tuple[str, bytes], deque[_Made]] = defaultdict(deque)
        fingerprints = {p.path: p.fingerprint for p in record.pending if p.kind == "unknown"}
        decisions = {d.path: d for d in record.decisions if d.kind == "unknown"}
        below = _rows_below(record)
        for row in record.calls:
            if row.end is not None and row.end.status == "not_started":
                continue
            made = _Made(_without_delivery(row), below.get(row.path, []))
            if not row.key:
                if _is_answer(row):
                    reads[row.tool, row.arguments].append(made)
                continue
            self._made.pop(row.key, None)
            self._decisions.pop(row.key, None)
            decision = decisions.get(row.path)
            if not _is_answer(row) or (decision is not None and decision.action == "failed"):
                # It had no effect, so the script may make it again.
                continue
            self._made[row.key] = made
            if decision is not None and row.path in fingerprints:
                self._decisions[row.key] = (fingerprints[row.path], decision)
        # A later revision reused these results, or made the calls again.
        self._reads.update(reads)

    # --- matching ---------------------------------------------------------------------------

    def find(self, call: OpenCall) -> CallRow | None:
        """Return the recorded execution of a call of the script; None if it is new."""
        if call.path not in self._found:
            made = self._match(call.key() or "")
            if made is None and not call.side_effect and self._reuses_reads:
                recorded = self._reads.get((call.call.name, encode_arguments(call)))
                made = self._claim(recorded.popleft()) if recorded else None
            self._found[call.path] = made
        made = self._found[call.path]
        return None if made is None else made.row

    def find_nested(self, key: str, path: str) -> CallRow | None:
        """Return the recorded execution of a call that a tool makes, as one at `path`."""
        made = self._found[path] = self._match(key)
        return None if made is None else made.row._replace(path=path)

    def _match(self, key: str) -> _Made | None:
        made = self._made.get(key)
        if made is None or not (made.row.side_effect or self._reuses_reads):
            return None
        return self._claim(made)

    def _claim(self, made: _Made) -> _Made:
        """Note that the script makes a recorded call."""
        self._unmatched.pop(made.row.key, None)
        if made.row.end is not None:
            # Its caller receives the outcome, and makes none of the calls below it.
            for below in made.below:
                self._unmatched.pop(below.key, None)
        return made

    def find_decision(self, call: OpenCall) -> DecisionRow | None:
        """Return the decision on an interrupted call that no revision has used yet."""
        found = self._decisions.get(call.key() or "")
        return found[1] if found is not None and found[0] == call.fingerprint() else None

    def below(self, path: str) -> Iterable[CallRow]:
        """Iterate over the calls below the recorded execution of the call at `path`."""
        made = self._found.get(path)
        for row in made.below if made is not None else ():
            yield row._replace(path=path + row.path[len(made.row.path) if made else 0 :])

    def claim(self, rows: Iterable[CallRow]) -> None:
        """Match the calls that this revision has made under an earlier host."""
        for row in rows:
            if row.end is not None and row.end.status == "not_started":
                continue
            if not row.key:
                recorded = self._reads.get((row.tool, row.arguments))
                if recorded:
                    self._claim(recorded.popleft())
            elif self._match(row.key) is None and row.side_effect:
                self.note_new_effect()

    # --- new effects ------------------------------------------------------------------------

    @property
    def allows_new(self) -> bool:
        """True if the script may make a new effect now."""
        return self._allows_unmatched or not self._unmatched

    def note_new_effect(self) -> None:
        """Note that the world has changed since the reads were recorded."""
        self._reuses_reads = False

    def describe_unmatched(self) -> str:
        """List the recorded effects that the script has not made, for an error."""
        rows = list(self._unmatched.values())
        lines = [f"- {describe_row(row)}" for row in rows[:_MAX_SHOWN]]
        if len(rows) > _MAX_SHOWN:
            lines.append(f"- ...and {len(rows) - _MAX_SHOWN} more")
        return "\n".join(lines)

    def warnings(self) -> list[RunWarning]:
        """Return a warning for each recorded effect that the script has not made."""
        return [
            RunWarning(
                "effect_not_repeated",
                f"an earlier revision of the script made {describe_row(row)}, and this one did "
                "not; its effect stands",
            )
            for row in list(self._unmatched.values())[:_MAX_WARNINGS]
        ]


def _rows_below(record: RunRecord) -> dict[str, list[CallRow]]:
    """Return the calls that have ended below each call, callers first."""
    below: dict[str, list[CallRow]] = {}
    for row in record.calls:
        above = row.path.rpartition(".")[0]
        while above:
            below.setdefault(above, []).append(_without_delivery(row))
            above = above.rpartition(".")[0]
    return below


def describe_row(row: CallRow) -> str:
    """Describe a recorded effect in a line."""
    arguments = row.arguments.decode(errors="replace")
    if len(arguments) > _ARGUMENT_CHARS:
        arguments = f"{arguments[: _ARGUMENT_CHARS - 1]}…"
    status = "unknown outcome" if row.end is None else row.end.status
    line = f", line {row.line}" if row.line else ""
    return f"{row.tool}({arguments}) ({status}{line})"


def _is_answer(row: CallRow) -> bool:
    """True if the script must not make the call again, or need not."""
    if row.end is None or row.end.status == "unknown":
        return row.side_effect
    if row.side_effect:
        return row.end.status == "succeeded"
    return row.end.ok


def _without_delivery(row: CallRow) -> CallRow:
    """Return a row as one whose outcome was not sent to the script; unknown ones have none."""
    end: CallEnd | None = row.end
    if end is not None:
        end = None if end.status == "unknown" else end._replace(elapsed=None)
    return row._replace(end=end)
