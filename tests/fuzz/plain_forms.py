"""The choices from which programs of language features are made."""

from __future__ import annotations

import textwrap
from random import Random

from tests.fuzz.plain_tables import VALUES

__all__ = ["Forms", "indent"]


class Forms:
    """Draws values and texts."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def _v(self) -> str:
        return self._chance.choice(VALUES)

    def _pick(self, *choices: str) -> str:
        return self._chance.choice(choices)

    def _some(self, choices: list[str], most: int = 4) -> list[str]:
        return self._chance.sample(choices, self._chance.randint(1, min(most, len(choices))))


def indent(text: str) -> str:
    return textwrap.indent(text.replace("¶", "\n"), "    ")
