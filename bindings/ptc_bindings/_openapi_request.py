"""Requests of tools: arguments put into the path, query, headers, cookies and body.

Rule 1: a value stays in its place: everything with a meaning there is percent-encoded, and a value
    that has no safe form is refused.
    tests/bindings/test_openapi_hostile.py::test_path_parameter_cannot_leave_its_segment
    tests/bindings/test_openapi_hostile.py::test_header_value_cannot_add_a_header
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import ptc
from ptc._core import _json

from ._openapi_access import check_header
from ._openapi_operation import Argument, Operation

__all__ = ["Request", "build_request"]

_SEPARATORS = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}


@dataclass(slots=True)
class Request:
    """A request without credentials."""

    method: str
    url: str
    query: list[str]
    """Encoded pairs."""
    headers: list[tuple[str, str]]
    cookies: list[str]
    """Encoded pairs."""
    content: bytes | None


def build_request(operation: Operation, arguments: Mapping[str, Any]) -> Request:
    """Build the request of a call.

    Args:
        operation: The operation.
        arguments: Validated arguments.

    Raises:
        ToolError: ``invalid_arguments`` if a value has no safe form in its place.
    """
    try:
        return _build(operation, arguments)
    except (UnicodeEncodeError, _json.JsonError):
        msg = "an argument has a character that is not in UTF-8, such as a lone surrogate"
        raise ptc.ToolError(msg, code="invalid_arguments") from None


def _build(operation: Operation, arguments: Mapping[str, Any]) -> Request:
    request = Request(operation.method.upper(), "", [], [("Accept", operation.accept)], [], None)
    path: dict[str, str] = {}
    fields: dict[str, Any] = {}
    for argument in operation.arguments:
        if argument.name not in arguments:
            continue
        value = arguments[argument.name]
        if argument.place == "path":
            path[argument.remote] = _encode(_simple(argument, value))
        elif argument.place == "query":
            request.query += _pairs(argument, value)
        elif argument.place == "header":
            text = _simple(argument, value)
            if problem := check_header(argument.remote, text):
                raise _invalid(argument, problem)
            request.headers.append((argument.remote, text))
        elif argument.place == "cookie":
            request.cookies += _pairs(argument, value)
        else:
            fields[argument.remote] = value
    request.url = operation.base + _fill_path(operation, path)
    _set_body(request, operation, fields)
    return request


def _invalid(argument: Argument, problem: str) -> ptc.ToolError:
    return ptc.ToolError(f"`{argument.name}`: {problem}", code="invalid_arguments")


def _fill_path(operation: Operation, values: Mapping[str, str]) -> str:
    path = re.sub(r"\{([^{}]*)\}", lambda found: values[found[1]], operation.path)
    template = operation.path.split("/")[1:]
    for segment, before in zip(path.split("/")[1:], template, strict=True):
        # Servers and proxies resolve `.` and `..`, also if they or the slash beside them are
        # percent-encoded. An empty segment is another resource: DELETE /pets/ instead of one pet.
        parts = re.split(r"[/\\]", unquote(segment))
        if segment != before and (not segment or {".", ".."} & set(parts)):
            shown = before.strip("{}")
            msg = f"`{shown}`: a part of a path must not be empty, `.` or `..`"
            raise ptc.ToolError(msg, code="invalid_arguments")
    return path


def _encode(text: str) -> str:
    return quote(text, safe="")


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    # `true` and 1.5, and nested data as JSON.
    return _json.dumps(value).decode()


def _simple(argument: Argument, value: Any) -> str:
    """Format a value for a path or a header, in the style ``simple``."""
    if argument.as_json:
        return _json.dumps(value).decode()
    if isinstance(value, list):
        return ",".join(_scalar(item) for item in value)
    if isinstance(value, dict):
        between = "=" if argument.explode else ","
        return ",".join(f"{key}{between}{_scalar(item)}" for key, item in value.items())
    return _scalar(value)


def _pairs(argument: Argument, value: Any) -> list[str]:
    """Format a value as encoded pairs of a query or of cookies."""
    name = _encode(argument.remote)
    if argument.as_json:
        return [f"{name}={_encode(_json.dumps(value).decode())}"]
    if not isinstance(value, list | dict):
        return [f"{name}={_encode(_scalar(value))}"]
    if isinstance(value, dict):
        return _object_pairs(argument, name, value)
    items = [_encode(_scalar(item)) for item in value]
    if argument.explode:
        return [f"{name}={item}" for item in items]
    return [f"{name}={_SEPARATORS.get(argument.style, ',').join(items)}"]


def _object_pairs(argument: Argument, name: str, value: Mapping[str, Any]) -> list[str]:
    items = [(_encode(key), _encode(_scalar(item))) for key, item in value.items()]
    if argument.style == "deepObject":
        return [f"{name}%5B{key}%5D={item}" for key, item in items]
    if argument.explode:
        return [f"{key}={item}" for key, item in items]
    return [f"{name}={_SEPARATORS.get(argument.style, ',').join(','.join(i) for i in items)}"]


def _set_body(request: Request, operation: Operation, fields: dict[str, Any]) -> None:
    body = operation.body
    if body is None or (not fields and not body.required):
        return
    value = fields.get("", fields)
    if body.kind == "json":
        request.content = _json.dumps(value)
    elif body.kind == "form" and isinstance(value, dict):
        pairs = [
            pair
            for key, item in value.items()
            for pair in _pairs(
                Argument(key, "query", key, "form", not isinstance(item, dict)), item
            )
        ]
        request.content = "&".join(pairs).encode()
    else:
        request.content = _scalar(value).encode()
    request.headers.append(("Content-Type", body.media_type))
