"""Bounds of the arguments of built-in tools, which pydantic reads like its own `Field`.

To evaluate ``Annotated[int, pydantic.Field(ge=1)]`` imports pydantic, and a session evaluates the
hints of its tools when it is created: that took 40 ms, before its processes could start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from .._core._pydantic import annotated_types, pydantic
from .._dataclass import dataclass

__all__ = ["Bounds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Metadata of ``Annotated``: constraints of a value, as in `pydantic.Field`.

    A `GroupedMetadata` of annotated_types, which names the members below.
    """

    __is_annotated_types_grouped_metadata__: ClassVar[bool] = True

    ge: int | None = None
    le: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None

    def __iter__(self) -> Iterator[Any]:
        """Return the constraints."""
        if self.ge is not None:
            yield annotated_types.Ge(self.ge)
        if self.le is not None:
            yield annotated_types.Le(self.le)
        if self.min_length is not None:
            yield annotated_types.MinLen(self.min_length)
        if self.max_length is not None:
            yield annotated_types.MaxLen(self.max_length)
        if self.pattern is not None:
            yield pydantic.StringConstraints(pattern=self.pattern)
