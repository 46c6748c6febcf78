"""Random trees of calls, for `durable.py` and `tests/core/calls/test_effect_trees.py`.

A tree is data: the script calls the tool of its root, each tool those of its children, one after
the other or all at once. Tools that are started again make their calls in another order wherever
that order means nothing.
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
"""Calls what its inputs say: some nodes at once, then the next."""

_LEAVES = ("look", "look", "put", "send", "pay", "pay", "ask", "fail")
_CALLERS = ("plain", "plain", "plain", "careless", "again", "keyed", "kept", "shared", "unsafe")
TREE_TOOLS = [*dict.fromkeys([*_LEAVES, *_CALLERS]), "clock", "drawn"]
_REPEATABLE = frozenset({"look", "put", "send", "fail"})
_STRICT = frozenset({"again", "unsafe"})
_MOST_FAILURES = 2
_MOST_DEPTH = 4
_MOST_NODES = 40
_SCHEMA = {"type": "object"}
_Node = dict[str, Any]


def tree(seed: int) -> dict[str, Any]:
    """Inputs of `TREE_SOURCE`: the same for the same seed."""
    return {"turns": _Tree(Random(seed)).turns()}


class _Tree:
    """Grows one tree."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._nodes = 0
        self._cached: list[_Node] = []

    def turns(self) -> list[list[_Node]]:
        """Nodes that the script calls at once, turn after turn."""
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
        # What must not be started again, below what must not either, could not be decided about.
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
            # An equal call, or one that a cached result serves.
            kids.append(chance.choice(kids))
        arguments: dict[str, Any] = {"n": n, "kids": kids, "at_once": chance.random() < 0.5}
        if name == "again":
            arguments["failures"] = chance.randint(0, _MOST_FAILURES)
        return arguments

    def _cached_again(self, n: int) -> _Node:
        """A call that a result serves which is made, or being made, elsewhere in the tree."""
        node = self._chance.choice(self._cached)
        if node["tool"] == "kept":
            return node
        return {"tool": "shared", "arguments": {**node["arguments"], "n": n}}

    def _leaf(self, above: frozenset[str]) -> str:
        # Below what must not be started again nothing waits, and what was cut off is an error.
        usable = [leaf for leaf in _LEAVES if "unsafe" not in above or leaf in _REPEATABLE]
        return self._chance.choice(usable)


def tree_tools(server: Server, step: Callable[[], None]) -> list[Tool]:
    """The tools that call tools, and those that only they need."""

    async def kids(arguments: Mapping[str, Any], ctx: ToolContext, *, careless: bool) -> list[Any]:
        nodes: list[dict[str, Any]] = arguments["kids"]
        found: list[Any] = [None] * len(nodes)

        async def one(number: int) -> None:
            node = nodes[number]
            try:
                found[number] = await ctx.call_tool(node["tool"], **node["arguments"])
            except ToolError as error:
                found[number] = [error.code, error.message]
            except Exception:
                if not careless:
                    raise
                found[number] = "swallowed"

        numbers = list(range(len(nodes)))
        if not arguments["at_once"]:
            for number in numbers:
                await one(number)
            return found
        random.shuffle(numbers)  # by chance, and another one each time
        async with anyio.create_task_group() as group:
            for number in numbers:
                group.start_soon(one, number)
        return found

    async def plain(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        return await kids(arguments, ctx, careless=False)

    async def careless(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        return await kids(arguments, ctx, careless=True)

    async def again(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        found = await kids(arguments, ctx, careless=False)
        # The server counts, so that it fails as often whatever dies meanwhile.
        if server.count("again", arguments["n"]) < arguments["failures"]:
            server.take("again", arguments["n"], ctx.idempotency_key)
            raise ToolError("not yet", code="not_yet", retryable=True)
        return found

    async def keyed(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        server.take("keyed", arguments["n"], ctx.idempotency_key)
        step()
        return await kids(arguments, ctx, careless=False)

    async def clock(arguments: Mapping[str, Any]) -> Any:
        return random.getrandbits(40)

    async def drawn(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        # What is read decides what is done: read anew, it would be done once more.
        amount = await ctx.call_tool("clock", n=arguments["n"])
        await ctx.call_tool("pay", n=arguments["n"], amount=amount)
        return ["drawn", await ctx.call_tool("look", n=arguments["n"])]

    async def fail(arguments: Mapping[str, Any]) -> Any:
        raise ToolError("as always", code="always")

    retry = Retry(max_retries=_MOST_FAILURES, backoff_ms=0)
    return [
        define_tool("plain", "Calls tools.", _SCHEMA, plain),
        define_tool("careless", "Calls tools.", _SCHEMA, careless),
        define_tool("again", "Calls tools.", _SCHEMA, again, retry=retry),
        define_tool("keyed", "Calls tools.", _SCHEMA, keyed, side_effect=True, idempotent=True),
        define_tool("kept", "Calls tools.", _SCHEMA, plain, cache=True),
        define_tool("shared", "Calls tools.", _SCHEMA, plain, cache=lambda a: a["kids"]),
        define_tool("unsafe", "Calls tools.", _SCHEMA, plain, side_effect=True),
        define_tool("clock", "Reads.", _SCHEMA, clock),
        define_tool("drawn", "Pays what it read.", _SCHEMA, drawn),
        define_tool("fail", "Fails.", _SCHEMA, fail),
    ]
