"""A process of its own for code that arranges the memory of the process that executes it."""

from __future__ import annotations

import subprocess
import sys

__all__ = ["in_process"]

_END = "\nimport os, sys\nsys.stdout.flush()\nos._exit(0)"
"""An immortal heap must not be freed."""


def in_process(code: str) -> str:
    """Return what `code` prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code + _END],
        capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    return done.stdout.strip()
