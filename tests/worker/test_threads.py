"""Threads and executors of a script: the results of CPython, in one order, and no hang."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ptc import Limits, Session

from .differential import in_python, in_session, parse_cases
from .timed_tool import after

pytestmark = pytest.mark.anyio

IMPORTS = """
import asyncio, queue, threading, time
import concurrent.futures
from concurrent.futures import ThreadPoolExecutor
"""
CASES = parse_cases('''
# a consumer that waits for its producer
def run(ctx, inputs):
    jobs, out = queue.Queue(), []
    def consume():
        while (job := jobs.get()) is not None:
            out.append(job)
    thread = threading.Thread(target=consume)
    thread.start()
    for n in range(3): jobs.put(n)
    jobs.put(None)
    thread.join()
    return out
# a bounded queue
def run(ctx, inputs):
    jobs, out = queue.Queue(maxsize=1), []
    def produce():
        for n in range(5): jobs.put(n)
        jobs.put(None)
    threading.Thread(target=produce).start()
    while (job := jobs.get()) is not None: out.append(job)
    return out
# daemons and join of a queue
def run(ctx, inputs):
    jobs, out = queue.Queue(), []
    def work():
        while True:
            out.append(jobs.get() * 2)
            jobs.task_done()
    for _ in range(3): threading.Thread(target=work, daemon=True).start()
    for n in range(6): jobs.put(n)
    jobs.join()
    return sorted(out)
# two threads that take turns
def run(ctx, inputs):
    mine, other, out = threading.Event(), threading.Event(), []
    def play(name, wait, wake):
        for n in range(3):
            wait.wait(); wait.clear()
            out.append(name + str(n))
            wake.set()
    threads = [threading.Thread(target=play, args=("a", mine, other)),
               threading.Thread(target=play, args=("b", other, mine))]
    for thread in threads: thread.start()
    mine.set()
    for thread in threads: thread.join()
    return out
# a background loop with a stop event
def run(ctx, inputs):
    stop, ticks = threading.Event(), []
    def work():
        while not stop.is_set():
            ticks.append(1)
            time.sleep(0.05)
    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.12)
    stop.set()
    thread.join()
    return len(ticks) > 1
# a sleeping thread
def run(ctx, inputs):
    out = []
    def work():
        time.sleep(0.05)
        out.append("thread")
    thread = threading.Thread(target=work)
    thread.start()
    out.append("main")
    time.sleep(0.01)
    out.append("main again")
    thread.join()
    return out
# join with a time-out
def run(ctx, inputs):
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    thread.join(0.01)
    alive = thread.is_alive()
    done.set()
    thread.join()
    return [alive, thread.is_alive()]
# polling a thread
def run(ctx, inputs):
    thread = threading.Thread(target=time.sleep, args=(0.02,))
    thread.start()
    while thread.is_alive(): pass
    return "done"
# polling a future
def run(ctx, inputs):
    with ThreadPoolExecutor() as pool:
        future = pool.submit(time.sleep, 0.02)
        while not future.done(): pass
    return [future.result(), future.running()]
# timers
def run(ctx, inputs):
    out = []
    fires = threading.Timer(0.02, out.append, ["fired"])
    cancelled = threading.Timer(0.02, out.append, ["no"])
    fires.start(); cancelled.start(); cancelled.cancel()
    fires.join(); cancelled.join()
    return out
# an exception in a thread
def run(ctx, inputs):
    out = []
    def work():
        out.append(1)
        raise ValueError("x")
    thread = threading.Thread(target=work)
    thread.start(); thread.join()
    return [out, thread.is_alive()]
# sys exit in a thread
def run(ctx, inputs):
    import sys
    thread = threading.Thread(target=sys.exit)
    thread.start(); thread.join()
    return "alive"
# results in the order of the input
def run(ctx, inputs):
    start = threading.Event()
    def work(n):
        start.wait()
        if n < 2:
            futures[n + 1].result()
        else:
            time.sleep(0.3)
        return n
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(work, n) for n in range(3)]
        start.set()
        return [[f.result() for f in concurrent.futures.as_completed(futures)],
                list(pool.map(lambda n: (time.sleep(0.05 * (3 - n)), n)[1], range(3)))]
# an executor with one worker
def run(ctx, inputs):
    gate, out = threading.Event(), []
    with ThreadPoolExecutor(max_workers=1) as pool:
        first = pool.submit(lambda: (gate.wait(), out.append("first")))
        second = pool.submit(out.append, "second")
        state = [first.running(), second.running(), second.cancel(), first.cancel()]
        gate.set()
    return [out, state, second.cancelled()]
# time-out of a result
def run(ctx, inputs):
    gate = threading.Event()
    with ThreadPoolExecutor() as pool:
        future = pool.submit(gate.wait)
        try:
            future.result(timeout=0.01)
        except TimeoutError:
            kind = "timeout"
        done, rest = concurrent.futures.wait([future], timeout=0.01)
        gate.set()
    return [kind, len(done), len(rest), future.result()]
# an exception through an executor
def run(ctx, inputs):
    with ThreadPoolExecutor() as pool:
        return pool.submit(int, "x").result()
# wait for the first exception
def run(ctx, inputs):
    gate = threading.Event()
    with ThreadPoolExecutor() as pool:
        futures = [pool.submit(gate.wait), pool.submit(int, "x")]
        done, rest = concurrent.futures.wait(
            futures, return_when=concurrent.futures.FIRST_EXCEPTION)
        gate.set()
    return [len(done), len(rest)]
# an initializer
def run(ctx, inputs):
    space = threading.local()
    def prepare(value): space.value = value
    with ThreadPoolExecutor(2, initializer=prepare, initargs=("ready",)) as pool:
        return list(pool.map(lambda _: space.value, range(3)))
# a call after the shutdown
def run(ctx, inputs):
    pool = ThreadPoolExecutor()
    pool.shutdown()
    pool.submit(print)
# to_thread
async def run(ctx, inputs):
    def work(a, b=1):
        time.sleep(0.01)
        return a + b
    return await asyncio.gather(*(asyncio.to_thread(work, n, b=2) for n in range(4)))
# an exception of to_thread
async def run(ctx, inputs):
    await asyncio.to_thread(int, "x")
# no loop in a thread
async def run(ctx, inputs):
    def work():
        try:
            asyncio.get_running_loop()
        except RuntimeError as error:
            return str(error)
    return await asyncio.to_thread(work)
# run_in_executor
async def run(ctx, inputs):
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor() as pool:
        def is_main(): return threading.current_thread() is threading.main_thread()
        value = await loop.run_in_executor(pool, pow, 2, 3)
        return [value, await loop.run_in_executor(None, is_main)]
# other tasks run while a thread sleeps
async def run(ctx, inputs):
    out = []
    async def tick():
        for n in range(3):
            out.append(n)
            await asyncio.sleep(0.01)
    await asyncio.gather(asyncio.to_thread(time.sleep, 0.1), tick())
    out.append("slept")
    return out
# time-out of to_thread
async def run(ctx, inputs):
    gate = threading.Event()
    try:
        await asyncio.wait_for(asyncio.to_thread(gate.wait), 0.01)
    except TimeoutError:
        gate.set()
        return "timeout"
# asyncio run in a thread
async def run(ctx, inputs):
    async def inner():
        await asyncio.sleep(0.01)
        return asyncio.current_task() is not None
    with ThreadPoolExecutor() as pool:
        return pool.submit(asyncio.run, inner()).result()
# a new loop in a thread
def run(ctx, inputs):
    async def inner(n):
        await asyncio.sleep(0.01)
        return n
    def work(n):
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(inner(n))
        finally:
            loop.close()
    with ThreadPoolExecutor() as pool:
        return list(pool.map(work, range(3)))
# call_soon_threadsafe
async def run(ctx, inputs):
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    def work():
        time.sleep(0.01)
        loop.call_soon_threadsafe(event.set)
    threading.Thread(target=work).start()
    await event.wait()
    return event.is_set()
# run_coroutine_threadsafe
async def run(ctx, inputs):
    loop = asyncio.get_running_loop()
    async def double(n):
        await asyncio.sleep(0)
        return n * 2
    def work(): return asyncio.run_coroutine_threadsafe(double(4), loop).result()
    return await asyncio.to_thread(work)
# wrap_future
async def run(ctx, inputs):
    with ThreadPoolExecutor() as pool:
        return await asyncio.wrap_future(pool.submit(pow, 2, 5))
# a generator that yields in a thread
def run(ctx, inputs):
    def numbers():
        for n in range(3):
            time.sleep(0.001)
            yield n
    with ThreadPoolExecutor() as pool:
        return pool.submit(lambda: list(numbers())).result()
# deep recursion in a thread
def run(ctx, inputs):
    def depth(n): return 0 if n == 0 else 1 + depth(n - 1)
    def work(n):
        time.sleep(0.001)
        return depth(n)
    with ThreadPoolExecutor() as pool:
        return list(pool.map(work, [100, 500, 800]))
# a lock is free after an exception
def run(ctx, inputs):
    lock = threading.Lock()
    def work():
        with lock: raise ValueError
    thread = threading.Thread(target=work)
    thread.start(); thread.join()
    return lock.acquire(timeout=1)
# exceptions are kept apart
def run(ctx, inputs):
    import traceback
    gate = threading.Event()
    def work():
        try: raise KeyError("inner")
        except KeyError:
            gate.wait()
            return traceback.format_exc().splitlines()[-1]
    with ThreadPoolExecutor() as pool:
        future = pool.submit(work)
        try: raise ValueError("outer")
        except ValueError:
            gate.set()
            return [future.result(), traceback.format_exc().splitlines()[-1]]
# decimal contexts are kept apart
def run(ctx, inputs):
    import decimal
    decimal.getcontext().prec = 5
    with ThreadPoolExecutor() as pool:
        return [pool.submit(lambda: decimal.getcontext().prec).result(), decimal.getcontext().prec]
''')  # fmt: skip


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, tools=[after], toolsets=(), workers=1) as opened:
        yield opened


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    """The outcome of each case in plain Python."""
    return in_python({name: IMPORTS + source for name, source in CASES.items()})


@pytest.mark.parametrize("name", CASES)
async def test_threads_have_the_results_of_cpython(
    name: str, session: Session, plain: dict[str, Any]
) -> None:
    assert await in_session(session, IMPORTS + CASES[name]) == plain[name]


@pytest.mark.parametrize(
    "body",
    [
        "with ThreadPoolExecutor() as pool: return list(pool.map(ctx.after, [150] * 6))",
        "with ThreadPoolExecutor() as pool: return [f.result() for f in "
        "[pool.submit(lambda: ctx.after(150)) for _ in range(6)]]",
        "out = []\n    threads = [threading.Thread(target=lambda: out.append(ctx.after(150)))"
        " for _ in range(6)]\n    for t in threads: t.start()\n    for t in threads: t.join()\n"
        "    return out",
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_calls_of_threads_overlap_and_return_their_value(
    session: Session, kind: str, body: str
) -> None:
    result = await session.program(source=f"{IMPORTS}\n{kind} run(ctx, inputs):\n    {body}\n")
    assert result.value == [150] * 6, result.error
    assert result.usage.duration_ms < 6 * 150


async def test_tasks_run_while_a_thread_calls_a_tool(session: Session) -> None:
    source = f"""{IMPORTS}
