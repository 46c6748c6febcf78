"""The benchmark cases. A case yields lines of the table; no time is asserted.

Samples of ptc and Monty alternate within a round, so that disturbances of the machine affect both.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from engine import WORKERS, BlockingEngine, Engine, megabyte
from measure import (
    Row,
    best,
    median,
    percentile,
    plain_seconds,
    private_megabytes,
    process_seconds,
)
from scripts import CPU, TRIVIAL, TWENTY_FIVE_LINES
from toolsets import measure_toolsets

from ptc import Session, tool

__all__ = ["CASES", "Bench", "BlockingOpener", "Opener", "WrongValueError", "select_cases"]

Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[Engine]]
BlockingOpener: TypeAlias = Callable[[], AbstractContextManager[BlockingEngine]]
Samples: TypeAlias = dict[str, list[float]]

CALLS = 1_000
_RUNS_A_ROUND = 40
"""Short runs measured in one round: 5 rounds make 200, enough for a 99th percentile."""
_SUSTAINED_SECONDS = 3.0
"""Duration of all rounds together, for each engine and concurrency."""


@dataclass(slots=True)
class Bench:
    """Engines, number of rounds, and notes."""

    rounds: int
    openers: Mapping[str, Opener]
    """``ptc``, and ``monty`` if it is installed."""
    blocking_openers: Mapping[str, BlockingOpener]
    """The same for programs without an event loop."""
    refusals: tuple[type[Exception], ...]
    """Exceptions of a rival that cannot run a script or returns a wrong value."""
    engines: dict[str, Engine] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    """Numbers that no script has used yet."""

    async def open(self, stack: AsyncExitStack) -> dict[str, Engine]:
        """Start new engines with fresh workers."""
        return {n: await stack.enter_async_context(make()) for n, make in self.openers.items()}

    async def paired(
        self, name: str, sample: Callable[[Engine], Awaitable[list[float]]], rounds: int
    ) -> Samples:
        """Return samples of every engine, alternating within each round.

        A rival that cannot run a script has no samples, but a note with the reason. A failure of
        ptc ends the benchmark.
        """
        taken: Samples = {engine: [] for engine in self.engines}
        for _ in range(rounds):
            for which in list(taken):
                try:
                    taken[which] += await sample(self.engines[which])
                except self.refusals as error:
                    if which == "ptc":
                        raise
                    del taken[which]
                    self._note(f"{name}: {which}: {_last_line(error)}")
        return taken

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _last_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1]


class WrongValueError(Exception):
    """The engine returned an unexpected value, so its time is meaningless."""


async def _timed(engine: Engine, source: str, expected: Any) -> float:
    """Return the seconds of one run on a pool with ready workers."""
    await engine.settle()
    started = time.perf_counter()
    value = await engine.run(source)
    seconds = time.perf_counter() - started
    if value != expected:
        msg = f"returned {value!r:.80} and not {expected!r:.80}"
        raise WrongValueError(msg)
    return seconds


# --- short runs ------------------------------------------------------------------------------


async def _trivial(bench: Bench, *, distinct: bool) -> list[Row]:
    name = "trivial script, " + ("each one new" if distinct else "repeated")

    async def sample(engine: Engine) -> list[float]:
        taken = []
        for _ in range(_RUNS_A_ROUND):
            number = next(bench.numbers) if distinct else 1
            source = TRIVIAL.replace("return 1", f"return {number}")
            taken.append(1_000 * await _timed(engine, source, number))
        return taken

    taken = await bench.paired(name, sample, bench.rounds)
    return [
        Row(
            f"{name}, p{percent}",
            "ms",
            percentile(taken["ptc"], percent),
            rival=percentile(taken.get("monty"), percent),
        )
        for percent in (50, 99)
    ]


async def _trivial_blocking(bench: Bench) -> list[Row]:
    taken: Samples = {}
    for which, make in bench.blocking_openers.items():
        taken[which] = await asyncio.to_thread(_blocking_samples, make, bench.rounds)
    ours, theirs = percentile(taken["ptc"], 50), percentile(taken.get("monty"), 50)
    return [Row("trivial script, repeated, no event loop, p50", "ms", ours, rival=theirs)]


def _blocking_samples(make: BlockingOpener, rounds: int) -> list[float]:
    taken = []
    with make() as engine:
        for _ in range(rounds * _RUNS_A_ROUND):
            engine.settle()
            started = time.perf_counter()
            engine.run(TRIVIAL)
            taken.append(1_000 * (time.perf_counter() - started))
    return taken


async def _longer(bench: Bench, *, first: bool) -> list[Row]:
    name = "25-line script, " + ("first time" if first else "repeated")
    expected = (await asyncio.to_thread(plain_seconds, TWENTY_FIVE_LINES))[1]

    async def sample(engine: Engine) -> list[float]:
        taken = []
        for _ in range(_RUNS_A_ROUND // 4):
            last = f"\nlast = {next(bench.numbers)}\n" if first else "\nlast = -1\n"
            taken.append(1_000 * await _timed(engine, TWENTY_FIVE_LINES + last, expected))
        return taken

    if not first:
        await bench.paired(name, sample, 1)
    taken = await bench.paired(name, sample, bench.rounds)
    return [Row(name, "ms", median(taken["ptc"]), rival=median(taken.get("monty")))]


# --- tool calls ------------------------------------------------------------------------------

_BLOCKING = f"""\
def run(ctx, inputs):
    total = 0
    for n in range({CALLS}):
        total += ctx.noop(x=n)
    return total
