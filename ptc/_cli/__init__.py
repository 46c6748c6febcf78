"""The command ``ptc``. Importing this imports nothing else: a command loads what it needs.

Exit status, the same for every command: see `_status`.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line on `sys.argv` and exit. Entry point of the script ``ptc``."""
    try:
        from ._group import run_command_line

        status = run_command_line(sys.argv[1:])
    except KeyboardInterrupt:
        # Before a command had taken the signal over: nothing was started, nothing is to be told.
        sys.stderr.write("interrupted\n")
        status = 130
    sys.exit(status)
