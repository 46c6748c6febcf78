"""The side of the deaths `queue` that starts and kills processes, and compares their runs."""

from __future__ import annotations

import json
import math
import os
import select
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from ptc._workers._choose import EngineName
from tests.fuzz.durable_host import Place
from tests.fuzz.durable_ledger import Audit, Ledger, ranked
from tests.fuzz.durable_oracle import differences, doubled
from tests.fuzz.durable_queue import (
    LIMITED,
    MOST_RUNNING,
    TENANTS,
    prepare,
    serve_desk,
    serve_worker,
)
from tests.fuzz.durable_series import Series

__all__ = ["QueueSeries"]

_WORKERS = 3
_MOST_OPEN = 14
_SECONDS = 120.0
"""Time limit for a run; exceeding it is a finding."""
_LIFE_SECONDS = {"worker": 1.5, "desk": 8.0}
"""Average time until a process is killed, unless it dies at a step before."""
_MOST_STEPS = 3_000
_DRAINED = 0.08
"""Share of the workers that get SIGTERM in place of SIGKILL."""
_Counts = Counter[str]


class _Process:
    """A forked worker or desk."""

    def __init__(self, kind: str, place: Place, chance: Random, *, is_calm: bool) -> None:
        self.kind = kind
        self._wrong = place.folder / "wrong"
        requests, self._requests = os.pipe()
        self.answers, answers = os.pipe()
        # As many die at one of the first steps as at one of the later ones.
        at = round(math.exp(chance.uniform(0, math.log(_MOST_STEPS))))
        kill_at = None if is_calm or chance.random() < 0.5 else at
        life = chance.expovariate(1 / _LIFE_SECONDS[kind])
        self.until = math.inf if is_calm else time.monotonic() + life
        self.signal = signal.SIGKILL
        if kind == "worker" and chance.random() < _DRAINED:
            self.signal = signal.SIGTERM
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            os.close(self._requests)
            os.close(self.answers)
            serve = partial(serve_worker, place, kill_at)
            if kind == "desk":
                read, write = os.fdopen(requests), os.fdopen(answers, "w")
                serve = partial(serve_desk, place, kill_at, read, write)
            self._child(serve)
        os.close(requests)
        os.close(answers)
        self._text = b""

    def _child(self, serve: Callable[[], None]) -> None:
        status = 1
        try:
            serve()
            status = 0
        except BaseException:  # noqa: BLE001  # this is what is looked for
            self._wrong.write_text(traceback.format_exc())
        finally:
            os._exit(status)

    def send(self, request: dict[str, Any]) -> None:
        """Send a line; it is lost if the process has died."""
        with suppress(BrokenPipeError):
            os.write(self._requests, json.dumps(request).encode() + b"\n")

    def read(self) -> list[dict[str, Any]]:
        """Return the answers that are there."""
        self._text += os.read(self.answers, 1 << 20)
        *lines, self._text = self._text.split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self) -> str | None:
        """Return how the process ended: ``killed``, ``drained`` or the problem; None: it lives."""
        if time.monotonic() > self.until:
            self.until = math.inf
            with suppress(ProcessLookupError):
                os.kill(self.pid, self.signal)
        done, status = os.waitpid(self.pid, os.WNOHANG)
        if not done:
            return None
        self.close()
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return "killed"
        # Without an exit status of its own, it had not yet started to listen for the signal.
        if self.signal == signal.SIGTERM and status in (0, signal.SIGTERM):
            return "drained"
        return self._wrong.read_text() if self._wrong.exists() else f"status {status}"

    def kill(self) -> None:
        """Kill the process."""
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.close()

    def close(self) -> None:
        """Close the pipes."""
        for file in (self._requests, self.answers):
            with suppress(OSError):
                os.close(file)


@dataclass
class _Open:
    """A run that has not ended."""

    name: str
    tenant: str
    straight: dict[str, Any]
    started: float = field(default_factory=time.monotonic)


