"""Scripts, tools and a journal that kills its process, for `durable.py`."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import anyio

from ptc import Limits, SavedProgram, Tool, ToolContext, ToolError, define_tool
from ptc._journal._journal import DecisionRow, Entry, Lease, RunRow
from ptc._journal._sqlite import SqliteJournal
from ptc._journal._writer import Writer
from ptc._programs._pins import pin
from ptc._programs._programs import FOLDER
from ptc._programs._store import ProgramStore
from tests.fuzz.durable_server import Server, answer
from tests.fuzz.durable_trees import TREE_SOURCE, TREE_TOOLS, tree, tree_tools

__all__ = [
    "PROGRAMS",
    "TOOLS",
    "Killed",
    "KilledWriter",
    "Server",
    "answer",
    "program",
    "save_programs",
    "tools",
]

PROGRAMS = {
    "sequential": """
async def run(ctx, inputs):
    found = []
    for n in range(4):
        found.append(await ctx.look(n=n))
        found.append(await ctx.put(n=n))
        found.append(await ctx.pay(n=n))
        found.append(await ctx.send(n=n))
        print(n)
    ctx.emit(len(found))
    return found
""",
    "gathered": """
import asyncio
async def run(ctx, inputs):
    calls = [ctx.look(n=n) for n in range(60)]
    calls += [ctx.put(n=n) for n in range(20)]
    calls += [ctx.pay(n=n) for n in range(10)]
    calls += [ctx.send(n=7) for n in range(10)]
    return await asyncio.gather(*calls)
""",
    "nested": """
import asyncio
async def run(ctx, inputs):
    first = await ctx.batch(n=1)
    rest = await asyncio.gather(*(ctx.batch(n=n) for n in range(2, 5)), ctx.deep(n=5))
    await ctx.pay(n=9)
    return [first, rest]
""",
    "approvals": """
import asyncio
async def ask(ctx, n):
    try:
        return await ctx.ask(n=n)
    except ToolError as e:
        return [e.code, str(e)]
async def run(ctx, inputs):
    before = await ctx.put(n=1)
    both = await asyncio.gather(ask(ctx, 2), ask(ctx, 3), ask(ctx, 4), ctx.look(n=5))
    await ctx.pay(n=6)
    return [before, both, await ask(ctx, 7), await ctx.send(n=8)]
""",
    "errors": """
import asyncio
async def run(ctx, inputs):
    found = []
    for name in ("look", "put", "pay", "send"):
        try:
            await ctx[name](n=-1) if False else await getattr(ctx, name)(n=-1)
        except ToolError as e:
            found.append([e.code, e.details, str(e)])
    found += await asyncio.gather(
        *(ctx.pay(n=n) for n in (1, -2, 3, -4)), return_exceptions=True
    )
    found = [f if isinstance(f, (dict, list)) else str(f) for f in found]
    raise ValueError(found)
""",
    "timers": """
import asyncio, random, time
async def run(ctx, inputs):
    drawn, began = random.randrange(1000), time.time()
    try:
        await asyncio.wait_for(ctx.stuck(n=1), 0.01)
    except asyncio.TimeoutError:
        found = ["late"]
    found.append(await ctx.put(n=2))
    await asyncio.sleep(0.005)
    echo = await ctx.echo(drawn=drawn, began=began)
    found.append(await ctx.pay(n=3))
    return [found, echo == [drawn, began], time.time() >= began + 0.005]
""",
    "saved": """
import asyncio
async def run(ctx, inputs):
    first = await ctx.order(n=1)
    rest = await asyncio.gather(*(ctx.order(n=n) for n in range(2, 5)))
    await ctx.pay(n=9)
    return [first, rest]
""",
}
_SAVED = """
import asyncio, random, time
async def run(ctx, inputs):
    n, drawn, began = 100 * inputs["n"], random.randrange(1000), time.time()
    found = await asyncio.gather(ctx.look(n=n), ctx.put(n=n), ctx.pay(n=n))
    found.append(await ctx.pay(n=n))
    try:
        found.append(await ctx.ask(n=inputs["n"]))
        await ctx.pay(n=-n)
    except ToolError as error:
        found.append(error.code)
    await ctx.echo(drawn=drawn, began=began)
    return [*found, await ctx.send(n=n + 1)]
