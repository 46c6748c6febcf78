"""pydantic, imported when it is first used: it takes half as long to import as all of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._lazy import LazyModule

if TYPE_CHECKING:
    import annotated_types as annotated_types
    import pydantic as pydantic
    import pydantic.fields as fields
    import pydantic_core as pydantic_core
else:
    annotated_types = LazyModule("annotated_types")
    fields = LazyModule("pydantic.fields")
    pydantic = LazyModule("pydantic")
    pydantic_core = LazyModule("pydantic_core")

__all__ = ["annotated_types", "fields", "pydantic", "pydantic_core"]
