"""Alarms: each violation of the kernel layer or of the protocol by a worker, stored and logged.

An ordinary script cannot cause either, whatever it gets wrong, so investigate each one. All facts
come from the kernel and the host; the only text from the worker is in the message of a
`ProtocolError`, and that is escaped.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import deque
from typing import Literal

from .._dataclass import dataclass
from .._workers._syscall_names import syscall_name

__all__ = ["Violation", "ViolationLog"]

_log = logging.getLogger("ptc")


@dataclass(frozen=True, slots=True)
class Violation:
    """One alarm of one run."""

    run_id: str
    code: Literal["system_call", "protocol"]
    """``system_call``: the kernel layer stopped the worker. ``protocol``: it sent a frame that a
    worker never sends."""
    message: str
    """Description in printable text."""
    filename: str
    """Name of the script."""
    source: str
    """Source of the script."""
    syscall: str = ""
    """Name of the system call, as the kernel reported it; ``""`` if it reported none."""
    architecture: int = 0
    """``AUDIT_ARCH_*`` of the call; 0: not reported."""
    number: int = -1
    """Number of the call; -1: not reported."""
    arguments: tuple[int, ...] = ()
    """Its six registers. Addresses among them belong to the worker's address space."""
    time: float = 0.0
    """Seconds since the epoch."""

    @property
    def source_sha256(self) -> str:
        """Digest of the script, to identify it."""
        return hashlib.sha256(self.source.encode(errors="replace")).hexdigest()


class ViolationLog:
    """The latest violations of a session; each is also logged by the logger ``ptc``."""

    def __init__(self, most: int = 100) -> None:
        self._latest: deque[Violation] = deque(maxlen=most)
        self.count = 0
        """Number of all violations, dropped ones included."""

    @property
    def latest(self) -> tuple[Violation, ...]:
        """The stored violations, oldest first."""
        return tuple(self._latest)

    def protocol(self, error: str, *, run_id: str, filename: str, source: str) -> Violation:
        """Add a violation of the protocol."""
        message = f"the worker violated the protocol: {error}"
        return self._add(
            Violation(run_id, "protocol", _printable(message), filename, source, time=time.time())
        )

    def system_call(
        self, call: tuple[int, ...] | None, *, run_id: str, filename: str, source: str
    ) -> Violation:
        """Add a system call that the kernel layer stopped; `call` as in `Exit.call`."""
        if call is None:
            message = (
                "blocked system call: the kernel did not report which (it never does for calls of "
                "another architecture)"
            )
            return self._add(
                Violation(run_id, "system_call", message, filename, source, time=time.time())
            )
        architecture, number, *arguments = call
        name = syscall_name(architecture, number)
        return self._add(
            Violation(
                run_id,
                "system_call",
                f"blocked system call: {name}",
                filename,
                source,
                name,
                architecture,
                number,
                tuple(arguments),
                time.time(),
            )
        )

    def _add(self, violation: Violation) -> Violation:
        self._latest.append(violation)
        self.count += 1
        _log.error(
            "violation: %s [run %s, script %s, sha256 %s, arguments %s]",
            violation.message,
            violation.run_id,
            violation.filename,
            violation.source_sha256,
            " ".join(map(hex, violation.arguments)) or "none",
        )
        return violation


def _printable(text: str) -> str:
    """Escape text of the worker to one line that is safe in a terminal or a log."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)[:2_000]
