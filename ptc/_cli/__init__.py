"""The command ``ptc``. Importing it imports nothing else: each command loads its own modules.

All commands share one table of exit statuses, see `_status`.
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
        # No command had installed its handler: nothing was started, so nothing is reported.
        sys.stderr.write("interrupted\n")
        status = 130
    sys.exit(status)
