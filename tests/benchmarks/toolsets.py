"""Cost of large sets of tools: definitions, sessions, runs, and the text that a model reads.

The same measures with 10, 100 and 1,000 tools, one after the other in each round. Each tool has
three parameters. Every second one is a function with type hints, the others have a JSON Schema.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from itertools import product
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final, Literal

import orjson
from engine import WORKERS, Gate, Ptc
from measure import Row, best, median
from pydantic import Field

from ptc import Session, Tool, define_tool, tool

__all__ = ["measure_toolsets"]

SIZES: Final = (10, 100, 1_000)
_RUNS: Final = 12
"""Runs of each script in a round."""

_TRIVIAL: Final = "async def run(ctx, inputs):\n    return 1\n"
_CALLS: Final = """\
async def run(ctx, inputs):
    found = await ctx.service_0.find_0(query="x")
    found += await ctx.service_0.find_1(query="y", limit=2)
    found += await ctx.service_0.find_2(query="z", order="name")
    return len(found)
"""
_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "Words to find.", "minLength": 1},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
        "order": {"enum": ["name", "date"], "default": "name"},
    },
    "required": ["query"],
    "additionalProperties": False,
}


def define_from_hints(name: str) -> Tool:
    """Define a tool by the type hints of a function."""

    async def find(
        query: Annotated[str, Field(min_length=1)],
        limit: Annotated[int, Field(ge=1, le=100)] = 10,
        order: Literal["name", "date"] = "name",
    ) -> list[str]:
        """Find records that contain some words.

        Args:
            query: Words to find.
            limit: Records to return at most.
            order: Order of the records.
        """
        return [name]

    return tool(name=name)(find)


def define_from_schema(name: str) -> Tool:
    """Define a tool by a JSON Schema."""

    async def find(arguments: Mapping[str, Any]) -> list[str]:
        return [name]

    return define_tool(name, "Find records that contain some words.", _SCHEMA, find)


def define(count: int) -> list[Tool]:
    """Define so many tools, in namespaces of 25."""
    makers = (define_from_hints, define_from_schema)
    return [makers[n % 2](f"service_{n // 25}.find_{n}") for n in range(count)]


def _timed(function: Callable[[], Any], scale: float) -> float:
    started = time.perf_counter()
    function()
    return scale * (time.perf_counter() - started)


class _Samples:
    """Samples of each measure and size, in order."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, str], dict[int, list[float]]] = {}

    def add(self, name: str, unit: str, count: int, *values: float) -> None:
        """Add samples of one measure."""
        self._taken.setdefault((name, unit), {}).setdefault(count, []).extend(values)

    def rows(self) -> list[Row]:
        """Return a line for each measure and size, and one with the ratio of the largest two."""
        found = []
        for (name, unit), sizes in self._taken.items():
            # Definitions have a fixed size: any excess is noise.
            reduce = best if unit == "us" else median
            figures = {count: reduce(values) for count, values in sizes.items()}
            found += [Row(f"{name}, {n:,} tools", unit, value) for n, value in figures.items()]
            few, many = figures[SIZES[-2]], figures[SIZES[-1]]
            if few and many is not None:
                found.append(Row(f"{name}, 1,000 : 100 tools", "x", many / few))
        return found


async def measure_toolsets(rounds: int) -> list[Row]:
    """Measure definitions, sessions, runs and texts with each number of tools."""
    samples = _Samples()
    async with AsyncExitStack() as stack:
        engines = {}
        for count in SIZES:
            root = stack.enter_context(TemporaryDirectory())
            session = Session(root, tools=define(count), toolsets=(), workers=WORKERS)
            await stack.enter_async_context(session)
            await session.warm_up()
            engines[count] = Ptc(session, Gate())
            await engines[count].run(_CALLS)
        for _ in range(rounds):
            for count in SIZES:
                _measure_definitions(samples, count)
                await _measure_opening(samples, count)
            await _measure_runs(samples, engines)
            for count, engine in engines.items():
                _measure_texts(samples, count, engine)
    return samples.rows()


def _measure_definitions(samples: _Samples, count: int) -> None:
    names = [f"service_{n // 25}.find_{n}" for n in range(count)]
    for label, make in (("@tool", define_from_hints), ("define_tool", define_from_schema)):
        started = time.perf_counter()
        for name in names:
            make(name)
        taken = 1e6 * (time.perf_counter() - started) / count
        samples.add(f"{label}, for each definition", "us", count, taken)


async def _measure_opening(samples: _Samples, count: int) -> None:
    tools = define(count)
    with TemporaryDirectory() as root:
        started = time.perf_counter()
        async with Session(root, tools=tools, toolsets=()) as session:
            samples.add("opening a session", "ms", count, 1e3 * (time.perf_counter() - started))
            definition = _timed(lambda: session.program_definition("anthropic"), 1e3)
            samples.add("program_definition, first", "ms", count, definition)
        with TemporaryDirectory() as other:
            started = time.perf_counter()
            async with Session(other, tools=define(count), toolsets=()) as session:
                (await session.program(source=_CALLS)).unwrap()
                taken = 1e3 * (time.perf_counter() - started)
        samples.add("defining, opening, first run", "ms", count, taken)


async def _measure_runs(samples: _Samples, engines: Mapping[int, Ptc]) -> None:
    """Measure runs, one with each number of tools in turn."""
    for run, (count, engine) in product(range(_RUNS), engines.items()):
        session = engine.session
        for name, source, allowed in (
            ("trivial run, repeated", _TRIVIAL, None),
            ("trivial run, tools listed", _TRIVIAL, session.tool_names()),
            ("trivial run, each one new", f"{_TRIVIAL}# {time.time_ns()} {run}", None),
            ("run with 3 calls, repeated", _CALLS, None),
        ):
            await engine.settle()
            started = time.perf_counter()
            (await session.program(source=source, allowed_tools=allowed)).unwrap()
            samples.add(name, "ms", count, 1e3 * (time.perf_counter() - started))


def _measure_texts(samples: _Samples, count: int, engine: Ptc) -> None:
    session = engine.session
    taken = _timed(lambda: session.program_definition("anthropic"), 1e3)
    samples.add("program_definition, repeated", "ms", count, taken)
    text = orjson.dumps(session.program_definition("anthropic")).decode()
    samples.add("program_definition", "characters", count, len(text))
    taken = _timed(lambda: session.search_tools("find records"), 1e3)
    samples.add("search_tools", "ms", count, taken)
