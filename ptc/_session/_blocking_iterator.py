"""Async iterators of a session, for callers without an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from .._extraction._extraction import Extraction
    from .._extraction._row import ExtractedRow, ExtractionReport
    from .._generation._elements import ElementStream
    from .._generation._generate import Generated

__all__ = ["BlockingElementStream", "BlockingExtraction"]

T = TypeVar("T")
_Wait = Callable[[Callable[[], Awaitable[Any]]], Any]
"""Calls an async function in the thread of the session, and returns its result."""


class _Items(Protocol):
    """An asynchronous iterator."""

    async def __anext__(self) -> Any: ...


class _BlockingIterator:
    """An async iterator that runs in another thread, as a plain iterator."""

    def __init__(self, items: _Items, wait: _Wait) -> None:
        self._next, self._wait = items.__anext__, wait

    def __iter__(self) -> Self:
        return self

    def _take(self) -> Any:
        try:
            return self._wait(self._next)
        except StopAsyncIteration:
            raise StopIteration from None


class BlockingElementStream(_BlockingIterator, Generic[T]):
    """`ElementStream` as a plain iterator; made by `BlockingSession.stream_elements`."""

    def __init__(self, elements: ElementStream[T], wait: _Wait) -> None:
        """Wrap a stream that runs in another thread."""
        super().__init__(elements, wait)
        self._elements = elements

    def __next__(self) -> T:
        element: T = self._take()
        return element

    @property
    def result(self) -> Generated[list[T]]:
        """As `ElementStream.result`."""
        return self._elements.result


class BlockingExtraction(_BlockingIterator, Generic[T]):
    """`Extraction` as a plain iterator; made by `BlockingSession.extract_many`."""

    def __init__(self, extraction: Extraction[T], wait: _Wait) -> None:
        """Wrap an extraction that runs in another thread."""
        super().__init__(extraction, wait)
        self._extraction = extraction

    def __next__(self) -> ExtractedRow[T]:
        row: ExtractedRow[T] = self._take()
        return row

    def stop(self) -> None:
        """As `Extraction.stop`."""

        async def stop() -> None:
            self._extraction.stop()

        self._wait(stop)

    @property
    def report(self) -> ExtractionReport:
        """As `Extraction.report`."""
        return self._extraction.report
