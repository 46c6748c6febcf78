"""Validation of the packages that a session offers its scripts."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from .._core._arguments import parts_of
from .._policy_modules import MODULES
from .._workers._packages import require_packages
from ..errors import UsageError

__all__ = ["validate_packages"]


def validate_packages(names: Iterable[str], engine: str = "process") -> tuple[str, ...]:
    """Return `names` without duplicates, with the packages they bring, if all can be offered.

    Args:
        names: Names of modules, or of presets.
        engine: Engine that imports them, as for `require_packages`.

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
    require_packages(found, engine)
    return tuple(found)


_PRESETS = {"data": ("numpy", "pandas", "matplotlib")}
"""Names for several packages."""
_BRINGS = {
    "pandas": ("numpy",),
    "matplotlib": ("numpy",),
    "seaborn": ("numpy", "pandas", "matplotlib"),
}
"""Packages that scripts import beside one of these."""
