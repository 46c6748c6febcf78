"""What of the jail is on, found out by trying it in a fork that went through the same jail.

One fork tries everything: what the zygote put on, then its own part, then the filter, of which it
dies. It is run once when a zygote starts, so that a session fails closed, and
its report is what ``ptc doctor`` shows.
"""

from __future__ import annotations

import contextlib
import errno
import json
import mmap
import os
import resource
import select
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass

from ._jail import (
    JAIL,
    KNOWN_ENVIRONMENT,
    LANDLOCK_ABI_WANTED,
    OOM_FIRST,
    JailError,
    ZygoteJail,
    confine_worker,
    shut,
)
from ._witness import stopped_at
from .kernel import _libc, _namespaces

__all__ = ["Layer", "probe_layers", "require_layers"]

_MEMORY_BYTES = 64 << 20
_CPU_SECONDS = 5
_PATIENCE_MS = 10_000
_FD_ENUMERATED = 1024
_UNDER_FILTER = b"\n"
_STILL_ALIVE = b"!"

_Found = dict[str, tuple[bool, str]]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the jail and how its state was found out."""

    name: str
    """A short stable word, e.g. ``seccomp`` or ``namespace_net``."""
    on: bool
    """True if the probe saw it hold."""
    required: bool
    """True if a session at this isolation level must not start without it."""
    how: str
    """How it was verified, one sentence."""
    detail: str
    """What was seen; for a layer that is off: why, and what would turn it on."""


def probe_layers(jail: ZygoteJail) -> tuple[Layer, ...]:
    """Try every layer in one forked child and report; called by the zygote, jail on.

    Nothing is raised for a layer that is off: `require_layers` decides.

    Raises:
        OSError: If no child could be forked at all.
    """
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            _be_the_probe(jail, theirs.fileno())
        finally:
            os._exit(1)
    theirs.close()
    with ours:
        said, call = _listen(ours, jail, child)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return _report(jail, said, status, call)


def require_layers(layers: tuple[Layer, ...]) -> None:
    """Refuse to go on without what is required.

    Raises:
        JailError: Naming the first required layer that is off.
    """
    for layer in layers:
        if layer.required and not layer.on:
            raise JailError(layer.name, f"probed: {layer.how} Seen: {layer.detail}.")


def _listen(
    ours: socket.socket, jail: ZygoteJail, child: int
) -> tuple[bytes, tuple[int, ...] | None]:
    """All that the probe says until it ends, is stopped in a call, or is late; and that call.

    In the last two cases it is killed, and before its listener is closed: without one the call
    would fail and the probe go on.
    """
    said = b""
    listener = -1
    poll = select.poll()
    poll.register(ours, select.POLLIN)
    if jail.witness is not None:
        poll.register(jail.witness, select.POLLIN)
    try:
        while ready := poll.poll(_PATIENCE_MS):
            for fd, _ in ready:
                if fd == listener:
                    call = stopped_at(listener)
                    poll.unregister(listener)
                    if call is not None:
                        os.kill(child, signal.SIGKILL)
                        return said + _rest(ours), call
                elif fd == ours.fileno():
                    try:
                        chunk = ours.recv(65536)
                    except OSError:
                        chunk = b""
                    if not chunk:
                        return said, None
                    said += chunk
                elif jail.witness is not None:
                    listener = jail.witness.take()[1] or -1
                    if listener >= 0:
                        poll.register(listener, select.POLLIN)
        os.kill(child, signal.SIGKILL)
        return b"", None
    finally:
        if listener >= 0:
            os.close(listener)


def _rest(ours: socket.socket) -> bytes:
    """What is there now: the probe is stopped and says no more."""
    said = b""
    ours.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while chunk := ours.recv(65536):
            said += chunk
    return said


def _be_the_probe(jail: ZygoteJail, wire_fd: int) -> None:
    """Run in the child: try, say what was seen, then die of the filter."""
    found: _Found = {}
    if jail.confines:
        found |= _see_what_the_zygote_put_on()
    wire = confine_worker(jail, wire_fd, _MEMORY_BYTES, _CPU_SECONDS)
    found |= _see_a_workers_own(jail)
    problem = shut(jail, lambda: found.update(files=_limits_are_zero(resource.RLIMIT_NOFILE)))
    found["descriptors"] = _only_the_wire(jail)
    found["violation_names"] = (not problem, problem)
    wire.sendall(json.dumps(found).encode() + _UNDER_FILTER)  # the filter lets a worker talk ...
    if jail.filter is None:
        return
    try:
        os.open("/", os.O_RDONLY)  # ... and nothing else: this line is the end
    except OSError:
        wire.sendall(_STILL_ALIVE)


def _see_what_the_zygote_put_on() -> _Found:
    # Before the limits: without a free descriptor open() and socket() fail for that reason alone.
    return {
        "landlock": _refused({errno.EACCES}, lambda: os.close(os.open("/", os.O_RDONLY))),
        "empty_root": _root_is_empty(),
        "namespace_net": _refused(
            {errno.ENETUNREACH, errno.EACCES, errno.EPERM, errno.EAFNOSUPPORT}, _reach_out
        ),
        "code_memory": _refused(
            {errno.EACCES},
            lambda: mmap.mmap(
                -1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
            ).close(),
        ),
    }


def _see_a_workers_own(jail: ZygoteJail) -> _Found:
    found = {
        "cpu": _limit_is(resource.RLIMIT_CPU, _CPU_SECONDS, _CPU_SECONDS + 1),
        "memory": _memory_runs_out(jail),
        "processes": _refused({errno.EAGAIN}, _fork),
        "environment": _environment_is_empty(jail),
        "file_size": _limits_are_zero(resource.RLIMIT_FSIZE, resource.RLIMIT_CORE),
        "goes_first": (jail.oom_score == OOM_FIRST, f"score {jail.oom_score} of {OOM_FIRST}"),
        "session": (os.getsid(0) == os.getpid(), f"session {os.getsid(0)}, process {os.getpid()}"),
    }
    if _libc.LINUX:
        found |= {
            "no_new_privs": _prctl_is(_libc.PR_GET_NO_NEW_PRIVS, 1),
            "not_dumpable": _prctl_is(_libc.PR_GET_DUMPABLE, 0),
            "capabilities": _no_capabilities(jail),
            "parent_death": _dies_with_the_zygote(),
        }
    return found


def _refused(reasons: set[int], attempt: Callable[[], object]) -> tuple[bool, str]:
    """The attempt must fail, and for one of these reasons."""
    try:
        attempt()
    except OSError as error:
        return error.errno in reasons, errno.errorcode.get(error.errno or 0, str(error))
    return False, "it was allowed"


def _reach_out() -> None:
    """UDP: Landlock does not cover it, so only a network namespace refuses here."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # TEST-NET-1, RFC 5737; connecting UDP sends nothing


