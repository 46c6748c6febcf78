"""Scripts and tools for `durable.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import anyio

from ptc import Limits, Retry, SavedProgram, Tool, ToolContext, ToolError, define_tool
from ptc._programs._pins import pin
from ptc._programs._programs import FOLDER
from ptc._programs._store import ProgramStore
from tests.fuzz.durable_server import Server, answer
from tests.fuzz.durable_trees import TREE_SOURCE, TREE_TOOLS, tree, tree_tools

__all__ = [
    "CORRECTIONS",
    "PROGRAMS",
    "TOOLS",
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
    "flags": """
import asyncio
async def ask(ctx, name, n):
    try:
        return await ctx.call(name, {"n": n})
    except ToolError as e:
        return [e.code, str(e)]
async def run(ctx, inputs):
    names = ["look", "safe", "known", "peek", "put", "send", "pay", "ask", "give", "wire", "owe"]
    found = await asyncio.gather(*(ask(ctx, name, n) for n, name in enumerate(names)))
    for name in names:
        found.append(await ask(ctx, name, 3))
    return found + [await ask(ctx, name, 20) for name in names]
""",
    "waits": """
import asyncio
async def slow(ctx, n):
    await asyncio.sleep(1)
    return await ctx.put(n=n)
async def run(ctx, inputs):
    found = []
    tasks = [asyncio.create_task(ctx.look(n=n)) for n in range(6)]
    while tasks:
        done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for n in sorted(task.result()["n"] for task in done):
            found.append((await ctx.pay(n=n))["square"])
    try:
        async with asyncio.TaskGroup() as group:
            mine = [group.create_task(ctx.look(n=n)) for n in (10, 11)]
            group.create_task(ctx.look(n=-1))
    except* ToolError as group:
        found.append(len(group.exceptions))
    try:
        await asyncio.wait_for(slow(ctx, 12), 0.005)
    except asyncio.TimeoutError:
        found.append("late")
    for next_done in asyncio.as_completed([ctx.send(n=n) for n in range(20, 24)]):
        found.append((await next_done)["tool"])
    return sorted(found, key=str)
""",
    "corrected": """
import asyncio
async def run(ctx, inputs):
    found = await asyncio.gather(ctx.look(n=1), ctx.pay(n=1), ctx.deep(n=2), ctx.put(n=3))
    await ctx.pay(n=4)
    raise ValueError(len(found))
""",
}
CORRECTIONS = {
    "corrected": """
import asyncio
async def run(ctx, inputs):
    calls = [ctx.put(n=3), ctx.pay(n=4), ctx.deep(n=2), ctx.look(n=1), ctx.pay(n=1), ctx.pay(n=5)]
    found = await asyncio.gather(*calls)
    return [found, await ctx.send(n=6), await ctx.deep(n=7)]
""",
}
"""Scripts that continue the failed programs of the same name."""
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


FLAGS = ("safe", "known", "peek", "give", "wire", "owe")
"""Tools whose flags those of the other programs lack."""
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
                server.of(ctx).take(what, n, ctx.idempotency_key)
                step()
            else:
                server.of(ctx).look(name, n)
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
        # The other combinations of flags.
        simple("safe", idempotent=True),
        simple("known", cache=True),
        simple("peek", needs_approval=True),
        simple("give", side_effect=True, idempotent=True, needs_approval=True),
        simple("wire", side_effect=True, uses_key=True, needs_approval=True),
        simple("owe", side_effect=True, uses_key=True, retry=Retry(max_retries=1, backoff_ms=0)),
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


TOOLS = [*dict.fromkeys(["stuck", "echo", "batch", "deep", "order", *FLAGS, *TREE_TOOLS])]


def program(name: str) -> dict[str, Any]:
    """Return source and inputs of one of `PROGRAMS`, or of ``tree N``, the tree of seed N."""
    if name in PROGRAMS:
        return {"source": PROGRAMS[name]}
    return {"source": TREE_SOURCE, "inputs": tree(int(name.partition(" ")[2]))}
