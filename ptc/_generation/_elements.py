"""Generate a list of objects and yield each as soon as it is complete.

Rule 1: an element is yielded once, in order, and conforms
(test_each_element_is_yielded_once_when_it_is_complete).
Rule 2: the elements yielded are those of the final answer, or the iteration raises
(test_answer_with_other_elements_raises_after_a_repair).
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, Self, TypeVar

import anyio

from .._core._background import running
from ..errors import ElementsChangedError, UsageError
from ..models._open import OpenModels
from ..structured import Contract
from ..structured._reading import json_equal
from ..structured._stream import copy_value
from ._generate import Generated, generate_object
from ._prompt import Prompt

__all__ = ["ElementCollector", "ElementStream", "open_elements"]

T = TypeVar("T")


class ElementCollector:
    """Compares the elements of successive answers and yields each new one."""

    def __init__(self, contract: Contract, yield_element: Callable[[Any], None]) -> None:
        """Prepare for the first answer.

        Args:
            contract: Contract of one element.
            yield_element: Receives each element once, as an object of the contract's type.
        """
        self._contract = contract
        self._yield = yield_element
        self._yielded: list[Any] = []
        self._index = 0
        self._agrees = True

    def start_answer(self) -> None:
        """Expect the elements of another answer, from the first on."""
        self._index = 0
        self._agrees = True

    def add(self, elements: list[Any]) -> None:
        """Take the next elements of the answer.

        Once one differs from what was yielded, or does not conform, nothing more of this answer is
        yielded before it is accepted.
        """
        for element in elements:
            if not self._agrees:
                return
            if self._index < len(self._yielded):
                self._agrees = json_equal(self._yielded[self._index], element)
            else:
                self._agrees = self._contract.conforms(element)
                if self._agrees:
                    self._yielded.append(element)
                    self._yield(self._contract.typed(copy_value(element)))
            self._index += 1

    def finish(self, elements: list[Any]) -> None:
        """Take all elements of the accepted answer.

        Raises:
            ElementsChangedError: If it does not start with the elements that were yielded.
        """
        self.start_answer()
        self.add(elements)
        if not self._agrees or self._index < len(self._yielded):
            count = len(self._yielded)
            equal = self._index - (not self._agrees)
            msg = (
                f"the model was asked again after {count} elements were yielded, and element "
                f"{equal} of its new answer is different; use generate_object to receive only "
                "the accepted answer"
            )
            raise ElementsChangedError(msg, elements=count)


class ElementStream(Generic[T]):
    """Elements of an answer, an async iterator; made by `Session.stream_elements`."""

    def __init__(self, contract: Contract) -> None:
        """Prepare the stream; nothing is sent."""
        self._contract = contract
        self._failure: Exception | None = None
        self._result: Generated[list[T]] | None = None
        # The model calls back from inside its request, and cannot wait there.
        self._to, self._elements = anyio.create_memory_object_stream[T](math.inf)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            return await self._elements.receive()
        except anyio.EndOfStream:
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure from None
            raise StopAsyncIteration from None

    @property
    def result(self) -> Generated[list[T]]:
        """The whole answer, with its attempts and usage.

        Raises:
            UsageError: If the iteration has not ended, or raised an error.
        """
        if self._result is None:
            msg = "the answer is not complete: iterate over all elements before you read `result`"
            raise UsageError(msg)
        return self._result

    async def _run(self, models: OpenModels, prompt: Prompt, options: dict[str, Any]) -> None:
        collector = ElementCollector(self._contract, self._to.send_nowait)
        try:
            self._result = await generate_object(
                models, self._contract.list_of(), prompt, collector=collector, **options
            )
        except Exception as error:  # noqa: BLE001  # raised again by the iteration
            self._failure = error
        finally:
            self._to.close()

    def _close(self) -> None:
        self._to.close()
        self._elements.close()


@asynccontextmanager
async def open_elements(
    models: OpenModels, schema: Any, prompt: Prompt, options: dict[str, Any]
) -> AsyncIterator[ElementStream[Any]]:
    """Ask a model for a list; leaving the block early cancels the request.

    Exceptions of the block are raised unchanged, not in a group.
    """
    name = options.pop("schema_name", "result")
    contract = schema if isinstance(schema, Contract) else Contract(schema, name=name)
    elements: ElementStream[Any] = ElementStream(contract)
    try:
        async with running(elements._run, models, prompt, options):
            yield elements
    finally:
        elements._close()
