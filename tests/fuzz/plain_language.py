"""Random programs of language features."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.fuzz.plain_classes import Classes
from tests.fuzz.plain_forms import indent
from tests.fuzz.plain_functions import Functions

__all__ = ["Language"]


class Language(Classes, Functions):
    """Writes statements whose outcome is printed."""

    def __init__(self, chance: Random) -> None:
        super().__init__(chance)
        self._number = 0
        self._forms: list[Callable[[], str]] = [
            self._operation, self._formatting, self._error, self._error, self._caught, self._chained, self._class,
            self._hierarchy, self._dataclass, self._enumeration, self._closure, self._generator, self._match, self._with,
            self._asynchronous, self._group, self._unpacking, self._comprehension, self._signature, self._copying,
            self._type_test, self._traceback, self._warning, self._logging, self._descriptor, self._subclass,
            self._functional, self._protocol, self._decorated, self._threads, self._reading, self._attributes, self._nested,
            self._named_class, self._generic,
        ]  # fmt: skip  # fmt: skip

    def statements(self, number: int) -> str:
        """Return a block of code for step `number`: a definition of `act_N`, and its call."""
        body = self._chance.choice(self._forms)()
        return f"def act_{number}():\n{indent(body)}\nstep({number}, act_{number})\n"

    def _nested(self) -> str:
        inner = self._chance.choice(self._forms)()
        if "async def main" in inner or "nonlocal" in inner:
            return inner
        how = self._pick(
            "try:¶    return inner()¶finally:¶    print('finally')", "class Outer:¶    @staticmethod¶    def call(): return inner()¶return Outer.call(), Outer.__qualname__", "return [f() for f in [inner]]", "with suppress(ZeroDivisionError):¶    return inner()¶return 'suppressed'", "def gen():¶    yield inner()¶return next(gen())", "async def main(): return inner()¶return main().send(None)" if False else "return max([1], key=lambda _: inner() and 0)",
        )  # fmt: skip
        return f"def inner():¶{indent(inner)}¶{how}"
