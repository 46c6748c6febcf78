"""Rows of an extraction, for callers without an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

if TYPE_CHECKING:
    from .._extraction._extraction import Extraction
    from .._extraction._row import ExtractedRow, ExtractionReport

__all__ = ["BlockingExtraction"]

T = TypeVar("T")


class BlockingExtraction(Generic[T]):
    """`Extraction` as a plain iterator; made by `BlockingSession.extract_many`."""

    def __init__(
        self, extraction: Extraction[T], wait: Callable[[Callable[[], Awaitable[Any]]], Any]
    ) -> None:
        """Wrap an extraction that runs in another thread.

        Args:
            extraction: The extraction.
            wait: Calls an async function in its thread and returns the result.
        """
        self._extraction = extraction
        self._wait = wait

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ExtractedRow[T]:
        try:
            row: ExtractedRow[T] = self._wait(self._extraction.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None
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
