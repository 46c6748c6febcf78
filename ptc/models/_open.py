"""Open a `Model` from a name, a function or a model object."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ..errors import SetupError, UsageError
from ._function import FunctionAsModel, ModelFunction, is_model_function
from ._model import Model
from ._refusals import Refusals

if TYPE_CHECKING:
    from pydantic_ai.models import Model as ProviderModel

__all__ = ["ModelSource", "OpenModels", "open_model", "validate_source"]

ModelSource: TypeAlias = "str | Model | ModelFunction | ProviderModel"
"""``"provider:name"``, a `Model`, an async function, or a model object of pydantic-ai."""

_NAME = re.compile(r"[\w/.-]+:\S+|gguf:.*\S")
"""A path may have spaces."""


def validate_source(source: Any) -> ModelSource:
    """Return `source` if it can be opened as a model, without importing a provider.

    Raises:
        UsageError: If it cannot.
    """
    if isinstance(source, str):
        if not _NAME.fullmatch(source):
            msg = (
                f"model {source!r:.80} is not a model name; write provider:name, as in openai:gpt-5"
            )
            raise UsageError(msg)
        return source
    if isinstance(source, Model) and not isinstance(source, type):
        return source
    if _is_provider_model(source) or is_model_function(source):
        return source  # type: ignore[no-any-return]  # just checked
    msg = (
        "model must be provider:name, a Model, an async function or a model object of "
        f"pydantic-ai, not {source!r:.80}"
    )
    raise UsageError(msg)


def open_model(source: ModelSource) -> Model:
    """Open the model `source`.

    Raises:
        UsageError: If `source` is not a model, or no model has that name.
        SetupError: If the provider's package or key is missing.
    """
    checked: Any = validate_source(source)
    if isinstance(checked, str) and checked.startswith("gguf:"):
        # Before the import, since this error names the extra that brings all it needs.
        if importlib.util.find_spec("xllamacpp") is None:
            msg = "models in GGUF files need xllamacpp; run: pip install 'ptc-host[local]'"
            raise SetupError(msg)
        from ._gguf import GgufAsModel

        return GgufAsModel(checked)
    if isinstance(checked, str) or _is_provider_model(checked):
        from ._providers import ProviderAsModel

        return ProviderAsModel.from_source(checked)
    if isinstance(checked, Model):
        return checked
    return FunctionAsModel(checked)


class OpenModels:
    """The models of a session, opened on first use and closed with the session.

    Attributes:
        offered: Models that scripts may choose, by name.
        refusals: Modes that they rejected.
    """

    def __init__(
        self,
        default: ModelSource | None = None,
        offered: Mapping[str, ModelSource] | None = None,
    ) -> None:
        """Set the models without opening them.

        Args:
            default: Model of requests that name none.
            offered: Models that scripts may choose, by name. None: only the default.

        Raises:
            UsageError: If one is not a model.
        """
        self._default = None if default is None else validate_source(default)
        self.offered: dict[str, ModelSource] = {
            name: validate_source(one) for name, one in (offered or {}).items()
        }
        self._named: dict[str, Model] = {}
        self.refusals: Refusals = Refusals()

    def offer(self, name: str) -> ModelSource:
        """Return the model that scripts choose by `name`.

        Raises:
            UsageError: If no such model is offered.
        """
        if name not in self.offered:
            known = ", ".join(self.offered) or "none; the owner of the session can offer some"
            msg = f"model {name!r:.80} is not offered to scripts; offered: {known}"
            raise UsageError(msg)
        return self.offered[name]

    def get(self, source: ModelSource | None = None) -> Model:
        """Open `source`, or the default model for None; each name is opened once.

        Raises:
            UsageError: If there is no default, or as in `open_model`.
            SetupError: As in `open_model`.
        """
        source = self._default if source is None else source
        if source is None:
            msg = "no model is set; pass model= to this call or to the session"
            raise UsageError(msg)
        if not isinstance(source, str):
            return open_model(source)
        if source not in self._named:
            self._named[source] = open_model(source)
        return self._named[source]

    async def agent_model(self, source: ModelSource | None = None) -> ProviderModel:
        """Return `source`, or the default model for None, as a model object of pydantic-ai.

        Raises:
            UsageError: If it is an async function or a `Model`, which cannot call tools, or as for
                `get`.
            SetupError: As for `get`.
        """
        opened = self.get(source)
        make = getattr(opened, "agent_model", None)
        if make is None:
            msg = (
                f"agents need a model that calls tools, and {opened.name!r} is a model of your own "
                "for generate_object: pass provider:name or a model object of pydantic-ai"
            )
            raise UsageError(msg)
        return cast("ProviderModel", await make())

    async def aclose(self) -> None:
        """Close the connections of models that were opened by name."""
        for model in self._named.values():
            await model.aclose()  # type: ignore[attr-defined]  # a name is opened as ProviderAsModel
        self._named.clear()


def _is_provider_model(source: Any) -> bool:
    # A caller that has such an object has imported its class.
    library = sys.modules.get("pydantic_ai.models")
    return library is not None and isinstance(source, library.Model)
