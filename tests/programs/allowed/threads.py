import queue
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait


class Worker(threading.Thread):
    def __init__(self, jobs, out):
        super().__init__(name="worker", daemon=True)
        self._jobs, self.out = jobs, out

    def run(self):
        while (job := self._jobs.get()) is not None:
            self.out.append(job * 2)
            self._jobs.task_done()


def run(ctx, inputs):
    out = []
    jobs, doubled = queue.Queue(), []
    worker = Worker(jobs, doubled)
    worker.start()
    for n in range(4):
        jobs.put(n)
    jobs.join()
    jobs.put(None)
    worker.join()
    out.append([doubled, worker.is_alive(), worker.name, worker.daemon])

    lock, total = threading.Lock(), [0]

    def add(n):
        for _ in range(n):
            with lock:
                total[0] += 1

    threads = [threading.Thread(target=add, args=(n,)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    out.append(total[0])

    ready, seen = threading.Event(), []
    waiter = threading.Thread(target=lambda: (ready.wait(), seen.append("woken")))
    waiter.start()
    seen.append("before")
    ready.set()
    waiter.join()
    out.append(seen)

    with ThreadPoolExecutor(max_workers=3) as pool:
        out.append(list(pool.map(lambda a, b: a * b, [1, 2, 3], [4, 5, 6])))
        futures = {pool.submit(pow, 2, n): n for n in range(4)}
        out.append(sorted((futures[f], f.result()) for f in as_completed(futures)))
        bad = pool.submit(int, "x")
        out.append([repr(bad.exception()), bad.done(), bad.cancelled()])
        done, rest = wait([pool.submit(str, 1)], return_when=FIRST_COMPLETED)
        out.append([f.result() for f in done] + [len(rest)])
    try:
        pool.submit(print)
    except RuntimeError as error:
        out.append(str(error))
    own = Future()
    own.add_done_callback(lambda f: out.append(["called", f.result()]))
    own.set_result(7)

    condition, items = threading.Condition(), []

    def consume():
        with condition:
            condition.wait_for(lambda: len(items) == 2)
            out.append(["consumed", list(items)])

    consumer = threading.Thread(target=consume)
    consumer.start()
    for n in range(2):
        with condition:
            items.append(n)
            condition.notify()
    consumer.join()

    mine = threading.local()
    mine.value = "main"
    inner = []

    def other():
        inner.append(hasattr(mine, "value"))
        mine.value = "other"
        inner.append(mine.value)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    out.append([*inner, mine.value])

    gate = threading.Semaphore(2)
    out.append([gate.acquire(), gate.acquire(), gate.acquire(blocking=False)])
    gate.release()
    again = threading.RLock()
    with again, again:
        out.append(again.acquire(blocking=False))
    out.append([threading.current_thread() is threading.main_thread(), threading.current_thread().name])
    for wrong in (lambda: threading.current_thread().join(), thread.start, lock.release, lambda: queue.Queue().get_nowait()):
        try:
            wrong()
        except (RuntimeError, queue.Empty) as error:
            out.append([type(error).__name__, str(error)])
    barrier, passed = threading.Barrier(3), []
    party = [threading.Thread(target=lambda: passed.append(barrier.wait() >= 0)) for _ in range(3)]
    for each in party:
        each.start()
    for each in party:
        each.join()
    out.append(passed)
    heap = queue.PriorityQueue()
    for n in (3, 1, 2):
        heap.put(n)
    out.append([heap.get() for _ in range(3)])
    return out
