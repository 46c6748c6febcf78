"""Report of the jail's layers, made from the findings of the probe."""

from __future__ import annotations

import json
import signal

from .._dataclass import dataclass
from ._isolation import JAIL, JailError, ZygoteJail
from ._jail import LANDLOCK_ABI_WANTED
from .kernel import _libc, _namespaces

__all__ = ["STILL_ALIVE", "UNDER_FILTER", "Findings", "Layer", "make_report", "require_layers"]

UNDER_FILTER = b"\n"
"""Sent by the probe once its filter is on."""
STILL_ALIVE = b"!"
"""Sent by the probe if the filter did not kill it."""

Findings = dict[str, tuple[bool, str]]
"""State and observation of each layer that the probe tried, by name."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the jail, its state, and how the state was verified."""

    name: str
    """A short stable word, e.g. ``seccomp`` or ``namespace_net``."""
    on: bool
    """True if the probe verified it."""
    required: bool
    """True if a session at this isolation level must not start without it."""
    how: str
    """Method of verification, in one sentence."""
    detail: str
    """Observation of the probe; for a layer that is off, the reason and how to turn it on."""


def require_layers(layers: tuple[Layer, ...]) -> None:
    """Require all layers marked as required.

    Raises:
        JailError: If one is off; names the first.
    """
    for layer in layers:
        if layer.required and not layer.on:
            raise JailError(layer.name, f"probe: {layer.how} Seen: {layer.detail}.")


# name -> how it is verified; the order is the order of the report
_HOW = {
    "seccomp": "A worker with the filter could use its wire, and was killed on opening '/'.",
    "violation_names": "The kernel reported that call to the zygote, without the worker's help.",
    "landlock": "open('/') in a worker failed, as intended.",
    "no_new_privs": "Read back with prctl in a worker.",
    "capabilities": "Read back with capget in a worker.",
    "memory": "Allocating twice the limit raised MemoryError in a worker.",
    "cpu": "The limit was read back in a worker.",
    "processes": "fork() in a worker failed with EAGAIN, as intended.",
    "files": "The limit on descriptors was read back in a worker.",
    "file_size": "The limits on files and core dumps were read back in a worker.",
    "descriptors": "Every descriptor number of a worker was tried.",
    "environment": "The variables of the zygote at its start, and of a worker, were listed.",
    "session": "A worker leads a session of its own.",
    "goes_first": "The score for the out-of-memory killer was read back; workers inherit it.",
    "not_dumpable": "Read back with prctl in a worker.",
    "parent_death": "Read back with prctl in a worker.",
    "code_memory": "Mapping writable and executable memory failed in a worker, without the filter.",
    "empty_root": "A worker found none of the usual directories and a read-only root.",
}

_LINUX_ONLY = frozenset({"no_new_privs", "capabilities", "not_dumpable", "parent_death", "memory"})
_OPTIONAL = frozenset({"code_memory", "empty_root", "goes_first", "violation_names"})
_JAIL_REQUIRES = frozenset({"seccomp", "landlock"})
_WITHOUT_KERNEL = frozenset(
    {"memory", "cpu", "descriptors", "environment", "session", "goes_first", "parent_death"}
)
"""Layers that remain if the kernel layer is off, for tests."""


def make_report(
    jail: ZygoteJail, report: bytes, status: int, call: tuple[int, ...] | None
) -> tuple[Layer, ...]:
    """Report every layer, from the data that the probe sent and the way in which it ended."""
    found = _parse(report)
    if jail.filter is not None:
        found["seccomp"] = _check_filter_kill(report, status, call)
        # The fork reports why the call could not be read; only this process knows that it was.
        if call is not None:
            found["violation_names"] = (True, f"system call {call[1]}")
        elif found.get("violation_names", (False, ""))[0]:
            found["violation_names"] = (False, "the kernel reported nothing")
    layers = [_layer(jail, name, found) for name in _HOW]
    if jail.confines:
        layers += [_namespace_layer(jail, name, found) for name in _namespaces.CLONE_FLAGS]
    return tuple(layers)


def _parse(report: bytes) -> Findings:
    """Parse the findings. The child has run no script; still, they are treated as data only."""
    try:
        found = json.loads(report.rstrip(UNDER_FILTER + STILL_ALIVE))
    except ValueError:
        return {}
    return {name: (on is True, str(detail)) for name, (on, detail) in found.items()}


def _check_filter_kill(
    report: bytes, status: int, call: tuple[int, ...] | None
) -> tuple[bool, str]:
    if not report.endswith(UNDER_FILTER):
        return False, f"the worker exited with {status}"
    if call is not None:
        return status == -signal.SIGKILL, f"stopped in system call {call[1]} and killed"
    return (
        status == -signal.SIGSYS,
        "killed by SIGSYS" if status == -signal.SIGSYS else f"it exited with {status}",
    )


def _layer(jail: ZygoteJail, name: str, found: Findings) -> Layer:
    if not jail.confines and name not in _WITHOUT_KERNEL:
        return Layer(name, False, False, "Not tried.", "off, for tests of the language layer")
    on, detail = found.get(name, (False, "the probe did not report it"))
    if name == "seccomp" and jail.filter is None:
        on, detail = False, "there is no filter"
    if name == "violation_names" and not on:
        detail += "; violations are then reported without the name of the call"
    if name == "landlock":
        on, detail = on and jail.landlock_abi > 0, f"ABI {jail.landlock_abi}; {detail}"
        if on and jail.landlock_abi < LANDLOCK_ABI_WANTED:
            detail += "; " + jail.notes.get(name, "namespaces close its gaps")
    if name == "processes" and not on:
        detail += "; a limit on processes does not bind root: run as an ordinary user"
    if not on and name in jail.notes:
        detail += f"; {jail.notes[name]}"
    required = name not in _OPTIONAL and (_libc.LINUX or name not in _LINUX_ONLY)
    if jail.isolation != JAIL and name in _JAIL_REQUIRES:
        required = False
    return Layer(name, on, required, _HOW[name], detail)


def _namespace_layer(jail: ZygoteJail, name: str, found: Findings) -> Layer:
    on = name in jail.namespaces
    how = "The kernel's name for it was compared before and after unsharing."
    note = jail.notes.get(f"namespace_{name}", "")
    detail = "own" if on else note or "this kernel has none"
    if on and note:
        detail += f"; {note}"
    if name == "net" and on:
        closed, seen = found.get("namespace_net", (False, "the probe did not report it"))
        on, detail = closed, f"own; connecting over UDP returned {seen}"
        how = "Compared before and after unsharing, and a worker tried to connect over UDP."
    return Layer(f"namespace_{name}", on, False, how, detail)
