"""Exit statuses of the command line."""

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
"""Also click's own status for an invalid command line."""
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
    0  completed
    1  the script (or tool) failed, or the script was rejected before it ran
    2  the command line is invalid; nothing ran
    3  a limit was exceeded: time, tool calls, bytes or memory
    4  the worker crashed, or the kernel layer stopped the script, or the run is dead
    5  this machine lacks a requirement, e.g. a kernel layer of the jail
    6  the run is paused: a call is awaiting a decision
  130  interrupted with Ctrl-C (143: terminated)
"""
"""Epilogue of a command's help; ``\\b`` stops click from joining the lines."""

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
    "dead": CRASHED,
}


def status_of(result: RunResult) -> int:
    """Return the exit status for the outcome of a run."""
    return _BY_OUTCOME[result.status]
