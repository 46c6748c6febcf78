import asyncio
from contextlib import asynccontextmanager


class Pool:
    async def __aenter__(self):
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *error):
        return False

    def __aiter__(self):
        self._n = 0
        return self

    async def __anext__(self):
        self._n += 1
        if self._n > 3:
            raise StopAsyncIteration
        return self._n


class Wait:
    def __await__(self):
        yield from asyncio.sleep(0).__await__()
        return "waited"


@asynccontextmanager
async def opened(log):
    log.append("open")
    try:
        yield "res"
    finally:
        log.append("close")


async def numbers(n):
    for i in range(n):
        await asyncio.sleep(0)
        yield i


async def work(i, sem, log):
    async with sem:
        log.append(i)
        await asyncio.sleep(0)
        if i == 3:
            raise ValueError(i)
        return i * 2


async def producer(queue):
    for i in range(3):
        await queue.put(i)
    await queue.put(None)


async def consumer(queue):
    seen = []
    while (item := await queue.get()) is not None:
        seen.append(item)
        queue.task_done()
    return seen


async def failing_group(sem, log):
    try:
        async with asyncio.TaskGroup() as group:
            a = group.create_task(work(1, sem, log))
            b = group.create_task(work(3, sem, log))
    except ExceptionGroup as error:
        return [[repr(e) for e in error.exceptions], a.done()]


async def run(ctx, inputs):
    out, log = [], []
    sem = asyncio.Semaphore(2)
    out.append([repr(r) for r in await asyncio.gather(*(work(i, sem, log) for i in range(5)), return_exceptions=True)])
    async with Pool() as pool:
        out.append([x async for x in pool])
    async with opened(log) as res:
        out.append(res)
    out.append([x async for x in numbers(3) if x])
    out.append({x: await asyncio.sleep(0, x) async for x in numbers(2)})
    out.append(await Wait())
    # A task of its own: before 3.11.3, no timeout works in a task in which a group failed.
    out.extend(await asyncio.create_task(failing_group(sem, log)))
    queue = asyncio.Queue()
    _, seen = await asyncio.gather(producer(queue), consumer(queue))
    out.append(seen)
    try:
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()
    except TimeoutError:
        out.append("timeout")
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 0.01)
    except asyncio.TimeoutError:
        out.append("wait_for")
    task = asyncio.create_task(asyncio.sleep(10))
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        out.append(task.cancelled())
    done, pending = await asyncio.wait({asyncio.create_task(work(1, sem, log))}, return_when=asyncio.FIRST_COMPLETED)
    out.append([t.result() for t in done])
    out.append(sorted([await c for c in asyncio.as_completed([asyncio.sleep(0, 1), asyncio.sleep(0, 2)])]))
    lock, event = asyncio.Lock(), asyncio.Event()
    async with lock:
        event.set()
    await event.wait()
    out.append([isinstance(task, asyncio.Task), asyncio.iscoroutinefunction(run), lock.locked(), event.is_set()])
    heap = asyncio.PriorityQueue()
    for n in (3, 1, 2):
        heap.put_nowait((n, str(n)))
    out.append([heap.get_nowait() for _ in range(3)])
    results = await asyncio.gather(*[asyncio.shield(asyncio.sleep(0, i)) for i in range(2)])
    out.append(results)
    agen = numbers(5)
    out.append(await agen.__anext__())
    await agen.aclose()
    return out, log
