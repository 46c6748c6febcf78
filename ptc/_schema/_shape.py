"""Convert the schema of a tool's parameters to the flat, finite form that providers accept.

The published schema has no references (some providers do not follow ``$ref``), no titles (they
repeat the names and cost prompt tokens), and at most `MAX_LEVELS` nested objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import UsageError

__all__ = ["MAX_LEVELS", "publish_schema", "strip_titles"]

MAX_LEVELS = 7
"""Nested objects below the parameters themselves. Lists and unions do not count:
``{"a": [{"b": {"c": 1}}]}`` has two. Providers document 5 (OpenAI, strict mode) to 10."""

_MAX_NODES = 20_000
"""Parts of a schema after inlining its references: a few lines of ``$defs`` that reference one
another can expand to billions."""

_NON_JSON_FORMATS = {
    "date": "a date",
    "date-time": "a date and time",
    "time": "a time",
    "duration": "a duration",
    "binary": "bytes",
    "base64": "bytes",
    "base64url": "bytes",
    "path": "a path",
    "file-path": "a path",
    "directory-path": "a path",
    "uuid": "a UUID",
    "uuid1": "a UUID",
    "uuid3": "a UUID",
    "uuid4": "a UUID",
    "uuid5": "a UUID",
}
"""Formats that pydantic writes for types that JSON does not have. A model would have to guess their
notation; a ``str`` parameter can document what the function parses."""


def publish_schema(tool: str, schema: Mapping[str, Any], *, from_hints: bool) -> dict[str, Any]:
    """Return the `schema` of an object with its references inlined.

    Args:
        tool: Name of the tool, for messages.
        schema: JSON Schema of the parameters.
        from_hints: True for a schema derived from type hints: a part without a schema (`Any`) and
            a type that JSON does not have (`datetime`) are then errors. A schema written by hand
            may have both.

    Raises:
        UsageError: If a part is recursive, too deep, or has no schema; names the parameter.
    """
    reader = _Inliner(tool, schema, from_hints)
    plain = reader.read(schema, "", 0, ())
    plain.pop("description", None)
    return _merge_alternatives({key: value for key, value in plain.items() if key != "title"})


_BRANCHES = ("allOf", "anyOf", "oneOf")
_DROPPED_AT_TOP = (*_BRANCHES, "not", "if", "then", "else", "dependentSchemas", "dependentRequired")
"""Keywords that OpenAI and Anthropic reject at the top of a tool's schema."""


def _merge_alternatives(schema: dict[str, Any]) -> dict[str, Any]:
    """Merge the top-level alternatives of `schema`; the result accepts what any of them accepts.

    Arguments are still validated against the original schema.
    """
    flat = {key: value for key, value in schema.items() if key not in _DROPPED_AT_TOP}
    own = flat.setdefault("properties", {})
    if flat.get("additionalProperties") is False:
        return flat
    found, required = _alternative_properties(schema)
    for name, kinds in found.items():
        if name not in own:
            own[name] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if needed := [name for name in required if name not in flat.get("required", ())]:
        flat["required"] = [*flat.get("required", ()), *needed]
    return flat


def _alternative_properties(
    schema: Mapping[str, Any],
) -> tuple[dict[str, list[Any]], dict[str, None]]:
    """Return the properties of all alternatives with their schemas, and those that all require."""
    found: dict[str, list[Any]] = {}
    required: dict[str, None] = {}
    for key in (*_BRANCHES, "then", "else"):
        value = schema.get(key, [])
        branches = value if isinstance(value, list) else [value]
        needs: list[dict[str, None]] = []
        for branch in branches:
            if not isinstance(branch, Mapping):
                continue
            inner, also = _alternative_properties(branch)
            for name, sub in branch.get("properties", {}).items():
                inner.setdefault(name, []).insert(0, sub)
            for name, kinds in inner.items():
                known = found.setdefault(name, [])
                known += [kind for kind in kinds if kind not in known]
            needs.append({**dict.fromkeys(branch.get("required", ())), **also})
        if key == "allOf":
            required.update({name: None for need in needs for name in need})
        elif key in _BRANCHES and needs:
            required.update({n: None for n in needs[0] if all(n in need for need in needs)})
    return found, required