async def run(ctx, inputs):
    order = []
    async def tick():
        order.append(await ctx.after(1))
        order.append(await ctx.after(2))
    await asyncio.gather(asyncio.to_thread(lambda: order.append(ctx.after(100))), tick())
    return order
"""
    assert (await session.program(source=source)).value == [1, 2, 100]


DEADLOCKS = {
    "a lock": "lock = threading.Lock(); lock.acquire()\n    lock.acquire()",
    "an item of a Queue": "queue.Queue().get()",
    "room in a Queue": "jobs = queue.Queue(1); jobs.put(1)\n    jobs.put(2)",
    "task_done() of a Queue": "jobs = queue.Queue(1); jobs.put(1)\n    jobs.join()",
    "an Event that no thread sets": "threading.Event().wait()",
    "a Semaphore": "threading.Semaphore(0).acquire()",
    "the result of a Future": "concurrent.futures.Future().result()",
    "the notification of a Condition": "c = threading.Condition()\n    with c: c.wait()",
    "a Barrier": "threading.Barrier(2).wait()",
    "Futures": "concurrent.futures.wait([concurrent.futures.Future()])",
    "the end of Thread-1": "t = threading.Thread(target=threading.Event().wait, name='Thread-1')\n"
    "    t.start()\n    t.join()",
    "an `await` that no task, timer or call can end": "t = threading.Thread(target=threading.Event"
    "().wait, daemon=True)\n    t.start()\n    await asyncio.Event().wait()",
    "waits for something that no task": "lock = asyncio.Lock(); await lock.acquire()\n"
    "    await lock.acquire()",
    "the `await` on line 8 waits for": "jobs = asyncio.Queue()\n    await jobs.get()",
}


@pytest.mark.parametrize("what", DEADLOCKS)
async def test_wait_that_nothing_can_end_raises_a_deadlock_error(
    session: Session, what: str
) -> None:
    body = DEADLOCKS[what]
    kind = "async def" if "await" in body else "def"
    source = f"{IMPORTS}\n{kind} run(ctx, inputs):\n    {body}\n"
    result = await session.program(source=source, limits=Limits(timeout_ms=20_000))
    assert result.error is not None
    assert (result.status, result.error.type) == ("failed", "DeadlockError")
    assert what in result.error.message
    assert result.error.line == source.count("\n")


async def test_threads_that_wait_for_each_other_are_all_named(session: Session) -> None:
    source = f"""{IMPORTS}
