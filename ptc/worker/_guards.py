"""What the compiler's guards do at run time, and the builtins of a script.

Rule 1: a guarded name is answered by the receiver's exact type, never by what the receiver says
    about itself (test_a_power_name_is_answered_on_script_objects_only).
Rule 2: a name that arrives as text is decided as the same name in source
    (test_getattr_with_a_name_as_text_follows_the_rules_of_source).
Rule 3: a format string reads attributes by the same rules
    (test_a_format_string_follows_the_rules_of_source).
Rule 4: nothing here returns a metaclass, a frame, a code object or a real namespace
    (test_type_never_gives_a_metaclass, test_globals_shows_the_names_of_the_script_only).
"""

from __future__ import annotations

import _string
import asyncio
import builtins
import enum
import string
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Final, NoReturn

from .. import _policy as policy
from ._classes import Token, build_class, is_allowed_base, is_open, is_script_class, open_type

__all__ = [
    "RefusedError",
    "attribute",
    "demangle_all",
    "exact_text",
    "read_named",
    "script_builtins",
    "script_globals",
    "test_named",
    "type_of",
]

_MISSING: Final = object()


class RefusedError(AttributeError):
    """Raised when a guard refuses an attribute. The message says what to write instead."""


def _refuse(obj: object, name: str, hint: str = "") -> NoReturn:
    hint = hint or policy.READ_HINTS.get(name) or policy.IN_PLACE.get(name, "")
    kind = policy.demangle(type(obj).__name__)
    shown = policy.demangle(name)
    raise RefusedError(
        f"a script may not use {shown!r} of {kind!r}" + (f": {hint}" if hint else "")
    )


def exact_text(name: object) -> str:
    """The text of `name` as an exact `str`: a subclass may lie about what it holds.

    Raises:
        TypeError: If `name` is not text.
    """
    if type(name) is str:
        return name
    if isinstance(name, str):
        return str.__str__(name)
    raise TypeError(f"attribute name must be string, not {type(name).__name__!r}")


# ---------------------------------------------------------------------------------------------
# Attributes


def attribute(obj: Any, name: str) -> Any:
    """Load a guarded attribute: a power name, or a readable dunder."""
    if name in policy.READABLE:
        return _read_dunder(obj, name)
    kind = type(obj)
    if _is_own(obj, kind, name):
        return getattr(obj, name)
    if name in {"format", "format_map"}:
        if issubclass(kind, str):
            return _Formatter(str.__str__(obj), name)
        if obj is str or (issubclass(kind, type) and issubclass(obj, str)):
            return _format_unbound if name == "format" else _format_map_unbound
    _refuse(obj, name)


def _is_own(obj: Any, kind: type, name: str) -> bool:
    """True if `obj` has `name` from the script, or is meant to show all it has."""
    if is_open(kind):
        return True
    if issubclass(kind, type):
        for base in obj.__mro__:
            if name in base.__dict__:
                return is_script_class(base)
        return False  # what a metaclass has: `mro`
    for base in kind.__mro__:
        if name in base.__dict__:
            return is_script_class(base)
    # An attribute of the instance itself, or an answer of the script's own __getattr__.
    return is_script_class(kind) or kind is types.FunctionType


def _read_dunder(obj: Any, name: str) -> Any:
    kind = type(obj)
    if name == "__cause__":
        # Set by `raise ... from` in the script, or absent: never walked from a host's exception.
        cause = obj.__cause__ if isinstance(obj, BaseException) else None
        if cause is None:
            _refuse(obj, name, "this exception was not raised `from` another")
        return cause
    if name == "__notes__":
        if isinstance(obj, BaseException):
            return list(getattr(obj, "__notes__", []))
        _refuse(obj, name)
    if name == "__members__":
        if isinstance(obj, enum.EnumMeta):
            return types.MappingProxyType(dict(obj.__members__))
        _refuse(obj, name)
    if name == "__annotations__":
        if issubclass(kind, type) and is_script_class(obj):
            return _unmangled(getattr(obj, name))
        _refuse(obj, name)
    value = getattr(obj, name)
    if value is None or type(value) is str:
        return policy.demangle(value) if value else value
    if is_script_class(kind):  # its own __getattr__ answered
        return value
    _refuse(obj, name)