class QueueSeries(Series):
    """Runs of a queue in PostgreSQL, whose workers and whose desk are killed."""

    def __init__(
        self,
        folder: Path,
        store: str,
        death: str,
        mutant: str,
        engine: EngineName = "process",
    ) -> None:
        """Start the store."""
        super().__init__(folder, store, death, mutant, engine)
        self._ledger = Ledger(self._place.folder / "runs")
        self._open: dict[str, _Open] = {}
        self._processes: dict[str, _Process] = {}
        self._chance = Random()
        self._is_calm = False
        self._waiting = 0
        prepare(self._place)

    def _reset(self) -> None:
        for process in self._processes.values():
            process.kill()
        self._processes.clear()
        super()._reset()

    def point(
        self, number: int, program: str, steps: list[int], chance: Random, straight: dict[str, Any]
    ) -> tuple[_Counts, list[str]]:
        """Submit a run; return the numbers and the problems of those that ended meanwhile."""
        self._chance = chance
        run_id = f"run{number}"
        self._open[run_id] = _Open(program, chance.choice(TENANTS), straight)
        if "desk" in self._processes:
            self._send(run_id)
        counts: _Counts = Counter()
        wrong: list[str] = []
        while len(self._open) >= _MOST_OPEN:
            wrong += self._turn(counts)
        return counts, wrong

    def finish(self) -> tuple[_Counts, list[str]]:
        """Wait until all runs have ended; nothing must be left in the queue."""
        counts: _Counts = Counter()
        wrong: list[str] = []
        while self._open:
            wrong += self._turn(counts)
        self._is_calm = True
        self._waiting = 1
        end = time.monotonic() + _SECONDS
        while self._waiting and time.monotonic() < end:
            wrong += self._turn(counts)
        if self._waiting:
            wrong.append(f"{self._waiting} ended runs stay in the queue")
        return counts, wrong

    def _send(self, run_id: str) -> None:
        run = self._open[run_id]
        self._processes["desk"].send(
            {"run": run_id, "program": run.name, "tenant": run.tenant, "seconds": _SECONDS}
        )

    def _turn(self, counts: _Counts) -> list[str]:
        """Keep the processes running for a moment; return the problems of the runs that ended."""
        wrong = []
        for name in ("desk", *(f"worker {index}" for index in range(_WORKERS))):
            if name not in self._processes:
                self._start(name)
            process = self._processes[name]
            how = process.end()
            if how is None:
                continue
            del self._processes[name]
            if how == "killed":
                counts["deaths"] += 1
                counts[f"deaths of {process.kind}"] += 1
            elif how == "drained":
                counts["drained"] += 1
            else:
                wrong.append(f"{name}: {how}")
        if "desk" in self._processes:
            wrong += self._read(self._processes["desk"], counts)
        return wrong

    def _start(self, name: str) -> None:
        kind = name.partition(" ")[0]
        self._processes[name] = _Process(kind, self._place, self._chance, is_calm=self._is_calm)
        if kind == "desk":
            for run_id in self._open:
                self._send(run_id)

    def _read(self, desk: _Process, counts: _Counts) -> list[str]:
        wrong = []
        ready, _, _ = select.select([desk.answers], [], [], 0.02)
        for found in desk.read() if ready else ():
            if "counts" in found:
                self._waiting = sum(map(sum, found["counts"].values()))
                running = found["counts"].get(LIMITED, (0, 0))[1]
                if running > MOST_RUNNING:
                    wrong.append(f"{running} runs at once, and {MOST_RUNNING} are allowed")
                continue
            run = self._open.pop(found["run"], None)
            if run is not None:
                counts["ended"] += 1
                problems = self._judge(found, run, counts)
                wrong += [f"{found['run']} {run.name}: {text}" for text in problems]
        return wrong

    def _judge(self, found: dict[str, Any], run: _Open, counts: _Counts) -> list[str]:
        ledger = self._ledger.of_run(found["run"])
        lines = ledger.lines()
        if "error_text" in found:
            return [f"{found['error_text']}\n{found['trace']}\n{lines[-20:]}"]
        audit = Audit(lines, found["retried"])
        kinds = Counter(line[0] for line in lines)
        counts["leases"] += kinds["lease"]
        counts["cancelled"] += len({line[1] for line in lines if line[0] == "cancelled"})
        wanted = ranked(run.straight["effects"])
        done, removed = doubled(ranked(audit.effects), wanted, audit.late)
        counts["late effects"] += removed
        wrong = [*audit.problems, *differences(found, run.straight, done, wanted)]
        if wrong:
            wrong.append(f"lines: {lines[-60:]!r:.8000}")
        return wrong
