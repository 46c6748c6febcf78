"""The last step before scripts exist: remove everything that they must not reach."""

from __future__ import annotations

from ._classes import is_known
from ._freeze import freeze_types
from ._groups import pin_group_methods
from ._identity import hide_addresses
from ._internals import remove_internals

__all__ = ["seal"]


def seal() -> None:
    """Hide addresses, remove interpreter internals and freeze every class; for good.

    Call it once, in the zygote, when everything that a run needs has been imported.

    Raises:
        FreezeError: If this interpreter has another layout of its types.
    """
    hide_addresses()
    pin_group_methods()
    remove_internals(is_known)
    freeze_types()