def _unmangled(found: Mapping[Any, Any]) -> dict[Any, Any]:
    return {policy.demangle(k) if type(k) is str else k: v for k, v in found.items()}


def store(obj: Any, name: str, value: Any) -> None:
    """Store a guarded attribute, or delete it if `value` is `_MISSING`."""
    kind = type(obj)
    own_class = issubclass(kind, type) and is_script_class(obj)
    own_function = kind is types.FunctionType and "@getattr" in obj.__globals__
    if policy.is_dunder(name):
        allowed = (
            name in policy.WRITABLE
            and (own_class or own_function)
            and (type(value) is str or value is None)
        ) or (own_class and name in policy.DEFINABLE and name not in _NAME_HOOKS)
    else:
        allowed = own_class or own_function or is_script_class(kind) or is_open(kind)
    if not allowed:
        _refuse(obj, name)
    if value is _MISSING:
        delattr(obj, name)
    else:
        setattr(obj, name, value)


# Their name argument is given back its spelling by the compiler, in a class body only.
_NAME_HOOKS: Final = frozenset({"__getattr__", "__setattr__", "__delattr__", "__set_name__"})


class Attributes:
    """Guarded attributes as items, so that every form of assignment can have them as a target."""

    __slots__ = ("_obj",)

    def __init__(self, obj: Any) -> None:
        self._obj = obj

    def __getitem__(self, name: str) -> Any:
        return attribute(self._obj, name)

    def __setitem__(self, name: str, value: Any) -> None:
        store(self._obj, name, value)

    def __delitem__(self, name: str) -> None:
        store(self._obj, name, _MISSING)


def method(obj: Any, name: str) -> Any:
    """Load a dunder method that is called at once: `super().__init__(...)`."""
    kind = type(obj)
    if kind is super:
        return _hook(getattr(obj, name), obj, name)
    if issubclass(kind, type):
        if is_allowed_base(obj):
            return _hook(getattr(obj, name), obj, name)
    elif is_script_class(kind) or name in policy.OPERATOR_METHODS:
        return _hook(getattr(obj, name), obj, name)
    _refuse(obj, name)


def _hook(real: Any, obj: Any, name: str) -> Any:
    if name == "__new__":

        def new(cls: Any, *args: Any, **options: Any) -> Any:
            if not (isinstance(cls, type) and is_script_class(cls)):
                raise TypeError("__new__ makes instances of the script's own classes only")
            return real(cls, *args, **options)

        return new
    if name in {"__setattr__", "__delattr__"}:
        return lambda *args: _set_through(real, args)
    if name in {"__get__", "__set__", "__delete__", "__set_name__"}:
        if type(real) is not types.MethodType and type(real) is not types.FunctionType:
            _refuse(obj, name)
    return real


def _set_through(real: Any, args: tuple[Any, ...]) -> Any:
    """`super().__setattr__(name, value)` or `object.__setattr__(self, name, value)`."""
    bound = getattr(real, "__self__", None)
    if isinstance(bound, type):
        raise TypeError("set attributes of a class with `Class.name = value`")
    target = args[0] if bound is None and args else bound
    if not is_script_class(type(target)):
        raise TypeError("attributes are set this way on the script's own objects only")
    at = 1 if bound is None else 0
    if len(args) <= at:
        raise TypeError("expected the name of an attribute")
    name = exact_text(args[at])
    if policy.is_dunder(name):
        _refuse(target, name)
    return real(*args[:at], policy.rename(name), *args[at + 1 :])


def read_named(obj: Any, name: object) -> Any:
    """Load the attribute whose name arrives as text."""
    text = exact_text(name)
    kind = policy.kind_of(text)
    if kind == "ordinary":
        return getattr(obj, text)
    if kind == "private":
        return getattr(obj, policy.rename(text))
    if kind == "power" or text in policy.READABLE:
        return attribute(obj, text)
    _refuse(obj, text)


