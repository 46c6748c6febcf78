"""Tools that others define, as tools of ptc: their schemas, effects and results, for all bindings.

Rule 1: a tool that does not declare its effects has a side effect and is not repeatable, so that
    scripts may call it only if it is allowed by name.
    tests/bindings/test_foreign_tools.py::test_undeclared_tool_has_a_side_effect
Rule 2: texts that a model reads are bounded and have no invisible characters.
    tests/bindings/test_mcp_tools_hostile.py::test_texts_are_bounded_and_visible
"""

from __future__ import annotations

import mimetypes
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pydantic import ValidationError

import ptc
from ptc import ToolContext
from ptc._core import _json
from ptc._tools._tool import tool_from_schema

from ._mcp_text import clean_text

__all__ = [
    "ForeignCall",
    "clean_schema",
    "data_of",
    "foreign_tool",
    "invalid_arguments",
    "plain_value",
    "store_file",
]

MOST_DESCRIPTION = 4_000
"""Characters of a description."""
_MOST_TEXT_IN_SCHEMA = 1_000

ForeignCall: TypeAlias = Callable[[dict[str, Any], ToolContext], Any]
"""Makes a call: validated arguments -> JSON-able data or a `ToolResult`; raises `ToolError`.
A plain function runs in a thread."""


def foreign_tool(
    name: str,
    description: str,
    schema: Mapping[str, Any],
    run: ForeignCall,
    *,
    side_effect: bool = True,
    idempotent: bool = False,
    result_schema: Mapping[str, Any] | None = None,
    tags: tuple[str, ...] = (),
) -> ptc.Tool:
    """Make a tool of what another library knows about it.

    Args:
        name: Its name: an identifier, or ``namespace.identifier``.
        description: Text for a model; an empty one is replaced.
        schema: JSON Schema of its arguments.
        run: Makes a call.
        side_effect: True unless the library declares that it only reads.
        idempotent: True if the library declares that a call may be repeated.
        result_schema: JSON Schema of its value; None: unknown.
        tags: Words to select it by.

    Raises:
        UsageError: If the name or a schema cannot be used.
    """
    text = clean_text(description, MOST_DESCRIPTION).strip()
    with warnings.catch_warnings():
        # The names are not ours to choose: camelCase is usual.
        warnings.simplefilter("ignore", UserWarning)
        return tool_from_schema(
            name,
            text or f"Tool {name}; it has no further description.",
            {"type": "object", **clean_schema(schema)},
            run,
            {
                "side_effect": side_effect,
                "idempotent": idempotent,
                "result_schema": None if result_schema is None else clean_schema(result_schema),
                "tags": tags,
            },
        )


def clean_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a schema with its texts for readers made safe.

    Raises:
        UsageError: If a name in it has invisible characters, so that no reader could see it.
    """

    def clean(value: Any, key: str) -> Any:
        if isinstance(value, Mapping):
            for name in value:
                if not name.isprintable() or len(name) > 256:
                    msg = f"its schema has a name with invisible characters: {name!r:.80}"
                    raise ptc.UsageError(msg)
            return {name: clean(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [clean(item, key) for item in value]
        if isinstance(value, str) and key in ("description", "title", "$comment"):
            return clean_text(value, _MOST_TEXT_IN_SCHEMA)
        return value

    copy: dict[str, Any] = clean(schema, "")
    return copy


def data_of(text: str) -> Any:
    """Return the data of a text that is a JSON object or list; any other text unchanged."""
    # Not a bare number or word: "42" may be the text of a file.
    if text.lstrip()[:1] in ("{", "["):
        try:
            return _json.loads(text.encode())
        except (_json.JsonError, ValueError, RecursionError):
            return text
    return text


def invalid_arguments(error: ValidationError) -> ptc.ToolError:
    """Convert the error of a library that validates the arguments a second time."""
    rows = error.errors(include_url=False, include_context=False, include_input=False)
    texts = [f"{'.'.join(map(str, row['loc']))}: {row['msg']}" for row in rows[:3]]
    return ptc.ToolError("; ".join(texts), code="invalid_arguments")


def plain_value(value: Any, ctx: ToolContext) -> Any:
    """Return the data of a result without a type of its framework; bytes become a handle."""
    if isinstance(value, bytes):
        return store_file(value, "application/octet-stream", ctx)
    return data_of(value) if isinstance(value, str) else value


def store_file(
    data: str | bytes, media_type: str, ctx: ToolContext, *, number: int = 1, name: str = ""
) -> dict[str, Any]:
    """Store an image or another file of a result, and return its handle as data.

    Args:
        data: The file: bytes, or text in Base64.
        media_type: Its media type.
        ctx: Context of the call.
        number: Position in the result, for the default name.
        name: File name. Default: from the name of the tool.
    """
    suffix = mimetypes.guess_extension(media_type) or ".bin"
    name = name or f"{ctx.tool_name.replace('.', '_')}-{number}{suffix}"
    stored = ctx.attach(ptc.Attachment(name, media_type, data))
    return {
        "attachment": stored.id,
        "name": stored.name,
        "mime_type": stored.media_type,
        "size_bytes": stored.size_bytes,
    }
