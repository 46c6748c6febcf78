"""The start of ripgrep in a folder: confined on Linux, and with what other systems have elsewhere.

Rule 1: ripgrep reads all ignore rules before it opens anything else.
Rule 2: On Linux, its memory limit is set before they end.
    test_huge_line_cannot_exhaust_the_memory
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ptc._core._folder import Folder, PosixFolder

from ..files._reading import in_reading_thread

__all__ = ["Start", "errors_file"]

MAX_MEMORY_BYTES = 1_073_741_824
"""Maximum memory of ripgrep (RLIMIT_DATA); its buffer holds the longest line of a file."""


def errors_file() -> int:
    """Open a file without a name for the errors of a program; the caller closes it."""
    if sys.platform == "linux":
        return os.memfd_create("ripgrep-errors")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Start:
    """A start of ripgrep: `spawn` it, `feed` it, and `close` what the start needed."""

    def __init__(self, command: Sequence[str], folder: Folder, path: str, rules: bytes) -> None:
        """Prepare the start.

        Args:
            command: The program and its options.
            folder: Where it searches.
            path: Path in the folder.
            rules: Lines of ignore files, which apply to the folder.
        """
        self._folder = folder
        self._rules = rules
        self._pipe = (-1, -1)
        self._rules_file: Path | None = None
        # `./` prevents a name that starts with a dash from being an option.
        rest = ["--", f"./{path}"]
        if sys.platform == "linux":
            self._pipe = os.pipe()
            self._command = [*command, "--ignore-file=/proc/self/fd/0", *rest]
            return
        if rules:
            fd, name = tempfile.mkstemp(prefix="ptc-")
            self._rules_file = Path(name)
            with open(fd, "wb") as file:
                file.write(rules)
            rest = [f"--ignore-file={name}", *rest]
        self._command = [*command, *rest]

    def spawn(self, errors: int) -> subprocess.Popen[bytes]:
        """Start the process; its output is a pipe.

        Args:
            errors: Descriptor for its standard error.

        Raises:
            OSError: If it cannot be started, or not be confined.
        """

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(  # noqa: S603  # no shell; each value is one argument
                self._command,
                stdin=self._pipe[0] if self._pipe[0] >= 0 else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                # On Linux by descriptor: another folder may have its name by now.
                cwd=self._folder.place,
                env=_ENVIRONMENT,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )

        if sys.platform == "linux" and isinstance(self._folder, PosixFolder):
            return in_reading_thread(start, self._folder.fd, self._command[0])
        return start()

    def feed(self, process: subprocess.Popen[bytes]) -> None:
        """Set the limits of the process, and give it the rules."""
        if sys.platform != "linux":
            return
        import resource

        os.close(self._pipe[0])
        self._pipe = (-1, self._pipe[1])
        limits = (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES)
        with suppress(ProcessLookupError):  # It may have exited already, on an invalid pattern.
            resource.prlimit(process.pid, resource.RLIMIT_DATA, limits)
        with suppress(BrokenPipeError):
            view = memoryview(self._rules)
            while view:
                view = view[os.write(self._pipe[1], view) :]

    def close_pipe(self) -> None:
        """Close both ends of the pipe: the rules are complete."""
        for fd in self._pipe:
            if fd >= 0:
                os.close(fd)
        self._pipe = (-1, -1)

    def close(self) -> None:
        """Delete the file of rules, once the process has ended."""
        self.close_pipe()
        if self._rules_file is not None:
            self._rules_file.unlink(missing_ok=True)
            self._rules_file = None


# A program on Windows finds libraries of the system by this variable.
_ENVIRONMENT: dict[str, str] = {
    name: value
    for name, value in os.environ.items()
    if os.name == "nt" and name.upper() == "SYSTEMROOT"
}
