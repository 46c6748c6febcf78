"""Play a hostile worker at random and check that the host survives every message.

usage: python tests/fuzz/wire.py [--minutes 5] [--plays N] [--seed N] [--backend asyncio|trio]
                                 [--first N] [--out FOLDER]

This side of the wire is the real host, with runs of real scripts beside the played ones. Exit
status 1 if there are findings; each such play is in the folder, with its finding. Play number N of
a seed sends the same bytes every time: ``--seed S --first N --plays 1``.
"""

from __future__ import annotations

import argparse
import functools
import gc
import logging
import os
import resource
import socket
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

import anyio  # noqa: E402  # the repository is on the path only now

from ptc import Limits, RunResult, Session, ToolError, tool  # noqa: E402  # as above
from ptc._core._reactor import current_reactor  # noqa: E402  # as above
from ptc._wire._protocol import State  # noqa: E402  # as above
from ptc._workers._process import ProcessWorker  # noqa: E402  # as above
from ptc._workers._worker import Exit  # noqa: E402  # as above
from tests.core.pools import pool_of  # noqa: E402  # as above
from tests.fuzz.wire_messages import Play, Step, play_of  # noqa: E402  # as above

_TOGETHER = 8
"""Concurrent plays."""
_HOSTILE_BYTES = 7 << 20
"""Memory limit by which the host's pool recognizes a played worker."""
_LIMITS = Limits(
    timeout_ms=150,
    max_tool_calls=30,
    max_in_flight=4,
    max_output_bytes=2_000,
    max_emit_bytes=20_000,
    max_stdout_bytes=50_000,
    max_messages=5_000,
    max_memory_bytes=_HOSTILE_BYTES,
)
_STATUSES = {
    "completed", "failed", "rejected", "timed_out", "limit_exceeded", "violation", "crashed",
}  # fmt: skip
_HANG_SECONDS = 20
_GROWTH_BYTES = 96 << 20
"""Allowed growth of the process after its first plays: bodies of 8 MiB come and go."""
_SETTLED_PLAYS = 200
_NEIGHBOUR = "def run(ctx, inputs):\n    return [ctx.add(1), ctx.echo('x')]\n"


Data = dict[str, Any] | list[Any] | str | float | bool | None


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool
async def echo(value: Data = None) -> Data:
    """Return the argument."""
    return value


@tool
async def slow(ms: int = 20) -> str:
    """Sleep briefly."""
    await anyio.sleep(min(max(ms, 0), 50) / 1000)
    return "x" * 10_000


@tool
def refuse(code: str = "no") -> None:
    """Fail in a thread."""
    raise ToolError("no", code=code)


