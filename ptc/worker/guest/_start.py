"""The start of a worker in a guest: prepared once, for the snapshot; each copy serves one run."""

from __future__ import annotations

import posix
from collections.abc import Sequence
from typing import Final

from ..._language._compiler import POLICY_VERSION
from ..._wire._protocol import Kind
from .._packages import close_files
from .._prepare import prepare_runtime, redirect_output
from .._runtime import Runtime
from .._wire import Wire

__all__ = ["POLICY_VERSION", "prepare", "serve"]

_FROM_HOST: Final = 0
_TO_HOST: Final = 1
_read, _write = posix.read, posix.write  # before `close_files`

_runtime: Runtime | None = None


class _Stream:
    """The two descriptors by which the host reads and writes frames; nothing else is open."""

    def recv(self, size: int, _flags: int = 0, /) -> bytes:
        """Wait for bytes of the host; empty: it has closed the run. It never polls."""
        return _read(_FROM_HOST, size)

    def sendall(self, data: bytes, /) -> None:
        """Send bytes to the host."""
        view = memoryview(data)
        while view:
            view = view[_write(_TO_HOST, view) :]


def prepare(packages: Sequence[str]) -> None:
    """Import everything and seal the interpreter; the snapshot is taken afterwards."""
    global _runtime
    _runtime = prepare_runtime(packages)
    close_files()
    redirect_output()


def serve() -> None:
    """Serve one run, in a copy of the snapshot."""
    assert _runtime is not None  # noqa: S101  # the snapshot has it
    wire = Wire(_Stream())
    wire.send(Kind.READY, b"[]")
    _runtime.serve(wire)
