"""`concurrent.futures` on the cooperative threads of `_threads`."""

from __future__ import annotations

import concurrent.futures as library
import itertools
import types
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from .._classes import open_type
from .._identity import stable_id
from .._threads import THREADS, UNWOUND
from ._console import CONSOLE
from ._threading import Thread
from ._traceback import format_error

__all__ = ["Executor", "Future", "ThreadPoolExecutor", "futures_members"]

_POOLS = itertools.count()
_DEFAULT_WORKERS: Final = 32
"""As CPython on a large machine; the number must not depend on the machine."""
_PENDING, _RUNNING, _CANCELLED, _FINISHED = "pending", "running", "cancelled", "finished"


@open_type
class Future:
    """`concurrent.futures.Future`."""

    __slots__ = ("__weakref__", "_callbacks", "_exception", "_result", "_state")

    def __init__(self) -> None:
        self._state = _PENDING
        self._result: Any = None
        self._exception: BaseException | None = None
        self._callbacks: list[Any] = []

    def __class_getitem__(cls, item: Any) -> types.GenericAlias:
        return types.GenericAlias(cls, item)

    def cancel(self) -> bool:
        """Cancel the call if it has not started."""
        if self._state in {_RUNNING, _FINISHED}:
            return False
        if self._state == _PENDING:
            self._finish(_CANCELLED)
        return True

    def cancelled(self) -> bool:
        """Return True if the call was cancelled."""
        return self._state == _CANCELLED

    def running(self) -> bool:
        """Return True if the call has started and not finished."""
        if self._state == _RUNNING:
            THREADS.poll()
        return self._state == _RUNNING

    def done(self) -> bool:
        """Return True if the call has finished or was cancelled; other threads run first."""
        if not self._is_done():
            THREADS.poll()
        return self._is_done()

    def _is_done(self) -> bool:
        return self._state in {_CANCELLED, _FINISHED}

    def _wait(self, timeout: float | None) -> None:
        if not THREADS.wait(self._is_done, timeout, "the result of a Future"):
            raise TimeoutError
        if self._state == _CANCELLED:
            raise library.CancelledError

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the call and return its value, or raise its exception."""
        self._wait(timeout)
        if self._exception is not None:
            raise self._exception
        return self._result

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the call and return its exception, or None."""
        self._wait(timeout)
        return self._exception

    def add_done_callback(self, fn: Any) -> None:
        """Call `fn` with this future when it is done."""
        if self._is_done():
            self._call(fn)
        else:
            self._callbacks.append(fn)

    def _call(self, function: Any) -> None:
        try:
            function(self)
        except Exception as error:  # noqa: BLE001  # the library logs it, too
            text = f"exception calling callback for {self!r}\n{format_error(error)}"
            CONSOLE.show(text, end="", file=CONSOLE.stderr)

    def _finish(self, state: str) -> None:
        self._state = state
        callbacks, self._callbacks = self._callbacks, []
        for function in callbacks:
            self._call(function)

    def set_running_or_notify_cancel(self) -> bool:
        """Mark the call as running; return False if it was cancelled."""
        if self._state == _CANCELLED:
            return False
        if self._state != _PENDING:
            raise RuntimeError("Future in unexpected state")
        self._state = _RUNNING
        return True

    def _require_unfinished(self) -> None:
        if self._is_done():
            raise library.InvalidStateError(f"{self._state.upper()}: {self!r}")

    def set_result(self, result: Any) -> None:
        """Finish with a value."""
        self._require_unfinished()
        self._result = result
        self._finish(_FINISHED)

    def set_exception(self, exception: BaseException | None) -> None:
        """Finish with an exception."""
        self._require_unfinished()
        self._exception = exception
        self._finish(_FINISHED)

    def __repr__(self) -> str:
        outcome = ""
        if self._state == _FINISHED:
            error = self._exception
            outcome = f" {'raised' if error else 'returned'} {type(error or self._result).__name__}"
        return f"<Future at {stable_id(self):#x} state={self._state}{outcome}>"


