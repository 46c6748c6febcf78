"""Signatures of a script's functions, read from their code alone.

`inspect.signature` evaluates a docstring that looks like the signature of a C function, follows
``__wrapped__`` and ``__signature__``, and reads attributes that a worker has removed.
"""

from __future__ import annotations

import inspect
import types
from inspect import Parameter, Signature
from typing import Any

from ._internals import code_of, defaults_of, keyword_defaults_of

__all__ = ["signature_of"]


def signature_of(function: types.FunctionType) -> Signature:
    """Return the signature of `function`."""
    code = code_of(function)
    names = code.co_varnames
    defaults: tuple[Any, ...] = defaults_of(function) or ()
    keyword_defaults: dict[str, Any] = keyword_defaults_of(function) or {}
    annotations: dict[str, Any] = function.__annotations__
    first_default = code.co_argcount - len(defaults)
    found: list[Parameter] = []

    def add(name: str, kind: Any, default: Any = Parameter.empty) -> None:
        annotation = annotations.get(name, Parameter.empty)
        found.append(Parameter(name, kind, default=default, annotation=annotation))

    for index, name in enumerate(names[: code.co_argcount]):
        positional_only = index < code.co_posonlyargcount
        kind = Parameter.POSITIONAL_ONLY if positional_only else Parameter.POSITIONAL_OR_KEYWORD
        at = index - first_default
        add(name, kind, defaults[at] if at >= 0 else Parameter.empty)
    at = code.co_argcount + code.co_kwonlyargcount
    if code.co_flags & inspect.CO_VARARGS:
        add(names[at], Parameter.VAR_POSITIONAL)
        at += 1
    for name in names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]:
        add(name, Parameter.KEYWORD_ONLY, keyword_defaults.get(name, Parameter.empty))
    if code.co_flags & inspect.CO_VARKEYWORDS:
        add(names[at], Parameter.VAR_KEYWORD)
    returns = annotations.get("return", Signature.empty)
    return Signature(found, return_annotation=returns)