def run(ctx, inputs):
    a, b, gate = threading.Lock(), threading.Lock(), threading.Barrier(2)
    def take(first, second):
        with first:
            gate.wait()
            with second: pass
    threads = [threading.Thread(target=take, args=args) for args in ((a, b), (b, a))]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""
    result = await session.program(source=source)
    assert result.error is not None
    assert "Thread-1 (take) waits for a lock (line 11), Thread-2 (take) waits for a lock" in (
        result.error.message
    )


async def test_run_waits_for_its_threads_except_daemons(session: Session) -> None:
    source = f"""{IMPORTS}
def run(ctx, inputs):
    out = []
    threading.Thread(target=lambda: (time.sleep(0.01), out.append(ctx.after(1)))).start()
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    return out
"""
    assert (await session.program(source=source)).value == [1]


async def test_error_in_a_thread_is_printed_with_its_line(session: Session) -> None:
    source = f"""{IMPORTS}
def work():
    return 1 / 0
def run(ctx, inputs):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
"""
    result = await session.program(source=source)
    assert result.stderr.startswith("Exception in thread Thread-1 (work):\nTraceback")
    assert "line 7, in work\nZeroDivisionError: division by zero" in result.stderr


async def test_threads_over_the_limit_are_refused(session: Session) -> None:
    source = f"""{IMPORTS}
def run(ctx, inputs):
    for _ in range(100):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
"""
    result = await session.program(source=source, limits=Limits(max_tasks=20))
    assert result.error is not None
    assert (result.status, result.error.code) == ("limit_exceeded", "limit_max_tasks")


@pytest.mark.parametrize("then", ["", "; thread.join()"])
async def test_chain_of_threads_does_not_use_up_the_stack(session: Session, then: str) -> None:
    source = f"""{IMPORTS}
def run(ctx, inputs):
    seen = []
    def link(n):
        seen.append(n)
        if n < 600:
            thread = threading.Thread(target=link, args=(n + 1,))
            thread.start(){then}
    link(0)
    threading.Event().wait(0.01)
    return len(seen)
"""
    result = await session.program(source=source)
    assert result.value == 601, result.error


async def test_order_of_threads_is_the_same_in_every_run(session: Session) -> None:
    source = f"""{IMPORTS}
def run(ctx, inputs):
    order = []
    def work(name):
        for n in range(5):
            order.append(name + str(n))
            time.sleep(0.001 * (n % 2))
            ctx.budget
    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return order
"""
    first = await session.program(source=source)
    assert len(first.value) == 15
    assert (await session.program(source=source)).value == first.value
