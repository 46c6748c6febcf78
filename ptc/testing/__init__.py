"""For tests: models with scripted answers, recorded runs, and a level without a kernel layer."""

from typing import Final

from .._workers._zygote import UnprotectedLevel
from ._model import Answer, ScriptedModel, cut, lost
from ._recording import Recording

__all__ = ["NO_KERNEL_LAYER", "Answer", "Recording", "ScriptedModel", "cut", "lost"]

NO_KERNEL_LAYER: Final = UnprotectedLevel("none")
"""``Session(isolation=NO_KERNEL_LAYER)``: the language layer alone, with limits on memory and CPU
time. For tests of the language layer: a script that escapes from it has the rights of the user
(of ``nobody`` if that is root). No string and no option of a command gives this level."""