"""

_AWAITED = f"""\
async def run(ctx, inputs):
    total = 0
    for n in range({CALLS}):
        total += await ctx.noop(x=n)
    return total
"""

_GATHERED = f"""\
import asyncio

async def run(ctx, inputs):
    return sum(await asyncio.gather(*[ctx.noop(x=n) for n in range({CALLS})]))
"""

_NAPS = """\
import asyncio

async def run(ctx, inputs):
    return sum(await asyncio.gather(*[ctx.nap() for n in range(100)]))
"""

_ROWS = """\
def run(ctx, inputs):
    return ctx.rows()
"""


async def _script(
    bench: Bench, *, name: str, unit: str, scale: float, source: str, expected: Any
) -> list[Row]:
    """One script with tool calls, measured as a whole; `scale`: units of the table in a second."""

    async def sample(engine: Engine) -> list[float]:
        return [scale * await _timed(engine, source, expected)]

    await bench.paired(name, sample, 1)
    taken = await bench.paired(name, sample, bench.rounds)
    return [Row(name, unit, median(taken["ptc"]), rival=median(taken.get("monty")))]


# --- work inside the script ------------------------------------------------------------------


async def _cpu(bench: Bench, *, name: str, source: str) -> list[Row]:
    """Time inside the script: a whole run minus a trivial one, as scripts have no real clock."""
    plain: list[float] = []
    expected = (await asyncio.to_thread(plain_seconds, source))[1]

    async def sample(engine: Engine) -> list[float]:
        overhead = min([await _timed(engine, TRIVIAL, 1) for _ in range(3)])
        return [1_000 * (await _timed(engine, source, expected) - overhead)]

    taken: Samples = {}
    for _ in range(bench.rounds):
        for which, samples in (await bench.paired(name, sample, 1)).items():
            taken.setdefault(which, []).extend(samples)
        plain.append(1_000 * (await asyncio.to_thread(plain_seconds, source))[0])
    return [
        Row(f"cpu: {name}", "ms", best(taken["ptc"]), best(plain), best(taken.get("monty"))),
    ]


# --- many runs -------------------------------------------------------------------------------


async def _sustained(bench: Bench, *, concurrency: int) -> list[Row]:
    name = f"new scripts one after another, {concurrency} at once"

    async def sample(engine: Engine) -> list[float]:
        finished = 0
        await engine.settle()
        started = time.perf_counter()
        end = started + _SUSTAINED_SECONDS / bench.rounds

        async def lane() -> None:
            nonlocal finished
            while time.perf_counter() < end:
                await engine.run(TRIVIAL.replace("return 1", f"return {next(bench.numbers)}"))
                finished += 1

        await asyncio.gather(*(lane() for _ in range(concurrency)))
        return [finished / (time.perf_counter() - started)]

    taken = await bench.paired(name, sample, bench.rounds)
    ours, theirs = median(taken["ptc"]), median(taken.get("monty"))
    return [Row(name, "runs/s", ours, rival=theirs, more_is_better=True)]


# --- processes -------------------------------------------------------------------------------

_HOLD = """\
async def run(ctx, inputs):
    return await ctx.hold()
"""


async def _memory(bench: Bench) -> list[Row]:
    """Private memory of idle workers, and of the same workers during a tool call."""
    idle: dict[str, float | None] = {}
    busy: dict[str, float | None] = {}
    for which, make in bench.openers.items():
        # Other pools of the same kind have processes, too, and have run scripts before.
        before = bench.engines[which].workers()
        async with make() as engine:
            pids = engine.workers() - before
            await asyncio.sleep(0.1)  # until they have rehearsed and are idle
            idle[which] = _private(pids)
            async with asyncio.TaskGroup() as group:
                for _ in range(WORKERS):
                    group.create_task(engine.run(_HOLD))
                await engine.gate.full(WORKERS)
                busy[which] = _private(pids & engine.workers())
                engine.gate.release()
    return [
        Row(f"private memory of {what} worker", "MB", each["ptc"], rival=each.get("monty"))
        for what, each in (("an idle", idle), ("a busy", busy))
    ]


def _private(pids: set[int]) -> float | None:
    return median([size for pid in pids if (size := private_megabytes(pid)) is not None])


_FIRST_RESULT = f"""
from ptc import BlockingSession
with BlockingSession(toolsets=()) as session:
    session.program(source={TRIVIAL!r}).unwrap()
