"""The event loop that a script sees: the results of CPython, and advice where it cannot run."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ptc import Session, tool

from .differential import in_python, in_session, parse_cases

pytestmark = pytest.mark.anyio

IMPORTS = "import asyncio, time\n"
CASES = parse_cases('''
# time
async def run(ctx, inputs):
    loop = asyncio.get_running_loop()
    start = loop.time()
    await asyncio.sleep(0.02)
    return 0.02 <= loop.time() - start < 10
# create_task and create_future
async def run(ctx, inputs):
    loop, out = asyncio.get_running_loop(), []
    future = loop.create_future()
    async def wait(): out.append(await future)
    task = loop.create_task(wait(), name="mine")
    await asyncio.sleep(0)
    future.set_result(5)
    await task
    return [out, task.get_name(), task.done()]
# order of callbacks
async def run(ctx, inputs):
    loop, out = asyncio.get_event_loop(), []
    loop.call_later(0.02, out.append, "later")
    loop.call_at(loop.time() + 0.01, out.append, "at")
    loop.call_soon(out.append, "soon")
    loop.call_soon_threadsafe(out.append, "safe")
    cancelled = loop.call_later(0.01, out.append, "never")
    cancelled.cancel()
    await asyncio.sleep(0.05)
    return [out, cancelled.cancelled()]
# when of a timer
async def run(ctx, inputs):
    loop = asyncio.get_running_loop()
    at = loop.time() + 1
    handle = loop.call_at(at, print)
    handle.cancel()
    return handle.when() == at
# one loop
async def run(ctx, inputs):
    loop = asyncio.get_running_loop()
    return [loop is asyncio.get_running_loop(), loop is asyncio.get_event_loop(),
            loop.is_running(), loop.is_closed(), isinstance(loop, asyncio.AbstractEventLoop)]
# no running loop
def run(ctx, inputs):
    return asyncio.get_running_loop()
# run inside of run
async def run(ctx, inputs):
    asyncio.run(asyncio.sleep(0))
# run_until_complete inside of run
async def run(ctx, inputs):
    asyncio.get_event_loop().run_until_complete(asyncio.sleep(0))
# a new loop inside of run
async def run(ctx, inputs):
    asyncio.new_event_loop().run_until_complete(asyncio.sleep(0))
# run without a loop
def run(ctx, inputs):
    async def main(n):
        await asyncio.sleep(0.01)
        return n
    return [asyncio.run(main(1)), asyncio.run(main(2))]
# run of something else
def run(ctx, inputs):
    asyncio.run(3)
# run_until_complete in a new loop
def run(ctx, inputs):
    async def main(n):
        await asyncio.sleep(0.01)
        return n
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return [loop.run_until_complete(main(1)), asyncio.get_event_loop() is loop,
                loop.run_until_complete(asyncio.gather(main(2), main(3)))]
    finally:
        loop.close()
# a closed loop
def run(ctx, inputs):
    loop = asyncio.new_event_loop()
    loop.close()
    coroutine = asyncio.sleep(0)
    try:
        loop.run_until_complete(coroutine)
    finally:
        coroutine.close()
# a runner
def run(ctx, inputs):
    async def main(n): return n
    with asyncio.Runner() as runner:
        return [runner.run(main(1)), runner.run(main(2)), runner.get_loop().is_running()]
# run_forever and stop
def run(ctx, inputs):
    loop, out = asyncio.new_event_loop(), []
    loop.call_later(0.01, loop.stop)
    loop.call_soon(out.append, 1)
    loop.run_forever()
    loop.close()
    return out
# the exception of a task
def run(ctx, inputs):
    async def main(): raise KeyError("x")
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
# all_tasks
async def run(ctx, inputs):
    async def wait(): await asyncio.sleep(10)
    tasks = {asyncio.create_task(wait()) for _ in range(3)}
    found = asyncio.all_tasks() - {asyncio.current_task()}
    for task in found: task.cancel()
    results = await asyncio.gather(*found, return_exceptions=True)
    return [found == tasks, [type(r).__name__ for r in results], len(asyncio.all_tasks())]
# timeout_at
async def run(ctx, inputs):
    try:
        async with asyncio.timeout_at(asyncio.get_running_loop().time() + 0.01):
            await asyncio.Event().wait()
    except TimeoutError:
        return "timeout"
# an exception handler
async def run(ctx, inputs):
    loop, out = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda l, found: out.append([l is loop, repr(found["exception"])]))
    loop.call_soon(lambda: 1 / 0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return out
# a future of another task
async def run(ctx, inputs):
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_later(0.01, future.set_exception, ValueError("x"))
    await future
# shield and ensure_future
async def run(ctx, inputs):
    async def f(): return 1
    return [await asyncio.shield(f()), await asyncio.ensure_future(f())]
# debug
async def run(ctx, inputs):
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    return callable(loop.get_debug)
''')  # fmt: skip
OUTSIDE = parse_cases("""
# run of a gather
def run(ctx, inputs):
    async def a(): return 1
    asyncio.run(asyncio.gather(a(), a()))