def _root_is_empty() -> tuple[bool, str]:
    seen = [path for path in ("/proc", "/sys", "/dev", "/etc", "/usr") if os.path.exists(path)]
    if seen:
        return False, f"{' '.join(seen)} exist"
    read_only = bool(os.statvfs("/").f_flag & os.ST_RDONLY)
    return read_only, "read-only tmpfs" if read_only else "the root can be written"


def _fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _limit_is(which: int, soft: int, hard: int) -> tuple[bool, str]:
    seen = resource.getrlimit(which)
    return seen == (soft, hard), f"limits {seen[0]} and {seen[1]}"


def _memory_runs_out(jail: ZygoteJail) -> tuple[bool, str]:
    if not jail.baseline_bytes:
        return False, "this system does not tell how large the zygote is"
    limit = jail.baseline_bytes + _MEMORY_BYTES
    held, detail = _limit_is(resource.RLIMIT_AS, limit, limit)
    try:
        bytearray(2 * _MEMORY_BYTES)
    except MemoryError:
        return held, f"baseline {jail.baseline_bytes >> 20} MiB"
    return False, f"twice the memory was given; {detail}"


def _limits_are_zero(*names: int) -> tuple[bool, str]:
    seen = [resource.getrlimit(which) for which in names]
    return all(limit == (0, 0) for limit in seen), f"limits {seen}"


def _only_the_wire(jail: ZygoteJail) -> tuple[bool, str]:
    """Called at the end: closing is the one call with a number that the filter allows."""
    seen = []
    for descriptor in range(_FD_ENUMERATED):
        if descriptor == jail.wire_fd:
            continue
        with contextlib.suppress(OSError):
            os.close(descriptor)
            seen.append(descriptor)
    return not seen, f"open but the wire: {seen}"


def _environment_is_empty(jail: ZygoteJail) -> tuple[bool, str]:
    foreign = sorted((jail.started_with | set(os.environ)) - KNOWN_ENVIRONMENT)
    if foreign:
        return False, f"the zygote was started with {', '.join(foreign)}; start it with none"
    return True, f"only {', '.join(sorted(os.environ))}"


def _prctl_is(option: int, wanted: int) -> tuple[bool, str]:
    seen = _libc.prctl(option)
    return seen == wanted, f"prctl answers {seen}"


def _no_capabilities(jail: ZygoteJail) -> tuple[bool, str]:
    held = _libc.capabilities()
    return held == 0, f"held {held:#x}; {jail.notes.get('capabilities', 'bounding set empty')}"


def _dies_with_the_zygote() -> tuple[bool, str]:
    seen = _libc.parent_death_signal()
    return seen == signal.SIGKILL, f"signal {seen}"


