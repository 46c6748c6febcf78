"""Validation of configuration values with pydantic, by the table of keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from .._core._arguments import nearest
from ..errors import UsageError
from ._keys import KEYS, Key

__all__ = ["validate"]

_Text = Annotated[str, Field(min_length=1)]
_Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]


class _OAuth(BaseModel):
    """The client of a server that asks for OAuth."""

    model_config = ConfigDict(strict=True, extra="forbid")

    client_id: _Text
    client_secret_env: _Variable
    issuer: _Text
    scope: _Text | None = None


class _Server(BaseModel):
    """One server of the key ``mcp_servers``."""

    model_config = ConfigDict(strict=True, extra="forbid")

    command: _Text | None = None
    args: list[str] = []
    env: list[_Variable] = []
    cwd: _Text | None = None
    url: _Text | None = None
    token_env: _Variable | None = None
    oauth: _OAuth | None = None


_EXPECTED_OF_SERVER = {
    "args": "a list of texts",
    "env": 'a list of names of environment variables, as ["API_TOKEN"]; never put a secret into a '
    "file",
    "oauth": "a table with client_id, client_secret_env (the name of an environment variable), "
    "issuer and, if needed, scope",
    "token_env": "the name of an environment variable; never put a secret into a file",
}


def validate(table: object, subject: Callable[[str], str]) -> dict[str, Any]:
    """Validate a table of configuration and return its values by full name of key.

    Args:
        table: Nested as in a file.
        subject: Returns the text that a message about a key starts with: its place and its name.

    Raises:
        UsageError: If something is wrong; the message has one line for each problem.
    """
    try:
        model = _model().model_validate(table)
    except ValidationError as error:
        rows = error.errors(include_url=False, include_context=False)
        problems = dict.fromkeys(_describe(row, table, subject) for row in rows)
        raise UsageError("\n".join(sorted(problems, key=_line_of))) from None
    found: dict[str, Any] = {}
    for name in model.model_fields_set:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            found |= {f"{name}.{k}": getattr(value, k) for k in value.model_fields_set}
        elif KEYS[name].kind == "servers":
            found[name] = {k: server.model_dump(exclude_unset=True) for k, server in value.items()}
        else:
            found[name] = value
    return found


def _line_of(problem: str) -> int:
    found = re.match(r".*?:([0-9]+): ", problem)
    return int(found[1]) if found else 0


def _describe(row: Any, table: object, subject: Callable[[str], str]) -> str:
    path = [str(part) for part in row["loc"]]
    name = ".".join(path[:2]) if ".".join(path[:2]) in KEYS else ".".join(path[:1])
    if row["type"] == "extra_forbidden":
        return f"{subject('.'.join(path))} is not a key{_suggest(path)}"
    key = KEYS.get(name)
    if key is None:
        where = subject(name) if name else "the configuration"
        return f"{where} must be a table, not {row['input']!r:.80}"
    if key.kind == "servers" and len(path) > 2:
        # Never the value: arguments and URLs may hold secrets, too.
        return f"{subject('.'.join(path[:3]))} must be {_EXPECTED_OF_SERVER.get(path[2], 'text')}"
    if key.kind in ("variables", "servers"):
        # Never the value: a secret may have been put where a name belongs.
        return f"{subject(name)} must be {key.expected}"
    if key.kind == "counts" and len(path) > 2:
        expected = f"an integer from 1 to {key.most:,}"
        return f"{subject(name)}[{path[2]!r:.80}] must be {expected}, not {row['input']!r:.80}"
    value: Any = table
    for part in name.split("."):
        value = value[part]
    return f"{subject(name)} must be {key.expected}, not {value!r:.80}"


def _suggest(path: list[str]) -> str:
    *above, last = path
    if above and above[0] in KEYS:
        return nearest(last, _Server.model_fields)
    prefix = f"{above[0]}." if above else ""
    names = {
        name.removeprefix(prefix).partition(".")[0] for name in KEYS if name.startswith(prefix)
    }
    elsewhere = [name for name in KEYS if name.rpartition(".")[2] == last]
    if elsewhere:
        return f" (did you mean {' or '.join(f'`{name}`' for name in elsewhere)}?)"
    return nearest(last, names)


@cache
def _model() -> type[BaseModel]:
    tables: dict[str, dict[str, Any]] = {"": {}}
    for key in KEYS.values():
        table, _, name = key.name.rpartition(".")
        tables.setdefault(table, {})[name] = (_type_of(key), None)
    top = tables.pop("")
    for name, keys in tables.items():
        top[name] = (_create(name, keys), None)
    return _create("configuration", top)


def _create(name: str, keys: dict[str, Any]) -> type[BaseModel]:
    config = ConfigDict(strict=True, extra="forbid")
    made: type[BaseModel] = create_model(name, __config__=config, **keys)
    return made


def _type_of(key: Key) -> Any:
    if key.choices:
        return Literal[key.choices]
    number = Annotated[int, Field(ge=1, le=key.most or None)]
    kinds: Mapping[str, Any] = {
        "text": _Text,
        "path": _Text,
        "flag": bool,
        "number": number,
        "list": list[_Text],
        "paths": list[_Text],
        "counts": dict[_Text, number],
        "variables": dict[_Text, _Variable],
        "servers": dict[_Text, _Server],
    }
    return kinds[key.kind]
