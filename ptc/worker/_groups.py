"""Exception groups that cannot lie to the interpreter.

`except*` calls ``group.split(kind)`` and trusts the result. An attribute of the instance hides the
method, and before 3.12.9 and 3.13.2 CPython does not check the result: ``group.split = lambda kind:
(1, 2)`` makes it read an `int` as an exception, and crashes. Scripts cannot subclass groups
(`_classes.is_allowed_base`), so only the instance is left: here the methods that the interpreter
calls become data descriptors, which take precedence over attributes of an instance.

Rule 1: neither an attribute nor the namespace of a group changes how the interpreter splits it
    (tests/worker/test_groups.py::test_interpreter_ignores_a_method_set_on_a_group).
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from ._freeze import class_namespace, replace_attribute

__all__ = ["pin_group_methods"]

_CALLED: Final = ("derive", "split", "subgroup")


def pin_group_methods() -> None:
    """Make the methods of exception groups immutable on instances, for good in this process."""
    namespace = class_namespace(BaseExceptionGroup)
    for name in _CALLED:
        original = namespace[name]
        if not getattr(type(original), "pinned", False):
            replace_attribute(BaseExceptionGroup, name, _pin(name, original))


def _pin(name: str, original: Any) -> object:
    """Return a data descriptor that answers with the method `original`."""

    class Pinned:
        """A method that instances cannot replace. Closures hold the original: no attribute does."""

        __slots__ = ()
        pinned = True

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            return original if instance is None else original.__get__(instance, owner)

        def __set__(self, instance: Any, value: object) -> NoReturn:
            raise AttributeError(f"the method {name!r} of an exception group cannot be replaced")

        def __delete__(self, instance: Any) -> NoReturn:
            raise AttributeError(name)

    return Pinned()
