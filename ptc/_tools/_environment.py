"""Values that tools need and no caller may see: keys, addresses, accounts.

A tool declares them with ``env=Model``. The model's defaults come first, then its toolset's values,
then the session's, then the run's. A later value overrides an earlier one; None is ignored. A text
is a secret unless its field is marked `Public`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import lru_cache
from typing import Any, cast

from .._core._arguments import nearest
from .._core._pydantic import pydantic, pydantic_core
from .._core._redact import Redactor
from .._dataclass import dataclass
from ..errors import UsageError
from ._tool import Tool

__all__ = ["Environment", "Public", "environment_of"]


class Public:
    """Mark a field of an ``env`` model as not secret.

    ``region: Annotated[str, Public]``
    """


@dataclass(frozen=True, slots=True)
class Environment:
    """Values of tools, and the redactor of their secrets."""

    values: Mapping[str, pydantic.BaseModel] = field(default_factory=dict)
    """Values by name of tool."""
    redactor: Redactor = field(default_factory=lambda: Redactor({}))
    """Removes the secrets among the values from texts and data."""


def environment_of(tools: Iterable[Tool], *layers: Mapping[str, Any] | None) -> Environment:
    """Validate the values for `tools`; a later layer overrides an earlier one.

    Raises:
        UsageError: If a required value is missing, has the wrong type, or is declared by no tool.
            The message lists all of their names, and no value.
    """
    given: dict[str, Any] = {}
    for layer in layers:
        if not isinstance(layer, Mapping | None):
            msg = f"env must be a mapping of names to values, not {type(layer).__name__}"
            raise UsageError(msg)
        given.update({key: value for key, value in (layer or {}).items() if value is not None})
    declaring = [tool for tool in tools if tool.env is not None]
    _refuse_unknown(given, declaring)
    values: dict[str, pydantic.BaseModel] = {}
    secrets: dict[str, str] = {}
    missing: dict[str, list[str]] = {}
    wrong: list[str] = []
    for tool in declaring:
        assert tool.env is not None  # noqa: S101  # only tools that declare env=
        own = {**tool.env_values, **given}
        try:
            model = _frozen(tool.env).model_validate(
                {key: own[key] for key in tool.env.model_fields if key in own}
            )
        except pydantic.ValidationError as error:
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
    """Describe an invalid value. The message of a model's own validator may contain the value."""
    own = row["type"] in ("value_error", "assertion_error")
    return "is rejected by its model" if own else str(row["msg"])


def _refuse_unknown(given: Mapping[str, Any], declaring: Iterable[Tool]) -> None:
    known = {key for tool in declaring if tool.env is not None for key in tool.env.model_fields}
    for name in given:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            msg = f"env: no tool declares {name!r}{nearest(name, known)}; declared: {listed}"
            raise UsageError(msg)


@lru_cache(256)
def _frozen(model: type[pydantic.BaseModel]) -> type[pydantic.BaseModel]:
    """Return `model`, validated by field name, and frozen so that no tool changes shared values."""
    config = pydantic.ConfigDict(frozen=True, validate_by_name=True, loc_by_alias=False)
    body = {"model_config": config, "__module__": model.__module__}
    made: Any = type(model)
    return cast("type[pydantic.BaseModel]", made(model.__name__, (model,), body))


def _secrets(model: pydantic.BaseModel) -> dict[str, str]:
    """Return the texts in a model by path: ``key``, ``tokens.0``, ``account.password``."""
    found: dict[str, str] = {}
    for name, described in type(model).model_fields.items():
        if Public not in described.metadata:
            _collect(name, getattr(model, name), found)
    return found


def _collect(name: str, value: Any, found: dict[str, str]) -> None:
    if isinstance(value, pydantic.SecretStr | pydantic.SecretBytes):
        value = value.get_secret_value()
    if isinstance(value, bytes | bytearray):
        value = bytes(value).decode(errors="ignore")
    if isinstance(value, str):
        found[name] = value
    elif isinstance(value, pydantic.BaseModel):
        found.update({f"{name}.{part}": text for part, text in _secrets(value).items()})
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _collect(f"{name}.{key}", item, found)
    elif isinstance(value, list | tuple | set | frozenset):
        for number, item in enumerate(value):
            _collect(f"{name}.{number}", item, found)
    elif value is not None and not isinstance(value, bool | int | float):
        # For example a URL with a password in it, a date, or an object of a user's class.
        _collect(name, pydantic_core.to_jsonable_python(value, fallback=str), found)