class Listener(logging.Handler):
    """Errors logged by the host and the event loop that nothing handled."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + "".join(traceback.format_exception(*record.exc_info))
        # The host also reports protocol errors of a worker as errors, as it should.
        if record.exc_info or record.name == "asyncio":
            self.heard.append(text[-2_000:])


@dataclass
class Fuzz:
    """One session, its played workers and its records."""

    seed: int
    out: Path
    counts: Counter[str] = field(default_factory=Counter)
    found: int = 0
    plays: int = 0
    neighbours: int = 0
    slowest: float = 0.0
    listener: Listener = field(default_factory=Listener)
    base: dict[str, int] = field(default_factory=dict)
    _workers: list[ProcessWorker] = field(default_factory=list)

    async def run(self, first: int, most: int, until: float) -> None:
        """Play until `most` plays are done or time is up."""
        with tempfile.TemporaryDirectory() as folder:
            session = Session(
                folder,
                tools=[add, echo, slow, refuse],
                toolsets=(),
                workers=2,
                max_concurrent_runs=64,
            )
            async with session:
                self._plant(session)
                await self._neighbour(session)
                number = first
                while number < first + most and time.monotonic() < until:
                    batch = range(number, min(number + _TOGETHER, first + most))
                    async with anyio.create_task_group() as group:
                        for one in batch:
                            group.start_soon(self._play, session, one)
                        group.start_soon(self._neighbour, session)
                    number = batch.stop
                    await self._look_at_the_books(session, number)

    def _plant(self, session: Session) -> None:
        real = pool_of(session).acquire

        async def acquire(memory_bytes: int) -> ProcessWorker:
            return (
                self._workers.pop() if memory_bytes == _HOSTILE_BYTES else await real(memory_bytes)
            )

        pool_of(session).acquire = acquire  # type: ignore[method-assign]  # the test holds the other end

    async def _play(self, session: Session, number: int) -> None:
        play = play_of(Random(f"{self.seed}/{number}"))
        wrong = ""
        try:
            with anyio.fail_after(_HANG_SECONDS):
                status = await self._against(session, play)
        except TimeoutError:
            status, wrong = "hang", "the run did not end"
        except Exception:  # noqa: BLE001  # this is what is looked for
            status, wrong = "host exception", traceback.format_exc()
        heard, self.listener.heard = self.listener.heard, []
        wrong = wrong or "\n".join(heard)
        if not wrong and status not in _STATUSES:
            wrong = f"status {status}"
        self.plays += 1
        self.counts[f"{play.name} {status}"] += 1
        if wrong:
            self._keep(number, play, wrong)

    async def _against(self, session: Session, play: Play) -> str:
        near, far = socket.socketpair()
        near.setblocking(False)
        far.setblocking(False)
        worker = ProcessWorker(0, near, current_reactor(), _HOSTILE_BYTES)
        worker.state = State.IDLE
        results: list[RunResult] = []
        with far:
            async with anyio.create_task_group() as group:
                group.start_soon(_act, far, worker, play)
                self._workers.append(worker)
                results.append(await session.program(source=play.source, limits=_LIMITS))
                group.cancel_scope.cancel()
        (result,) = results
        # The outcome can always be serialized and shown.
        result.to_json()
        str(result.error)
        return result.status

    async def _neighbour(self, session: Session) -> None:
        """Check that a real script beside the plays returns its value without delay."""
        started = time.perf_counter()
        with anyio.fail_after(_HANG_SECONDS):
            result = await session.program(source=_NEIGHBOUR)
        self.slowest = max(self.slowest, time.perf_counter() - started)
        self.neighbours += 1
        if result.value != [3, "x"]:
            self._note("neighbour", f"a run beside the plays: {result.status} {result.error}")

    async def _look_at_the_books(self, session: Session, number: int) -> None:
        if number % (8 * _TOGETHER):
            return
        now: dict[str, int] = {}
        gc.collect()
        for _ in range(50):
            now = self._books(session)
            if not self.base or all(now[name] <= self.base[name] for name in _EXACT):
                break
            await anyio.sleep(0.02)
        if not self.base or self.plays <= _SETTLED_PLAYS:
            self.base = self.base or now
            self.base["memory"] = max(self.base["memory"], now["memory"])
        over = {
            name: (now[name], self.base[name]) for name in _EXACT if now[name] > self.base[name]
        }
        if over:
            self._note(f"leak-{number}", f"left behind after play {number}: {over}")
            self.base.update({name: now[name] for name in _EXACT})
        if now["memory"] > self.base["memory"] + _GROWTH_BYTES:
            self._note(f"growth-{number}", f"memory: {self.base['memory']:,} to {now['memory']:,}")
            self.base["memory"] = now["memory"]

    def _books(self, session: Session) -> dict[str, int]:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return {
            "descriptors": len(os.listdir("/proc/self/fd")),
            "workers": max(0, pool_of(session).live - pool_of(session)._size),
            "runs": len(session._runs.active),
            "memory": pages * resource.getpagesize(),
        }

    def _keep(self, number: int, play: Play, wrong: str) -> None:
        self._note(f"{number}-{play.name}", f"{wrong}\n\n{play}")

    def _note(self, name: str, text: str) -> None:
        self.found += 1
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / f"{self.seed}-{name}.txt").write_text(
            text[:1_000_000], errors="backslashreplace"
        )
        _say(f"{self.seed}-{name}: {text[-400:] if 'Traceback' in text[:200] else text[:400]}")


_EXACT = ("descriptors", "workers", "runs")


async def _act(far: socket.socket, worker: ProcessWorker, play: Play) -> None:
    """Play the worker: perform the steps of a play."""
    for step in play.steps:
        if not await _step(far, worker, step):
            return
    if play.reads:
        await _swallow(far)


async def _swallow(far: socket.socket) -> None:
    while True:
        await anyio.wait_readable(far)
        try:
            if not far.recv(1 << 20):
                return
        except OSError:
            return


async def _step(far: socket.socket, worker: ProcessWorker, step: Step) -> bool:
    if step.pause_ms:
        await anyio.sleep(step.pause_ms / 1000)
    if step.read:
        with anyio.move_on_after(0.1):
            await anyio.wait_readable(far)
            try:
                far.recv(1 << 20)
            except OSError:
                return False
    chunk = step.chunk or len(step.data)
    for start in range(0, len(step.data), chunk or 1):
        if not await _send(far, step.data[start : start + chunk]):
            return False
    if step.hang_up:
        far.shutdown(socket.SHUT_WR)
    if step.die is not None:
        far.close()
        worker.record_exit(Exit(step.die, 0))
        return False
    return True


async def _send(far: socket.socket, data: bytes) -> bool:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[far.send(rest) :]
        except BlockingIOError:
            await anyio.wait_writable(far)
        except OSError:
            return False  # the host may hang up
    return True


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  # a command


def fuzz(options: argparse.Namespace, *, say: Callable[[str], None] = _say) -> int:
    """Play on one backend or on both in turn; return the number of findings."""
    started, found, plays = time.monotonic(), 0, 0
    backends = [options.backend] if options.backend else ["asyncio", "trio"]
    for turn, backend in enumerate(backends, start=1):
        until = started + options.minutes * 60 * turn / len(backends)
        one = Fuzz(options.seed, options.out)
        names = ("ptc", "asyncio", "trio")
        for name in names:
            logging.getLogger(name).addHandler(one.listener)
            logging.getLogger(name).propagate = False
        first = options.first if options.first is not None else (turn - 1) * 10_000_000
        begun = time.monotonic()
        try:
            anyio.run(functools.partial(one.run, first, options.plays, until), backend=backend)
        except BaseException:  # noqa: BLE001  # the event loop itself fell
            one._note(f"fallen-{one.plays}", traceback.format_exc())
        finally:
            for name in names:
                logging.getLogger(name).removeHandler(one.listener)
                logging.getLogger(name).propagate = True
        used = time.monotonic() - begun
        say(
            f"seed {options.seed}, {backend}: {one.plays} plays in {used:.0f} s, "
            f"{one.neighbours} runs beside them, the slowest in {one.slowest * 1000:.0f} ms"
        )
        for name, count in sorted(one.counts.items()):
            say(f"  {name}: {count}")
        found, plays = found + one.found, plays + one.plays
    say(f"findings: {found}" + (f", in {options.out}" if found else ""))
    return found


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--plays", type=int, default=sys.maxsize, help="stop after so many, each")
    parser.add_argument("--seed", type=int, default=None, help="default: by the clock")
    parser.add_argument("--first", type=int, default=None, help="number of the first play")
    parser.add_argument("--backend", choices=["asyncio", "trio"], help="default: both in turn")
    out = Path(tempfile.gettempdir()) / "ptc-wire-findings"
    parser.add_argument("--out", type=Path, default=out, help=f"default: {out}")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = int(time.time())
    return 1 if fuzz(options) else 0


if __name__ == "__main__":
    sys.exit(main())
