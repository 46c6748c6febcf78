"""Test support: scripted models, recorded runs, contexts of tools, checks of a store, one layer."""

from typing import Final

from .._workers._isolation import UnprotectedLevel
from ._artifact_checks import ARTIFACT_CHECKS, OpenArtifacts
from ._context import tool_context
from ._journal_checks import STORE_CHECKS, OpenJournal
from ._journal_process_checks import JOURNAL_PROCESS_CHECKS
from ._journal_run_checks import RUN_CHECKS
from ._model import Answer, ScriptedModel, cut, lost
from ._recording import Recording

__all__ = [
    "ARTIFACT_CHECKS",
    "JOURNAL_CHECKS",
    "JOURNAL_PROCESS_CHECKS",
    "NO_KERNEL_LAYER",
    "Answer",
    "OpenArtifacts",
    "OpenJournal",
    "Recording",
    "ScriptedModel",
    "cut",
    "lost",
    "tool_context",
]

JOURNAL_CHECKS: Final = (*STORE_CHECKS, *RUN_CHECKS)
"""The promises of `ptc.journal.Journal`. Each check is an async function of an `OpenJournal`, a
function that opens a store that is empty at first. It raises `AssertionError`."""
NO_KERNEL_LAYER: Final = UnprotectedLevel("none")
"""``Session(isolation=NO_KERNEL_LAYER)``: the language layer alone, with limits on memory and CPU
time. Use it only to test the language layer: a script that escapes it has the rights of the user
(of ``nobody`` if that is root). No string and no command-line option selects this level."""
