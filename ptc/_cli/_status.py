"""Exit status: what a shell script is told of an outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .._records._result import RunResult

__all__ = [
    "COMPLETED",
    "CRASHED",
    "EXIT_STATUS_HELP",
    "FAILED",
    "INTERRUPTED",
    "LIMIT",
    "SETUP",
    "TERMINATED",
    "USAGE",
    "status_of",
]

COMPLETED = 0
FAILED = 1
USAGE = 2
"""click's own status for a wrong command line, too."""
LIMIT = 3
CRASHED = 4
SETUP = 5
PAUSED = 6
INTERRUPTED = 130
"""128 + SIGINT, as shells report it (POSIX.1-2017, 2.8.2: more than 128 for a signal)."""
TERMINATED = 143
"""128 + SIGTERM."""

EXIT_STATUS_HELP = """\b
Exit status:
    0  it completed
    1  the script (or the tool) failed, or the script was refused
    2  the command line is wrong; nothing ran
    3  a limit: timed out, or too many calls, bytes or memory
    4  the worker crashed, or the script reached the second fence
    5  this machine lacks something, e.g. a layer of the jail
    6  the run is paused: a call waits for a decision
  130  interrupted with Ctrl-C (143: terminated)
"""
"""For the end of a command's help; ``\\b`` keeps click from joining the lines."""

_BY_OUTCOME = {
    "completed": COMPLETED,
    "failed": FAILED,
    "rejected": FAILED,
    "timed_out": LIMIT,
    "limit_exceeded": LIMIT,
    "crashed": CRASHED,
    "violation": CRASHED,
    "cancelled": INTERRUPTED,
    "paused": PAUSED,
}


def status_of(result: RunResult) -> int:
    """The exit status that tells the outcome of a run."""
    return _BY_OUTCOME[result.status]