def test_named(obj: Any, name: object) -> bool:
    """True if the attribute whose name arrives as text is there for the script."""
    text = exact_text(name)
    if policy.is_dunder(text) and text not in policy.READABLE:
        if text not in policy.TESTABLE:
            return False
        if text == "__dict__":
            return _namespace(obj) is not None
        return hasattr(obj, text)
    try:
        read_named(obj, text)
    except AttributeError:
        return False
    return True


test_named.__test__ = False  # type: ignore[attr-defined]  # not a test, whatever pytest thinks


def _getattr(obj: Any, name: str, /, *default: Any) -> Any:
    if len(default) > 1:
        raise TypeError(f"getattr expected at most 3 arguments, got {2 + len(default)}")
    try:
        return read_named(obj, name)
    except AttributeError:
        if default:
            return default[0]
        raise


def _hasattr(obj: Any, name: str, /) -> bool:
    return test_named(obj, name)


def _setattr(obj: Any, name: str, value: Any, /) -> None:
    text = exact_text(name)
    kind = policy.kind_of(text)
    if kind in {"power", "dunder"}:
        store(obj, text, value)
    else:
        setattr(obj, policy.rename(text), value)


def _delattr(obj: Any, name: str, /) -> None:
    text = exact_text(name)
    if policy.kind_of(text) in {"power", "dunder"}:
        store(obj, text, _MISSING)
    else:
        delattr(obj, policy.rename(text))


# ---------------------------------------------------------------------------------------------
# Classes


class _TypeMeta(type):
    def __call__(cls, *args: Any, **options: Any) -> Any:
        if len(args) != 1 or options:
            raise TypeError("type() takes one argument here; write a class statement")
        return type_of(args[0])

    def __instancecheck__(cls, obj: object) -> bool:
        return isinstance(obj, type)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, type)

    def __repr__(cls) -> str:
        return "<class 'type'>"

    def __getitem__(cls, item: Any) -> types.GenericAlias:
        return types.GenericAlias(cls, item)


class ScriptType(metaclass=_TypeMeta):
    """What a script knows as `type`: tells the class of an object, and makes none."""

    __slots__ = ()


ScriptType.__name__ = ScriptType.__qualname__ = "type"
ScriptType.__module__ = "builtins"


class _OpaqueMeta(type):
    """A class for isinstance() alone."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        raise TypeError(f"{cls.__name__} objects are made by asyncio.create_task() and by ctx")

    def __instancecheck__(cls, obj: object) -> bool:
        return isinstance(obj, _OPAQUE[cls])

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, _OPAQUE.get(kind, kind)) and issubclass(
            _OPAQUE.get(kind, kind), _OPAQUE[cls]
        )

    def __repr__(cls) -> str:
        return f"<class '_asyncio.{cls.__name__}'>"


# The real classes take `loop=`, and a loop of the script's making would be handed the worker's
# context variables with every callback.
Future = _OpaqueMeta("Future", (), {"__slots__": (), "__module__": "asyncio"})
Task = _OpaqueMeta("Task", (Future,), {"__slots__": (), "__module__": "asyncio"})
_OPAQUE: Final[dict[type, type]] = {Future: asyncio.Future, Task: asyncio.Task}


def type_of(obj: object) -> Any:
    """The class of `obj`; never a metaclass, which could make classes past the checks."""
    kind = type(obj)
    if issubclass(kind, type):
        return ScriptType
    if issubclass(kind, asyncio.Future):
        return Task if issubclass(kind, asyncio.Task) else Future
    return kind


# ---------------------------------------------------------------------------------------------
# Namespaces


class NamespaceView(dict[str, Any]):
    """A snapshot of a namespace in the script's spelling; what is written goes to the original."""

    __slots__ = ("_target",)

    def __init__(self, target: MutableMapping[str, Any]) -> None:
        self._target = target
        shown = {k: v for k, v in target.items() if type(k) is not str or _is_shown(k)}
        super().__init__(_unmangled(shown))

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

    def __ior__(self, other: Any) -> Any:
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


def _is_shown(name: str) -> bool:
    return not policy.is_dunder(name) and not name.startswith("@") and not name.startswith(".")


class _Globals(NamespaceView):
    """`globals()`: variables are not renamed, unlike attributes."""

    __slots__ = ()

    @staticmethod
    def _key(key: Any) -> str:
        text = exact_text(key)
        if not _is_shown(text):
            raise KeyError(text)
        return text


