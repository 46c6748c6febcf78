"""Files in which the processes of `durable_queue.py` note what they do, and the audit of them.

There is one file for each run. Its lines are in order: each is written in one piece, at its end.

  lease EPOCH PID           the run was acquired
  revise                    a corrected script continues the run, and paths count anew
  start KEY EPOCH           the start of a call was stored
  end KEY PATH              the successful outcome of a call was stored
  take TOOL N KEY EPOCH     a tool made an effect
  look TOOL N KEY EPOCH     a tool was called that has no effect
  cancel                    somebody is about to cancel the run
  cancelled MS              the run was cancelled, at this time
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ptc import ToolContext
from ptc.journal._writes import run_number
from tests.fuzz.durable_oracle import Effects
from tests.fuzz.durable_server import Request, Server, count_effects

__all__ = ["Audit", "Ledger", "RunLedger", "ranked"]


class Ledger(Server):
    """The server of the tools of many runs, with a file for each."""

    def __init__(self, folder: Path) -> None:
        """Use the files in a folder."""
        super().__init__(folder)
        self._folder = folder

    def of(self, ctx: ToolContext) -> RunLedger:
        """Return the server of a call's run."""
        assert ctx.run_id is not None
        # A call of the script that has no effect has a path; any other one has a key.
        path = ctx.call_id.removeprefix(f"{ctx.run_id}.")
        key = path if "." not in path else ctx.idempotency_key
        return RunLedger(self._file(run_number(ctx.run_id)), ctx.epoch, key)

    def of_run(self, run_id: str) -> RunLedger:
        """Return the server of a run."""
        return RunLedger(self._file(run_number(run_id)))

    def note(self, number: int, *words: Any) -> None:
        """Add a line to the file of the run with this number."""
        _append(self._file(number), *words)

    def _file(self, number: int) -> Path:
        return self._folder / f"{number:x}"


class RunLedger(Server):
    """The server of the tools of one run."""

    def __init__(self, path: Path, epoch: int | None = None, key: str | None = None) -> None:
        """Use a file; `epoch` and `key` are those of a call."""
        super().__init__(path)
        self._file, self._epoch, self._key = path, epoch, key

    def look(self, tool: str, n: int) -> None:
        """Note a request that has no effect."""
        _append(self._file, "look", tool, n, self._key, self._epoch)

    def take(self, tool: str, n: int, key: str | None) -> None:
        """Note a request that has an effect."""
        _append(self._file, "take", tool, n, key, self._epoch)

    def note(self, *words: Any) -> None:
        """Add a line."""
        _append(self._file, *words)

    def requests(self) -> list[Request]:
        """Return all requests that have an effect."""
        return [(line[1], line[2], line[3]) for line in self.lines() if line[0] == "take"]

    def lines(self) -> list[list[Any]]:
        """Return all lines."""
        if not self._file.exists():
            return []
        return [json.loads(line) for line in self._file.read_bytes().splitlines()]


def _append(path: Path, *words: Any) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, json.dumps(words).encode() + b"\n")
    finally:
        os.close(file)


class Audit:
    """Effects and repetitions that the lines of a run show."""

    def __init__(self, lines: list[list[Any]], retried: Collection[str]) -> None:
        """Audit a run.

        Args:
            lines: Its lines.
            retried: Paths of calls whose tools may repeat their calls.
        """
        self.late: list[list[Any]] = []
        """Tool and number of effects of processes that had lost the run meanwhile."""
        self.problems: list[str] = []
        self._retried = retried
        self._newest = 0
        self._started = set[tuple[Any, int]]()
        self._ended = dict[str, str]()
        """Path of each call with a stored outcome, by its key."""
        self._requests: list[Request] = []
        for kind, *words in lines:
            getattr(self, f"_on_{kind}")(*words)
        self.effects: Effects = count_effects(self._requests)
        self.problems += _check_cancellations(lines)

    def _on_lease(self, epoch: int, _: int) -> None:
        self._newest = max(self._newest, epoch)

    def _on_revise(self) -> None:
        self._ended = {key: path for key, path in self._ended.items() if key != path}

    def _on_start(self, key: str, epoch: int) -> None:
        self._started.add((key, epoch))

    def _on_end(self, key: str, path: str) -> None:
        if not _is_below(path, self._retried):
            self._ended[key] = path

    def _on_look(self, tool: str, n: int, key: str, _: int) -> None:
        if key in self._ended:
            self.problems.append(f"repeated: {tool} {n}: call {self._ended[key]} had finished")

    def _on_take(self, tool: str, n: int, key: str, epoch: int) -> None:
        self._on_look(tool, n, key, epoch)
        self._requests.append((tool, n, key))
        if tool != "again" and (key, epoch) not in self._started:
            self.problems.append(f"{tool} {n} was made before its start was stored")
        if epoch < self._newest:
            self.late.append([tool.removesuffix(" drawn"), n])

    def _on_cancel(self) -> None:
        """Counted by `_check_cancellations`."""

    def _on_cancelled(self, _: int) -> None:
        """As above."""


def _check_cancellations(lines: list[list[Any]]) -> Iterator[str]:
    requested = sum(line[0] == "cancel" for line in lines)
    seen = {line[1] for line in lines if line[0] == "cancelled"}
    if len(seen) > requested:
        yield f"cancelled {len(seen)} times for {requested} requests"


def _is_below(path: str, callers: Collection[str]) -> bool:
    return any(f"{path}.".startswith(f"{caller}.") for caller in callers)


def ranked(effects: Effects) -> Effects:
    """Replace keys by numbers, since those of two runs differ: 0 is the key with most effects."""
    counts: dict[tuple[str, int], list[int]] = {}
    for (tool, n, _), count in effects.items():
        counts.setdefault((tool, n), []).append(count)
    found: Effects = Counter()
    for (tool, n), numbers in counts.items():
        for rank, count in enumerate(sorted(numbers, reverse=True)):
            found[tool, n, str(rank)] = count
    return found