_NAMED_SUBSCHEMAS = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_SINGLE_SUBSCHEMA = (
    "additionalItems",
    "contains",
    "contentSchema",
    "else",
    "if",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_DROPPED = frozenset({"$defs", "definitions", "discriminator"})
"""Definitions are inlined. The mapping of a discriminator references them, and the constant in each
alternative has the same information."""


class _Inliner:
    """Copies a schema with its references inlined, and checks its parts."""

    def __init__(self, tool: str, root: Mapping[str, Any], from_hints: bool) -> None:
        self._tool = tool
        self._root = root
        self._from_hints = from_hints
        self._nodes = 0

    def read(self, node: Any, where: str, level: int, refs: tuple[str, ...]) -> Any:
        """Copy `node` of parameter `where`, `level` objects deep, inside the definitions `refs`."""
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            self._reject(where, f"its schema has over {_MAX_NODES:,} parts; simplify the type")
        if not isinstance(node, Mapping):
            if self._from_hints and node is True:
                self._reject_shapeless(where)
            return node
        if "$ref" in node:
            return self._follow(node, where, level, refs)
        if self._is_object(node) and where:
            level += 1
            if level > MAX_LEVELS:
                self._reject(where, f"more than {MAX_LEVELS} nested objects; flatten the type")
        if self._from_hints:
            self._check_type(node, where)
        return {
            key: self._part(key, value, where, level, refs)
            for key, value in node.items()
            if not (key == "title" and isinstance(value, str)) and key not in _DROPPED
        }

    def _part(self, key: str, value: Any, where: str, level: int, refs: tuple[str, ...]) -> Any:
        if key in _NAMED_SUBSCHEMAS and isinstance(value, Mapping):
            # The keys are names here: a parameter may be called "title".
            return {
                name: self.read(sub, f"{where}.{name}" if where else str(name), level, refs)
                for name, sub in value.items()
            }
        if key in (*_BRANCHES, "prefixItems") and isinstance(value, list):
            return [self.read(sub, where, level, refs) for sub in value]
        if key == "items" and isinstance(value, list):
            return [self.read(sub, f"{where}[]", level, refs) for sub in value]
        if key == "items":
            return self.read(value, f"{where}[]", level, refs)
        if key == "additionalProperties" and isinstance(value, Mapping):
            # `dict[str, Any]` accepts any JSON value, and so has a schema.
            return self.read(value, f"{where}.*", level, refs) if value else True
        if key in _SINGLE_SUBSCHEMA:
            return self.read(value, where, level, refs)
        return value

    def _follow(
        self, node: Mapping[str, Any], where: str, level: int, refs: tuple[str, ...]
    ) -> Any:
        ref = node["$ref"]
        if ref in refs or ref == "#":
            self._reject(
                where,
                "its type is recursive; use `dict[str, Any]` and validate it in the function",
            )
        target: Any = self._root
        for part in str(ref).removeprefix("#/").split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if (
                not isinstance(target, Mapping)
                or not str(ref).startswith("#/")
                or key not in target
            ):
                self._reject(where, f"$ref {ref!r} does not resolve within the schema")
            target = target[key]
        plain = self.read(target, where, level, (*refs, ref))
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return {**plain, **beside} if isinstance(plain, dict) else plain

    @staticmethod
    def _is_object(node: Mapping[str, Any]) -> bool:
        kind = node.get("type")
        return (
            kind == "object"
            or "properties" in node
            or (isinstance(kind, list) and "object" in kind)
        )

    def _check_type(self, node: Mapping[str, Any], where: str) -> None:
        kind = _NON_JSON_FORMATS.get(str(node.get("format")))
        if kind is not None:
            self._reject(
                where, f"{kind} is not a JSON type; use `str` and parse it in the function"
            )
        says = node.keys() - {"title", "description", "default", "examples", "deprecated"}
        if not says and where and not where.endswith("[]"):
            self._reject_shapeless(where)

    def _reject_shapeless(self, where: str) -> None:
        self._reject(
            where, "`Any` does not describe a value; use a specific type, or `dict[str, Any]`"
        )

    def _reject(self, where: str, why: str) -> None:
        place = f"parameter `{where}`" if where else "parameters"
        msg = f"tool {self._tool!r}: {place}: {why}"
        raise UsageError(msg)


def strip_titles(node: Any) -> Any:
    """Copy the schema `node` without its titles."""
    if isinstance(node, Mapping):
        plain = {}
        for key, value in node.items():
            if key == "title" and isinstance(value, str):
                continue
            if key in ("properties", "$defs", "patternProperties") and isinstance(value, Mapping):
                plain[key] = {name: strip_titles(sub) for name, sub in value.items()}
            else:
                plain[key] = strip_titles(value)
        return plain
    if isinstance(node, list):
        return [strip_titles(item) for item in node]
    return node
