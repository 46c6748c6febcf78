"""Messages of `AttributeError` and `TypeError` in the script's spelling.

The compiler renames private attributes, and CPython writes the new name into its messages. They are
restored when a script reads them, since C code raises the exceptions.
"""

from __future__ import annotations

from typing import Any, Final

from .._language._policy import PRIVATE_PREFIX, demangle
from ._freeze import WORD, FreezeError, all_types, replace_attribute
from ._identity import calls_python, type_slot

__all__ = ["restore_error_names"]

# Offsets in PyTypeObject, see `_freeze._OFFSET`.
_TP_REPR: Final = (3 + 8) * WORD
_TP_STR: Final = (3 + 14) * WORD

_args: Final[Any] = BaseException.__dict__["args"]
_name: Final[Any] = AttributeError.__dict__["name"]
_str: Final = BaseException.__str__
_repr: Final = BaseException.__repr__


def _restore(error: BaseException) -> tuple[Any, ...]:
    args: tuple[Any, ...] = _args.__get__(error)
    if any(type(arg) is str and PRIVATE_PREFIX in arg for arg in args):
        args = tuple(demangle(arg) if type(arg) is str else arg for arg in args)
        _args.__set__(error, args)
    return args


def _show(self: BaseException) -> str:
    _restore(self)
    return _str(self)


def _represent(self: BaseException) -> str:
    _restore(self)
    return _repr(self)


def _read_name(self: AttributeError) -> Any:
    name = _name.__get__(self)
    return demangle(name) if type(name) is str else name


def restore_error_names() -> None:
    """Make the text, `args` and `name` of the exceptions show the names that the script wrote.

    Call it in the zygote, before the types are frozen.

    Raises:
        FreezeError: If this interpreter has the slots elsewhere.
    """
    for offset, method, function in (
        (_TP_STR, "__str__", _show),
        (_TP_REPR, "__repr__", _represent),
    ):
        default = type_slot(BaseException, offset).value
        for kind in (AttributeError, TypeError):
            if type_slot(kind, offset).value != default:
                raise FreezeError("the slots of a type are not at the expected offsets")
            heirs = [each for each in all_types() if issubclass(each, kind)]
            heirs = [each for each in heirs if type_slot(each, offset).value == default]
            replace_attribute(kind, method, function)
            for each in heirs:
                type_slot(each, offset).value = calls_python(offset)
    for kind in (AttributeError, TypeError):
        replace_attribute(kind, "args", property(_restore, _args.__set__))
    # The interpreter sets the name of every such error: by a C function.
    replace_attribute(AttributeError, "name", property(_read_name, _name.__set__))
    error = AttributeError(f"{PRIVATE_PREFIX}x")
    if (str(error), repr(error), error.args) != ("_x", "AttributeError('_x')", ("_x",)):
        raise FreezeError("the text of an exception could not be replaced")
