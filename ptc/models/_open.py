"""From what a caller calls a model to a `Model`."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import UsageError
from ._function import AskFunction, FunctionAsModel, is_ask_function
from ._model import Model

if TYPE_CHECKING:
    from pydantic_ai.models import Model as ProviderModel

__all__ = ["ModelSource", "OpenModels", "checked_source", "open_model"]

ModelSource: TypeAlias = "str | Model | AskFunction | ProviderModel"
"""``"provider:name"``, a `Model`, an async function, or a model object of pydantic-ai."""

_NAME = re.compile(r"[\w/.-]+:\S+")


def checked_source(source: Any) -> ModelSource:
    """`source`, if it can be opened as a model; nothing is imported for that.

    Raises:
        UsageError: If it cannot.
    """
    if isinstance(source, str):
        if not _NAME.fullmatch(source):
            msg = f"model {source!r:.80}: write provider:name, as in openai:gpt-5"
            raise UsageError(msg)
        return source
    if isinstance(source, Model) and not isinstance(source, type):
        return source
    if _is_provider_model(source) or is_ask_function(source):
        return source  # type: ignore[no-any-return]  # just checked
    msg = (
        f"model is provider:name, a Model, an async function or a model object of pydantic-ai, "
        f"not {source!r:.80}"
    )
    raise UsageError(msg)


def open_model(source: ModelSource) -> Model:
    """The model that `source` names or is.

    Raises:
        UsageError: If it is no model, or there is none of that name.
        SetupError: If its provider's package or key is missing.
    """
    checked: Any = checked_source(source)
    if isinstance(checked, str) or _is_provider_model(checked):
        from ._providers import ProviderAsModel

        return ProviderAsModel.of(checked)
    if isinstance(checked, Model):
        return checked
    return FunctionAsModel(checked)


class OpenModels:
    """The models of a session: each is opened when it is first asked, and closed with it."""

    def __init__(self, default: ModelSource | None = None) -> None:
        """Open nothing yet.

        Args:
            default: Who is asked where nobody is named.

        Raises:
            UsageError: If `default` is no model.
        """
        self._default = None if default is None else checked_source(default)
        self._named: dict[str, Model] = {}

    def get(self, source: ModelSource | None = None) -> Model:
        """As `open_model`; a name is opened once, and None is the default.

        Raises:
            UsageError: If there is no default, or as `open_model` does.
            SetupError: As `open_model` does.
        """
        source = self._default if source is None else source
        if source is None:
            msg = "no model is given: say model=..., here or where the session is opened"
            raise UsageError(msg)
        if not isinstance(source, str):
            return open_model(source)
        if source not in self._named:
            self._named[source] = open_model(source)
        return self._named[source]

    async def aclose(self) -> None:
        """Close the connections of what was opened by name."""
        for model in self._named.values():
            await model.aclose()  # type: ignore[attr-defined]  # a name is opened as ProviderAsModel
        self._named.clear()


def _is_provider_model(source: Any) -> bool:
    # Who has such an object has imported its class.
    library = sys.modules.get("pydantic_ai.models")
    return library is not None and isinstance(source, library.Model)
