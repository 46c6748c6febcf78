"""`functools.singledispatch` and `singledispatchmethod` for functions of the script."""

from __future__ import annotations

import sys
import types
import typing
import weakref
from collections.abc import Mapping
from typing import Any, Final

from .._hints import get_type_hints
from ._own import check_function, update_wrapper


def _annotated_class(function: Any) -> Any:
    if type(function) in {classmethod, staticmethod}:
        function = function.__func__
    if type(function) is not types.FunctionType:
        raise TypeError("register() needs a class, or a function with an annotated first argument")
    found = [kind for name, kind in get_type_hints(function).items() if name != "return"]
    if not found:
        raise TypeError(
            f"{function.__name__}() has no annotation to register by; pass the class: "
            "`@f.register(int)`"
        )
    return found[0]


def _dispatch_classes(kind: Any) -> tuple[type, ...]:
    """Return the class, or those of a union; none for anything else, such as ``list[int]``."""
    if isinstance(kind, type):
        return (kind,)
    is_union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    classes = typing.get_args(kind) if is_union else ()
    return classes if all(isinstance(each, type) for each in classes) else ()


def _find_implementation(registry: Mapping[Any, Any], kind: Any) -> Any:
    for base in kind.__mro__:
        if base in registry:
            return registry[base]
    matching = [known for known in registry if issubclass(kind, known)]
    return registry[matching[-1]]


def singledispatch(func: Any) -> Any:
    """`functools.singledispatch`; annotations that are text are parsed, not evaluated."""
    check_function(func)
    registry: dict[Any, Any] = {object: func}

    def dispatch(cls: Any) -> Any:
        hash(weakref.ref(cls))  # the library's key for its cache
        if sys.version_info >= (3, 13) and not isinstance(cls, type):
            raise AttributeError(f"{type(cls).__name__!r} object has no attribute '__bases__'")
        return _find_implementation(registry, cls)

    def register(cls: Any, func: Any = None) -> Any:
        classes = _dispatch_classes(cls)
        if classes and func is None:
            return lambda chosen: register(cls, chosen)
        if not classes:
            if func is not None:
                msg = (
                    f"Invalid first argument to `register()`. {cls!r} is not a class or union type."
                )
                raise TypeError(msg)
            func, kind = cls, _annotated_class(cls)
            classes = _dispatch_classes(kind)
            if not classes:
                raise TypeError(f"Invalid annotation of {cls.__name__}(). {kind!r} is not a class.")
        registry.update(dict.fromkeys(classes, func))
        return func

    def wrapper(*args: Any, **options: Any) -> Any:
        if not args:
            raise TypeError(f"{func.__name__} requires at least 1 positional argument")
        return dispatch(type(args[0]))(*args, **options)

    update_wrapper(wrapper, func)
    shown = {"registry": types.MappingProxyType(registry), "register": register}
    vars(wrapper).update(shown, dispatch=dispatch)
    return wrapper


class singledispatchmethod:  # the library's name
    """`functools.singledispatchmethod`."""

    __slots__ = ("_dispatcher", "_function")

    def __init__(self, func: Any) -> None:
        if not callable(func) and type(func) not in _BINDABLE:
            raise TypeError(f"{func!r} is not callable or a descriptor")
        self._function = func
        self._dispatcher = singledispatch(_unbound(func))
        self._dispatcher.register(object, func)

    def register(self, cls: Any, method: Any = None) -> Any:
        """Register an implementation for a class."""
        return self._dispatcher.register(cls, method)

    def __get__(self, obj: Any, cls: Any = None) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if not args:
                if sys.version_info < (3, 13):
                    raise IndexError("tuple index out of range")
                name = _unbound(self._function).__name__
                raise TypeError(f"{name} requires at least 1 positional argument")
            method = self._dispatcher.dispatch(type(args[0]))
            # Other descriptors are not bound: a raw slot of a type works on any object.
            bound = method.__get__(obj, cls) if type(method) in _BINDABLE else method
            return bound(*args, **options)

        call.register = self.register  # type: ignore[attr-defined]  # functions take attributes
        return update_wrapper(call, _unbound(self._function))


_BINDABLE: Final = frozenset({types.FunctionType, classmethod, staticmethod})


def _unbound(method: Any) -> Any:
    return method.__func__ if type(method) in {classmethod, staticmethod} else method
