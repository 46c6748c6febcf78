"""Signatures and warnings for the code of packages, which a worker would lack otherwise.

`inspect` reads the code of a function, which is removed before scripts run (`_internals`), and the
library's warnings are silent in a worker, since they would go to its standard error.
"""

from __future__ import annotations

import inspect
import sys
import types
import warnings
from collections.abc import Collection, Iterator
from typing import Any

from ._internals import bound_function
from ._modules._warnings import warnings_members
from ._signatures import signature_of

__all__ = ["ModuleView", "replace_signatures", "replace_warnings"]


class ModuleView:
    """A module with some names replaced."""

    def __init__(self, module: Any, **replaced: Any) -> None:
        """Show `module`, with `replaced` in place of its own names."""
        self._module = module
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def replace_signatures(packages: Collection[str]) -> None:
    """Let the modules of `packages` read signatures; call it when they are imported.

    They find no frames, which `inspect.currentframe` documents for other interpreters.
    """
    view = ModuleView(
        inspect,
        signature=_signature,
        getfullargspec=_argument_names,
        currentframe=lambda: None,
        stack=lambda *_: [],
    )
    for names in _namespaces(packages):
        if names.get("inspect") is inspect:
            names["inspect"] = view
        if names.get("signature") is inspect.signature:
            names["signature"] = _signature


def replace_warnings(packages: Collection[str]) -> None:
    """Let the modules of `packages` warn as the script does; call it when they are imported.

    A warning then has the line of the script, and obeys the filters of the script.
    """
    members = warnings_members()
    issue = members["warn"]

    def warn(message: Any, category: Any = None, *_: Any, **__: Any) -> None:
        """Attribute the warning to the innermost line of the script: packages have no frames."""
        issue(message, category)

    members["warn"] = warn
    view = ModuleView(warnings, **members)
    for names in _namespaces(packages):
        if names.get("warnings") is warnings:
            names["warnings"] = view
        if names.get("warn") is warnings.warn:
            names["warn"] = warn


def _namespaces(packages: Collection[str]) -> Iterator[dict[str, Any]]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in packages and isinstance(module, types.ModuleType):
            yield vars(module)


_known: dict[tuple[object, bool], inspect.Signature] = {}
"""Signatures that were read before the code of functions was removed."""


def _signature(function: Any, **options: Any) -> inspect.Signature:
    """Stand in for `inspect.signature`."""
    is_bound = isinstance(function, types.MethodType)
    plain = bound_function(function) if is_bound else function
    try:
        found = _known.get((plain, is_bound))
    except TypeError:  # not hashable
        return inspect.signature(function, **options)
    if found is None:
        try:
            found = inspect.signature(function, **options)
        except (AttributeError, TypeError, ValueError):
            found = _read(plain, is_bound=is_bound)
        _known[plain, is_bound] = found
    return found


def _argument_names(function: Any) -> inspect.FullArgSpec:
    """Stand in for `inspect.getfullargspec`, without annotations."""
    found = _signature(function).parameters.values()
    by_kind = {kind: [p for p in found if p.kind is kind] for kind in _KINDS}
    positional = [*by_kind[_KINDS[0]], *by_kind[_KINDS[1]]]
    named = by_kind[_KINDS[3]]
    rest, options = ([p.name for p in by_kind[kind]] for kind in (_KINDS[2], _KINDS[4]))
    return inspect.FullArgSpec(
        args=[p.name for p in positional],
        varargs=rest[0] if rest else None,
        varkw=options[0] if options else None,
        defaults=tuple(p.default for p in positional if p.default is not p.empty) or None,
        kwonlyargs=[p.name for p in named],
        kwonlydefaults={p.name: p.default for p in named if p.default is not p.empty} or None,
        annotations={},
    )


_KINDS = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.KEYWORD_ONLY,
    inspect.Parameter.VAR_KEYWORD,
)


def _read(function: Any, *, is_bound: bool) -> inspect.Signature:
    while isinstance(function, types.FunctionType) and "__wrapped__" in vars(function):
        function = vars(function)["__wrapped__"]
    if not isinstance(function, types.FunctionType):
        msg = f"{function!r:.80} has no signature here"
        raise ValueError(msg)
    found = signature_of(function)
    return found.replace(parameters=[*found.parameters.values()][1:]) if is_bound else found
