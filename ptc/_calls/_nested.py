"""Identity of the calls that tools make, across retries of their callers and deaths of the host.

A tool that calls tools may be started again: by its `retry`, or on resume. It is ordinary code, so
it may make its calls in another order each time. Calls are matched by key alone: calling execution,
tool, validated arguments, and number among equal calls. Paths (``3.1``) name executions for people
and for rows; they are derived from the keys and decide nothing.

Rule 1: An outcome that an earlier host recorded answers the same call once, independently of its
    siblings' records; that of a call that must not be repeated answers it every time.
    tests/core/calls/test_nested.py::test_recorded_outcomes_answer_the_same_calls_in_any_order
Rule 2: An execution with an unknown outcome is continued under its own path; two executions never
    share a path.
    tests/core/calls/test_nested.py::test_paths_belong_to_one_execution_each
Rule 3: The next call that makes an unfinished cached result continues its making.
    tests/core/runs/test_resume_nested.py::test_unfinished_cached_result_is_continued_by_its_next_caller
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from .._core import _json
from ..journal._journal import CallEnd, CallRow, RunRecord
from ._earlier import EarlierCalls

__all__ = ["NestedCalls"]


class NestedCalls:
    """Nested calls of one run: recorded ones, and those that this host makes."""

    def __init__(
        self, recorded: RunRecord | None = None, earlier: EarlierCalls | None = None
    ) -> None:
        """Index the records of earlier hosts.

        Args:
            recorded: The run's record; None for a new run.
            earlier: Calls of earlier revisions of the script; None: there were none.
        """
        self._earlier = earlier
        self.adopted: set[str] = set()
        """Paths of calls whose execution an earlier revision recorded."""
        self._recorded: dict[str, CallRow] = {}
        self._latest: dict[str, str] = {}
        self._answers: dict[str, CallRow | None] = {}
        self._highest: defaultdict[str, int] = defaultdict(int)
        self._makings: dict[str, int] = {}
        self._suspended: set[str] = set()
        self._unclaimed: dict[str, CallRow] = {}
        if recorded is not None:
            self._index(recorded)

    def _index(self, recorded: RunRecord) -> None:
        pending = [(p.path, _json.loads(p.details).get("key") or "") for p in recorded.pending]
        rows = [(row.path, row.key) for row in recorded.calls]
        for path, key in [*rows, *pending]:
            above, dot, number = path.rpartition(".")
            if dot:
                self._highest[above] = max(self._highest[above], int(number))
                if key:
                    # Rows are in order, and all rows of one key are siblings.
                    self._latest[key] = path
        for row in recorded.calls:
            self._index_making(row)
            if "." in row.path:
                self._recorded[row.path] = row
        for key, path in self._latest.items():
            self._index_latest(key, path)

    def _index_latest(self, key: str, path: str) -> None:
        """Index the newest execution with a key."""
        recent = self._recorded.get(path)
        if self._earlier is not None and (recent is None or _is_unstarted(recent)):
            # Nothing was done at this path, so an execution of an earlier revision counts.
            self._adopt(self._earlier.find_nested(key, path), path)
            if path in self.adopted:
                return
        if recent is not None and not _is_answer(recent):
            recent = None
        self._answers[path] = recent
        if recent is not None and recent.side_effect and _is_done(recent.end):
            self._unclaimed[path] = recent

    def _index_making(self, row: CallRow) -> None:
        digest, _, number = row.making.partition(" ")
        if digest:
            ended = row.end is not None and row.end.status in ("succeeded", "failed")
            following = int(number) + ended
            self._makings[digest] = max(self._makings.get(digest, 0), following)

    # --- paths ------------------------------------------------------------------------------

    def assign_path(self, key: str | None, above: str) -> str:
        """Return the path of a call that is about to be made.

        Args:
            key: The call's key; None if it has none and therefore matches nothing.
            above: Path of the calling execution.
        """
        latest = self._latest.get(key) if key is not None else None
        if latest is not None:
            self._unclaimed.pop(latest, None)
            if latest in self._answers:
                return latest
            # Executions of a key are siblings, so the highest number is the newest.
            above = latest.rpartition(".")[0]
        number = self._highest[above] = self._highest[above] + 1
        path = f"{above}.{number}"
        if key is not None:
            if latest is None and self._earlier is not None:
                self._adopt(self._earlier.find_nested(key, path), path)
            self._latest[key] = path
        return path

    def _adopt(self, row: CallRow | None, path: str) -> None:
        """Let a call continue the execution that an earlier revision recorded."""
        if row is not None:
            self.adopted.add(path)
            self._answers[path] = row

    def add_below(self, row: CallRow) -> None:
        """Add a call below an execution of an earlier revision that is not repeated."""
        above, _, number = row.path.rpartition(".")
        self._highest[above] = max(self._highest[above], int(number))
        self._recorded[row.path] = row

    def below(self, path: str) -> Iterator[CallRow]:
        """Iterate over the recorded calls below a call, callers first."""
        if path in self._highest:
            yield from (row for at, row in self._recorded.items() if at.startswith(f"{path}."))

    @property
    def recorded(self) -> dict[str, CallRow]:
        """Calls that earlier hosts recorded, by path, callers first."""
        return self._recorded

    # --- outcomes ---------------------------------------------------------------------------

    def find(self, path: str) -> CallRow | None:
        """Return the execution that a call at this path continues or repeats; None if it is new."""
        return self._answers.get(path)

    def note_start(self, row: CallRow, *, repeatable: bool) -> None:
        """Note the start of an execution. One that must not be repeated is remembered."""
        if row.side_effect and not repeatable:
            self._answers[row.path] = row

    def note_suspension(self, path: str) -> None:
        """Note that a call is suspended until a decision: the next such call is this one."""
        self._answers.setdefault(path, None)

    def note_end(self, path: str, end: CallEnd, *, repeatable: bool) -> None:
        """Note the end of an execution of this host."""
        row = self._answers.pop(path, None)
        if row is not None and row.side_effect and not repeatable and _is_done(end):
            self._answers[path] = row._replace(end=end)

    def note_return(self, path: str, *, repeatable: bool) -> None:
        """Note that a recorded outcome was returned to its caller."""
        row = self._answers.get(path)
        for below in [at for at in self._unclaimed if at.startswith(f"{path}.")]:
            del self._unclaimed[below]
        if row is not None and row.end is not None:
            self.note_end(path, row.end, repeatable=repeatable)

    def take_unclaimed(self, path: str) -> list[CallRow]:
        """Take the recorded effects below a call that its restarted tool did not repeat."""
        found = [at for at in self._unclaimed if at.startswith(f"{path}.")]
        return [self._unclaimed.pop(at) for at in found]

    # --- cached results ---------------------------------------------------------------------

    def current_making(self, digest: str) -> str | None:
        """Identify the making of a cached result; None if it is suspended until a decision.

        Calls that a tool makes for a cached result belong to the result, not to its first caller:
        another caller may be first on resume.
        """
        if digest in self._suspended:
            return None
        return f"{digest} {self._makings.setdefault(digest, 0)}"

    def finish_making(self, digest: str) -> None:
        """Note the end of a making: the next one is new."""
        self._makings[digest] += 1

    def release_makings(self) -> None:
        """Allow the makings that waited for a new effect, which may be made now."""
        self._suspended.clear()

    def suspend_making(self, digest: str) -> None:
        """Note that a making is suspended: nobody makes this result before the decision."""
        self._suspended.add(digest)


def _is_answer(row: CallRow) -> bool:
    """True unless a call has to be made again because its record has no outcome for its caller."""
    if row.end is None or row.side_effect:
        return row.end is None or row.end.status != "not_started"
    # A value that was too large for the record, or has no JSON form, was returned nevertheless.
    return row.end.status != "not_started" and (row.end.ok or row.end.status != "succeeded")


def _is_done(end: CallEnd | None) -> bool:
    """True unless an execution is known to have had no effect."""
    return end is None or end.status not in ("failed", "not_started")


def _is_unstarted(row: CallRow) -> bool:
    return row.end is not None and row.end.status == "not_started"
