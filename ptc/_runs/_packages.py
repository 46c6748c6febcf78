"""Packages that a session offers its scripts: found, or refused, before anything is started."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable

from .._arguments import nearest, parts_of
from .._policy_modules import MODULES
from ..errors import UsageError

__all__ = ["packages_of"]


def packages_of(names: Iterable[str]) -> tuple[str, ...]:
    """`names`, each once, if all can be offered.

    Raises:
        UsageError: If one is no name of a module, is not installed, or is in the library of scripts
            already.
    """
    if isinstance(names, str):
        msg = f"packages is a list of names: packages=[{names!r}]"
        raise UsageError(msg)
    found = dict.fromkeys(parts_of("packages", names, "a list of names of modules"))
    for name in found:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            msg = f"packages: {name!r:.80} is not the name of a module, such as 'numpy'"
            raise UsageError(msg)
        top = name.partition(".")[0]
        if top in MODULES or name in MODULES:
            msg = f"packages: {name!r} is there for every script in a form without its dangers"
            raise UsageError(f"{msg}; leave it out")
        if top in sys.stdlib_module_names:
            msg = f"packages: {name!r} is part of the standard library, of which scripts have"
            raise UsageError(f"{msg} what is safe; give its power with a tool instead")
        if top == "ptc" or importlib.util.find_spec(top) is None:
            near = nearest(top, _KNOWN)
            msg = f"packages: {top!r} is not installed in this Python{near}"
            raise UsageError(f"{msg}; install it (pip install {top}), or leave it out")
    return tuple(found)


_KNOWN = ("matplotlib", "numpy", "pandas", "polars", "scipy", "sklearn", "sympy")
