"""For tests: a model that says what it is told to say, and runs that were as fixtures."""

from ._model import Answer, ScriptedModel, cut, lost
from ._recording import Recording

__all__ = ["Answer", "Recording", "ScriptedModel", "cut", "lost"]
