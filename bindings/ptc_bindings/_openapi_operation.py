"""Operations of an OpenAPI document: names, arguments, effects and schemas of results.

Rule 1: only GET and HEAD have no side effect. Nothing that a document says changes that.
    tests/bindings/test_openapi.py::test_effects_follow_methods_and_no_extension_widens_them
"""

from __future__ import annotations

import hashlib
import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ptc
from ptc._core import _json

from ._mcp_specs import identifier
from ._mcp_text import clean_text
from ._openapi_access import Credentials, Servers, check_header
from ._openapi_document import Document, Source
from ._openapi_schema import Schemas, UnsupportedError

__all__ = ["Argument", "Body", "Operation", "Reader", "tool_name"]

_MOST_DESCRIPTION = 4_000
_MOST_NAME = 64
_MOST_ACCEPT = 1_000
_MOST_REQUEST_SCHEMA = 256 * 1024
_MOST_RESULT_SCHEMA = 64 * 1024
_MOST_PARTS = 1_000
_MOST_PARTS_DEPTH = 32
"""Parts of an ``allOf`` that are merged: a few lines can refer to one another billions of times."""
_STYLES = {
    "path": {"simple"},
    "query": {"form", "spaceDelimited", "pipeDelimited", "deepObject"},
    "header": {"simple"},
    "cookie": {"form"},
}
"""Supported styles of parameters by location; the first is the default."""
_DEFAULT_STYLE = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
_IGNORED_HEADERS = frozenset({"accept", "authorization", "content-type"})
"""OpenAPI has other places for these."""
_HOST_HEADERS = frozenset((
    "connection", "content-length", "cookie", "expect", "host", "keep-alive",
    "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    "x-http-method", "x-http-method-override", "x-method-override",
))  # fmt: skip
"""Headers that decide where a request goes, how long it is, who sends it, or whether it only
reads."""


class Argument(NamedTuple):
    """One argument of a tool, and its place in the request."""

    name: str
    """Name for scripts."""
    place: str
    """``path``, ``query``, ``header``, ``cookie`` or ``body``."""
    remote: str
    """Name in the request; empty for a whole body."""
    style: str = ""
    explode: bool = False
    as_json: bool = False
    """True: its value is sent as JSON text."""


class Body(NamedTuple):
    """Form of the body of a request."""

    media_type: str
    kind: str
    """``json``, ``form`` or ``text``."""
    required: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation, ready to be called."""

    name: str
    """Name of the tool, with its namespace."""
    method: str
    path: str
    base: str
    """URL of the server."""
    description: str
    arguments: tuple[Argument, ...]
    schema: Mapping[str, Any] = field(repr=False)
    """Schema of the arguments, with ``$defs``."""
    defaults: Mapping[str, Any]
    """Values that the server assumes for arguments that are left out."""
    body: Body | None
    result_schema: Mapping[str, Any] | None = field(repr=False)
    accept: str
    """Value of the header Accept."""
    security: tuple[Any, ...]
    """Alternatives of security schemes."""
    schema_bytes: int
    """Size of both schemas as JSON."""

    @property
    def side_effect(self) -> bool:
        """True unless the method only reads."""
        return self.method not in ("get", "head")

    @property
    def idempotent(self) -> bool:
        """True if a repetition has no further effect, by HTTP."""
        return self.method in ("get", "head", "put", "delete")


def tool_name(namespace: str, source: Source) -> str:
    """Return the name of an operation's tool: its ``operationId``, or method and path, as words."""
    given = source.node.get("operationId")
    text = given if isinstance(given, str) and identifier(given) else ""
    text = identifier(text or f"{source.method}_{source.path}")
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text).lower()
    words = re.sub(r"_+", "_", words)
    if keyword.iskeyword(words):
        words += "_"
    most = _MOST_NAME - len(namespace) - 1
    if len(words) > most:
        digest = hashlib.sha256(words.encode()).hexdigest()[:6]
        words = f"{words[: most - 7]}_{digest}"
    return f"{namespace}.{words}"