# name -> how it is verified; the order is the order of the report
_HOW = {
    "seccomp": "A fork with the filter talked on its wire, then tried to open '/' and was ended.",
    "violation_names": "The kernel told the zygote, not the fork, at which call that was.",
    "landlock": "A fork was refused opening '/'.",
    "no_new_privs": "Read back with prctl in a fork.",
    "capabilities": "Read back with capget in a fork.",
    "memory": "Twice the limit raised MemoryError in a fork.",
    "cpu": "The limit was read back in a fork.",
    "processes": "A fork was refused a fork of its own.",
    "files": "The limit on descriptors was read back in a fork.",
    "file_size": "The limits on files and cores were read back in a fork.",
    "descriptors": "Every descriptor number of a fork was tried.",
    "environment": "The names at the start of the zygote and in a fork were read.",
    "session": "A fork leads a session of its own.",
    "goes_first": "The score for the out-of-memory killer was read back; forks inherit it.",
    "not_dumpable": "Read back with prctl in a fork.",
    "parent_death": "Read back with prctl in a fork.",
    "code_memory": "A fork was refused memory both writable and executable, without the filter.",
    "empty_root": "A fork found none of the usual directories and a read-only root.",
}

_LINUX_ONLY = frozenset({"no_new_privs", "capabilities", "not_dumpable", "parent_death", "memory"})
_OPTIONAL = frozenset({"code_memory", "empty_root", "goes_first", "violation_names"})
_JAIL_REQUIRES = frozenset({"seccomp", "landlock"})
_WITHOUT_KERNEL = frozenset(
    {"memory", "cpu", "descriptors", "environment", "session", "goes_first", "parent_death"}
)
"""What is left where the kernel layer is off, for tests."""


def _report(
    jail: ZygoteJail, said: bytes, status: int, call: tuple[int, ...] | None
) -> tuple[Layer, ...]:
    found = _parse(said)
    if jail.filter is not None:
        found["seccomp"] = _ended_by_the_filter(said, status, call)
        # The fork knows why it could not be told; that it was is known here.
        if call is not None:
            found["violation_names"] = (True, f"system call {call[1]}")
        elif found.get("violation_names", (False, ""))[0]:
            found["violation_names"] = (False, "nothing was told")
    layers = [_layer(jail, name, found) for name in _HOW]
    if jail.confines:
        layers += [_namespace_layer(jail, name, found) for name in _namespaces.CLONE_FLAGS]
    return tuple(layers)


def _parse(said: bytes) -> _Found:
    """The child is a fork of ours that has run no script; still, its words are only data."""
    try:
        found = json.loads(said.rstrip(_UNDER_FILTER + _STILL_ALIVE))
    except ValueError:
        return {}
    return {name: (on is True, str(detail)) for name, (on, detail) in found.items()}


def _ended_by_the_filter(
    said: bytes, status: int, call: tuple[int, ...] | None
) -> tuple[bool, str]:
    if not said.endswith(_UNDER_FILTER):
        return False, f"the fork ended with {status}"
    if call is not None:
        return status == -signal.SIGKILL, f"stopped in system call {call[1]} and killed"
    return (
        status == -signal.SIGSYS,
        "the fork died of SIGSYS" if status == -signal.SIGSYS else f"it ended with {status}",
    )


def _layer(jail: ZygoteJail, name: str, found: _Found) -> Layer:
    if not jail.confines and name not in _WITHOUT_KERNEL:
        return Layer(name, False, False, "Not tried.", "off, for tests of the language layer")
    on, detail = found.get(name, (False, "the probe did not say"))
    if name == "seccomp" and jail.filter is None:
        on, detail = False, "there is no filter"
    if name == "violation_names" and not on:
        detail += "; a violation is then reported without the name of the call"
    if name == "landlock":
        on, detail = on and jail.landlock_abi > 0, f"ABI {jail.landlock_abi}; {detail}"
        if on and jail.landlock_abi < LANDLOCK_ABI_WANTED:
            detail += "; " + jail.notes.get(name, "what it leaves open, namespaces close")
    if name == "processes" and not on:
        detail += "; a limit on processes does not bind root: run as an ordinary user"
    if not on and name in jail.notes:
        detail += f"; {jail.notes[name]}"
    required = name not in _OPTIONAL and (_libc.LINUX or name not in _LINUX_ONLY)
    if jail.isolation != JAIL and name in _JAIL_REQUIRES:
        required = False
    return Layer(name, on, required, _HOW[name], detail)


def _namespace_layer(jail: ZygoteJail, name: str, found: _Found) -> Layer:
    on = name in jail.namespaces
    how = "The kernel's name for it was compared before and after."
    note = jail.notes.get(f"namespace_{name}", "")
    detail = "own" if on else note or "this kernel has none"
    if on and note:
        detail += f"; {note}"
    if name == "net" and on:
        closed, seen = found.get("namespace_net", (False, "the probe did not say"))
        on, detail = closed, f"own; reaching out answered {seen}"
        how = "Compared before and after, and a fork tried to reach out over UDP."
    return Layer(f"namespace_{name}", on, False, how, detail)
