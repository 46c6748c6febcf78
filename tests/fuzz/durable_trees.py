"""Random trees of calls, for `durable.py` and `tests/core/calls/test_call_trees.py`.

A tree is data: the script calls the tool of its root, and each tool those of its children, in
order or concurrently. Resumed tools shuffle their concurrent calls, because their order does not
matter.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import anyio

from ptc import Retry, Tool, ToolContext, ToolError, define_tool
from tests.fuzz.durable_server import Server

__all__ = ["TREE_SOURCE", "TREE_TOOLS", "tree", "tree_tools"]

TREE_SOURCE = """
import asyncio
async def one(ctx, node):
    try:
        return await ctx.call(node["tool"], node["arguments"])
    except ToolError as e:
        return [e.code, str(e)]
async def run(ctx, inputs):
    found = []
    for nodes in inputs["turns"]:
        found.append(await asyncio.gather(*(one(ctx, node) for node in nodes)))
    return found
"""
"""Makes the calls in its inputs: each group of nodes concurrently, one group after another."""

_LEAVES = (
    *("look", "look", "put", "send", "pay", "pay", "ask", "fail"),
    *("give", "wire", "owe", "peek"),
)
_CALLERS = ("plain", "plain", "plain", "careless", "again", "keyed", "kept", "shared", "unsafe")
TREE_TOOLS = [*dict.fromkeys([*_LEAVES, *_CALLERS]), "clock", "drawn"]
_REPEATABLE = frozenset({"look", "put", "send", "fail", "owe"})
_STRICT = frozenset({"again", "unsafe"})
_MOST_FAILURES = 2
_MOST_DEPTH = 4
_MOST_NODES = 40
_SCHEMA = {"type": "object"}
_Node = dict[str, Any]


def tree(seed: int) -> dict[str, Any]:
    """Create inputs of `TREE_SOURCE`, the same for the same seed."""
    return {"turns": _Tree(Random(seed)).turns()}


class _Tree:
    """Generator of one tree."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._nodes = 0
        self._cached: list[_Node] = []

    def turns(self) -> list[list[_Node]]:
        """Return the nodes of each turn, which the script calls concurrently."""
        widths = [self._chance.choice((1, 1, 2, 3)) for _ in range(self._chance.choice((1, 2)))]
        return [[self._node(0, frozenset()) for _ in range(width)] for width in widths]

    def _node(self, depth: int, above: frozenset[str]) -> _Node:
        chance = self._chance
        self._nodes += 1
        n = self._nodes
        if depth > _MOST_DEPTH or n > _MOST_NODES or (depth and chance.random() < 0.5):
            return {"tool": self._leaf(above), "arguments": {"n": n}}
        if not above & _STRICT:
            if chance.random() < 0.1:
                return {"tool": "drawn", "arguments": {"n": n}}
            if self._cached and chance.random() < 0.15:
                return self._cached_again(n)
        # A call with unknown outcome cannot be decided if its caller must not be repeated either.
        names = [name for name in _CALLERS if name != "unsafe" or "unsafe" not in above]
        name = chance.choice(names)
        node = {"tool": name, "arguments": self._arguments(n, name, depth, above | {name})}
        if name in ("kept", "shared") and not above & _STRICT:
            self._cached.append(node)
        return node

    def _arguments(self, n: int, name: str, depth: int, above: frozenset[str]) -> dict[str, Any]:
        chance = self._chance
        kids = [self._node(depth + 1, above) for _ in range(chance.choice((1, 2, 2, 3)))]
        if chance.random() < 0.25:
            # An equal call, or one answered from the cache.
            kids.append(chance.choice(kids))
        arguments: dict[str, Any] = {"n": n, "kids": kids, "at_once": chance.random() < 0.5}
        if name == "again":
            arguments["failures"] = chance.randint(0, _MOST_FAILURES)
        return arguments

    def _cached_again(self, n: int) -> _Node:
        """Return a call that has a cached or pending result elsewhere in the tree."""
        node = self._chance.choice(self._cached)
        if node["tool"] == "kept":
            return node
        return {"tool": "shared", "arguments": {**node["arguments"], "n": n}}

    def _leaf(self, above: frozenset[str]) -> str:
        # Below a call that must not be repeated, nothing is suspended and interruptions are errors.
        usable = [leaf for leaf in _LEAVES if "unsafe" not in above or leaf in _REPEATABLE]
        return self._chance.choice(usable)


