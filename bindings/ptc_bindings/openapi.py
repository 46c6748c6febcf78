"""Operations of an OpenAPI document for scripts and agents: ``ctx.petstore.get_pet(petId=1)``.

::

    from ptc_bindings.openapi import OpenAPITools

    petstore = OpenAPITools(
        "petstore.json",
        name="petstore",
        servers=["https://petstore.example.com/v1"],
        credentials={"api_key": "${PETSTORE_KEY}"},
    )
    async with Session(tools=[petstore]) as session:
        result = await session.program(source=text, allowed_tools=["petstore.get_*"])

httpx is imported when a session opens: ``pip install 'ptc-host[openapi]'``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from ssl import SSLContext
from typing import Any

import anyio

import ptc
from ptc import ToolContext
from ptc._core import _json
from ptc._core._arguments import parts_of, require_range
from ptc._core._credentials import mask
from ptc._schema._check import raw_validator
from ptc._tools._names import RESERVED
from ptc._tools._provider import ToolProvider
from ptc._tools._tool import ToolOptions, tool_from_schema

from ._mcp_specs import identifier
from ._mcp_text import clean_text
from ._openapi_access import Servers, check_header, read_credentials
from ._openapi_client import Client, require_httpx
from ._openapi_document import Source, read_document
from ._openapi_operation import Operation, Reader, tool_name
from ._openapi_request import build_request
from ._openapi_schema import UnsupportedError, shown_schema

__all__ = ["OpenAPITools"]

_MOST_TOOLS = 1_000
_MOST_SCHEMA_BYTES = 32 * 1024 * 1024
_log = logging.getLogger("ptc")


class OpenAPITools(ToolProvider):
    """Operations of an OpenAPI 3 document as tools; pass it in ``Session(tools=[...])``.

    GET and HEAD have no side effect. Every other method has one, so a script may call such a tool
    only if the allow-list names it.
    """

    def __init__(
        self,
        document: str | Path | Mapping[str, Any],
        *,
        name: str,
        servers: Sequence[str],
        operations: Sequence[str] = (),
        credentials: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        use_document_servers: bool = True,
        idempotency_header: str | None = None,
        approval: Sequence[str] = (),
        timeout_ms: int = 30_000,
        max_response_bytes: int = 4 * 1024 * 1024,
        response_headers: Sequence[str] = (),
        proxy: str | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        """Read the document; nothing is requested.

        ``${NAME}`` in a credential or header is an environment variable.

        Args:
            document: File of JSON or YAML, or its parsed data.
            name: Namespace of the tools: ``ctx.<name>.<operation>``.
            servers: Base URLs that requests may reach. The servers of the document must be below
                one of them; the first completes relative ones.
            operations: Patterns of operations to offer, each of a tool's name (``get_*``) or of
                method and path (``GET /pets/*``). Default: all.
            credentials: Value by name of a security scheme of the document; of the scheme
                ``basic``, ``user:password``.
            headers: Headers of each request. No script can set them.
            use_document_servers: False: all requests go to the first of `servers`.
            idempotency_header: Header in which operations that are not idempotent send the key of
                the call, so that they may be repeated. Set it if the service honours it.
            approval: Patterns of tools that require approval, as in `operations`.
            timeout_ms: Time-out of a call.
            max_response_bytes: Maximum size of a response, after decompression.
            response_headers: Headers that scripts may read, such as ``Link``. If you name any, each
                value is ``{"body": ..., "headers": {"Link": ...}}``, with None for a missing one.
            proxy: URL of a proxy. Those of the environment are not used.
            tls: Certificates to trust, and one to present. Default: those of certifi.

        Raises:
            UsageError: If the document or an argument is wrong, or two operations have one name.
        """
        space = identifier(name) if isinstance(name, str) else ""
        if not space or space != name or len(space) > 32 or space in RESERVED:
            msg = f"name {name!r:.80}: choose 1-32 letters, digits and _, and no name of ctx"
            raise ptc.UsageError(msg)
        require_range("timeout_ms", timeout_ms, 86_400_000)
        require_range("max_response_bytes", max_response_bytes, 1 << 30)
        if idempotency_header is not None and (problem := check_header(idempotency_header, "")):
            raise ptc.UsageError(f"idempotency_header: {problem}")
        self._name = name
        self._files = () if isinstance(document, Mapping) else (Path(document).absolute(),)
        self._idempotency_header = idempotency_header
        self._timeout_ms = timeout_ms
        self._response_headers = parts_of("response_headers", response_headers, "a list of names")
        self._client: Client | None = None
        try:
            parsed = read_document(document)
            self._servers = Servers(servers)
            self._credentials = read_credentials(
                parsed, headers or {}, credentials or {}, os.environ, key_header=idempotency_header
            )
            if self._credentials.secrets:
                self._servers.require_encryption()
            reader = Reader(
                parsed, self._servers, self._credentials, use_servers=use_document_servers
            )
            chosen = _choose(name, list(parsed.operations()), operations)
            tools = tuple(self._tools(reader, chosen))
            self._toolset = ptc.Toolset(name, tools)
            if approval:
                self._toolset = self._toolset.with_approval(
                    *(pattern if "." in pattern else f"{name}.{pattern}" for pattern in approval)
                )
        except (ptc.UsageError, _json.JsonError, RecursionError) as error:
            text = mask(clean_text(str(error), 1_000))  # a URL may hold a password
            raise ptc.UsageError(f"OpenAPI document {name!r}: {text}") from None
        self._connect = partial(
            Client,
            most_bytes=max_response_bytes,
            response_headers=self._response_headers,
            proxy=proxy,
            tls=tls,
        )

    @property
    def name(self) -> str:
        """Name in messages."""
        return f"OpenAPI document {self._name}"

    @property
    def files(self) -> tuple[Path, ...]:
        """The file of the document."""
        return self._files

    async def open(self) -> Sequence[ptc.Toolset]:
        """Return the tools. A connection is made by the first call.

        Raises:
            SetupError: If httpx is missing.
            UsageError: If it is open already.
        """
        if self._client is not None:
            msg = f"{self.name} belongs to another session; create it again"
            raise ptc.UsageError(msg)
        require_httpx()
        # It loads certificates, which takes 10 ms and more.
        self._client = await anyio.to_thread.run_sync(
            partial(self._connect, self._servers, self._credentials)
        )
        return [self._toolset]

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _tools(self, reader: Reader, chosen: Mapping[str, Source]) -> Iterator[ptc.Tool]:
        """Yield the tools. Log a warning for an operation that a tool cannot do."""
        size = 0
        reasons: list[str] = []
        for name, source in chosen.items():
            try:
                operation = reader.read(name, source)
                size += operation.schema_bytes
                if size > _MOST_SCHEMA_BYTES:
                    msg = f"the schemas have more than {_MOST_SCHEMA_BYTES:,} bytes"
                    raise ptc.UsageError(f"{msg}; select operations with `operations`")
                made = self._tool(operation)
            except UnsupportedError as error:
                reasons.append(f"{source.label} is left out: {clean_text(str(error), 300)}")
                _log.warning("%s: %s", self.name, reasons[-1])
            except ptc.UsageError as error:
                raise ptc.UsageError(f"{source.label}: {error}") from None
            else:
                yield made
        if len(reasons) == len(chosen):
            reason = reasons[0] if reasons else "the document has none"
            raise ptc.UsageError(f"there is no operation to offer: {reason}")

    def _tool(self, operation: Operation) -> ptc.Tool:
        async def run(arguments: dict[str, Any], ctx: ToolContext) -> ptc.ToolResult:
            if self._client is None:
                raise ptc.ToolError("the session is closing", code="cancelled")
            request = build_request(operation, arguments)
            if uses_key and ctx.idempotency_key is not None:
                request.headers.append((str(self._idempotency_header), ctx.idempotency_key))
            # Not the value itself: one with a field `status` is data here.
            return ptc.ToolResult.success(await self._client.call(operation, request, ctx))

        uses_key = self._idempotency_header is not None and not operation.idempotent
        options: ToolOptions = {
            "side_effect": operation.side_effect,
            "idempotent": operation.idempotent,
            "uses_key": uses_key,
            "result_schema": self._result_schema(operation),
            "timeout_ms": self._timeout_ms,
            "tags": ("openapi",),
        }
        shown = shown_schema(operation.schema)
        for name, value in operation.defaults.items():
            if isinstance(shown["properties"][name], dict):
                shown["properties"][name]["default"] = value
        try:
            validate = raw_validator(operation.name, operation.schema)
            made = tool_from_schema(operation.name, operation.description, shown, run, options)
        except ptc.UsageError as error:
            raise UnsupportedError(str(error)) from None
        return replace(made, validate=validate)

    def _result_schema(self, operation: Operation) -> Mapping[str, Any] | None:
        """Return the schema of the value, with the headers if there are any."""
        if not self._response_headers:
            return operation.result_schema
        body = dict(operation.result_schema or {})
        definitions = {"$defs": body.pop("$defs")} if "$defs" in body else {}
        header = {"type": ["string", "null"]}
        headers = {
            "type": "object",
            "properties": dict.fromkeys(self._response_headers, header),
            "required": [*self._response_headers],
        }
        return {
            "type": "object",
            "properties": {"body": body, "headers": headers},
            "required": ["body", "headers"],
            **definitions,
        }


def _choose(
    namespace: str, sources: Sequence[Source], patterns: Sequence[str]
) -> dict[str, Source]:
    """Select operations by pattern, and name them.

    Raises:
        UsageError: If two have one name, there are too many, or a pattern matches none.
    """
    patterns = parts_of("operations", patterns, "a list of patterns")
    chosen: dict[str, Source] = {}
    unused = set(patterns)
    for source in sources:
        name = tool_name(namespace, source)
        words = (name, name.partition(".")[2], f"{source.method.upper()} {source.path}")
        found = {p for p in patterns if any(fnmatchcase(word, p) for word in words)}
        unused -= found
        if patterns and not found:
            continue
        if name in chosen:
            msg = f"{chosen[name].label} and {source.label} are both named {name}"
            raise ptc.UsageError(f"{msg}; change an operationId, or select one with `operations`")
        chosen[name] = source
    if unused:
        raise ptc.UsageError(f"operations: no operation matches {min(unused)!r:.80}")
    if len(chosen) > _MOST_TOOLS:
        msg = f"it has {len(chosen):,} operations, and {_MOST_TOOLS:,} can be tools"
        raise ptc.UsageError(f"{msg}; select some with `operations`")
    return chosen
