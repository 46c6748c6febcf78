"""pandas in a worker: its expressions, and its checks of the calling frame.

pandas reads frames, whose attributes a worker removes (`_internals`), and evaluates text: `query`
and `eval` have a parser of their own, which reads attributes by the names in that text.

Rule 1: an attribute in an expression follows the rules of source
    (tests/worker/test_pandas.py::test_expression_reads_no_guarded_attribute).
Rule 2: an expression has the variables that its caller's source can name, and no other
    (tests/worker/test_pandas.py::test_expression_has_the_variables_of_its_caller_alone).
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any, Final

from .._language import _policy as policy
from ._guards import get_attribute
from ._internals import (
    frame_back,
    frame_code,
    frame_globals,
    frame_lasti,
    frame_locals,
    is_script_frame,
)
from ._introspection import ModuleView

__all__ = ["adapt_pandas"]

_EXPRESSIONS: Final = ("pandas.core.computation.expr", "pandas.core.computation.pytables")
"""Modules that read an attribute whose name is in the text of an expression."""


def adapt_pandas() -> None:
    """Replace what pandas reads of frames, and guard its expressions; without pandas, do nothing.

    Call it when its modules are imported.
    """
    for name in _EXPRESSIONS:
        if name in sys.modules:
            # Blocks `df.eval("a.__class__.__mro__")`: the name hides the builtin.
            vars(sys.modules[name])["getattr"] = get_attribute
    for name, frame in (
        ("pandas.core.computation.scope", _variables),
        ("pandas.core.common", _Caller),
    ):
        if name in sys.modules:
            vars(sys.modules[name])["sys"] = ModuleView(sys, _getframe=frame)


class _Caller:
    """A frame for the checks of chained assignment, such as ``df["a"][0] = 1``."""

    def __init__(self, depth: int) -> None:
        self._frame = sys._getframe(depth + 1)

    @property
    def f_code(self) -> types.CodeType:
        """The code, whose instruction tells an assignment from a call."""
        code: types.CodeType = frame_code(self._frame)
        return code

    @property
    def f_lasti(self) -> int:
        """Position of the instruction that executes."""
        position: int = frame_lasti(self._frame)
        return position

    @property
    def f_locals(self) -> Mapping[str, Any]:
        """Variables of the frame."""
        variables: Mapping[str, Any] = frame_locals(self._frame)
        return variables


def _variables(_depth: int) -> types.SimpleNamespace:
    """Return the variables of the script for an expression: its ``@name``."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and not is_script_frame(frame):
        frame = frame_back(frame)
    if frame is None:
        return types.SimpleNamespace(f_globals={}, f_locals={})
    return types.SimpleNamespace(
        f_globals=_nameable(frame_globals(frame)), f_locals=_nameable(frame_locals(frame))
    )


def _nameable(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Omit the guards, `__builtins__` and renamed names: no source can spell them."""
    return {
        name: value
        for name, value in variables.items()
        if name.isidentifier()
        and not policy.is_dunder(name)
        and not name.startswith(policy.PRIVATE_PREFIX)
    }
