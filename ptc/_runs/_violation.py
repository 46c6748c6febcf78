"""Alarms: every time a worker reached the second fence or broke the protocol, kept and logged.

An ordinary script cannot do either, whatever it gets wrong, so each is to be looked into. What is
told here is the kernel's and the host's word; nothing in it is the worker's but the text of a
`ProtocolError`, which is escaped.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import deque
from dataclasses import dataclass
from typing import Literal

from .._workers._syscall_names import syscall_name

__all__ = ["Violation", "ViolationLog"]

_log = logging.getLogger("ptc")


@dataclass(frozen=True, slots=True)
class Violation:
    """One alarm of one run."""

    run_id: str
    code: Literal["system_call", "protocol"]
    """``system_call``: the worker was stopped at the second fence. ``protocol``: it sent what a
    worker never sends."""
    message: str
    """What happened, in printable text."""
    filename: str
    """What the script is called."""
    source: str
    """The script."""
    syscall: str = ""
    """Name of the system call, by the kernel's word; ``""`` if the kernel did not tell."""
    architecture: int = 0
    """``AUDIT_ARCH_*`` of the call; 0: not told."""
    number: int = -1
    """Number of the call; -1: not told."""
    arguments: tuple[int, ...] = ()
    """Its six registers. Addresses among them are the worker's own."""
    time: float = 0.0
    """Seconds since the epoch."""

    @property
    def source_sha256(self) -> str:
        """Digest of the script, to find it again."""
        return hashlib.sha256(self.source.encode(errors="replace")).hexdigest()


class ViolationLog:
    """The latest violations of a session; each is also a line of the logger ``ptc``."""

    def __init__(self, most: int = 100) -> None:
        self._kept: deque[Violation] = deque(maxlen=most)
        self.count = 0
        """All there have been."""

    @property
    def latest(self) -> tuple[Violation, ...]:
        """Those kept, oldest first."""
        return tuple(self._kept)

    def protocol(self, error: str, *, run_id: str, filename: str, source: str) -> Violation:
        """Note a frame that no worker sends."""
        message = f"the worker broke the protocol: {error}"
        return self._note(
            Violation(run_id, "protocol", _printable(message), filename, source, time=time.time())
        )

    def system_call(
        self, call: tuple[int, ...] | None, *, run_id: str, filename: str, source: str
    ) -> Violation:
        """Note a call at the second fence; `call` as in `Exit.call`."""
        if call is None:
            message = (
                "the script made a system call that the jail does not allow; the kernel did not "
                "tell which (it never does for calls of another architecture)"
            )
            return self._note(
                Violation(run_id, "system_call", message, filename, source, time=time.time())
            )
        architecture, number, *arguments = call
        name = syscall_name(architecture, number)
        return self._note(
            Violation(
                run_id,
                "system_call",
                f"the jail does not allow the system call {name} as the script made it",
                filename,
                source,
                name,
                architecture,
                number,
                tuple(arguments),
                time.time(),
            )
        )

    def _note(self, violation: Violation) -> Violation:
        self._kept.append(violation)
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
    """One line that a terminal or a log takes as text, whatever the worker put into it."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)[:2_000]
