"""Isolation levels, and the state of a jail at one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._dataclass import dataclass
from ._listener import ListenerSocket
from .kernel import _seccomp

if TYPE_CHECKING:
    from .restore._hand_over import Restorer

__all__ = ["ISOLATION_LEVELS", "JAIL", "PROCESS", "TEST_ONLY", "JailError", "ZygoteJail"]

JAIL = "jail"
"""The default level: seccomp, Landlock, limits and no_new_privs are required, namespaces used."""
PROCESS = "process"
"""Every layer of `JAIL` that the kernel offers; seccomp and Landlock are not required. If one is
missing, one bug in the language layer gives a script the rights of the user."""
TEST_ONLY = "none"
"""Limits on memory and CPU time only, for tests of the language layer. Sessions can get this level
only from `ptc.testing.NO_KERNEL_LAYER`."""
ISOLATION_LEVELS = frozenset({JAIL, PROCESS, TEST_ONLY})

_REMEDY = (
    'Fix that, or pass the weaker isolation level "process", which does not require it: one bug in '
    "the language layer then gives a script your user's rights."
)


class JailError(Exception):
    """Raised when a required layer cannot be set up; names it, the problem and the remedy.

    Attributes:
        layer: Name of the missing layer.
    """

    def __init__(self, layer: str, problem: str, remedy: str = _REMEDY) -> None:
        super().__init__(f"jail layer {layer!r} is missing: {problem} {remedy}")
        self.layer = layer


@dataclass(frozen=True, slots=True)
class ZygoteJail:
    """State of a zygote's jail, and the data its workers need to set up their own part."""

    isolation: str
    """`JAIL`, `PROCESS` or `TEST_ONLY`."""
    baseline_bytes: int
    """Address space of the zygote before any script; a worker's limit is on top of it.
    0 if it cannot be measured (not Linux): then memory is not limited."""
    started_with: frozenset[str]
    """Names of the environment variables the zygote was started with."""
    namespaces: frozenset[str]
    """Namespaces that differ from the host's, by the kernel's own names for them."""
    empty_root: bool
    """True if the root is an empty read-only file system."""
    landlock_abi: int
    """ABI in force, 0 for none."""
    landlock_masks: tuple[int, int, int]
    """Rights refused: file system, network, scope."""
    notes: dict[str, str]
    """Reasons why optional layers are off, by layer."""
    oom_score: int
    """Score for the kernel's out-of-memory killer, up to 1000; 0 if unknown."""
    zygote_pid: int
    """The zygote's process id as a worker sees it; 1 in a PID namespace."""
    wire_fd: int
    """Descriptor number of every worker's wire. Differs from the control socket's: an object of
    the zygote that closes its socket late must not close the wire."""
    filter: _seccomp.Filter | None
    """The workers' system call filter that kills; None if there is none."""
    listener_socket: ListenerSocket | None
    """Reads the call at which a worker was stopped, and holds the filter for it; None if off."""
    restorer: Restorer | None = None
    """Restores workers after their runs; None if off."""
    traced_filter: _seccomp.Filter | None = None
    """The notifying filter of workers that can be restored."""

    @property
    def confines(self) -> bool:
        """True unless the kernel layer is off, for tests."""
        return self.isolation != TEST_ONLY
