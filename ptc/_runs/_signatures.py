"""Facts about tools by which a worker checks a script before it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from .._core import _json
from .._tools._table import ToolTable
from .._tools._tool import Tool
from ..errors import ToolError

__all__ = ["derive_schemas", "encode_parameters", "encode_signatures"]

_ACCEPTED: Final = {
    "string": "td",
    "integer": "dbif",
    "number": "dbif",
    "boolean": "tdbif",
    "array": "l",
    "object": "o",
    "null": "n",
}
"""Kinds of literals that a parameter of a type may accept, conversions included; the kinds are
those of `ptc.worker._preflight.literal_kind`."""
_PROBES: Final[Mapping[str, Any]] = {
    "t": "x", "d": "1", "i": 1, "f": 1.5, "b": True, "n": None, "l": [], "o": {},
}  # fmt: skip
_WORDS: Final = {
    "string": "text", "integer": "an integer", "number": "a number", "boolean": "a bool",
    "array": "a list", "object": "a dict", "null": "None",
}  # fmt: skip


def derive_schemas(table: ToolTable, source: str) -> None:
    """Derive what a run of a script needs of the tools' schemas, which stays cached."""
    encode_signatures(table.named_in(source))
    table.marks(source)


def encode_parameters(tools: Iterable[Tool]) -> bytes:
    """Encode the names of the parameters of `tools` as a JSON object."""
    return _json.dumps({tool.name: tool.parameter_names for tool in tools})


def encode_signatures(tools: Iterable[Tool]) -> bytes:
    """Encode the signatures of `tools` as a JSON object."""
    return b"{%b}" % b",".join(map(_encode, tools))


@lru_cache(maxsize=1_024)
def _encode(tool: Tool) -> bytes:
    """Encode one member: name, and parameters, required ones, whether it is closed, refusals."""
    schema = tool.parameters
    row = [
        list(tool.parameter_names),
        list(schema.get("required", ())),
        schema.get("additionalProperties") is False,
        _refused_literals(tool),
    ]
    return b"%b:%b" % (_json.dumps(tool.name), _json.dumps(row))


def _refused_literals(tool: Tool) -> dict[str, tuple[str, str]]:
    """Return the parameters with a known type: the type in words, and the kinds it refuses.

    The schema suggests a kind, and the tool's own validator confirms it: a validator may convert
    values that the schema does not mention.
    """
    found = {}
    properties = tool.parameters.get("properties")
    for name, schema in properties.items() if isinstance(properties, Mapping) else ():
        types = _types_of(schema)
        if not types:
            continue
        accepted = "".join(_ACCEPTED[each] for each in types)
        kinds = [kind for kind in _PROBES if kind not in accepted]
        refused = "".join(kind for kind in kinds if _refuses(tool, name, _PROBES[kind]))
        if refused:
            found[name] = (" or ".join(_WORDS[each] for each in types), refused)
    return found


def _types_of(schema: object) -> list[str]:
    """Return the JSON types that a schema allows; none if it is not that simple."""
    if not isinstance(schema, Mapping):
        return []
    branches = schema.get("anyOf", [schema])
    found: list[str] = []
    for branch in branches if isinstance(branches, list) else []:
        types = branch.get("type") if isinstance(branch, Mapping) else None
        types = [types] if isinstance(types, str) else types
        # A date, for example, may be a number, too.
        if not isinstance(types, list) or "format" in branch or not set(types) <= _ACCEPTED.keys():
            return []
        found += types
    return list(dict.fromkeys(found))


def _refuses(tool: Tool, name: str, value: object) -> bool:
    try:
        tool.validate({name: value})
    except ToolError as error:
        return f"`{name}`: " in error.message
    except Exception:  # noqa: BLE001  # a validator is its author's code
        return False
    return False