def tree_tools(server: Server, step: Callable[[], None]) -> list[Tool]:
    """Return the tools that call tools, and the tools that only they call."""

    async def again(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        found = await _call_kids(arguments, ctx)
        # The server counts, so that kills do not change the number of failures.
        mine = server.of(ctx)
        if mine.count("again", arguments["n"]) < arguments["failures"]:
            mine.take("again", arguments["n"], ctx.idempotency_key)
            raise ToolError("not yet", code="not_yet", retryable=True)
        return found

    async def keyed(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        server.of(ctx).take("keyed", arguments["n"], ctx.idempotency_key)
        step()
        return await _call_kids(arguments, ctx)

    retry = Retry(max_retries=_MOST_FAILURES, backoff_ms=0)
    return [
        define_tool("plain", "Calls tools.", _SCHEMA, _call_kids),
        define_tool("careless", "Calls tools.", _SCHEMA, _call_kids_carelessly),
        define_tool("again", "Calls tools.", _SCHEMA, again, retry=retry),
        define_tool("keyed", "Calls tools.", _SCHEMA, keyed, side_effect=True, idempotent=True),
        define_tool("kept", "Calls tools.", _SCHEMA, _call_kids, cache=True),
        define_tool("shared", "Calls tools.", _SCHEMA, _call_kids, cache=lambda a: a["kids"]),
        define_tool("unsafe", "Calls tools.", _SCHEMA, _call_kids, side_effect=True),
        define_tool("clock", "Reads.", _SCHEMA, _clock),
        define_tool("drawn", "Pays what it read.", _SCHEMA, _drawn),
        define_tool("fail", "Fails.", _SCHEMA, _fail),
    ]


async def _call_kids(arguments: Mapping[str, Any], ctx: ToolContext) -> list[Any]:
    """Call the nodes in `arguments`, in order or concurrently."""
    return await _Kids(arguments, ctx, careless=False).call()


async def _call_kids_carelessly(arguments: Mapping[str, Any], ctx: ToolContext) -> list[Any]:
    """Do the same, swallowing every exception."""
    return await _Kids(arguments, ctx, careless=True).call()


class _Kids:
    """Calls of the nodes of one call."""

    def __init__(self, arguments: Mapping[str, Any], ctx: ToolContext, *, careless: bool) -> None:
        self._nodes: list[_Node] = arguments["kids"]
        self._at_once: bool = arguments["at_once"]
        self._ctx = ctx
        self._careless = careless
        self._found: list[Any] = [None] * len(self._nodes)

    async def call(self) -> list[Any]:
        numbers = list(range(len(self._nodes)))
        if not self._at_once:
            for number in numbers:
                await self._call_one(number)
            return self._found
        random.shuffle(numbers)  # in a different random order each time
        async with anyio.create_task_group() as group:
            for number in numbers:
                group.start_soon(self._call_one, number)
        return self._found

    async def _call_one(self, number: int) -> None:
        node = self._nodes[number]
        try:
            self._found[number] = await self._ctx.call_tool(node["tool"], **node["arguments"])
        except ToolError as error:
            self._found[number] = [error.code, error.message]
        except Exception:
            if not self._careless:
                raise
            self._found[number] = "swallowed"


async def _clock(arguments: Mapping[str, Any]) -> Any:
    return random.getrandbits(40)


async def _drawn(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
    # The value read determines the effect: reading it anew would cause a second effect.
    amount = await ctx.call_tool("clock", n=arguments["n"])
    await ctx.call_tool("pay", n=arguments["n"], amount=amount)
    return ["drawn", await ctx.call_tool("look", n=arguments["n"])]


async def _fail(arguments: Mapping[str, Any]) -> Any:
    raise ToolError("as always", code="always")
