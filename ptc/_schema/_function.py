"""Read what a function says about itself: its docstring and its type hints."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, get_type_hints

from .._core._arguments import caller_frame
from ..errors import UsageError

__all__ = ["describe_function", "resolve_hints"]


def describe_function(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Split a docstring into the description and a text for each parameter (Google style)."""
    text = inspect.getdoc(function) or ""
    head, *sections = re.split(r"(?m)^(Args|Returns|Raises|Example|Examples|Yields):\s*$", text)
    named = dict(zip(sections[::2], sections[1::2], strict=False))
    docs: dict[str, str] = {}
    for match in re.finditer(
        r"(?ms)^ {4}(\w+)(?: \([^)]*\))?: (.*?)(?=^ {4}\w|\Z)", named.get("Args", "")
    ):
        docs[match[1]] = " ".join(match[2].split())
    return head.strip(), docs


def resolve_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Resolve the type hints of `function`, including ``Annotated``.

    Names are resolved in the function's module and, for tools defined inside a function, in the
    locals of the caller that defines the tool.

    Raises:
        UsageError: If a name in a hint cannot be resolved.
    """
    target = _function_with_hints(function)
    if target is None:
        return {}
    try:
        return get_type_hints(target, localns=_local_names(), include_extras=True)
    except NameError as error:
        name = getattr(function, "__name__", repr(function))
        msg = f"tool {name!r}: a type hint cannot be resolved: {error}"
        raise UsageError(msg) from None


def _function_with_hints(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the plain function that carries the hints of `function`, or None."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isfunction(function) or inspect.ismethod(function):
        return function
    call = getattr(type(function), "__call__", None)  # noqa: B004  # wanted for its hints
    return call if inspect.isfunction(call) else None


def _local_names() -> dict[str, Any]:
    """Return the locals of the nearest caller outside ptc."""
    frame, _ = caller_frame()
    return dict(frame.f_locals) if frame is not None else {}
