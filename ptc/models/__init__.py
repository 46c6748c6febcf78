"""Models for `generate_object`: the `Model` protocol and its adapters.

A model is a name (``"openai:gpt-5"``, ``"anthropic:claude-opus-5"``: any provider of pydantic-ai,
with the extra ``ptc[models]``), a model object of pydantic-ai, an async function, or any object
with the methods of `Model`. Names and providers are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .._model_usage import ModelUsage as ModelUsage
    from ._model import Delta as Delta
    from ._model import Mode as Mode
    from ._model import Model as Model
    from ._model import ModelReply as ModelReply
    from ._model import ModelRequest as ModelRequest
    from ._model import Turn as Turn
    from ._open import ModelSource as ModelSource
    from ._open import open_model as open_model

_HOME = {
    "Delta": "_model",
    "Mode": "_model",
    "Model": "_model",
    "ModelReply": "_model",
    "ModelRequest": "_model",
    "ModelSource": "_open",
    "ModelUsage": "._model_usage",
    "Turn": "_model",
    "open_model": "_open",
}

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


def __getattr__(name: str) -> object:
    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
