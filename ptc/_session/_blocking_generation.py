"""Generation and extraction of a `BlockingSession`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from ._blocking_iterator import BlockingElementStream, BlockingExtraction
from ._session import Session

if TYPE_CHECKING:
    from .._extraction._documents import DocumentSource
    from .._extraction._extraction import Extraction
    from .._extraction._options import ExtractOptions
    from .._generation._elements import ElementStream
    from .._generation._generate import Generated
    from .._generation._prompt import Prompt
    from .._generation._question import GenerateOptions
    from ._loop_thread import LoopThread

__all__ = ["BlockingGeneration"]

_T = TypeVar("_T")


class BlockingGeneration(ABC):
    """The part of `BlockingSession` that asks models."""

    _session: Session

    @abstractmethod
    def _wait(self, function: Callable[[], Awaitable[_T]]) -> _T: ...

    @abstractmethod
    def _open(self) -> LoopThread: ...

    @overload
    def generate_object(
        self, schema: type[_T], prompt: Prompt, **options: Unpack[GenerateOptions]
    ) -> Generated[_T]: ...
    @overload
    def generate_object(
        self, schema: Any, prompt: Prompt, **options: Unpack[GenerateOptions]
    ) -> Generated[Any]: ...
    def generate_object(
        self, schema: Any, prompt: Prompt, **options: Unpack[GenerateOptions]
    ) -> Generated[Any]:
        """As `Session.generate_object`."""
        return self._wait(partial(self._session.generate_object, schema, prompt, **options))

    @overload
    def stream_elements(
        self, schema: type[_T], prompt: Prompt, **options: Unpack[GenerateOptions]
    ) -> AbstractContextManager[BlockingElementStream[_T]]: ...
    @overload
    def stream_elements(
        self, schema: Any, prompt: Prompt, **options: Unpack[GenerateOptions]
    ) -> AbstractContextManager[BlockingElementStream[Any]]: ...
    def stream_elements(
        self, schema: Any, prompt: Prompt, **options: Unpack[GenerateOptions]
    ) -> AbstractContextManager[BlockingElementStream[Any]]:
        """As `Session.stream_elements`, with a plain ``with`` and a plain ``for``."""

        # In the thread of the event loop, which the session is bound to.
        @asynccontextmanager
        async def start() -> AsyncIterator[ElementStream[Any]]:
            async with self._session.stream_elements(schema, prompt, **options) as elements:
                yield elements

        return self._open().enter(start(), partial(BlockingElementStream, wait=self._wait))

    @overload
    def extract_many(
        self, documents: DocumentSource, schema: type[_T], **options: Unpack[ExtractOptions]
    ) -> AbstractContextManager[BlockingExtraction[_T]]: ...
    @overload
    def extract_many(
        self, documents: DocumentSource, schema: Any, **options: Unpack[ExtractOptions]
    ) -> AbstractContextManager[BlockingExtraction[Any]]: ...
    def extract_many(
        self, documents: DocumentSource, schema: Any, **options: Unpack[ExtractOptions]
    ) -> AbstractContextManager[BlockingExtraction[Any]]:
        """As `Session.extract_many`, with a plain ``with`` and a plain ``for``."""

        # In the thread of the event loop, which the session is bound to.
        @asynccontextmanager
        async def start() -> AsyncIterator[Extraction[Any]]:
            async with self._session.extract_many(documents, schema, **options) as extraction:
                yield extraction

        return self._open().enter(start(), partial(BlockingExtraction, wait=self._wait))
