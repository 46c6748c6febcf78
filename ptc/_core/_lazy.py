"""Imports on first use: public names of a package, and modules that are slow to import."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["LazyModule", "lazy_exports"]


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
        value: object = getattr(import_module(f".{home[name]}", package), name)
        vars(sys.modules[package])[name] = value
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home})

    return get_attribute, list_names


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
        value = getattr(import_module(self._name), name)
        setattr(self, name, value)
        return value
