"""Models for `generate_object`: the `Model` protocol and its adapters.

A model is a name (``"openai:gpt-5"``, ``"anthropic:claude-opus-5"``: any provider of pydantic-ai,
with the extra ``ptc-host[models]``), a model object of pydantic-ai, an async function, or any
object with the methods of `Model`. Names and providers are imported on first use.
"""

from typing import TYPE_CHECKING

from .._core._lazy import lazy_exports

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._facts import ModelUsage as ModelUsage
    from ._model import Delta as Delta
    from ._model import Mode as Mode
    from ._model import Model as Model
    from ._model import ModelReply as ModelReply
    from ._model import ModelRequest as ModelRequest
    from ._model import Turn as Turn
    from ._open import ModelSource as ModelSource
    from ._open import open_model as open_model


__all__ = [
    "Delta",
    "Mode",
    "Model",
    "ModelReply",
    "ModelRequest",
    "ModelSource",
    "ModelUsage",
    "Turn",
    "open_model",
]

__getattr__: "Callable[[str], object]"
__dir__: "Callable[[], list[str]]"
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "._facts": ["ModelUsage"],
        "_model": ["Delta", "Mode", "Model", "ModelReply", "ModelRequest", "Turn"],
        "_open": ["ModelSource", "open_model"],
    },
)
