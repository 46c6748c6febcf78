"""Elements of an answer, for callers without an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

if TYPE_CHECKING:
    from .._generation._elements import ElementStream
    from .._generation._generate import Generated

__all__ = ["BlockingElementStream"]

T = TypeVar("T")


class BlockingElementStream(Generic[T]):
    """`ElementStream` as a plain iterator; made by `BlockingSession.stream_elements`."""

    def __init__(
        self, elements: ElementStream[T], wait: Callable[[Callable[[], Awaitable[Any]]], Any]
    ) -> None:
        """Wrap a stream that runs in another thread.

        Args:
            elements: The stream.
            wait: Calls an async function in its thread and returns the result.
        """
        self._elements = elements
        self._wait = wait

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            element: T = self._wait(self._elements.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None
        return element

    @property
    def result(self) -> Generated[list[T]]:
        """As `ElementStream.result`."""
        return self._elements.result
