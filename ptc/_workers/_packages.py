"""Packages of each engine: those of the host for processes, those of the guest for WebAssembly."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Final

from .._core._arguments import nearest
from ..errors import UsageError
from .wasm._packages import GUEST_PACKAGES

__all__ = ["on_host", "require_packages"]

_KNOWN: Final = (
    "data", "matplotlib", "numpy", "pandas", "polars", "scipy", "sklearn", "sympy",
)  # fmt: skip


def on_host(name: str) -> bool:
    """Return True if a package is installed in the Python of the host."""
    top = name.partition(".")[0]
    return top != "ptc" and importlib.util.find_spec(top) is not None


def require_packages(names: Iterable[str], engine: str) -> None:
    """Raise `UsageError` if an engine lacks a package; the error names an engine that has it.

    Args:
        names: Names of modules.
        engine: The engine; ``auto``: one of both, which is not decided yet.
    """
    for name in names:
        top = name.partition(".")[0]
        here, in_guest = on_host(name), top in GUEST_PACKAGES
        if engine == "wasm" and not in_guest:
            msg = f"packages: {top!r} is not among the packages of the engine 'wasm'"
            if here:
                raise UsageError(f"{msg}; it is installed for engine='process'")
            raise UsageError(f"{msg}{nearest(top, sorted(GUEST_PACKAGES))}; leave it out")
        if engine != "wasm" and not here and not (engine == "auto" and in_guest):
            near = "" if top in _KNOWN else nearest(top, _KNOWN)
            msg = f"packages: {top!r} is not installed in this Python{near}"
            other = ", use engine='wasm', which has it," if in_guest else ","
            raise UsageError(f"{msg}; install it (pip install {top}){other} or leave it out")
