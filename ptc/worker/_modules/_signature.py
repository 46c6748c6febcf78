"""`inspect.signature` for the functions and classes of a script.

The library's `Signature` can read any callable (`from_callable`), follows attributes that a script
sets, and evaluates text. The classes here hold data only, and compute with the library's.

Rule 1: only callables of the script have a signature
    (test_signature_of_foreign_callable_is_refused).
"""

from __future__ import annotations

import collections
import enum
import functools
import inspect
import types
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..._language import _policy as policy
from .._classes import is_script_class, open_type
from .._freeze import class_namespace
from .._hints import get_type_hints
from .._internals import bound_function, is_own_function
from .._signatures import signature_of
from ._set_once import SetOnce, fill

__all__ = ["BoundArguments", "Parameter", "Signature", "signature"]


class _empty:  # the library's name
    """Mark of a missing default or annotation."""


_SAME: Final = object()


class _ParameterKind(enum.IntEnum):
    POSITIONAL_ONLY = 0
    POSITIONAL_OR_KEYWORD = 1
    VAR_POSITIONAL = 2
    KEYWORD_ONLY = 3
    VAR_KEYWORD = 4

    def __str__(self) -> str:
        return self.name

    @property
    def description(self) -> str:
        """Text for messages."""
        return inspect._ParameterKind(int(self)).description


def _real(value: Any) -> Any:
    return inspect.Parameter.empty if value is _empty else value


def _own(value: Any) -> Any:
    return _empty if value is inspect.Parameter.empty else value


@open_type
class Parameter(SetOnce):
    """`inspect.Parameter`."""

    __slots__ = ("annotation", "default", "kind", "name")
    annotation: Any
    default: Any
    kind: _ParameterKind
    name: str

    POSITIONAL_ONLY = _ParameterKind.POSITIONAL_ONLY
    POSITIONAL_OR_KEYWORD = _ParameterKind.POSITIONAL_OR_KEYWORD
    VAR_POSITIONAL = _ParameterKind.VAR_POSITIONAL
    KEYWORD_ONLY = _ParameterKind.KEYWORD_ONLY
    VAR_KEYWORD = _ParameterKind.VAR_KEYWORD
    empty = _empty

    def __init__(
        self, name: str, kind: Any, *, default: Any = _empty, annotation: Any = _empty
    ) -> None:
        try:
            kind = _ParameterKind(kind)
        except ValueError:
            raise ValueError(f"value {kind!r} is not a valid Parameter.kind") from None
        made = inspect.Parameter(
            name, inspect._ParameterKind(int(kind)), default=_real(default),
            annotation=_real(annotation),
        )  # fmt: skip
        fill(self, name=made.name, kind=kind, default=default, annotation=annotation)

    def replace(self, **changes: Any) -> Parameter:
        """Return a copy with changed attributes."""
        names = ("name", "kind", "default", "annotation")
        values = {name: getattr(self, name) for name in names} | changes
        return Parameter(values.pop("name"), values.pop("kind"), **values)

    def __str__(self) -> str:
        return str(_real_parameter(self))

    def __repr__(self) -> str:
        return f'<Parameter "{self}">'

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Parameter):
            return NotImplemented
        return _key(self) == _key(other)

    def __hash__(self) -> int:
        return hash(_key(self))


def _key(each: Parameter) -> tuple[Any, ...]:
    return (each.name, each.kind, each.default, each.annotation)


def _real_parameter(each: Parameter) -> inspect.Parameter:
    return inspect.Parameter(
        each.name,
        inspect._ParameterKind(int(each.kind)),
        default=_real(each.default),
        annotation=_real(each.annotation),
    )


@open_type
class BoundArguments:
    """`inspect.BoundArguments`."""

    __slots__ = ("_signature", "arguments")

    def __init__(self, signature: Signature, arguments: dict[str, Any]) -> None:
        self._signature, self.arguments = signature, arguments

    @property
    def signature(self) -> Signature:
        """The signature that the arguments were bound to."""
        return self._signature

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments of the call."""
        return self._bound().args

    @property
    def kwargs(self) -> dict[str, Any]:
        """Keyword arguments of the call."""
        return self._bound().kwargs

    def apply_defaults(self) -> None:
        """Set the missing arguments to their defaults."""
        bound = self._bound()
        bound.apply_defaults()
        self.arguments = dict(bound.arguments)

    def _bound(self) -> inspect.BoundArguments:
        return inspect.BoundArguments(
            _real_signature(self._signature),
            dict(self.arguments),
        )

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"<BoundArguments ({values})>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BoundArguments):
            return NotImplemented
        return self._signature == other._signature and self.arguments == other.arguments

    __hash__ = None  # type: ignore[assignment]  # as the library's


@open_type
class Signature(SetOnce):
    """`inspect.Signature`."""

    __slots__ = ("_parameters", "return_annotation")
    empty = _empty
    _parameters: dict[str, Parameter]
    return_annotation: Any

    def __init__(
        self, parameters: Iterable[Parameter] | None = None, *, return_annotation: Any = _empty
    ) -> None:
        found = {each.name: each for each in parameters or ()}
        fill(self, _parameters=found, return_annotation=return_annotation)
        _real_signature(self)  # checks the order

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters by name, in order."""
        return types.MappingProxyType(collections.OrderedDict(self._parameters))

    def replace(self, *, parameters: Any = None, return_annotation: Any = _SAME) -> Signature:
        """Return a copy with changed attributes."""
        return Signature(
            self._parameters.values() if parameters is None else parameters,
            return_annotation=self.return_annotation
            if return_annotation is _SAME
            else return_annotation,
        )

    def bind(self, /, *args: Any, **kwargs: Any) -> BoundArguments:
        """Bind arguments to the parameters, or raise `TypeError`."""
        return BoundArguments(self, dict(_real_signature(self).bind(*args, **kwargs).arguments))

    def bind_partial(self, /, *args: Any, **kwargs: Any) -> BoundArguments:
        """Bind some of the arguments."""
        bound = _real_signature(self).bind_partial(*args, **kwargs)
        return BoundArguments(self, dict(bound.arguments))

    def __str__(self) -> str:
        return str(_real_signature(self))

    def __repr__(self) -> str:
        return f"<Signature {self}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Signature):
            return NotImplemented
        return (
            list(self._parameters.values()) == list(other._parameters.values())
            and self.return_annotation == other.return_annotation
        )

    def __hash__(self) -> int:
        return hash((tuple(self._parameters.values()), self.return_annotation))