@dataclass(slots=True)
class _Inputs:
    """Arguments of an operation while they are collected."""

    arguments: list[Argument] = field(default_factory=list)
    properties: dict[str, Any] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    refs: set[str] = field(default_factory=set)
    dependent: dict[str, list[str]] = field(default_factory=dict)
    """Arguments that an argument requires."""

    def add(self, argument: Argument, schema: Any, *, required: bool) -> str:
        """Add an argument under a free name; return that name.

        Raises:
            UnsupportedError: If its name, also with its place added, is taken.
        """
        taken = {known.name: known for known in self.arguments}
        name = _argument_name(argument.remote or argument.place)
        if name in taken:
            name = f"{name}_{argument.place}"
        if name in taken:
            other = taken[name]
            msg = (
                f"the {argument.place} parameter {argument.remote!r:.80} and the {other.place} "
                f"parameter {other.remote!r:.80} have the same name, {name}; rename one"
            )
            raise UnsupportedError(msg)
        self.arguments.append(argument._replace(name=name))
        self.properties[name] = schema
        if required:
            self.required.append(name)
        return name


def _argument_name(name: str) -> str:
    if not name.isprintable() or not name.strip() or len(name) > 256:
        raise ptc.UsageError(f"a name has invisible characters, or none at all: {name!r:.80}")
    if not (name.isascii() and name.isidentifier()):
        name = identifier(name) or name
    return f"{name}_" if keyword.iskeyword(name) else name


