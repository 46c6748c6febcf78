"""Namespaces as a script may see them: `vars()`, `dir()`, `locals()`, `globals()`.

Rule 1: a view holds the names of the script only, in its own spelling
    (test_globals_shows_the_names_of_the_script_only).
Rule 2: a view writes only names that source code could write
    (test_namespace_view_refuses_the_names_that_source_refuses).
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, cast

from .._language import _policy as policy
from ._classes import is_script_class
from ._freeze import class_namespace
from ._internals import frame_code, frame_globals, frame_locals, is_own_function
from ._record import Record
from ._types import exact_text, stands_for

__all__ = [
    "NamespaceView",
    "demangle_keys",
    "exact_text",
    "namespace_of",
    "show_dir",
    "show_globals",
    "show_locals",
    "show_vars",
]


def demangle_keys(found: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a copy of `found` with private names in the script's spelling."""
    return {policy.demangle(k) if type(k) is str else k: v for k, v in found.items()}


@stands_for(dict)
class NamespaceView(dict[str, Any]):
    """A snapshot of a namespace in the script's spelling; writes go to the original, too."""

    __module__ = "builtins"  # reprs and errors show it

    __slots__ = ("_target",)

    def __init__(self, target: MutableMapping[str, Any]) -> None:
        self._target = target
        super().__init__(demangle_keys(self._filter(target)))

    @staticmethod
    def _filter(target: Mapping[str, Any]) -> dict[str, Any]:
        return _own_names(target)

    @staticmethod
    def _key(key: Any) -> str:
        text = exact_text(key)
        if not _is_shown(text):
            raise KeyError(text)
        return policy.rename(text)

    def __setitem__(self, key: str, value: Any) -> None:
        self._target[self._key(key)] = value
        super().__setitem__(exact_text(key), value)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._target.pop(self._key(key), None)

    def update(self, *args: Any, **values: Any) -> None:
        """As dict.update."""
        for key, value in dict(*args, **values).items():
            self[key] = value

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]  # writes through
        self.update(other)
        return self

    def setdefault(self, key: str, default: Any = None) -> Any:
        """As dict.setdefault."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str, *default: Any) -> Any:
        """As dict.pop."""
        value = super().pop(key, *default)
        self._target.pop(self._key(key), None)
        return value

    def popitem(self) -> tuple[str, Any]:
        """As dict.popitem."""
        key, value = super().popitem()
        self._target.pop(self._key(key), None)
        return key, value

    def clear(self) -> None:
        """As dict.clear."""
        for key in list(self):
            del self[key]


def _own_names(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a namespace that the script created.

    Its private names are renamed, so one that is not belongs to the library: `_new_member_` of an
    enum makes instances of any class.
    """
    return {
        name: value
        for name, value in namespace.items()
        if type(name) is not str or (_is_shown(name) and not policy.is_private(name))
    }


def _is_shown(name: str) -> bool:
    return not policy.is_dunder(name) and not name.startswith("@") and not name.startswith(".")


