"""Batches of one extraction: collect requests, submit them, and wait for their results.

A batch is submitted when every document waits for an answer, so that it is as large as it can be
without guessing how long to wait. Each batch is recorded before and after its submission.

Rule 1: A request that is in a recorded batch is never submitted again while that has its result.
    tests/models/test_batch.py::test_killed_between_submission_and_result_nothing_is_paid_twice
Rule 2: After a crash inside a submission, the provider is searched for the batch.
    tests/models/test_batch.py::test_killed_inside_a_submission_the_batch_is_found
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from .._core._json import sha256_of
from .._dataclass import dataclass
from ..errors import ModelError
from ..models._batch import Batch, BatchApi, BatchFailedError, BatchItem, NoResultError, UnrunError
from ..models._model import ModelReply, ModelRequest
from ._pacing import StoppedError
from ._row import BatchProgress
from ._row_log import RowLog

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

__all__ = ["Activity", "Batches"]

_FIRST_POLL_S = 1.0
_POLL_GROWTH = 1.5
_MAX_BATCH_BYTES = 100_000_000
"""Bytes of requests in memory and in one upload; providers accept twice as many."""
_TURNS = 4
"""Turns of the event loop after which a task that was woken has run."""
_MAX_SUBMISSIONS = 5
"""Failed submissions in a row after which the extraction stops."""
_NOT_FOUND_TRIES = 3
"""Answers 404 in a row after which a batch is taken to be deleted: a new one may be unknown yet."""


class Activity:
    """Counts the tasks that may still send a request without waiting for an answer first."""

    def __init__(self) -> None:
        self._busy = 0
        self._news = False
        self._full = False
        self._changed = anyio.Event()

    def begin(self) -> None:
        """Count a task."""
        self._busy += 1

    def end(self) -> None:
        """Count a task no longer: it has ended, or waits."""
        self._busy -= 1
        if not self._busy:
            self.notify()

    def notify(self, *, full: bool = False) -> None:
        """Wake `idle`; with `full` it does not wait for the tasks that are busy."""
        self._news, self._full = True, self._full or full
        self._changed.set()
        self._changed = anyio.Event()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Do not count the calling task inside the block."""
        self.end()
        try:
            yield
        finally:
            self.begin()

    async def idle(self) -> None:
        """Wait for a change after which no task is busy."""
        while True:
            while not self._news:
                await self._changed.wait()
            self._news = False
            if self._full or await self._stays_idle():
                self._full = False
                return

    async def _stays_idle(self) -> bool:
        """True if no task is busy, nor becomes busy because the last one that was has ended."""
        for _ in range(_TURNS):
            if self._busy:
                return False
            await anyio.lowlevel.checkpoint()
        return not self._busy


@dataclass(slots=True, eq=False)
class _Waiter:
    """A request without its answer."""

    request: ModelRequest
    item: BatchItem
    """Without the encoded request, once that is submitted: documents can be large."""
    done: anyio.Event = field(default_factory=anyio.Event)
    reply: ModelReply | None = None
    error: Exception | None = None
    abandoned: bool = False
    """True if its task was cancelled."""


@dataclass(slots=True, eq=False)
class _Job:
    """A batch, submitted or about to be."""

    name: str
    ids: frozenset[str]
    status: str
    """``submitting``: perhaps submitted. ``submitted``: its id is known."""
    since: float
    """Unix time before the submission."""
    batch_id: str | None = None
    waiters: dict[str, _Waiter] = field(default_factory=dict)
    running: bool = False
    state: Batch | None = None