class Reader:
    """Reads the operations of one document."""

    def __init__(
        self,
        document: Document,
        servers: Servers,
        credentials: Credentials,
        *,
        use_servers: bool,
    ) -> None:
        """Create a reader.

        Args:
            document: The document.
            servers: The list of the application.
            credentials: Its parameters are not arguments.
            use_servers: True: the document chooses among the servers of the list.
        """
        self._document = document
        self._servers = servers
        self._use_servers = use_servers
        self._credentials = credentials
        self._inputs = Schemas(document, "request")
        self._results = Schemas(document, "response")
        self._parts = 0
        """Parts of the present body that were merged."""

    def read(self, name: str, source: Source) -> Operation:
        """Read an operation.

        Raises:
            UsageError: If it is invalid.
            UnsupportedError: If a tool cannot do it, or it contradicts itself.
        """
        document, node = self._document, source.node
        base = self._base_of(source)
        inputs = _Inputs()
        self._read_parameters(source, inputs)
        body = self._read_body(source, inputs)
        schema, defaults = self._schema_of(inputs)
        if source.method == "patch":
            # A field that a patch leaves out stays as it is.
            fields = {a.name for a in inputs.arguments if a.place == "body"}
            defaults = {key: value for key, value in defaults.items() if key not in fields}
        result_schema, accept = self._read_responses(node)
        guarded = node if "security" in node else document.root
        size = len(_json.dumps(schema))
        if size > _MOST_REQUEST_SCHEMA:
            raise UnsupportedError(f"its schema has more than {_MOST_REQUEST_SCHEMA:,} bytes")
        return Operation(
            name=name,
            method=source.method,
            path=source.path,
            base=base,
            description=_description(source),
            arguments=tuple(inputs.arguments),
            schema=schema,
            defaults=defaults,
            body=body,
            result_schema=result_schema,
            accept=accept,
            security=tuple(document.rows(guarded, "security")),
            schema_bytes=size + len(_json.dumps(result_schema)),
        )

    def _base_of(self, source: Source) -> str:
        """Return the URL of the server of an operation."""
        parts = (source.node, source.item, self._document.root)
        found = (rows for part in parts if (rows := self._document.rows(part, "servers")))
        servers = next(found, []) if self._use_servers else []
        base = self._servers.choose(servers)
        if base is None:
            given = ", ".join(str(row["url"]) for row in servers)
            msg = f"its server ({given:.200}) is not below one of {', '.join(self._servers.urls)}"
            raise UnsupportedError(msg)
        plain = re.sub(r"\{[^{}]*\}", "x", source.path)
        if not plain.startswith("/") or "?" in plain or not self._servers.permits(base + plain):
            raise UnsupportedError("its path is not one of a URL: /, and no `..`, spaces, ? or #")
        return base

    def _schema_of(self, inputs: _Inputs) -> tuple[dict[str, Any], dict[str, Any]]:
        properties: dict[str, Any] = {}
        defaults: dict[str, Any] = {}
        for name, schema in inputs.properties.items():
            properties[name] = schema
            if isinstance(schema, Mapping) and "default" in schema:
                # Validation would fill it in, and the request would set what nobody asked for.
                defaults[name] = schema["default"]
                properties[name] = {k: v for k, v in schema.items() if k != "default"}
        whole: dict[str, Any] = {
            "type": "object",
            "properties": properties,
            "required": inputs.required,
            "additionalProperties": False,
        }
        if inputs.dependent:
            whole["dependentRequired"] = inputs.dependent
        definitions = self._inputs.definitions(inputs.refs, _MOST_REQUEST_SCHEMA)
        return ({**whole, "$defs": definitions} if definitions else whole), defaults

    # --- parameters -------------------------------------------------------------------------

    def _read_parameters(self, source: Source, inputs: _Inputs) -> None:
        found: dict[tuple[str, str], Mapping[str, Any]] = {}
        for part in (source.item, source.node):
            for row in self._document.rows(part, "parameters"):
                parameter = self._document.resolve(row)
                place, name = str(parameter.get("in")), parameter.get("name")
                if place not in _STYLES or not isinstance(name, str) or not name:
                    if place == "querystring":  # of 3.2
                        raise UnsupportedError("it has a parameter in `querystring`")
                    raise ptc.UsageError(f"a parameter is wrong: in {place!r:.40}, {name!r:.80}")
                found[place, name] = parameter
        used = set(re.findall(r"\{([^{}]*)\}", source.path))
        if used != {name for place, name in found if place == "path"}:
            raise UnsupportedError("the parameters in its path are not those that it declares")
        for place in _STYLES:
            for (where, name), parameter in found.items():
                if where == place and not self._is_ignored(place, name, parameter):
                    self._add_parameter(place, name, parameter, inputs)

    def _is_ignored(self, place: str, name: str, parameter: Mapping[str, Any]) -> bool:
        if self._credentials.owns(place, name):
            return True
        if place != "header":
            return False
        if name.lower() in _HOST_HEADERS or check_header(name, ""):
            if parameter.get("required") is True:
                raise UnsupportedError(f"it requires the header {name!r:.80}")
            return True
        return name.lower() in _IGNORED_HEADERS

    def _add_parameter(
        self, place: str, name: str, parameter: Mapping[str, Any], inputs: _Inputs
    ) -> None:
        content = self._document.table(parameter, "content")
        node = parameter.get("schema", {})
        if content:
            media_type, media = next(iter(content.items()))
            if not _is_json(media_type):
                raise UnsupportedError(f"its parameter {name!r:.80} is {media_type:.80}")
            node = self._document.resolve(media).get("schema", {})
        style = str(parameter.get("style", _DEFAULT_STYLE[place]))
        if style not in _STYLES[place]:
            raise UnsupportedError(f"its parameter {name!r:.80} has the style {style!r:.40}")
        explode = parameter.get("explode", style == "form")
        schema = self._convert(node, inputs, parameter.get("description"))
        argument = Argument("", place, name, style, explode is True, bool(content))
        required = place == "path" or parameter.get("required") is True
        inputs.add(argument, schema, required=required)

    def _convert(self, node: Any, inputs: _Inputs, text: object = None) -> Any:
        schema = self._inputs.convert(node, inputs.refs)
        if isinstance(text, str) and isinstance(schema, dict):
            schema["description"] = clean_text(text, 1_000)
        return schema

    # --- body -------------------------------------------------------------------------------

    def _read_body(self, source: Source, inputs: _Inputs) -> Body | None:
        if "requestBody" not in source.node:
            return None
        node = self._document.resolve(source.node["requestBody"])
        content = self._document.table(node, "content")
        required = node.get("required") is True
        chosen = _choose_media(content)
        if chosen is None:
            if not required:
                return None
            kinds = ", ".join(content)
            raise UnsupportedError(f"its body must be {kinds:.200}; JSON, forms and text work")
        media_type, kind = chosen
        body = Body(media_type, kind, required)
        schema = self._document.resolve(content[media_type]).get("schema", {})
        self._parts = 0
        fields = None if kind == "text" else self._fields_of(schema)
        if fields is None:
            whole = self._convert(schema, inputs, node.get("description"))
            inputs.add(Argument("", "body", ""), whole, required=required)
        else:
            self._add_fields(*fields, inputs, required=required)
        return body

    def _add_fields(
        self, properties: dict[str, Any], needed: set[str], inputs: _Inputs, *, required: bool
    ) -> None:
        names: list[str] = []
        musts: list[str] = []
        for name, sub in properties.items():
            if not self._inputs.is_hidden(sub):
                argument = Argument("", "body", name)
                must = name in needed
                converted = self._convert(sub, inputs)
                names.append(inputs.add(argument, converted, required=must and required))
                musts += names[-1:] if must else []
        if musts and not required:
            # A body that may be left out needs these fields only if it has another one.
            inputs.dependent = dict.fromkeys(names, musts)

    def _fields_of(self, node: Any, depth: int = 0) -> tuple[dict[str, Any], set[str]] | None:
        """Return the fields of an object and the required ones; None if it is not a plain object.

        An object that allows further fields, or has alternatives, is not.
        """
        schema = self._document.resolve(node)
        self._parts += 1
        if self._parts > _MOST_PARTS or depth > _MOST_PARTS_DEPTH or not _is_plain(schema):
            return None
        properties = dict(self._document.table(schema, "properties"))
        required = set(self._document.names(schema, "required"))
        for part in self._document.rows(schema, "allOf"):
            inner = self._fields_of(part, depth + 1)
            if inner is None:
                return None
            for name, sub in inner[0].items():
                known = properties.get(name, sub)
                properties[name] = sub if known is sub else {"allOf": [known, sub]}
            required |= inner[1]
        return (properties, required) if properties or depth else None

    # --- responses --------------------------------------------------------------------------

    def _read_responses(self, node: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str]:
        """Return the schema of the value, and the media types that are accepted."""
        table = self._document.table(node, "responses")
        kinds: dict[str, None] = {}
        schemas: list[Any] = []
        for status in sorted(table):
            if re.fullmatch(r"2(\d\d|XX)", status):
                content = self._document.table(self._document.resolve(table[status]), "content")
                chosen = [kind for kind in content if _is_json(kind)] or list(content)
                kinds.update(dict.fromkeys(chosen))
                schemas += [self._result_of(kind, content[kind]) for kind in chosen] or [_NULL]
        accept = ", ".join(kind for kind in kinds if not check_header("Accept", kind))
        accept = accept if 0 < len(accept) < _MOST_ACCEPT else "*/*"
        if not schemas or None in schemas:
            return None, accept
        unique = [schema for n, schema in enumerate(schemas) if schema not in schemas[:n]]
        whole = unique[0] if len(unique) == 1 else {"anyOf": unique}
        try:
            schema = self._results.with_definitions(whole, _MOST_RESULT_SCHEMA)
        except UnsupportedError:
            return None, accept
        return (schema if isinstance(schema, dict) else None), accept

    def _result_of(self, media_type: str, media: Any) -> Any:
        """Return the schema of a response; None if there is none."""
        if _is_json(media_type):
            return self._document.resolve(media).get("schema")
        return {"type": "string"} if media_type.startswith("text/") else None


