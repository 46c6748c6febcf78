"""Work on first use: imports of public names and of slow modules, compiled patterns."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, cast

__all__ = ["LazyModule", "compile_later", "lazy_exports"]


def lazy_exports(
    package: str, modules: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package (PEP 562).

    Args:
        package: Name of the package.
        modules: Its submodules, relative to it, and the names that each exports.
    """
    home = {name: module for module, names in modules.items() for name in names}

    def get_attribute(name: str) -> object:
        if name not in home:
            msg = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(msg)
        value: object = getattr(_import(f".{home[name]}", package), name)
        vars(sys.modules[package])[name] = value
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home})

    return get_attribute, list_names


def _import(name: str, package: str | None = None) -> Any:
    """Import a module with the garbage collector off.

    The objects of hundreds of modules stay alive. To look for garbage among them took 14 of the
    190 ms to import a session.
    """
    if not gc.isenabled():
        return import_module(name, package)
    gc.disable()
    try:
        return import_module(name, package)
    finally:
        gc.enable()


class _LazyPattern:
    def __init__(self, pattern: str, flags: int) -> None:
        self._source = pattern, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._source), name)
        setattr(self, name, value)
        return value


def compile_later(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled when its first method is used: long ones take 1 ms."""
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))


class LazyModule:
    """Stands for a module, which is imported when one of its names is first used.

    Type checkers see an ordinary import::

        if TYPE_CHECKING:
            import pydantic
        else:
            pydantic = LazyModule("pydantic")
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(_import(self._name), name)
        setattr(self, name, value)
        return value
