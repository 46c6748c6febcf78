"""Results of tools of OpenAI's SDKs as data: parts with text, images and files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

import ptc

from ._foreign import data_of, store_file

__all__ = ["read_output"]

_KINDS = ("text", "image", "file")
_ADDRESSES = ("file_id", "file_url", "image_url")


def read_output(output: Any, ctx: ptc.ToolContext) -> ptc.ToolResult:
    """Convert the result of a tool: parts become texts and file handles, all else is data.

    Raises:
        ToolError: ``bad_content`` if a file is not valid Base64.
    """
    if isinstance(output, list | tuple) and output:
        parts = [_part(item) for item in output]
    else:
        parts = [_part(output)]
    if any(part is None for part in parts):
        value = (
            data_of(output) if isinstance(output, str) else to_jsonable_python(output, fallback=str)
        )
        # Not the value itself: one with a field `isError` or `status` is data here.
        return ptc.ToolResult.success(value)
    values = [
        _value(kind, part, ctx, number)
        for number, (kind, part) in enumerate(filter(None, parts), 1)
    ]
    return ptc.ToolResult.success(values[0] if len(values) == 1 else values)


def _part(item: Any) -> tuple[str, Mapping[str, Any]] | None:
    """Return the kind and the fields of a part of an output; None for other data."""
    data = item.model_dump() if isinstance(item, BaseModel) else item
    if not isinstance(data, Mapping):
        return None
    kind = str(data.get("type", "")).removeprefix("input_")
    # A tool may return data of its own with a field `type`.
    known = {"text": ("text",), "image": ("image_url", "file_id")}.get(
        kind, ("file_data", *_ADDRESSES)
    )
    has_content = any(isinstance(data.get(name), str) for name in known)
    return (kind, data) if kind in _KINDS and has_content else None


def _value(kind: str, part: Mapping[str, Any], ctx: ptc.ToolContext, number: int) -> Any:
    if kind == "text":
        return data_of(part["text"])
    name = str(part.get("filename") or "")
    for key in ("image_url", "file_data"):
        content = part.get(key)
        if not isinstance(content, str):
            continue
        if content.startswith("data:"):
            head, _, data = content.partition(",")
            media_type = head[5:].partition(";")[0] or "application/octet-stream"
            return store_file(data, media_type, ctx, number=number, name=name)
        if key == "file_data":
            return store_file(content, "application/octet-stream", ctx, number=number, name=name)
    return {key: part[key] for key in _ADDRESSES if isinstance(part.get(key), str)}
