"""The journal in a SQLite file: one writer thread that commits what has come together.

Rule 1: what is appended is written in order, in one transaction with what came with it.
    tests/core/journal/test_journal.py::test_what_is_appended_is_read_back_in_order
Rule 2: a write of a lost lease changes nothing and is told.
    tests/core/journal/test_journal.py::test_who_lost_a_run_can_write_nothing_more
Rule 3: a damaged row or a gap is an error that names it; nothing is skipped.
    tests/core/journal/test_journal.py::test_damage_is_told_and_nothing_is_skipped

WAL with ``synchronous=FULL`` for a batch that somebody waits for and NORMAL for the others: NORMAL
can lose its last commits with the machine, never with the process, and never tears a file
(https://www.sqlite.org/pragma.html#pragma_synchronous). What can be lost so is what nothing outside
has seen.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from .._reactor import Signal
from ..errors import JournalError
from ._journal import (
    CallEnd,
    CallRow,
    CallStart,
    CallWhole,
    Delivery,
    Entry,
    Lease,
    LeaseLostError,
    Pending,
    Recorded,
    RevertRow,
    RunRow,
    Spent,
    Tick,
    Verdict,
)
from ._process_id import is_gone, this_process
from ._tables import open_file

__all__ = ["SqliteJournal"]

_log = logging.getLogger("ptc")
_LINGER_SECONDS = 0.05
"""How long the writer lets entries gather that nobody waits for."""
_LEASE_SECONDS = 30.0
"""A driver on another machine is taken for dead after this long without a sign of it."""
_MOST_WAITING = 20_000
"""Entries in memory before `append` wakes the writer at once."""
_HURRY_BYTES = 8 << 20
"""The same of their bytes: what runs take and give may be large."""
_BEHIND_BYTES = 32 << 20
"""Bytes in memory from which on those who can wait should."""

_RUN_COLUMNS = (
    "run_id, source, filename, inputs, options, seed, clock, created_ms, status, result, ended_ms,"
    " rolled_back_ms"
)


_START_COLUMNS = "run, path, tool, arguments, key, side_effect, line, attempt, started_ms, making"
_END_COLUMNS = "status, ok, body, body_sha256, ended_ms, place, elapsed"
_START = (
    f"INSERT INTO calls({_START_COLUMNS}, status) VALUES(?,?,?,?,?,?,?,?,?,?,?)"  # ours
    " ON CONFLICT(run, path) DO UPDATE SET attempt=excluded.attempt, key=excluded.key,"
    " started_ms=excluded.started_ms, making=excluded.making, status='started', ok=NULL, body=NULL,"
    " ended_ms=NULL"
)
_WHOLE_ROW = "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
_WHOLE = (
    f"INSERT OR REPLACE INTO calls({_START_COLUMNS}, {_END_COLUMNS})"  # noqa: S608  # ours
    f" VALUES {_WHOLE_ROW}"
)
_ROWS_AT_ONCE = 50
"""Calls in one statement: sqlite3 lets go of the interpreter for each statement, and getting it
back from a busy event loop takes longer than the insert."""
_WHOLES = _WHOLE + f",{_WHOLE_ROW}" * (_ROWS_AT_ONCE - 1)
_END = (
    "UPDATE calls SET status=?, ok=?, body=?, body_sha256=?, ended_ms=?, place=?, elapsed=?"
    " WHERE run=? AND path=?"
)
_TICK = "INSERT INTO ticks VALUES(?,?,?)"
_VERDICT = "INSERT OR IGNORE INTO verdicts VALUES(?,?,?,?,?,?,?,?)"
_REVERT = "INSERT OR REPLACE INTO reverts VALUES(?,?,?,?,?,?)"
_PENDING = "INSERT OR REPLACE INTO pending VALUES(?,?,?,?,?,?,?)"
_CLAIM = (
    "UPDATE runs SET owner=?, alive_ms=?, epoch=?, status='running', result=NULL, ended_ms=NULL"
    " WHERE number=?"
)
_DISCARD = (
    "UPDATE runs SET owner=?, alive_ms=?, epoch=?, rolled_back_ms=coalesce(rolled_back_ms, ?),"
    " ended_ms=coalesce(ended_ms, ?),"
    " status=CASE WHEN status IN ('running', 'paused') THEN 'cancelled' ELSE status END"
    " WHERE number=?"
)
_SPENT = tuple(
    f"UPDATE OR REPLACE {table} SET kind=? WHERE run=? AND path=? AND kind='unknown'"  # noqa: S608  # ours
    for table in ("verdicts", "pending")
)
"""Who decided stays in the file; `load` does not give it."""
_BEGIN = (
    f"INSERT INTO runs(number, {_RUN_COLUMNS}, owner, alive_ms, epoch)"  # our names
    " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,1) ON CONFLICT DO NOTHING"
)
_BEGIN_STATUS, _BEGIN_OWNER = 9, 13
"""Places among the values of a new run: of its status, and of who drives it."""
_RUN_END = "UPDATE runs SET status=?, result=?, ended_ms=?, owner=NULL WHERE number=?"


class _Write(NamedTuple):
    """Something for the writer: an entry, or the end of a run."""

    lease: Lease
    sql: str
    values: tuple[Any, ...]
    size_bytes: int
    """Of its bodies and texts, about; the rest of it is small."""


def _size(values: tuple[Any, ...]) -> int:
    return sum([len(value) for value in values if isinstance(value, bytes | str)])


def _kind(write: _Write) -> tuple[Lease, str]:
    return write.lease, write.sql


class SqliteJournal:
    """A journal in a file, or in memory."""

    def __init__(self, path: Path | None) -> None:
        """Open the file, or make it.

        Args:
            path: The file; None: in memory, gone with the session.

        Raises:
            JournalError: If it cannot be opened, is damaged, or was made by a later version.
        """
        self._path = path
        self._place = str(path) if path is not None else "the journal in memory"
        self._lock = threading.Lock()
        self._waiting: deque[_Write] = deque()
        self._put_bytes = self._written_bytes = 0
        self._signals: list[Signal] = []
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._places: dict[int, int] = {}
        self._lost: set[tuple[int, int]] = set()
        self._driven: dict[int, int] = {}
        self._failure: JournalError | None = None
        self._gaps: dict[tuple[int, int], JournalError] = {}
        self._mode = ""
        self._said_ms = 0
        self._closing = False
        with self._told("opened"):
            self._db = open_file(path, self._place)
        self._thread = threading.Thread(target=self._write_on, name="ptc-journal", daemon=True)
        self._thread.start()

    # --- runs -------------------------------------------------------------------------------

    def begin(self, run: RunRow) -> Lease:
        """As `Journal.begin`; never waits. Whose id may be taken looks with `find` before."""
        lease = Lease(run.run_id, _number(run.run_id), 1)
        if lease.number in self._driven:
            msg = f"run {run.run_id!r} is being driven by this session; let it end"
            raise JournalError(msg)
        # Of an earlier one of this name that could not be written.
        self._gaps.pop((lease.number, 1), None)
        self._places[lease.number] = 0
        self._driven[lease.number] = 1
        # Every write looks for its run's row first, this one's own excepted: see `_write`.
        self._put(lease, _BEGIN, (lease.number, *_run_values(run), this_process(), _now_ms()))
        return lease

    def claim(self, run_id: str) -> Lease:
        """As `Journal.claim`."""
        return self._take(run_id, _CLAIM, (), self._check_resumable)

    def discard(self, run_id: str, at_ms: int) -> Lease:
        """As `Journal.discard`."""
        self.flush()
        return self._take(run_id, _DISCARD, (at_ms, at_ms), lambda *_: None)

    def _take(
        self,
        run_id: str,
        sql: str,
        values: tuple[Any, ...],
        check: Callable[[str, str, int | None], None],
    ) -> Lease:
        """A lease of a run that nobody drives, if `check` has nothing against it."""
        with self._told("written"), self._lock:
            self._synchronous("FULL")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                row = self._db.execute(
                    "SELECT number, status, rolled_back_ms, owner, alive_ms, epoch FROM runs"
                    " WHERE run_id=?",
                    (run_id,),
                ).fetchone()
                if row is None:
                    raise self._unknown(run_id)
                number, status, rolled_back_ms, owner, alive_ms, epoch = row
                check(run_id, status, rolled_back_ms)
                self._check_free(run_id, owner, alive_ms)
                me = (this_process(), _now_ms(), epoch + 1)
                self._db.execute(sql, (*me, *values, number))
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
        return self._leased(run_id, number, epoch + 1)

    @staticmethod
    def _check_resumable(run_id: str, status: str, rolled_back_ms: int | None) -> None:
        if rolled_back_ms is not None:
            msg = f"run {run_id!r} was rolled back; make a new one of it with `retry`"
            raise JournalError(msg)
        if status not in ("running", "paused", "cancelled"):
            msg = f"run {run_id!r} has ended: {status}; make a new one of it with `retry`"
            raise JournalError(msg)

    @staticmethod
    def _check_free(run_id: str, owner: str | None, alive_ms: int | None) -> None:
        silent = _now_ms() - (alive_ms or 0) > _LEASE_SECONDS * 1000
        if owner is not None and not silent and not is_gone(owner):
            msg = f"run {run_id!r} is being driven by process {owner.split('|')[2]}; let it end"
            raise JournalError(msg)

    def _leased(self, run_id: str, number: int, epoch: int) -> Lease:
        """A claimed run; what it was sent so far is counted on."""
        (place,) = self._one(
            "SELECT max(coalesce((SELECT max(place) FROM calls WHERE run=?), 0),"
            " coalesce((SELECT max(place) FROM ticks WHERE run=?), 0))",
            (number, number),
        )
        self._places[number] = place
        self._driven[number] = epoch
        return Lease(run_id, number, epoch)

    def end(self, lease: Lease, status: str, result: bytes, at_ms: int) -> None:
        """As `Journal.end`."""
        ended = None if status == "paused" else at_ms
        self._put(lease, _RUN_END, (status, result, ended, lease.number))
        self._driven.pop(lease.number, None)

    def release(self, lease: Lease) -> None:
        """As `Journal.release`."""
        self._put(lease, "UPDATE runs SET owner=NULL WHERE number=?", (lease.number,))
        self._driven.pop(lease.number, None)

    # --- entries ----------------------------------------------------------------------------

    def append(self, lease: Lease, entry: Entry) -> None:
        """As `Journal.append`."""
        run = lease.number
        if isinstance(entry, CallWhole):
            end = self._ending(run, entry.end)
            self._put(lease, _WHOLE, (run, *entry.start, *end))
        elif isinstance(entry, CallStart):
            self._put(lease, _START, (run, *entry, "started"))
        elif isinstance(entry, CallEnd):
            self._put(lease, _END, (*self._ending(run, entry), run, entry.path))
        elif isinstance(entry, Tick):
            self._put(lease, _TICK, (run, self._next_place(run), entry.elapsed))
        elif isinstance(entry, Verdict):
            self._put(lease, _VERDICT, (run, *_verdict_values(entry)))
        elif isinstance(entry, RevertRow):
            columns = (entry.status, entry.attempt, entry.error, entry.at_ms)
            self._put(lease, _REVERT, (run, entry.path, *columns))
        elif isinstance(entry, Spent):
            for sql in _SPENT:
                self._put(lease, sql, (f"unknown {entry.attempt}", run, entry.path))
        else:
            asked = (entry.kind, entry.tool, entry.fingerprint, entry.details, entry.at_ms)
            self._put(lease, _PENDING, (run, entry.path, *asked))

    def _ending(self, run: int, end: CallEnd) -> tuple[Any, ...]:
        place = None if end.elapsed is None else self._next_place(run)
        digest = hashlib.sha256(end.body).digest()
        return (end.status, end.ok, end.body, digest, end.at_ms, place, end.elapsed)

    def _next_place(self, run: int) -> int:
        place = self._places[run] = self._places[run] + 1
        return place

    def _put(self, lease: Lease, sql: str, values: tuple[Any, ...]) -> None:
        size_bytes = _size(values)
        self._waiting.append(_Write(lease, sql, values, size_bytes))
        self._put_bytes += size_bytes
        if not self._wake.is_set():
            self._wake.set()
        waiting_bytes = self._put_bytes - self._written_bytes
        if len(self._waiting) > _MOST_WAITING or waiting_bytes > _HURRY_BYTES:
            self._hurry.set()

    @property
    def behind(self) -> bool:
        """As `Journal.behind`: over 32 MiB."""
        return self._put_bytes - self._written_bytes > _BEHIND_BYTES

    async def barrier(self, lease: Lease) -> None:
        """As `Journal.barrier`."""
        signal = Signal()
        self._signals.append(signal)
        self._hurry.set()
        self._wake.set()
        await signal.wait()
        self.check(lease)

    def check(self, lease: Lease) -> None:
        """As `Journal.check`."""
        held = lease.number, lease.epoch
        if held in self._gaps:
            raise self._gaps[held]
        if held in self._lost:
            msg = f"run {lease.run_id!r} was taken over: this process may not go on with it"
            raise LeaseLostError(msg)

    # --- the writer -------------------------------------------------------------------------

    def _write_on(self) -> None:
        while True:
            self._wake.wait(_LEASE_SECONDS / 3 if self._driven else None)
            if not self._closing:
                self._hurry.wait(_LINGER_SECONDS)
            self._wake.clear()
            self._hurry.clear()
            # Signals first: what they wait for was appended before them.
            signals, self._signals = self._signals, []
            batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
            try:
                with self._told("written"):
                    self._commit(batch, durable=bool(signals) or self._closing)
                self._failure = None
            except JournalError as error:
                self._failure = error
                _log.error("runs are not recorded: %s", error)
                for write in batch:
                    self._gaps.setdefault((write.lease.number, write.lease.epoch), error)
            self._written_bytes += sum([write.size_bytes for write in batch])
            for signal in signals:
                signal.set()
            if self._closing and not self._waiting:
                return

    def _commit(self, batch: Sequence[_Write], *, durable: bool) -> None:
        with self._lock:
            self._synchronous("FULL" if durable else "NORMAL")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                held: dict[Lease, bool] = {}
                whole = {w.lease: w for w in batch if w.sql is _RUN_END}
                for write in batch:
                    if write.sql is _BEGIN:
                        held[write.lease] = self._begun(write, whole.pop(write.lease, None))
                kept = (w for w in batch if w.sql is not _BEGIN)
                for same, writes in groupby(kept, key=_kind):
                    if same[1] is not _RUN_END or same[0] in whole:
                        self._write(same, list(writes), held)
                self._say_alive()
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    def _say_alive(self) -> None:
        """Say of the runs that are driven that they are, now and then."""
        now = _now_ms()
        if now - self._said_ms < _LEASE_SECONDS * 1000 / 6:
            return
        self._said_ms = now
        for number, epoch in list(self._driven.items()):
            self._db.execute(
                "UPDATE runs SET alive_ms=? WHERE number=? AND epoch=?", (now, number, epoch)
            )

    def _synchronous(self, mode: Literal["FULL", "NORMAL"]) -> None:
        if mode != self._mode:
            self._db.execute(f"PRAGMA synchronous={mode}")
            self._mode = mode

    def _begun(self, begin: _Write, end: _Write | None) -> bool:
        """Write a new run, as it ended if it has; False if its name is another's."""
        values = list(begin.values)
        if end is not None:
            status, result, ended_ms, _ = end.values
            values[_BEGIN_STATUS : _BEGIN_STATUS + 3] = status, result, ended_ms
            values[_BEGIN_OWNER] = None
        mine = self._db.execute(_BEGIN, values).rowcount == 1
        if not mine:
            self._lost.add((begin.lease.number, begin.lease.epoch))
        return mine

    def _write(
        self, same: tuple[Lease, str], writes: list[_Write], held: dict[Lease, bool]
    ) -> None:
        """Writes of one lease with one statement, in order."""
        lease, sql = same
        if (lease.number, lease.epoch) in self._gaps:
            return
        if lease not in held:
            found = self._db.execute(
                "SELECT epoch FROM runs WHERE number=?", (lease.number,)
            ).fetchone()
            held[lease] = found is not None and found[0] == lease.epoch
        if not held[lease]:
            self._lost.add((lease.number, lease.epoch))
            return
        done = 0
        if sql is _WHOLE:
            while len(writes) - done >= _ROWS_AT_ONCE:
                rows = (write.values for write in writes[done : done + _ROWS_AT_ONCE])
                self._db.execute(_WHOLES, tuple(chain.from_iterable(rows)))
                done += _ROWS_AT_ONCE
        for write in writes[done:]:
            self._db.execute(sql, write.values)

    # --- reading ----------------------------------------------------------------------------

    def flush(self) -> None:
        """Wait until all that was appended has been written."""
        done = threading.Event()
        self._signals.append(cast("Signal", done))
        self._hurry.set()
        self._wake.set()
        done.wait()
        if self._failure is not None:
            raise self._failure

    def find(self, run_id: str) -> RunRow | None:
        """As `Journal.find`."""
        with self._told("read"):
            row = self._one(f"SELECT {_RUN_COLUMNS} FROM runs WHERE run_id=?", (run_id,))  # noqa: S608  # names of columns, ours
        return RunRow(*row) if row else None

    def runs(self, limit: int = 50) -> Sequence[RunRow]:
        """As `Journal.runs`."""
        self.flush()
        with self._told("read"):
            sql = f"SELECT {_RUN_COLUMNS} FROM runs ORDER BY created_ms DESC, rowid DESC LIMIT ?"  # noqa: S608  # names of columns, ours
            return [RunRow(*row) for row in self._all(sql, (limit,))]

    def load(self, run_id: str) -> Recorded:
        """As `Journal.load`."""
        self.flush()
        with self._told("read"):
            row = self._one(f"SELECT number, {_RUN_COLUMNS} FROM runs WHERE run_id=?", (run_id,))  # noqa: S608  # names of columns, ours
            if row is None:
                raise self._unknown(run_id)
            number, run = row[0], RunRow(*row[1:])
            calls = list(self._calls(run_id, number))
            deliveries = tuple(self._deliveries(run_id, number, calls))
            pending = tuple(
                Pending(*columns)
                for columns in self._all(
                    "SELECT path, kind, tool, fingerprint, details, at_ms FROM pending WHERE run=?"
                    " AND kind IN ('approval', 'unknown') ORDER BY rowid",
                    (number,),
                )
            )
            rows = tuple(row for row, _ in calls)
            reverts = tuple(
                RevertRow(*columns)
                for columns in self._all(
                    "SELECT path, status, attempt, error, at_ms FROM reverts WHERE run=?"
                    " ORDER BY rowid",
                    (number,),
                )
            )
            verdicts = tuple(self._verdicts(number))
            return Recorded(run, rows, deliveries, pending, verdicts, reverts)

    def _calls(self, run_id: str, number: int) -> Iterator[tuple[CallRow, int | None]]:
        """Calls in the order they were made, each with its place among what was delivered."""
        sql = f"SELECT {_START_COLUMNS}, {_END_COLUMNS} FROM calls WHERE run=?"  # noqa: S608  # ours
        rows = self._all(sql, (number,))
        for row in sorted(rows, key=lambda row: [int(part) for part in row[1].split(".")]):
            path, tool, arguments, key, side_effect, *rest = row[1:10]
            start = CallStart(path, tool, arguments, key, bool(side_effect), *rest)
            status, ok, body, digest, ended, place, elapsed = row[10:]
            if status == "started":
                yield CallRow(start, None), None
                continue
            if body is None or hashlib.sha256(body).digest() != digest:
                msg = f"{self._place} is damaged: run {run_id!r}, call {start.path}: its outcome is"
                raise JournalError(f"{msg} not what was written")
            end = CallEnd(start.path, status, bool(ok), body, ended, elapsed)
            yield CallRow(start, end), place

    def _deliveries(
        self, run_id: str, number: int, calls: Sequence[tuple[CallRow, int | None]]
    ) -> Iterator[Delivery]:
        found: dict[int, Delivery] = {}
        for row, place in calls:
            if place is not None and row.end is not None:
                found[place] = Delivery(row.start.path, row.end.elapsed or 0.0)
        ticks = self._all("SELECT place, elapsed FROM ticks WHERE run=?", (number,))
        found.update({place: Delivery(None, elapsed) for place, elapsed in ticks})
        for place in range(1, max(found, default=0) + 1):
            if place not in found:
                msg = f"{self._place} is damaged: run {run_id!r}: message {place} is missing"
                raise JournalError(msg)
            yield found[place]

    def _verdicts(self, number: int) -> Iterator[Verdict]:
        sql = (
            "SELECT path, kind, action, value, decided_by, comment, at_ms FROM verdicts WHERE run=?"
            " AND kind IN ('approval', 'unknown')"
        )
        for row in self._all(sql, (number,)):
            yield Verdict(*row)

    def decide(self, run_id: str, verdict: Verdict) -> bool:
        """As `Journal.decide`."""
        with self._told("written"), self._lock:
            self._synchronous("FULL")
            with self._db:
                row = self._db.execute(
                    "SELECT number FROM runs WHERE run_id=?", (run_id,)
                ).fetchone()
                if row is None:
                    raise self._unknown(run_id)
                done = self._db.execute(_VERDICT, (row[0], *_verdict_values(verdict)))
                return done.rowcount == 1

    def sweep(self, before_ms: int) -> int:
        """As `Journal.sweep`."""
        self.flush()
        with self._told("written"), self._lock:
            with self._db:
                old = [
                    number
                    for (number,) in self._db.execute(
                        "SELECT number FROM runs WHERE ended_ms IS NOT NULL AND ended_ms < ?",
                        (before_ms,),
                    )
                ]
                for number in old:
                    for table in ("calls", "ticks", "pending", "verdicts", "reverts"):
                        self._db.execute(f"DELETE FROM {table} WHERE run=?", (number,))  # noqa: S608  # from the line above
                    self._db.execute("DELETE FROM runs WHERE number=?", (number,))
            self._db.execute("VACUUM")
            return len(old)

    def close(self) -> None:
        """As `Journal.close`."""
        if self._closing:
            return
        self._closing = True
        self._hurry.set()
        self._wake.set()
        self._thread.join()
        with suppress(sqlite3.Error):
            self._db.close()

    # --- the file ---------------------------------------------------------------------------

    def _one(self, sql: str, values: tuple[Any, ...]) -> Any:
        with self._lock:
            return self._db.execute(sql, values).fetchone()

    def _all(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        with self._lock:
            return self._db.execute(sql, values).fetchall()

    def _unknown(self, run_id: str) -> JournalError:
        return JournalError(f"there is no run {run_id!r} in {self._place}; `ptc runs` lists them")

    @contextmanager
    def _told(self, what: Literal["opened", "read", "written"]) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            msg = f"{self._place} cannot be {what}: {error}"
            raise JournalError(msg) from error


def _run_values(run: RunRow) -> tuple[Any, ...]:
    return (
        run.run_id,
        run.source,
        run.filename,
        run.inputs,
        run.options,
        run.seed,
        run.clock,
        run.created_ms,
        run.status,
        run.result,
        run.ended_ms,
        run.rolled_back_ms,
    )


def _verdict_values(verdict: Verdict) -> tuple[Any, ...]:
    return (
        verdict.path,
        verdict.kind,
        verdict.action,
        verdict.value,
        verdict.by,
        verdict.comment,
        verdict.at_ms,
    )


def _number(run_id: str) -> int:
    """The run's number in the tables: known before it is written, so that nothing waits for it."""
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:7])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
