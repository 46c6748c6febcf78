"""OpenAPI documents: read, bounded, and with local references resolved.

Rule 1: a document is data. Nothing in it is fetched, and no variable in it is expanded.
    tests/bindings/test_openapi_hostile.py::test_reference_to_another_document_is_refused
Rule 2: its size is bounded, also after the aliases of YAML are expanded.
    tests/bindings/test_openapi_hostile.py::test_yaml_aliases_cannot_expand_without_bound
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import ptc
from ptc._core import _json

__all__ = ["METHODS", "Document", "Source", "read_document"]

METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
"""Methods of operations. ``trace`` is left out: its response echoes the credentials."""
_MOST_BYTES = 16 * 1024 * 1024
_MOST_NODES = 2_000_000
_MOST_DEPTH = 200
_MOST_OPERATIONS = 10_000
_MOST_REFS = 32


class Source(NamedTuple):
    """One operation as the document has it."""

    method: str
    """In lower case."""
    path: str
    """Template, such as ``/pets/{petId}``."""
    node: Mapping[str, Any]
    item: Mapping[str, Any]
    """The path item, whose parameters and servers all its operations share."""

    @property
    def label(self) -> str:
        """``GET /pets/{petId}``, for messages."""
        return f"{self.method.upper()} {self.path!r:.200}".replace("'", "")


class Document:
    """A parsed document, and its references."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        """Check the version and the main parts.

        Raises:
            UsageError: If it is not an OpenAPI 3 document.
        """
        version = root.get("openapi")
        if not isinstance(version, str) or version.split(".")[:2] not in _VERSIONS:
            said = version if version is not None else f"swagger {root.get('swagger')}"
            msg = f"it is not a document of OpenAPI 3.0, 3.1 or 3.2, but {said!r:.40}; convert it"
            raise ptc.UsageError(msg)
        self.root = root

    def operations(self) -> Iterator[Source]:
        """Yield the operations, in the order of the document.

        Raises:
            UsageError: If there are too many, or a path is not a table.
        """
        count = 0
        for path, entry in self.table(self.root, "paths").items():
            item = self.resolve(entry)
            for method in METHODS:
                if method in item:
                    count += 1
                    if count > _MOST_OPERATIONS:
                        raise ptc.UsageError(f"it has more than {_MOST_OPERATIONS:,} operations")
                    yield Source(method, path, self.resolve(item[method]), item)

    def resolve(self, node: Any) -> Mapping[str, Any]:
        """Return a table, or the table that it refers to.

        Raises:
            UsageError: If a reference leads to another document, nowhere, or in a circle.
        """
        for _ in range(_MOST_REFS):
            if not isinstance(node, Mapping):
                raise ptc.UsageError(f"{node!r:.80} should be a table")
            if "$ref" not in node:
                return node
            node = self.find(node["$ref"])
        raise ptc.UsageError("references lead in a circle")

    def find(self, ref: object) -> Any:
        """Return the part that a reference such as ``#/components/schemas/Pet`` names.

        Raises:
            UsageError: If it is in another document, or does not exist.
        """
        if not isinstance(ref, str) or not ref.startswith("#"):
            msg = f"$ref {ref!r:.200} leads to another document; bundle them into one document"
            raise ptc.UsageError(msg)
        node: Any = self.root
        for part in ref.removeprefix("#").split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(node, list) and key.isascii() and key.isdigit() and int(key) < len(node):
                node = node[int(key)]
            elif isinstance(node, Mapping) and key in node:
                node = node[key]
            else:
                raise ptc.UsageError(f"$ref {ref!r:.200} names nothing in the document")
        if node is self.root:
            raise ptc.UsageError(f"$ref {ref!r:.200} is not a JSON pointer into the document")
        return node

    @staticmethod
    def table(node: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        """Return the table at a key; empty if there is none. Raises `UsageError`."""
        found = node.get(key)
        if found is None:
            return {}
        if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
            raise ptc.UsageError(f"{key!r} should be a table, not {found!r:.80}")
        return found

    @staticmethod
    def rows(node: Mapping[str, Any], key: str) -> list[Any]:
        """Return the list at a key; empty if there is none. Raises `UsageError`."""
        found = node.get(key)
        if found is None:
            return []
        if not isinstance(found, list):
            raise ptc.UsageError(f"{key!r} should be a list, not {found!r:.80}")
        return found

    @classmethod
    def names(cls, node: Mapping[str, Any], key: str) -> list[str]:
        """Return the list of names at a key; empty if there is none. Raises `UsageError`."""
        found = cls.rows(node, key)
        if not all(isinstance(name, str) for name in found):
            raise ptc.UsageError(f"{key!r} should be a list of names, not {found!r:.80}")
        return found


_VERSIONS = (["3", "0"], ["3", "1"], ["3", "2"])


def read_document(source: str | Path | Mapping[str, Any]) -> Document:
    """Read a document: a file of JSON or YAML, or its parsed data.

    Raises:
        UsageError: If it cannot be read, is too large, or is not an OpenAPI 3 document.
        SetupError: If it is YAML, and PyYAML is not installed.
    """
    if isinstance(source, Mapping):
        return Document(_plain(source))
    path = Path(source)
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ptc.UsageError(f"it cannot be read: {error.strerror or error}") from None
    if len(data) > _MOST_BYTES:
        raise ptc.UsageError(f"it has more than {_MOST_BYTES:,} bytes")
    parsed = _plain(_load_yaml(data)) if path.suffix in (".yaml", ".yml") else _load_json(data)
    if not isinstance(parsed, Mapping):
        raise ptc.UsageError("it is not a table")
    return Document(parsed)


def _load_json(data: bytes) -> Any:
    try:
        return _json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ptc.UsageError(f"it is not valid JSON: {error}") from None


def _load_yaml(data: bytes) -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
        for first, pairs in base.yaml_implicit_resolvers.items()
    }
    # A date is text in JSON Schema, so 2020-01-01 stays text.
    loader = type("Loader", (base,), {"yaml_implicit_resolvers": resolvers})
    try:
        return yaml.load(data, loader)  # noqa: S506  # a subclass of the safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        text = " ".join(str(error).split())
        raise ptc.UsageError(f"it is not valid YAML: {text:.300}") from None


def _plain(value: Any) -> Any:
    """Copy data of Python or YAML as JSON data. Raises `UsageError` if it is too large."""
    nodes = 0

    def copy(part: Any, depth: int) -> Any:
        nonlocal nodes
        nodes += 1
        if nodes > _MOST_NODES or depth > _MOST_DEPTH:
            msg = f"it has more than {_MOST_NODES:,} parts, or {_MOST_DEPTH} levels"
            raise ptc.UsageError(msg)
        if isinstance(part, Mapping):
            # YAML reads the name of a response, such as 200, as a number.
            return {str(key): copy(item, depth + 1) for key, item in part.items()}
        if isinstance(part, list | tuple):
            return [copy(item, depth + 1) for item in part]
        if part is None or isinstance(part, str | int | float):
            return part
        raise ptc.UsageError(f"{part!r:.80} has no JSON form")

    return copy(value, 0)