def _real_signature(each: Signature) -> inspect.Signature:
    parameters = [_real_parameter(part) for part in each._parameters.values()]
    return inspect.Signature(parameters, return_annotation=_real(each.return_annotation))


def _own_signature(real: inspect.Signature) -> Signature:
    parameters = [
        Parameter(
            each.name, each.kind, default=_own(each.default), annotation=_own(each.annotation)
        )
        for each in real.parameters.values()
    ]
    return Signature(parameters, return_annotation=_own(real.return_annotation))


for _kind in (_empty, _ParameterKind, Parameter, BoundArguments, Signature):
    _kind.__module__ = "inspect"
    _kind.__doc__ = vars(inspect)[_kind.__name__].__doc__


# ---------------------------------------------------------------------------------------------


def signature(
    obj: Any,
    *,
    follow_wrapped: bool = True,
    globals: Any = None,
    locals: Any = None,
    eval_str: bool = False,
) -> Signature:
    """`inspect.signature` of a callable that the script defines."""
    if not callable(obj):
        raise TypeError(f"{obj!r} is not a callable object")
    found = _own_signature(_find(obj, follow_wrapped=follow_wrapped))
    if not eval_str:
        return found
    hints = get_type_hints(obj, globals, locals, include_extras=True)
    parameters = [
        each.replace(annotation=hints.get(each.name, each.annotation))
        for each in found.parameters.values()
    ]
    returns = hints.get("return", found.return_annotation)
    return Signature(parameters, return_annotation=returns)


_CACHED: Final = type(functools.cache(len))


def _find(obj: Any, *, follow_wrapped: bool) -> inspect.Signature:
    kind = type(obj)
    if kind is types.MethodType:
        return _without_first(_find(bound_function(obj), follow_wrapped=follow_wrapped))
    if kind is types.FunctionType or kind is _CACHED:
        wrapped = obj.__dict__.get("__wrapped__")
        if wrapped is not None and (follow_wrapped or kind is _CACHED):
            return _find(wrapped, follow_wrapped=follow_wrapped)
        if is_own_function(obj):
            return signature_of(obj)
    elif kind is functools.partial:
        real = _find(obj.func, follow_wrapped=follow_wrapped)
        get_partial: Any = vars(inspect)["_signature_get_partial"]
        made: inspect.Signature = get_partial(real, obj)
        return made
    elif isinstance(obj, type):
        if is_script_class(obj):
            return _of_class(obj)
    elif is_script_class(kind):
        call = _defined(kind, "__call__")
        if is_own_function(call):
            return _without_first(_find(call, follow_wrapped=follow_wrapped))
    raise ValueError(f"no signature found for {obj!r}: only callables of the script have one here")


class _WithMembers(enum.Enum):
    A = 1


class _WithoutMembers(enum.Enum):
    """An enum that is a base of others."""


# By whether the enum has members. Computed here, before the worker removes `__code__`.
_OF_ENUMS: Final = {
    True: inspect.signature(_WithMembers),
    False: inspect.signature(_WithoutMembers),
}


def _of_class(kind: type) -> inspect.Signature:
    """Return the signature of the `__init__` or `__new__` that comes first."""
    if isinstance(kind, enum.EnumMeta):
        return _OF_ENUMS[bool(kind.__members__)]
    for base in kind.__mro__:
        namespace = class_namespace(base)
        for name in ("__new__", "__init__"):
            if name not in namespace:
                continue
            if base is object:
                return inspect.Signature()
            function = namespace[name]
            function = function.__func__ if isinstance(function, staticmethod) else function
            if is_script_class(base) and type(function) is types.FunctionType:
                return _without_first(signature_of(function))
            shown = policy.demangle(kind.__name__)
            raise ValueError(f"no signature found for class {shown!r}: it inherits {name}")
    return inspect.Signature()


def _defined(kind: type, name: str) -> Any:
    for base in kind.__mro__:
        if name in class_namespace(base):
            return class_namespace(base)[name]
    return None


def _without_first(found: inspect.Signature) -> inspect.Signature:
    """Remove the parameter that receives the object."""
    parameters = list(found.parameters.values())
    if parameters and parameters[0].kind not in {
        inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    }:  # fmt: skip
        del parameters[0]
    elif not parameters or parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        raise ValueError("invalid method signature")
    return found.replace(parameters=parameters)
