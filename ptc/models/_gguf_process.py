"""Processes that run GGUF files: one for each file and options, shared within this process.

A model runs in a process of its own because llama.cpp holds Python's global lock while it loads a
file, ends its process on an internal error, and writes to standard error.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Final

import anyio

from ..errors import SetupError
from ._gguf_file import LoadOptions

__all__ = ["LlamaProcess", "acquire", "release"]

_POLL_SECONDS = 0.02
_END_SECONDS = 1
_MAX_LOG_CHARS = 600
_SOCKET = "model.sock"


class LlamaProcess:
    """A process that has loaded, or is loading, a model."""

    def __init__(self, options: LoadOptions) -> None:
        self.options = options
        self.users = 0
        self._folder = Path(tempfile.mkdtemp(prefix="ptc-gguf-"))
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  # this interpreter, and a script of ours
                [
                    sys.executable,
                    "-P",
                    str(Path(__file__).with_name("_gguf_child.py")),
                    json.dumps({**asdict(options), "folder": str(self._folder)}),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                # Ctrl-C in a terminal is for this process, which ends the other.
                start_new_session=True,
            )

    @property
    def socket(self) -> str:
        """Path of the socket."""
        return str(self._folder / _SOCKET)

    @property
    def running(self) -> bool:
        """True until the process ends."""
        return self._process.poll() is None

    async def has_ended(self) -> bool:
        """True if the process ends within a moment: a lost connection is noticed earlier."""
        with anyio.move_on_after(_END_SECONDS):
            while self.running:  # noqa: ASYNC110  # only the kernel knows when it ends
                await anyio.sleep(_POLL_SECONDS)
        return not self.running

    async def wait_until_loaded(self) -> None:
        """Wait until the model can be asked.

        Raises:
            SetupError: If llama.cpp cannot load it.
        """
        ready = self._folder / "ready"
        while not ready.exists():
            if not self.running:
                path = self.options.path
                msg = (
                    f"llama.cpp cannot load {path}: {self.describe_end()}. The file may be "
                    "truncated or damaged (compare its size and checksum with the source), need "
                    "more memory (?n_ctx= makes it smaller), or need a newer xllamacpp"
                )
                raise SetupError(msg)
            await anyio.sleep(_POLL_SECONDS)

    def describe_end(self) -> str:
        """Return the end of the log, and the status with which the process ended."""
        log = ""
        with contextlib.suppress(OSError):
            log = (self._folder / "log").read_text("utf-8", "replace")
        lines = [line.strip() for line in log.splitlines() if " E " in line]
        text = "; ".join(lines)[-_MAX_LOG_CHARS:] or " ".join(log.split())[-_MAX_LOG_CHARS:]
        status = self._process.poll()
        ended = f"its process ended with status {status}" if status is not None else "no reason"
        return f"{text} ({ended})" if text else ended

    def kill(self) -> None:
        """End the process and delete its folder."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)


_lock = threading.Lock()
_processes: Final[dict[LoadOptions, LlamaProcess]] = {}


def acquire(options: LoadOptions) -> LlamaProcess:
    """Return the process with these options; start it if there is none. `release` it later."""
    with _lock:
        process = _processes.get(options)
        if process is None or not process.running:
            process = _processes[options] = LlamaProcess(options)
        process.users += 1
        return process


def release(process: LlamaProcess) -> Callable[[], None] | None:
    """Give a process back; return its `kill`, to be called in a thread, if nobody else uses it."""
    with _lock:
        process.users -= 1
        if process.users:
            return None
        if _processes.get(process.options) is process:
            del _processes[process.options]
        return process.kill


@atexit.register
def _kill_all() -> None:
    while _processes:
        _, process = _processes.popitem()
        process.kill()
