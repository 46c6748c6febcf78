"""A corrected script, which continues a recorded run."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, get_args

from .._calls._earlier import Reads
from .._core._arguments import nearest, require
from .._dataclass import dataclass
from ..errors import UsageError
from ._direct_journal import is_direct_source
from ._program import Program, validate_filename

__all__ = ["Correction"]

_READS: Final = get_args(Reads)


@dataclass(frozen=True, slots=True)
class Correction:
    """A corrected script, and how it continues the run of the script before it."""

    source: str
    filename: str | None = None
    """Name of the script in tracebacks; None: the recorded one."""
    reads: Reads = "reuse"
    allow_unmatched: bool = False

    def __post_init__(self) -> None:
        require("source", self.source, str, "a string")
        require("allow_unmatched", self.allow_unmatched, bool, "True or False")
        if self.reads not in _READS:
            msg = f"reads={self.reads!r:.80} is unknown{nearest(self.reads, _READS)}; values: "
            raise UsageError(msg + ", ".join(_READS))

    def apply(self, program: Program) -> Program:
        """Return the program of the corrected script.

        Raises:
            UsageError: If the run is a direct call, which has no script.
        """
        if is_direct_source(program.source):
            msg = f"run {program.run_id!r} is a direct call of a tool, which has no script"
            raise UsageError(msg)
        name = program.filename if self.filename is None else validate_filename(self.filename)
        return replace(
            program,
            source=self.source.removeprefix("\ufeff"),
            filename=name,
            revision=program.revision + 1,
            reads=self.reads,
            allow_unmatched=self.allow_unmatched,
            resumed=False,
        )
