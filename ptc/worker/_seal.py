"""The last step before scripts exist: remove everything that they must not reach."""

from __future__ import annotations

from ._classes import is_known
from ._error_names import restore_error_names
from ._freeze import freeze_types
from ._groups import pin_group_methods
from ._identity import hide_addresses
from ._internals import remove_internals
from ._modules import _text

__all__ = ["seal"]


def seal() -> None:
    """Hide addresses and renamed names, remove what leads to the interpreter, freeze every class.

    For good: call it once, in the zygote, when everything that a run needs has been imported.

    Raises:
        FreezeError: If this interpreter has another layout of its types.
    """
    _text.confine_paths()  # not before: packages find their files by paths, at import
    hide_addresses()
    restore_error_names()
    pin_group_methods()
    remove_internals(is_known)
    freeze_types()