class Executor:
    """`concurrent.futures.Executor`."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future:
        """Call ``fn(*args, **kwargs)`` in a thread."""
        raise NotImplementedError  # abstract, and without a text, as in the standard library

    def map(
        self, fn: Any, *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[Any]:
        """Call `fn` with the items; yield the values in order."""
        until = None if timeout is None else THREADS.now() + timeout
        futures = deque(self.submit(fn, *args) for args in zip(*iterables, strict=False))
        return _values(futures, until)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown(wait=True)


def _values(futures: deque[Future], until: float | None) -> Iterator[Any]:
    try:
        while futures:
            left = None if until is None else until - THREADS.now()
            yield futures.popleft().result(left)
    finally:
        for future in futures:
            future.cancel()


@open_type
class ThreadPoolExecutor(Executor):
    """`concurrent.futures.ThreadPoolExecutor`."""

    __slots__ = ("_active", "_closed", "_name", "_number", "_prepare", "_queue", "_workers")

    def __init__(
        self,
        max_workers: int | None = None,
        thread_name_prefix: str = "",
        initializer: Any = None,
        initargs: Any = (),
    ) -> None:
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        self._workers = _DEFAULT_WORKERS if max_workers is None else int(max_workers)
        self._name = thread_name_prefix or f"ThreadPoolExecutor-{next(_POOLS)}"
        self._prepare = (initializer, initargs)
        self._active = self._number = 0
        self._queue: deque[tuple[Future, Any, Any, Any]] = deque()
        self._closed = False

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future:
        """Call ``fn(*args, **kwargs)`` in a thread as soon as one is free."""
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = Future()
        self._queue.append((future, fn, args, kwargs))
        if self._active < self._workers:
            self._active += 1
            name = f"{self._name}_{self._number}"
            self._number = (self._number + 1) % self._workers
            Thread(target=self._serve, name=name, daemon=False).start()
        return future

    def _serve(self) -> None:
        """Make calls until the queue is empty; the body of a thread."""
        try:
            initializer, initargs = self._prepare
            if initializer is not None:
                initializer(*initargs)
            while self._queue:
                future, function, args, kwargs = self._queue.popleft()
                if future.set_running_or_notify_cancel():
                    _carry_out(future, function, args, kwargs)
        except BaseException as error:  # noqa: BLE001  # of the initializer
            text = f"exception in initializer:\n{format_error(error)}"
            CONSOLE.show(text, end="", file=CONSOLE.stderr)
            while self._queue:
                broken = library.BrokenExecutor("a thread initializer failed")
                self._queue.popleft()[0].set_exception(broken)
        finally:
            self._active -= 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls, and wait for the others."""
        self._closed = True
        if cancel_futures:
            while self._queue:
                self._queue.popleft()[0].cancel()
        if wait:
            THREADS.wait(lambda: not self._active, None, "the end of a ThreadPoolExecutor")


def _carry_out(future: Future, function: Any, args: Any, kwargs: Any) -> None:
    try:
        value = function(*args, **kwargs)
    except UNWOUND:
        raise
    except BaseException as error:  # noqa: BLE001  # raised by `result`
        future.set_exception(error)
    else:
        future.set_result(value)


# As `repr` shows them.
ThreadPoolExecutor.__module__ = "concurrent.futures.thread"
Future.__module__ = Executor.__module__ = "concurrent.futures._base"


class DoneAndNotDoneFutures(NamedTuple):
    """Result of `concurrent.futures.wait`."""

    done: set[Future]
    not_done: set[Future]


def _wait(
    fs: Iterable[Future], timeout: float | None = None, return_when: str = library.ALL_COMPLETED
) -> DoneAndNotDoneFutures:
    futures = list(dict.fromkeys(fs))
    conditions = (library.ALL_COMPLETED, library.FIRST_COMPLETED, library.FIRST_EXCEPTION)

    def enough() -> bool:
        done = [future for future in futures if future._is_done()]
        if len(done) == len(futures):
            return True
        if return_when == library.FIRST_COMPLETED:
            return bool(done)
        return return_when == library.FIRST_EXCEPTION and any(
            future._exception is not None for future in done
        )

    if not enough() and return_when not in conditions:
        raise ValueError(f"Invalid return condition: {return_when!r}")
    THREADS.wait(enough, timeout, "Futures")
    done = {future for future in futures if future._is_done()}
    return DoneAndNotDoneFutures(done, set(futures) - done)


def _as_completed(fs: Iterable[Future], timeout: float | None = None) -> Iterator[Future]:
    until = None if timeout is None else THREADS.now() + timeout
    waiting = list(dict.fromkeys(fs))
    finished: deque[Future] = deque(future for future in waiting if future._is_done())
    total = len(waiting)
    for future in waiting:
        if not future._is_done():
            future._callbacks.append(finished.append)
    for position in range(total):
        left = None if until is None else until - THREADS.now()
        if not THREADS.wait(lambda: bool(finished), left, "Futures"):
            raise TimeoutError(f"{total - position} (of {total}) futures unfinished")
        yield finished.popleft()


def futures_members() -> dict[str, Any]:
    """Return the members of `concurrent.futures`."""
    return {
        "ALL_COMPLETED": library.ALL_COMPLETED,
        "BrokenExecutor": library.BrokenExecutor,
        "CancelledError": library.CancelledError,
        "Executor": Executor,
        "FIRST_COMPLETED": library.FIRST_COMPLETED,
        "FIRST_EXCEPTION": library.FIRST_EXCEPTION,
        "Future": Future,
        "InvalidStateError": library.InvalidStateError,
        "ThreadPoolExecutor": ThreadPoolExecutor,
        "TimeoutError": TimeoutError,
        "as_completed": _as_completed,
        "wait": _wait,
    }