@stands_for(dict)
class _Globals(NamespaceView):
    """`globals()`: variables are not renamed, unlike attributes."""

    __module__ = "builtins"  # reprs and errors show it

    __slots__ = ()

    @staticmethod
    def _filter(target: Mapping[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in target.items() if type(k) is not str or _is_shown(k)}

    @staticmethod
    def _key(key: Any) -> str:
        text = exact_text(key)
        if not _is_shown(text):
            raise KeyError(text)
        return text


def namespace_of(obj: Any) -> MutableMapping[str, Any] | None:
    kind = type(obj)
    if not (is_script_class(kind) or issubclass(kind, types.SimpleNamespace)):
        return None
    try:
        found = object.__getattribute__(obj, "__dict__")
    except AttributeError:
        return None
    return found if type(found) is dict else None


def show_vars(*args: Any) -> Mapping[str, Any]:
    if not args:
        return _frame_names(sys._getframe(1))
    if len(args) > 1:
        raise TypeError(f"vars expected at most 1 argument, got {len(args)}")
    obj: Any = next(iter(args))
    if isinstance(obj, type) and is_script_class(obj):
        return _class_members(obj)
    if type(obj) is Record:
        return cast("Mapping[str, Any]", obj)
    namespace = namespace_of(obj)
    if namespace is None and is_own_function(obj):
        namespace = obj.__dict__
    if isinstance(obj, BaseException) and namespace is None:
        return _exception_fields(obj)
    hook: Any = getattr(type(obj), "__getattr__", None)
    if namespace is None and is_own_function(hook):
        with contextlib.suppress(AttributeError):
            return cast("Mapping[str, Any]", hook(obj, "__dict__"))
    if namespace is None:
        reason = "be an object of a class of the script" if hasattr(obj, "__dict__") else _NO_DICT
        raise TypeError(f"vars() argument must {reason}")
    return NamespaceView(namespace)


def _exception_fields(error: BaseException) -> Mapping[str, Any]:
    """Return the attributes of an exception of the library that source reads.

    They cannot be changed through it: the interpreter calls methods that it finds among them.
    """
    found = object.__getattribute__(error, "__dict__")
    read_only: Any = types.MappingProxyType(
        {
            name: value
            for name, value in found.items()
            if name.startswith(policy.PRIVATE_PREFIX) or _is_plain(name)
        }
    )
    view = NamespaceView(read_only)
    if "__notes__" in found:
        dict.__setitem__(view, "__notes__", found["__notes__"])
    return view


def _is_plain(name: str) -> bool:
    return policy.kind_of(name) == "ordinary"


_NO_DICT = "have __dict__ attribute"


def _class_members(kind: type) -> Mapping[str, Any]:
    """Return the namespace of a script's class: its own names, methods and plain data.

    Not its descriptors for ``__dict__`` and ``__weakref__``: in a class of its own, a script could
    read the real namespace of an instance with them.
    """
    namespace = class_namespace(kind)
    found: dict[str, Any] = {"__module__": "__main__"}
    for name, value in namespace.items():
        if name == "__annotations__":
            found[name] = demangle_keys(value)
        elif name == "__static_attributes__":  # 3.13
            found[name] = tuple(policy.demangle(each) for each in value)
        elif name in {"__doc__", "__firstlineno__"} or (
            name in policy.DEFINABLE and _is_own_method(value)
        ):
            found[name] = value
        elif name in _own_names({name: value}):
            found[policy.demangle(name)] = value
    return types.MappingProxyType(found)


def _is_own_method(value: Any) -> bool:
    """True for a method that the script's source defines, and for None in place of one."""
    function = value.__func__ if type(value) in {classmethod, staticmethod} else value
    return value is None or is_own_function(function)


def _frame_names(frame: types.FrameType) -> dict[str, Any]:
    variables, module = frame_locals(frame), frame_globals(frame)
    if "@getattr" not in module:  # called by library code: the names are not the script's
        raise RuntimeError("call locals() and globals() directly")
    if variables is module:
        return _Globals(module)
    if not frame_code(frame).co_flags & _OPTIMIZED:  # the body of a class
        return NamespaceView(variables)
    return demangle_keys({k: v for k, v in variables.items() if _is_shown(k)})


_OPTIMIZED = 0x01  # inspect.CO_OPTIMIZED: variables of a function, which locals() copies


def show_locals() -> dict[str, Any]:
    return _frame_names(sys._getframe(1))


def show_globals() -> dict[str, Any]:
    module = frame_globals(sys._getframe(1))
    if "@getattr" not in module:
        raise RuntimeError("call locals() and globals() directly")
    return _Globals(module)


def show_dir(*args: Any) -> list[str]:
    if not args:
        return sorted(_frame_names(sys._getframe(1)))
    if len(args) > 1:
        raise TypeError(f"dir expected at most 1 argument, got {len(args)}")
    obj: Any = next(iter(args))
    if isinstance(obj, type) and is_script_class(obj):
        names: Iterable[str] = {name for base in obj.__mro__ for name in class_namespace(base)}
    else:
        names = dir(obj)
    return sorted({policy.demangle(name) for name in names if _is_listed(obj, name)})


def _is_listed(obj: object, name: str) -> bool:
    if type(name) is not str or name.startswith("@"):
        return False
    if name == "__dict__":
        return namespace_of(obj) is not None
    if policy.is_dunder(name):
        return name in policy.TESTABLE
    return not name.startswith("_") or name in policy.PUBLIC_UNDERSCORE
