"""Values that tools need and no caller may see: keys, addresses, accounts.

A tool asks with ``env=Model``. The model's defaults come first, then its toolset's values, then the
session's, then the run's; a later one wins, and None is none. A text is a secret unless its field
is marked `Public`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, SecretStr, ValidationError

from ._redact import Redactor
from ._schema import nearest
from ._tool import Tool
from .errors import UsageError

__all__ = ["Environment", "Public", "environment_of"]


class Public:
    """Marks a field of an ``env`` model whose value is no secret.

    ``region: Annotated[str, Public]``
    """


@dataclass(frozen=True, slots=True)
class Environment:
    """The values of some tools, and what keeps them in."""

    values: Mapping[str, BaseModel] = field(default_factory=dict)
    """By tool."""
    redactor: Redactor = field(default_factory=lambda: Redactor({}))


def environment_of(tools: Iterable[Tool], *layers: Mapping[str, Any] | None) -> Environment:
    """The values for `tools`, the later of `layers` winning.

    Raises:
        UsageError: If a required value is missing, has the wrong type, or is asked for by no tool.
            The message has all of their names, and no value.
    """
    given: dict[str, Any] = {}
    for layer in layers:
        given.update({key: value for key, value in (layer or {}).items() if value is not None})
    asking = [tool for tool in tools if tool.env is not None]
    _refuse_unknown(given, asking)
    values: dict[str, BaseModel] = {}
    secrets: dict[str, str] = {}
    missing: dict[str, list[str]] = {}
    wrong: list[str] = []
    for tool in asking:
        assert tool.env is not None  # noqa: S101  # they are the asking ones
        own = {**tool.env_values, **given}
        try:
            model = tool.env.model_validate(
                {key: own[key] for key in tool.env.model_fields if key in own}
            )
        except ValidationError as error:
            # Not str(error), and no cause: both would show the value.
            for row in error.errors(include_input=False, include_url=False, include_context=False):
                name = ".".join(map(str, row["loc"])) or "the values"
                if row["type"] == "missing":
                    missing.setdefault(name, []).append(tool.name)
                else:
                    wrong.append(f"{name}: {_kind(row)} ({tool.name})")
            continue
        values[tool.name] = model
        secrets.update(_secrets(model))
    problems = [f"{name} is missing ({', '.join(users)})" for name, users in missing.items()]
    if problems or wrong:
        msg = f"env: {'; '.join([*problems, *wrong])}"
        raise UsageError(msg)
    return Environment(values, Redactor(secrets))


def _kind(row: Any) -> str:
    """What is wrong with a value; what a model's own validator says may have the value in it."""
    own = row["type"] in ("value_error", "assertion_error")
    return "is refused by its model" if own else str(row["msg"])


def _refuse_unknown(given: Mapping[str, Any], asking: Iterable[Tool]) -> None:
    known = {key for tool in asking if tool.env is not None for key in tool.env.model_fields}
    for name in given:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            msg = f"env: no tool asks for {name!r}{nearest(name, known)}; asked for: {listed}"
            raise UsageError(msg)


def _secrets(model: BaseModel) -> dict[str, str]:
    found = {}
    for name, described in type(model).model_fields.items():
        value = getattr(model, name)
        if isinstance(value, SecretStr):
            found[name] = value.get_secret_value()
        elif isinstance(value, str) and Public not in described.metadata:
            found[name] = value
    return found
