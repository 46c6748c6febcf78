"""Emitted values are in the result of every outcome of a script."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Limits, RunEvent, RunResult, Session, ToolError, tool
from ptc._workers._process import ProcessWorker
from tests.core.pools import pool_of

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

EMITTED = ({"page": 1}, [2, None], "é")
EMITS = "".join(f"    ctx.emit({value!r})\n" for value in EMITTED)


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool
async def fail() -> None:
    """Fail."""
    raise ToolError("no", code="bad")


@tool
async def hang() -> None:
    """Never come back."""
    await anyio.sleep_forever()


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, tools=[add, fail, hang], toolsets=(), workers=1) as opened:
        yield opened


@pytest.fixture
async def own_session(tmp_path: Path) -> AsyncIterator[Session]:
    """A session for a test that ends it."""
    async with Session(tmp_path, tools=[add, fail, hang], toolsets=(), workers=1) as opened:
        yield opened


async def run(session: Session, end: str, kind: str = "def", **options: Any) -> RunResult:
    limits = Limits(**{"max_memory_bytes": 64 << 20, "timeout_ms": 20_000, **options})
    source = f"import asyncio, itertools\n{kind} run(ctx, inputs):\n{EMITS}"
    source += "".join(f"    {line}\n" for line in end.split("\n"))
    with anyio.fail_after(60):
        return await session.program(source=source, limits=limits)


CRASH = "it = iter([1])\nfor _ in range(300_000):\n    it = itertools.chain(it)\nreturn next(it)"
SWALLOW = "while True:\n    try:\n        ctx.add(1)\n    except ToolError:\n        pass"
ENDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a value": ("completed", "return 1", {}),
    "a value that is cut": ("completed", "return 'x' * 9_000", {"max_output_bytes": 100}),
    "an exception": ("failed", "raise ValueError('x')", {}),
    "exit": ("failed", "raise SystemExit(1)", {}),
    "a value without a JSON form": ("completed", "return run", {}),
    "a tool's error": ("failed", "ctx.fail()", {}),
    "a loop": ("timed_out", "while True: pass", {"timeout_ms": 200}),
    "a tool that hangs": ("timed_out", "ctx.hang()", {"timeout_ms": 200}),
    "CPU time": ("limit_exceeded", "while True: pass", {"max_cpu_ms": 100}),
    "memory": ("limit_exceeded", "return len('x' * 10 ** 10)", {}),
    "memory, while it is written": ("limit_exceeded", "return 'x' * 20_000_000", {}),
    "recursion": ("limit_exceeded", "def f(): return f()\nreturn f()", {}),
    "calls": ("limit_exceeded", "while True: ctx.add(1)", {"max_tool_calls": 2}),
    "calls, swallowed": ("limit_exceeded", SWALLOW, {"max_tool_calls": 2}),
    "prints": ("limit_exceeded", "while True: print('x')", {"max_stdout_bytes": 100}),
    "messages": ("limit_exceeded", "while True: print('x')", {"max_messages": 10}),
    "emits": ("limit_exceeded", "ctx.emit('one more')", {"max_emits": 3}),
    "emitted bytes": ("limit_exceeded", "ctx.emit('x' * 200)", {"max_emit_bytes": 100}),
    "a crash": ("crashed", CRASH, {"max_memory_bytes": 256 << 20}),
}


@pytest.mark.parametrize("name", list(ENDS))
async def test_emitted_values_survive_every_run_outcome(session: Session, name: str) -> None:
    status, end, options = ENDS[name]
    result = await run(session, end, **options)
    assert result.status == status, result.error
    assert result.partial == EMITTED
    assert result.usage.emit_bytes == len('{"page":1}[2,null]"é"'.encode())


async def test_emitted_values_survive_a_cancelled_task(session: Session) -> None:
    end = "asyncio.current_task().cancel()\nawait asyncio.sleep(0)"
    result = await run(session, end, "async def")
    assert result.status == "failed"
    assert result.partial == EMITTED


async def emit_and_hang(session: Session, then: Any) -> RunResult:
    """A run that has emitted and waits for a tool when `then` is done."""
    waiting = anyio.Event()
    results: list[RunResult] = []

    def see(event: RunEvent) -> None:
        if event.kind == "tool_started":
            waiting.set()

    async def drive() -> None:
        source = f"def run(ctx, inputs):\n{EMITS}    ctx.hang()\n"
        results.append(await session.program(source=source, on_event=see))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(drive)
            await waiting.wait()
            await then()
    return results[0]


async def test_emitted_values_survive_the_closing_of_the_session(own_session: Session) -> None:
    result = await emit_and_hang(own_session, own_session.aclose)
    assert result.status == "cancelled"
    assert result.partial == EMITTED


async def test_emitted_values_survive_a_killed_worker(session: Session) -> None:
    async def kill() -> None:
        (run,) = session._runs.active
        assert isinstance(run._worker, ProcessWorker)
        assert run._worker._pidfd is not None
        signal.pidfd_send_signal(run._worker._pidfd, signal.SIGKILL)

    result = await emit_and_hang(session, kill)
    assert result.status == "crashed"
    assert result.partial == EMITTED


async def test_emitted_values_survive_a_killed_zygote(own_session: Session) -> None:
    async def kill() -> None:
        zygote = pool_of(own_session)._zygote
        assert zygote is not None
        os.kill(zygote.pid, signal.SIGKILL)

    result = await emit_and_hang(own_session, kill)
    assert result.status == "crashed"
    assert result.partial == EMITTED


async def test_values_emitted_while_the_host_is_busy_are_read_at_the_timeout(
    tmp_path: Path,
) -> None:
    import time

    @tool
    async def busy() -> None:
        """Keep the event loop from all else, past the end of the run."""
        time.sleep(0.6)  # noqa: ASYNC251  # a tool that does just this is what is tried

    source = """
async def run(ctx, inputs):
    call = ctx.busy()
    import asyncio
    await asyncio.sleep(0)
    for n in range(5):
        ctx.emit(n)
    while True:
        pass
"""
    async with Session(tmp_path, tools=[busy], toolsets=(), workers=1) as session:
        result = await session.program(source=source, limits=Limits(timeout_ms=300))
    assert result.status == "timed_out"
    assert result.partial == (0, 1, 2, 3, 4)