def _namespace(obj: Any) -> MutableMapping[str, Any] | None:
    kind = type(obj)
    if not (is_script_class(kind) or issubclass(kind, types.SimpleNamespace)):
        return None
    try:
        found = object.__getattribute__(obj, "__dict__")
    except AttributeError:
        return None
    return found if type(found) is dict else None


def _vars(*args: Any) -> dict[str, Any]:
    if not args:
        return _visible(sys._getframe(1))
    (obj,) = args
    if isinstance(obj, type) and is_script_class(obj):
        return _unmangled({k: v for k, v in obj.__dict__.items() if _is_shown(k)})
    namespace = _namespace(obj)
    if namespace is None:
        raise TypeError("vars() argument must be an object of a class of the script")
    return NamespaceView(namespace)


def _visible(frame: types.FrameType) -> dict[str, Any]:
    if "@getattr" not in frame.f_globals:  # called by library code: not the script's names
        raise RuntimeError("call locals() and globals() directly")
    if frame.f_locals is frame.f_globals:
        return _Globals(frame.f_globals)
    return _unmangled({k: v for k, v in frame.f_locals.items() if _is_shown(k)})


def _locals() -> dict[str, Any]:
    return _visible(sys._getframe(1))


def _globals() -> dict[str, Any]:
    frame = sys._getframe(1)
    if "@getattr" not in frame.f_globals:
        raise RuntimeError("call locals() and globals() directly")
    return _Globals(frame.f_globals)


def _dir(*args: Any) -> list[str]:
    if not args:
        return sorted(_visible(sys._getframe(1)))
    (obj,) = args
    if isinstance(obj, type) and is_script_class(obj):
        names: Iterable[str] = {name for base in obj.__mro__ for name in base.__dict__}
    else:
        names = dir(obj)
    return sorted({policy.demangle(name) for name in names if _is_listed(obj, name)})


def _is_listed(obj: object, name: str) -> bool:
    if type(name) is not str or name.startswith("@"):
        return False
    if policy.is_dunder(name):
        return name in policy.TESTABLE
    return not name.startswith("_") or name in policy.PUBLIC_UNDERSCORE


# ---------------------------------------------------------------------------------------------
# Format strings


class _Walker(string.Formatter):
    """`str.format` for templates that name a guarded attribute."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        first, rest = _string.formatter_field_name_split(field_name)
        obj = self.get_value(first, args, kwargs)
        steps = list(rest)
        for at, (is_attribute, name) in enumerate(steps):
            if not is_attribute:
                obj = obj[name]
            elif name == "__class__" and at + 1 < len(steps):
                obj = type_of(obj)
            else:
                obj = read_named(obj, name)
        return obj, first


def _attributes_in(template: str, depth: int = 2) -> Iterator[str]:
    for _, field, spec, _ in _string.formatter_parser(template):
        if field is not None:
            for is_attribute, name in _string.formatter_field_name_split(field)[1]:
                if is_attribute:
                    yield name
        if spec and depth:
            yield from _attributes_in(spec, depth - 1)


def _plain(template: str) -> bool:
    """True if C's own formatting reads nothing that is guarded or renamed."""
    if "." not in template:
        return True
    return all(policy.kind_of(name) == "ordinary" for name in _attributes_in(template))


def _format(template: str, args: tuple[Any, ...], values: Mapping[str, Any]) -> str:
    if _plain(template):
        return template.format(*args, **values)
    return _Walker().vformat(template, args, values)


def _format_map(template: str, values: Mapping[str, Any]) -> str:
    return (
        template.format_map(values) if _plain(template) else _Walker().vformat(template, (), values)
    )


class _Formatter:
    """The bound method `"...".format`."""

    __slots__ = ("_map", "_template")

    def __init__(self, template: str, name: str) -> None:
        self._template = template
        self._map = name == "format_map"

    def __call__(self, *args: Any, **values: Any) -> str:
        if self._map:
            (mapping,) = args
            return _format_map(self._template, mapping)
        return _format(self._template, args, values)


def _format_unbound(template: str, /, *args: Any, **values: Any) -> str:
    return _format(exact_text(template), args, values)


