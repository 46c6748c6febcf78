"""The command ``ptc``. Importing it imports nothing else: each command loads its own modules.

All commands share one table of exit statuses, see `_status`.
"""

from __future__ import annotations

import gc
import os
import sys

__all__ = ["main"]

_YOUNG_OBJECTS = 50_000
"""New objects after which Python looks for cycles, 700 by default: some 10 MB at most."""


def main() -> None:
    """Run the command line on `sys.argv` and exit. Entry point of the script ``ptc``."""
    # Modules are no garbage: to look for it while they are imported takes 20 ms, and 50 ms when
    # the interpreter exits.
    gc.set_threshold(_YOUNG_OBJECTS)
    _open_standard_streams()
    try:
        from ._group import run_command_line

        status = run_command_line(sys.argv[1:])
    except KeyboardInterrupt:
        # No command had installed its handler: nothing was started, so nothing is reported.
        sys.stderr.write("interrupted\n")
        status = 130
    if "threading" in sys.modules:
        from ._tool_threads import wait_for_tools

        wait_for_tools(status)
    gc.freeze()
    sys.exit(status)


def _open_standard_streams() -> None:
    """Open /dev/null in place of each standard stream that the shell has closed (``>&-``).

    Otherwise the next file or socket of this process would get its number, and what a tool or a
    program that it starts writes to standard output would go there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # It gets the lowest number that is free.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
