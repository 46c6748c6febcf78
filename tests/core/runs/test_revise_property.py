"""Corrected scripts made by random edits: no effect is ever made twice."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptc import BlockingSession, RunResult, Tool, ToolContext, define_tool

ANY = {"type": "object", "properties": {"n": {"type": "integer"}}}
NAMES = ("pay", "put", "look", "deep")


class World:
    """Tools that count their effects by idempotency key, and by arguments."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()
        self.calls: Counter[tuple[str, int]] = Counter()
        self.hangs: frozenset[int] = frozenset()

    def tools(self) -> list[Tool]:
        def simple(name: str, **options: Any) -> Tool:
            async def work(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
                n = arguments["n"]
                if name == "deep":
                    return [await ctx.call_tool("pay", n=n), await ctx.call_tool("pay", n=n + 10)]
                if ctx.side_effect:
                    self.made[f"{name} {ctx.idempotency_key}"] += 1
                    self.calls[name, n] += 1
                if name == "pay" and n in self.hangs:
                    await anyio.sleep_forever()
                return n

            return define_tool(name, f"{name}.", ANY, work, **options)

        return [
            simple("pay", side_effect=True, timeout_ms=15),
            simple("put", side_effect=True, idempotent=True),
            simple("look"),
            simple("deep"),
        ]


Group = tuple[tuple[str, int], ...]
groups = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 2)), min_size=1, max_size=3)
scripts = st.lists(groups.map(tuple), max_size=5)


@st.composite
def corrections(draw: st.DrawFn) -> list[tuple[list[Group], bool]]:
    """Scripts of which each is an edit of the one before it; True: new effects are allowed."""
    current: list[Group] = list(draw(scripts))
    found = [(current, False)]
    for _ in range(draw(st.integers(1, 3))):
        current = list(current)
        for _ in range(draw(st.integers(0, 3))):
            at = draw(st.integers(0, len(current)))
            match draw(st.sampled_from(["insert", "remove", "replace", "swap"])):
                case "insert":
                    current.insert(at, tuple(draw(groups)))
                case "remove":
                    del current[at : at + 1]
                case "replace":
                    current[at : at + 1] = [tuple(draw(groups))]
                case _:
                    current[at : at + 2] = current[at : at + 2][::-1]
        found.append((current, draw(st.booleans())))
    return found


def source_of(script: list[Group], *, fails: bool) -> str:
    lines = ["import asyncio", "async def run(ctx, inputs):"]
    for group in script:
        made = ", ".join(f"ctx.{name}(n={n})" for name, n in group)
        lines.append(f"    await asyncio.gather({made})")
    return "\n".join([*lines, "    raise ValueError" if fails else "    return 1"])


def effects_of(script: list[Group]) -> Counter[tuple[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    for name, n in itertools.chain.from_iterable(script):
        if name == "deep":
            found["pay", n] += 1
            found["pay", n + 10] += 1
        elif name != "look":
            found[name, n] += 1
    return found


def settle(session: BlockingSession, result: RunResult) -> RunResult:
    """Record that every interrupted payment was made, until the run is not paused any more."""
    while result.status == "paused":
        assert result.pending
        for call in result.pending:
            assert (call.kind, call.tool) == ("unknown", "pay")
            record = partial(
                session.history.settle, result.run_id, call.call, "done", by="ann", value=0
            )
            anyio.run(record)
        result = session.resume(result.run_id)
    return result


def check_corrections(session: BlockingSession, world: World, edits: Any, hangs: Any = ()) -> None:
    """Execute each script as a correction of the one before it."""
    world.made.clear()
    world.calls.clear()
    run_id = f"r{next(_numbers)}"
    (first, _), *rest = edits
    world.hangs = next(iter(hangs), frozenset())
    result = session.program(
        source=source_of(first, fails=True), allowed_tools=NAMES, run_id=run_id
    )
    assert result.status == "failed"
    for number, (script, allowed) in enumerate(rest, 1):
        world.hangs = hangs[number] if number < len(hangs) else frozenset()
        before = Counter(world.calls)
        source = source_of(script, fails=number < len(rest))
        result = settle(session, session.resume(run_id, source=source, allow_unmatched=allowed))
        codes = ("unmatched_effects", "exception", "tool_error")
        assert result.error is None or result.error.code in codes, result.error
        assert max(world.made.values(), default=1) == 1, "an effect was made twice"
        if result.error is not None and result.error.code == "unmatched_effects":
            assert not allowed
            assert world.calls == before, "something new was done"
        elif not allowed:
            assert not world.calls - (before | effects_of(script))
            if result.error is None:
                assert not before - effects_of(script), "an effect was not reported"


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture(scope="module")
def session(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingSession]:
    root = tmp_path_factory.mktemp("corrections")
    with BlockingSession(root, tools=world.tools(), toolsets=(), journal=":memory:") as opened:
        yield opened


_numbers = itertools.count()


_EXAMPLES = settings().max_examples // 6


@settings(deadline=None, max_examples=_EXAMPLES)
@given(edits=corrections())
def test_corrected_scripts_repeat_no_effect(
    session: BlockingSession, world: World, edits: list[tuple[list[Group], bool]]
) -> None:
    check_corrections(session, world, edits)


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(deadline=None, max_examples=1_000, suppress_health_check=[HealthCheck.too_slow])
@given(
    edits=corrections(),
    hangs=st.lists(st.frozensets(st.sampled_from([0, 1, 2, 10, 11, 12]), max_size=2), max_size=4),
)
def test_corrected_scripts_repeat_no_interrupted_effect(
    session: BlockingSession,
    world: World,
    edits: list[tuple[list[Group], bool]],
    hangs: list[frozenset[int]],
) -> None:
    check_corrections(session, world, edits, hangs)