class Batches:
    """Sends the requests of all documents in batches. Run `run` as a task beside them."""

    def __init__(
        self,
        api: BatchApi,
        log: RowLog,
        activity: Activity,
        *,
        model: str,
        poll_s: float,
        on_failure: Callable[[ModelError], None],
    ) -> None:
        """Read the recorded batches.

        Args:
            api: Batch API of the model.
            log: Record of the batches.
            activity: Counts the tasks of the extraction.
            model: Name of the model.
            poll_s: Longest time between two looks at a batch.
            on_failure: Receives an error of the API that concerns all requests. It must `stop`.
        """
        self._api = api
        self._log = log
        self._activity = activity
        self._model = model
        self._poll_s = poll_s
        self._on_failure = on_failure
        self._collected: dict[str, _Waiter] = {}
        self._size = 0
        self._max_bytes = min(api.max_bytes, _MAX_BATCH_BYTES)
        self._jobs: list[_Job] = []
        self._owners: dict[str, _Job] = {}
        self._failures = 0
        self._ignored = 0
        self._stop = anyio.Event()
        self._closed = False
        self.retries = 0
        for name, entry in log.entries.items():
            if entry.status in ("submitting", "submitted") and entry.model == model:
                row = log.read(name)
                ids = frozenset(row["requests"])
                self._add(_Job(name, ids, entry.status, row["time"], row["batch"]))

    # --- for documents ----------------------------------------------------------------------

    async def ask(self, request: ModelRequest, custom_id: str) -> ModelReply:
        """Wait for the answer to a request.

        Args:
            request: The request.
            custom_id: The same for the same request after a crash, and for no other.

        Raises:
            ModelError: If it failed.
            StoppedError: If the extraction is stopping.
        """
        item = await self._api.encode(request, custom_id)
        if self._stop.is_set():
            raise StoppedError
        waiter = _Waiter(request, item)
        job = self._owners.get(custom_id)
        waiting = self._collected if job is None else job.waiters
        waiting[custom_id] = waiter
        if job is None:
            self._size += item.size
            if self._size >= self._max_bytes or len(waiting) >= self._api.max_requests:
                self._activity.notify(full=True)
        self._activity.end()
        try:
            await waiter.done.wait()
        except BaseException:
            # `_deliver` counts the task again, unless it comes too late.
            if not waiter.done.is_set():
                waiter.abandoned = True
                self._activity.begin()
            raise
        if waiter.error is not None:
            raise waiter.error
        assert waiter.reply is not None  # noqa: S101  # `_deliver` sets one of the two
        return waiter.reply

    def stop(self) -> None:
        """Submit nothing more. Batches at the provider continue, and are found again."""
        self._stop.set()
        for waiting in (self._collected, *(job.waiters for job in self._jobs)):
            for waiter in waiting.values():
                self._deliver(waiter, error=StoppedError())
            waiting.clear()
        self._activity.notify()

    def close(self) -> None:
        """End `run`: no document is left."""
        self._closed = True
        self._stop.set()
        self._activity.notify()

    @property
    def waiting(self) -> int:
        """Requests without an answer."""
        return len(self._collected) + sum(len(job.waiters) for job in self._jobs)

    @property
    def progress(self) -> BatchProgress:
        """The state now."""
        known = [job for job in self._jobs if job.running and job.status != "new"]
        return BatchProgress(
            open=len(known),
            requests=sum(len(job.ids) for job in known),
            finished=sum(job.state.finished for job in known if job.state),
            ignored_lines=self._ignored,
        )

    # --- work -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Submit batches whenever all tasks wait, until `close`."""
        async with anyio.create_task_group() as group:
            while not self._closed:
                await self._activity.idle()
                if not self._stop.is_set():
                    self._start_jobs(group)

    def _start_jobs(self, group: TaskGroup) -> None:
        for waiters in self._split(self._collected.values()):
            ids = [waiter.item.custom_id for waiter in waiters]
            job = _Job(sha256_of(ids)[:32], frozenset(ids), "new", time.time())
            job.waiters = dict(zip(ids, waiters, strict=True))
            self._add(job)
        self._collected.clear()
        self._size = 0
        for job in self._jobs:
            if job.waiters and not job.running:
                job.running = True
                group.start_soon(self._process, job)

    def _split(self, waiters: Iterable[_Waiter]) -> Iterator[list[_Waiter]]:
        """Split requests into batches that the provider accepts."""
        groups: dict[str, list[_Waiter]] = {}
        for waiter in waiters:
            groups.setdefault(waiter.item.group, []).append(waiter)
        for group in groups.values():
            chosen: list[_Waiter] = []
            size = 0
            for waiter in group:
                full = len(chosen) >= self._api.max_requests
                if chosen and (full or size + waiter.item.size > self._max_bytes):
                    yield chosen
                    chosen, size = [], 0
                chosen.append(waiter)
                size += waiter.item.size
            yield chosen

    def _add(self, job: _Job) -> None:
        self._jobs.append(job)
        self._owners.update(dict.fromkeys(job.ids, job))

    def _remove(self, job: _Job) -> None:
        self._jobs.remove(job)
        for name in job.ids:
            if self._owners.get(name) is job:
                del self._owners[name]

    async def _process(self, job: _Job) -> None:
        """Bring a batch to its end. Failures of the API stop the extraction, with the reason."""
        try:
            if job.status == "new":
                await self._submit(job)
            if job.status == "submitting":
                await self._recover(job)
            while job.batch_id is not None and job.waiters and not self._stop.is_set():
                if await self._wait(job, job.batch_id):
                    await self._collect(job, job.batch_id)
        except ModelError as error:
            self._on_failure(error)
        finally:
            job.running = False
        if job.waiters:
            self._activity.notify()

    async def _submit(self, job: _Job) -> None:
        await self._record(job, "submitting")
        waiters = list(job.waiters.values())
        items = [
            waiter.item
            if waiter.item.encoded is not None
            else await self._api.encode(waiter.request, waiter.item.custom_id)
            for waiter in waiters
        ]
        try:
            batch_id = await self._api.create(items, job.name)
        except ModelError as error:
            refused = error.status is not None and error.status < 500
            if refused:
                # The provider said that there is no such batch, so nothing is searched for later.
                await self._record(job, "refused")
            self._failures += 1
            if not error.retryable or self._failures >= _MAX_SUBMISSIONS:
                raise
            delay = min(self._poll_s, error.retry_after or _FIRST_POLL_S * 2**self._failures)
            await self._sleep(delay)
            if refused:
                self._return_to_queue(job)
        else:
            job.batch_id = batch_id
            await self._record(job, "submitted")
            for waiter in waiters:
                waiter.item = replace(waiter.item, encoded=None)

    async def _recover(self, job: _Job) -> None:
        """Find the batch of a submission whose outcome is unknown, or submit it again."""
        for batch_id in await self._api.find(job.name, job.since, len(job.ids)):
            if any(other.batch_id == batch_id for other in self._jobs):
                continue
            # Batches of some providers show whose they are only when they have ended.
            if await self._wait(job, batch_id) and await self._collect(job, batch_id):
                job.batch_id = batch_id
                await self._record(job, "submitted")
                return
        if not self._stop.is_set():
            await self._record(job, "refused")
            self._return_to_queue(job)

    def _return_to_queue(self, job: _Job) -> None:
        """Give the requests of a batch that does not exist back, for the next one."""
        self._remove(job)
        self._collected.update(job.waiters)
        job.waiters = {}
        job.status = "refused"
        self._activity.notify()

    async def _wait(self, job: _Job, batch_id: str) -> bool:
        """Wait for the end of a batch; False if it was not reached."""
        delay, missing = min(_FIRST_POLL_S, self._poll_s), 0
        while not self._stop.is_set():
            try:
                job.state = await self._api.state(batch_id)
            except ModelError as error:
                missing = missing + 1 if error.status == 404 else 0
                if missing >= _NOT_FOUND_TRIES:
                    await self._forget(job, batch_id)
                    return False
                if not error.retryable and not missing:
                    raise
            else:
                if job.state.ended:
                    return True
            await self._sleep(delay)
            delay = min(delay * _POLL_GROWTH, self._poll_s)
        return False

    async def _forget(self, job: _Job, batch_id: str) -> None:
        """Submit the requests again whose batch or results the provider has deleted."""
        if job.batch_id == batch_id:
            job.batch_id = None
            await self._record(job, "refused")
            self._return_to_queue(job)

    async def _collect(self, job: _Job, batch_id: str) -> bool:
        """Read the results, and hand them to the requests; False if none was of this batch."""
        asked = dict(job.waiters)
        found = False
        delay = min(_FIRST_POLL_S, self._poll_s)
        while not self._stop.is_set():
            try:
                found |= await self._read(job, batch_id)
                break
            except BatchFailedError as error:
                await self._retry_failed(job, error)
                return False
            except ModelError as error:
                if error.status == 404:
                    await self._forget(job, batch_id)
                    return found
                if not error.retryable:
                    raise
            await self._sleep(delay)
            delay = min(delay * _POLL_GROWTH, self._poll_s)
        if self._stop.is_set() or (not found and job.batch_id is None):
            return found
        self._failures = 0
        for custom_id, waiter in asked.items():
            if job.waiters.pop(custom_id, None) is not None:
                self._deliver(waiter, error=self._missing(job, batch_id))
        if asked.keys() == job.ids:
            await self._api.clean(batch_id)
        return found

    async def _retry_failed(self, job: _Job, error: BatchFailedError) -> None:
        """Submit a batch again of which the provider ran nothing, if that may help."""
        job.batch_id = None
        await self._record(job, "refused")
        self._failures += 1
        if not error.retryable or self._failures >= _MAX_SUBMISSIONS:
            raise error
        await self._sleep(self._poll_s)
        self._return_to_queue(job)

    async def _read(self, job: _Job, batch_id: str) -> bool:
        found = False
        async with aclosing(self._api.results(batch_id)) as lines:
            async for line in lines:
                if line is None or line.custom_id not in job.ids:
                    self._ignored += 1
                    continue
                found = True
                waiter = job.waiters.pop(line.custom_id, None)
                if waiter is None:
                    continue
                if line.answer is None:
                    self._deliver(waiter, error=line.error)
                else:
                    self._answer(waiter, line.answer)
                # Let the documents continue while the rest is read.
                await anyio.lowlevel.checkpoint()
        return found

    def _answer(self, waiter: _Waiter, answer: str) -> None:
        try:
            reply = self._api.decode(answer, waiter.request)
        except ModelError as error:
            self._deliver(waiter, error=error)
        else:
            self._deliver(waiter, reply=reply)

    def _missing(self, job: _Job, batch_id: str) -> ModelError:
        reason = job.state.unrun if job.state else None
        if reason is not None:
            msg = f"batch {batch_id:.80} {reason} before the model ran the request"
            return UnrunError(msg, retryable=reason == "expired")
        return NoResultError(f"batch {batch_id:.80} ended without a readable result of the request")

    def _deliver(
        self,
        waiter: _Waiter,
        reply: ModelReply | None = None,
        error: Exception | None = None,
    ) -> None:
        waiter.reply, waiter.error = reply, error
        if not waiter.abandoned:
            # Before the task runs: else the next batch would be submitted without its requests.
            self._activity.begin()
        waiter.done.set()

    async def _record(self, job: _Job, status: str) -> None:
        job.status = status
        await self._log.append(
            {
                "id": job.name,
                "status": status,
                "digest": "",
                "settings": "",
                "model": self._model,
                "batch": job.batch_id,
                "time": job.since,
                "requests": sorted(job.ids),
            }
        )

    async def _sleep(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._stop.wait()