"""

_FIRST_RESULT_MONTY = """
from pydantic_monty import Monty
with Monty() as pool, pool.checkout() as session:
    session.feed_run("1")
"""


async def _start(bench: Bench) -> list[Row]:
    """Wall time of new processes, each next to ``python -c pass``."""
    wanted = {
        "pass": "pass",
        "import": "import ptc",
        "import Session": "from ptc import Session",
        "result": _FIRST_RESULT,
    }
    if "monty" in bench.openers:
        wanted |= {"import monty": "import pydantic_monty", "result monty": _FIRST_RESULT_MONTY}
    taken: Samples = {each: [] for each in wanted}
    for _ in range(bench.rounds):
        for each, code in wanted.items():
            taken[each].append(1_000 * await asyncio.to_thread(process_seconds, code))
    plain = median(taken["pass"])
    imported, face = median(taken["import"]), median(taken["import Session"])
    rival = median(taken.get("import monty"))
    result, result_rival = median(taken["result"]), median(taken.get("result monty"))
    return [
        Row("new process: import ptc", "ms", imported, plain, rival),
        Row("new process: from ptc import Session", "ms", face, plain, rival),
        Row("new process: first result and exit", "ms", result, plain, result_rival),
    ]


# --- direct calls -----------------------------------------------------------------------------


async def _direct(bench: Bench) -> list[Row]:
    """Cost of a direct call by the application, compared with calling the function."""

    async def no_op() -> int:
        return 1

    function = tool(name="no_op", description="Do nothing.")(no_op)
    through: list[float] = []
    plain: list[float] = []
    with tempfile.TemporaryDirectory() as root:
        async with Session(root, tools=[function], toolsets=()) as session:
            for _ in range(5 * bench.rounds):
                begun = time.perf_counter()
                for _ in range(CALLS):
                    await no_op()
                between = time.perf_counter()
                for _ in range(CALLS):
                    await session.tool("no_op")
                through.append(time.perf_counter() - between)
                plain.append(between - begun)
    # The minimum of all rounds: any excess is disturbance.
    return [
        Row(
            "a direct call of an async no-op",
            "us",
            min(through) * _MICROSECONDS_A_CALL,
            min(plain) * _MICROSECONDS_A_CALL,
        )
    ]


async def _toolsets(bench: Bench) -> list[Row]:
    return await measure_toolsets(bench.rounds)


# --- the list --------------------------------------------------------------------------------

Case: TypeAlias = Callable[[Bench], Awaitable[list[Row]]]

_SUM = sum(range(CALLS))
_MICROSECONDS_A_CALL = 1e6 / CALLS


def _call_case(name: str, source: str) -> Case:
    return partial(
        _script,
        name=f"{CALLS:,} calls of a no-op tool, {name}",
        unit="us/call",
        scale=_MICROSECONDS_A_CALL,
        source=source,
        expected=_SUM,
    )


CASES: Mapping[str, Case] = {
    "trivial.repeated": partial(_trivial, distinct=False),
    "trivial.blocking": _trivial_blocking,
    "trivial.distinct": partial(_trivial, distinct=True),
    "script25.first": partial(_longer, first=True),
    "script25.repeated": partial(_longer, first=False),
    "calls.blocking": _call_case("blocking", _BLOCKING),
    "calls.awaited": _call_case("awaited", _AWAITED),
    "calls.gathered": _call_case("gathered", _GATHERED),
    "calls.direct": _direct,
    "fanout": partial(
        _script,
        name="100 tools of 10 ms gathered",
        unit="ms",
        scale=1e3,
        source=_NAPS,
        expected=100,
    ),
    "payload": partial(
        _script,
        name="1 MB of rows across and back",
        unit="ms",
        scale=1e3,
        source=_ROWS,
        expected=megabyte,
    ),
    **{
        "cpu." + name.split()[0].partition("(")[0]: partial(_cpu, name=name, source=source)
        for name, source in CPU.items()
    },
    "sustained.1": partial(_sustained, concurrency=1),
    "sustained.8": partial(_sustained, concurrency=8),
    "memory": _memory,
    "start": _start,
    "toolsets": _toolsets,
}


def select_cases(names: list[str] | None) -> dict[str, Case]:
    """Return the cases of these names; ``cpu`` selects all of ``cpu.*``, None selects all.

    Raises:
        KeyError: With the first unknown name.
    """
    if names is None:
        return dict(CASES)
    chosen: dict[str, Case] = {}
    for name in names:
        found = {n: case for n, case in CASES.items() if n == name or n.startswith(f"{name}.")}
        if not found:
            raise KeyError(name)
        chosen |= found
    return chosen
