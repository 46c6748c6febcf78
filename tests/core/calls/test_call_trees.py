"""Random trees of nested calls, interrupted anywhere: each effect once, values as uninterrupted."""

from __future__ import annotations

import importlib
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from ptc import ApprovalRequest, Decision, Limits, RunResult, Session
from ptc.journal import _sqlite
from ptc.journal._journal import Entry
from ptc.journal._lease import Lease
from ptc.journal._sqlite import SqliteJournal

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent.parent.parent
REJECTED = 3
LIMITS = Limits(max_tool_calls=5_000)


class Stopping(SqliteJournal):
    """A journal at one of whose steps the host is stopped, as by Ctrl-C."""

    left = 0
    """Steps until then; 0: it is not stopped."""
    scope: anyio.CancelScope

    @classmethod
    def step(cls) -> None:
        cls.left -= 1
        if cls.left == 0:
            cls.scope.cancel()

    def append(self, lease: Lease, entry: Entry) -> None:
        self.step()
        super().append(lease, entry)
        self.step()

    async def barrier(self, lease: Lease) -> None:
        self.step()
        await super().barrier(lease)
        self.step()


async def approver(request: ApprovalRequest) -> Decision:
    return Decision(request.arguments["n"] != REJECTED, comment="not this one", by="ann")


class Trees:
    """Two sessions: one that decides at once, and one whose runs are paused and stopped."""

    def __init__(self, root: Path, world: Any) -> None:
        self.world = world
        self.server = world.Server(root / "server")
        tools = world.tools(self.server, Stopping.step)
        options: dict[str, Any] = {"tools": tools, "toolsets": (), "journal": ":memory:"}
        self.straight = Session(root, approver=approver, **options)
        self.broken = Session(root, max_attempts=1_000, **options)
        self._root = root
        self._chance = Random(7)

    async def run(self, session: Session, seed: int) -> RunResult:
        self.server._path = self._root / f"{seed} {session is self.broken}"
        return await session.program(
            **self.world.program(f"tree {seed}"),
            allowed_tools=[name for name in self.world.TOOLS if name in session.tool_names()],
            limits=LIMITS,
            run_id=f"r{seed}",
        )

    async def in_pieces(self, seed: int, stops: list[int]) -> tuple[RunResult, int]:
        """Run a tree and resume it after every stop and pause; the number of both."""
        pieces = 0
        while True:
            Stopping.left = stops.pop() if stops else 0
            result: RunResult | None = None
            with anyio.CancelScope() as Stopping.scope:
                # Asked for by its name, a run is resumed.
                result = await self.run(self.broken, seed)
                if result.status == "paused":
                    result = await self.decided(f"r{seed}")
            stopped = Stopping.scope.cancelled_caught
            if result is not None and not stopped and result.status != "paused":
                return result, pieces
            pieces += 1

    async def decided(self, run: str) -> RunResult:
        """Decide of some of the calls that wait, one at least, and resume."""
        history = self.broken.history
        # None, if it was stopped between the decision and the resume.
        waiting = await history.pending(run)
        some = self._chance.randint(min(1, len(waiting)), len(waiting))
        for call in self._chance.sample(waiting, some):
            n = call.arguments["n"]
            if call.kind == "approval" and n == REJECTED:
                await history.reject(run, call.call, comment="not this one", by="ann")
            elif call.kind == "approval":
                await history.approve(run, call.call, by="ann")
            elif self.was_taken(call):
                answer = self.world.answer(call.tool, n)
                await history.settle(run, call.call, "done", value=answer, by="ann")
            else:
                await history.settle(run, call.call, "again", by="ann")
        return await self.broken.resume(run)

    def was_taken(self, call: Any) -> bool:
        names = (call.tool, f"{call.tool} drawn")
        return any((n, k) in {(m, call.idempotency_key) for m in names} for n, _, k in self.taken)

    @property
    def taken(self) -> list[tuple[str, int, str]]:
        return list(self.server.requests())

    def effects(self) -> Counter[tuple[str, int]]:
        """Effects by tool and number: the keys of two runs differ."""
        return Counter({(tool, n): count for (tool, n, _), count in self.by_key()})

    def by_key(self) -> list[tuple[tuple[str, int, str], int]]:
        found: Counter[tuple[str, int, str]] = Counter()
        for (tool, n, _), count in self.server.effects().items():
            found[tool, n, ""] += count
        return list(found.items())


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("tests.fuzz.durable_world")


@pytest.mark.parametrize("count", [10, pytest.param(40, marks=pytest.mark.slow)])
async def test_interrupted_call_trees_have_each_effect_once_and_equal_values(
    count: int, world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sqlite, "SqliteJournal", Stopping)
    trees, chance, pieces = Trees(tmp_path, world), Random(12), 0
    async with AsyncExitStack() as stack:
        for session in (trees.straight, trees.broken):
            await stack.enter_async_context(session)
        for seed in range(count):
            Stopping.left = 0
            whole = await trees.run(trees.straight, seed)
            done, steps = trees.effects(), -Stopping.left
            stops = [chance.randint(1, max(1, steps)) for _ in range(chance.randint(0, 4))]
            told = f"tree {seed}, stopped at {stops}"
            result, more = await trees.in_pieces(seed, stops)
            pieces += more
            assert result.unwrap() == whole.unwrap(), told
            assert trees.effects() == done, told
    assert pieces > count, "most were interrupted, some more than once"