def _format_map_unbound(template: str, values: Mapping[str, Any], /) -> str:
    return _format_map(exact_text(template), values)


# ---------------------------------------------------------------------------------------------
# Tables

_PLAIN_BUILTINS: Final = (
    "abs aiter all anext any ascii bin bool bytearray bytes callable chr classmethod complex "
    "dict divmod enumerate filter float format frozenset hash hex id int isinstance issubclass "
    "iter len list map max min next object oct ord pow property range repr reversed round set "
    "slice sorted staticmethod str sum super tuple zip Ellipsis NotImplemented"
).split()

_GUARDED_BUILTINS: Final[dict[str, object]] = {
    "getattr": _getattr,
    "hasattr": _hasattr,
    "setattr": _setattr,
    "delattr": _delattr,
    "type": ScriptType,
    "vars": _vars,
    "dir": _dir,
    "locals": _locals,
    "globals": _globals,
}
for _name, _function in _GUARDED_BUILTINS.items():
    if isinstance(_function, types.FunctionType):
        _function.__name__ = _function.__qualname__ = _name

# Modules that C code imports through the builtins of the running frame, for itself.
_C_IMPORTS: Final = frozenset(
    {"_io", "_strptime", "annotationlib", "asyncio.base_futures", "asyncio.events", "collections",
     "collections.abc", "copyreg", "datetime", "decimal", "enum", "functools", "json.decoder",
     "math", "numbers", "operator", "re", "time", "traceback", "types", "typing", "unicodedata",
     "warnings", "zoneinfo", "zoneinfo._common"}
)  # fmt: skip


def _c_import(name: str, *_: object) -> types.ModuleType:
    """`__import__` as C code finds it (`datetime.strptime`). No script can spell its name."""
    if name in _C_IMPORTS and name in sys.modules:
        return sys.modules[name]
    raise ImportError(f"import of {name!r} is not available in a script")


def script_builtins(
    *, print_function: Callable[..., None], extra: Mapping[str, object]
) -> dict[str, object]:
    """The builtins of a script.

    Args:
        print_function: What `print` is: takes what the builtin takes.
        extra: Further names, such as `ToolError`.
    """
    from ._modules._console import CONSOLE

    CONSOLE.print = print_function
    table: dict[str, object] = {name: getattr(builtins, name) for name in _PLAIN_BUILTINS}
    table.update(
        (name, value)
        for name, value in vars(builtins).items()
        if isinstance(value, type)
        and issubclass(value, BaseException)
        and value is not BaseExceptionGroup
    )
    table |= _GUARDED_BUILTINS
    table |= {
        "None": None, "True": True, "False": False,
        "print": CONSOLE.show, "__build_class__": build_class, "__import__": _c_import,
    }  # fmt: skip
    table.update(extra)
    return table


def demangle_all(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Give names among positional arguments back the spelling of the script."""
    return tuple(_demangle(arg) for arg in args)


def _demangle(name: Any) -> Any:
    return policy.demangle(name) if type(name) is str else name


def _instance_dict(obj: Any) -> Any:
    """`x.__dict__`, used in place."""
    try:
        return _vars(obj)
    except TypeError:
        _refuse(obj, "__dict__")


def script_globals(
    builtins: dict[str, object], modules: Mapping[str, object], name: str = "__main__"
) -> dict[str, object]:
    """Fresh globals for one script, with the guards that the compiler calls."""

    def import_module(module: str, bound: str) -> object:
        if module not in modules:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        return modules[bound or module]

    def import_from(module: str, wanted: str) -> object:
        found = import_module(module, "")
        if f"{module}.{wanted}" in modules:
            return modules[f"{module}.{wanted}"]
        try:
            return getattr(found, wanted)
        except AttributeError:
            message = f"cannot import name {wanted!r} from {module!r}"
            raise ImportError(message, name=module) from None

    return {
        "__name__": name,
        "__builtins__": builtins,
        "@getattr": attribute,
        "@method": method,
        "@attributes": Attributes,
        "@class": type_of,
        "@dict": _instance_dict,
        "@demangle": _demangle,
        "@demangle_all": demangle_all,
        "@import": import_module,
        "@import_from": import_from,
    }
