"""Validation of the packages that a session offers its scripts."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable

from .._core._arguments import nearest, parts_of
from .._policy_modules import MODULES
from .._workers.wasm._packages import GUEST_PACKAGES
from ..errors import UsageError

__all__ = ["validate_packages"]


def validate_packages(names: Iterable[str], engine: str = "process") -> tuple[str, ...]:
    """Return `names` without duplicates, with the packages they bring, if all can be offered.

    Args:
        names: Names of modules, or of presets.
        engine: Engine that imports them: the packages of the host are not those of a guest.

    Raises:
        UsageError: If one is not the name of a module, is not installed, or is already available to
            scripts.
    """
    if isinstance(names, str):
        msg = f"packages must be a list of names: packages=[{names!r}]"
        raise UsageError(msg)
    found: dict[str, None] = {}
    for asked in parts_of("packages", names, "a list of module names"):
        for name in _PRESETS.get(asked, (asked,)) if isinstance(asked, str) else (asked,):
            found |= dict.fromkeys((*_BRINGS.get(name, ()), name))
    for name in found:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            msg = f"packages: {name!r:.80} is not the name of a module, such as 'numpy'"
            raise UsageError(msg)
        top = name.partition(".")[0]
        if top in MODULES or name in MODULES:
            msg = f"packages: every script already has a safe form of {name!r}"
            raise UsageError(f"{msg}; leave it out")
        if top in sys.stdlib_module_names:
            msg = f"packages: {name!r} is in the standard library, and scripts have only its safe"
            raise UsageError(f"{msg} modules; offer its functions as a tool instead")
        _require_installed(top, engine)
    return tuple(found)


def _require_installed(top: str, engine: str) -> None:
    here = top != "ptc" and importlib.util.find_spec(top) is not None
    in_guest = top in GUEST_PACKAGES
    if in_guest if engine == "wasm" else here:
        return
    if engine == "wasm":
        msg = f"packages: {top!r} is not among the packages of the engine 'wasm'"
        if here:
            raise UsageError(f"{msg}; it is installed for engine='process'")
        raise UsageError(f"{msg}{nearest(top, sorted(GUEST_PACKAGES))}; leave it out")
    msg = f"packages: {top!r} is not installed in this Python{nearest(top, _KNOWN)}"
    other = ", use engine='wasm', which has it," if in_guest else ","
    raise UsageError(f"{msg}; install it (pip install {top}){other} or leave it out")


_PRESETS = {"data": ("numpy", "pandas", "matplotlib")}
"""Names for several packages."""
_BRINGS = {
    "pandas": ("numpy",),
    "matplotlib": ("numpy",),
    "seaborn": ("numpy", "pandas", "matplotlib"),
}
"""Packages that scripts import beside one of these."""
_KNOWN = (*_PRESETS, "matplotlib", "numpy", "pandas", "polars", "scipy", "sklearn", "sympy")