# a gather that a loop runs later
def run(ctx, inputs):
    async def a(): return 1
    group = asyncio.gather(a(), a())
    return asyncio.get_event_loop().run_until_complete(group)
# ensure_future that a loop runs later
def run(ctx, inputs):
    async def a(): return 1
    return asyncio.get_event_loop().run_until_complete(asyncio.ensure_future(a()))
# shield that a loop runs later
def run(ctx, inputs):
    async def a(): return 1
    return asyncio.get_event_loop().run_until_complete(asyncio.shield(a()))
# create_task without a loop
def run(ctx, inputs):
    coroutine = asyncio.sleep(0)
    try:
        asyncio.create_task(coroutine)
    finally:
        coroutine.close()
""")


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, tools=[add], toolsets=(), workers=1) as opened:
        yield opened


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    """The outcome of each case in plain Python."""
    return in_python({name: IMPORTS + source for name, source in (CASES | OUTSIDE).items()})


@pytest.mark.parametrize("name", CASES)
async def test_loop_behaves_as_in_cpython(
    name: str, session: Session, plain: dict[str, Any]
) -> None:
    assert await in_session(session, IMPORTS + CASES[name]) == plain[name]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="there is no implicit loop since 3.14")
@pytest.mark.parametrize("name", OUTSIDE)
async def test_futures_outside_of_a_loop_behave_as_in_cpython(
    name: str, session: Session, plain: dict[str, Any]
) -> None:
    assert await in_session(session, IMPORTS + OUTSIDE[name]) == plain[name]


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("asyncio.run(main())", "write `await main()` in place of `asyncio.run(main())`"),
        ("asyncio.get_event_loop().run_until_complete(main())", "write `await ...` in place of"),
    ],
)
async def test_running_a_loop_in_a_loop_says_what_to_write(
    session: Session, line: str, advice: str
) -> None:
    source = f"{IMPORTS}async def main(): pass\nasync def run(ctx, inputs):\n    {line}\n"
    result = await session.program(source=source)
    assert result.error is not None
    assert advice in result.error.message
    assert (result.error.line, result.status) == (4, "failed")


async def test_loop_accepts_calls_on_ctx(session: Session) -> None:
    source = f"""{IMPORTS}
async def run(ctx, inputs):
    loop = asyncio.get_running_loop()
    return [await loop.create_task(ctx.add(1)), await loop.run_in_executor(None, ctx.add, 2)]
"""
    assert (await session.program(source=source)).value == [3, 4]


async def test_calls_of_a_loop_that_stopped_are_finished(session: Session) -> None:
    source = f"""{IMPORTS}
def run(ctx, inputs):
    async def main():
        ctx.add(1)
    asyncio.get_event_loop().run_until_complete(main())
    return "done"
"""
    result = await session.program(source=source)
    assert result.value == "done", result.error
    assert [call.status for call in result.calls] == ["succeeded"]
    assert [warning.code for warning in result.warnings] == ["not_awaited"]


@pytest.mark.parametrize(
    "name", ["_handle", "_loop", "_callback", "_args", "_context", "_ready", "_run"]
)
async def test_handle_and_loop_have_no_private_attributes(session: Session, name: str) -> None:
    source = f"""{IMPORTS}
async def run(ctx, inputs):
    loop = asyncio.get_running_loop()
    held = [loop, loop.call_soon(print), loop.call_later(1, print)]
    return [hasattr(each, "{name}") for each in held]
"""
    assert (await session.program(source=source)).value == [False] * 3