_NULL = {"type": "null"}
_PLAIN = frozenset((
    "type", "properties", "required", "allOf", "additionalProperties", "description", "title",
    "example", "examples", "nullable", "xml", "externalDocs", "deprecated", "default",
))  # fmt: skip


def _is_plain(schema: Mapping[str, Any]) -> bool:
    return (
        all(key in _PLAIN or key.startswith("x-") for key in schema)
        and schema.get("additionalProperties", False) is False
        and schema.get("type", "object") == "object"
        and schema.get("nullable") is not True
    )


def _is_json(media_type: str) -> bool:
    kind = media_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _choose_media(content: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the media type to send, and its kind; None if none is supported."""
    for kind, accepts in (
        ("json", _is_json),
        ("form", lambda media_type: media_type.startswith("application/x-www-form-urlencoded")),
        ("text", lambda media_type: media_type.startswith("text/")),
    ):
        for media_type in content:
            if accepts(media_type) and check_header("Content-Type", media_type) is None:
                return media_type, kind
    return None


def _description(source: Source) -> str:
    texts = [source.node.get("summary"), source.node.get("description")]
    text = "\n\n".join(t.strip() for t in texts if isinstance(t, str) and t.strip())
    text = clean_text(text, _MOST_DESCRIPTION).strip()
    if source.node.get("deprecated") is True:
        text = f"Deprecated. {text}"
    return text or source.label