"""
"""Script of the saved program `order`."""


_SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def tools(server: Server, step: Callable[[], None]) -> list[Tool]:
    """Create the tools; `step` is called before and after each effect."""

    def simple(name: str, **options: Any) -> Tool:
        async def work(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
            n = arguments["n"]
            await anyio.sleep((n * 7 % 5) / 2_000)
            if n < 0:
                raise ToolError(f"{name} of {n}", code="negative", details={"n": n})
            step()
            if ctx.side_effect:
                what = f"{name} drawn" if "amount" in arguments else name
                server.take(what, n, ctx.idempotency_key)
                step()
            return answer(name, n)

        return define_tool(name, f"{name}.", _SCHEMA, work, **options)

    async def stuck(arguments: Mapping[str, Any]) -> Any:
        await anyio.sleep_forever()

    async def echo(arguments: Mapping[str, Any]) -> Any:
        return [arguments["drawn"], arguments["began"]]

    async def batch(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        n = 100 * arguments["n"]
        found = [await ctx.call_tool("look", n=n), await ctx.call_tool("put", n=n)]
        found.append(await ctx.call_tool("pay", n=n))
        step()
        found.append(await ctx.call_tool("pay", n=n))
        try:
            await ctx.call_tool("pay", n=-n)
        except ToolError as error:
            found.append(error.code)
        return [*found, await ctx.call_tool("send", n=n + 1)]

    async def deep(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        return [await ctx.call_tool("batch", n=arguments["n"]), await ctx.call_tool("look", n=1)]

    return [
        simple("look"),
        simple("put", side_effect=True, idempotent=True),
        simple("send", side_effect=True, uses_key=True),
        simple("pay", side_effect=True),
        simple("ask", side_effect=True, needs_approval=True),
        define_tool("stuck", "Never ends.", _SCHEMA, stuck),
        define_tool("echo", "Says it again.", {"type": "object", "properties": {}}, echo),
        define_tool("batch", "Calls tools.", _SCHEMA, batch),
        define_tool("deep", "Calls a tool that calls tools.", _SCHEMA, deep),
        *tree_tools(server, step),
    ]


def save_programs(root: Path, known: Iterable[Tool]) -> None:
    """Write the saved program `order` into a root that lacks it."""
    store = ProgramStore(root / FOLDER)
    if store.names():
        return
    names = ("look", "put", "pay", "ask", "echo", "send")
    store.save(
        SavedProgram(
            name="order",
            version=0,
            description="Make calls.",
            source=_SAVED,
            input_schema=_SCHEMA,
            output_schema=None,
            allowed_tools=names,
            tools={tool.name: pin(tool) for tool in known if tool.name in names},
            limits=Limits(),
            run_id="r",
            saved_at="",
            folder=root,
        )
    )


TOOLS = [*dict.fromkeys(["stuck", "echo", "batch", "deep", "order", *TREE_TOOLS])]


def program(name: str) -> dict[str, Any]:
    """Return source and inputs of one of `PROGRAMS`, or of ``tree N``, the tree of seed N."""
    if name in PROGRAMS:
        return {"source": PROGRAMS[name]}
    return {"source": TREE_SOURCE, "inputs": tree(int(name.partition(" ")[2]))}


class Killed(SqliteJournal):
    """A journal that kills its process at a step: before or after any operation."""

    steps = 0
    """Number of steps so far."""
    at: int | None = None
    """Step at which to kill the process; None for never."""

    @classmethod
    def step(cls) -> None:
        """Count one step."""
        cls.steps += 1
        if cls.steps == cls.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def start_run(self, run: RunRow) -> Lease:
        """See `SqliteJournal.begin`."""
        self.step()
        lease = super().start_run(run)
        self.step()
        return lease

    def acquire(self, run_id: str) -> Lease:
        """See `SqliteJournal.acquire`."""
        self.step()
        lease = super().acquire(run_id)
        self.step()
        return lease

    def append(self, lease: Lease, entry: Entry) -> None:
        """See `SqliteJournal.append`."""
        self.step()
        super().append(lease, entry)
        self.step()

    async def barrier(self, lease: Lease) -> None:
        """See `SqliteJournal.barrier`."""
        self.step()
        await super().barrier(lease)
        self.step()

    def end_run(self, lease: Lease, status: str, result: bytes, at_ms: int) -> None:
        """See `SqliteJournal.end`."""
        self.step()
        super().end_run(lease, status, result, at_ms)
        self.step()

    def release(self, lease: Lease) -> None:
        """See `SqliteJournal.release`."""
        self.step()
        super().release(lease)

    def decide(self, run_id: str, decision: DecisionRow) -> bool:
        """See `SqliteJournal.decide`."""
        self.step()
        first = super().decide(run_id, decision)
        self.step()
        return first


class KilledWriter(Writer):
    """The writer of a `Killed` journal."""

    def _commit(self, batch: Any, *, durable: bool) -> None:
        Killed.step()
        super()._commit(batch, durable=durable)
        Killed.step()

    def _execute_group(self, sql: str, writes: Any) -> None:
        super()._execute_group(sql, writes)
        Killed.step()  # in the middle of a transaction
