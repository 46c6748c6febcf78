"""Test support: scripted models, recorded runs, contexts of tools, and one layer alone."""

from typing import Final

from .._workers._zygote import UnprotectedLevel
from ._context import tool_context
from ._model import Answer, ScriptedModel, cut, lost
from ._recording import Recording

__all__ = ["NO_KERNEL_LAYER", "Answer", "Recording", "ScriptedModel", "cut", "lost", "tool_context"]

NO_KERNEL_LAYER: Final = UnprotectedLevel("none")
"""``Session(isolation=NO_KERNEL_LAYER)``: the language layer alone, with limits on memory and CPU
time. Use it only to test the language layer: a script that escapes it has the rights of the user
(of ``nobody`` if that is root). No string and no command-line option selects this level."""
