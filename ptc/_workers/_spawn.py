"""The process of a zygote: start it, also before there is a session that needs it.

A zygote needs about as long to start as the host needs to import its own modules, so a program that
knows its settings early starts both at once. This module imports little, for that purpose.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import SetupError

__all__ = ["spawn_early", "start_error", "take_or_spawn"]

Spawned = tuple[subprocess.Popen[bytes], socket.socket]
"""The process, and the host's end of its control socket."""
_early: dict[tuple[str, tuple[str, ...]], Spawned] = {}
"""Processes that no zygote has taken, by isolation and packages. They end with this process, whose
end of the socket closes."""


def spawn_early(isolation: str, packages: Sequence[str] = ()) -> None:
    """Start the process that the first zygote with these settings takes.

    Does nothing if that fails: the zygote tries again, and reports the error.
    """
    key = isolation, tuple(packages)
    if sys.platform != "linux" or key in _early:
        return
    try:
        _early[key] = _spawn(*key)
    except SetupError:
        return


def take_or_spawn(isolation: str, packages: Sequence[str]) -> Spawned:
    """Return the process that was started early, or start one.

    Raises:
        SetupError: If it cannot be started.
    """
    key = isolation, tuple(packages)
    return _early.pop(key, None) or _spawn(*key)


def _spawn(isolation: str, packages: Sequence[str]) -> Spawned:
    folders = _import_folders(everything=bool(packages))
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError as error:
        raise SetupError(start_error(error)) from None
    with theirs:
        try:
            return _open_process(theirs.fileno(), isolation, packages, folders), ours
        except BaseException as error:
            ours.close()
            if isinstance(error, OSError):
                raise SetupError(start_error(error)) from None
            raise


def _open_process(
    control_fd: int, isolation: str, packages: Sequence[str], folders: list[str]
) -> subprocess.Popen[bytes]:
    entry = Path(__file__).parent.parent / "worker" / "__main__.py"
    # DEVNULL would be opened by Popen, which loses it before 3.11.7 if there is no descriptor left.
    with open(os.devnull, "r+b", buffering=0) as nothing:
        return subprocess.Popen(  # noqa: S603  # our own interpreter and our own file
            # -I would be these and -E, but -E drops PYTHONHASHSEED, the only variable set here.
            [
                *(sys.executable, "-P", "-s", "-S", str(entry)),
                *(str(control_fd), isolation, ",".join(packages)),
                *folders,
            ],
            env={"PYTHONHASHSEED": "0"},
            pass_fds=(control_fd,),
            stdin=nothing,
            stdout=nothing,
            stderr=subprocess.PIPE,
            cwd="/",
            # Ctrl-C in the terminal is for the host, which stops its runs cleanly.
            start_new_session=True,
        )


def start_error(error: OSError) -> str:
    """Describe an error of the system that kept the process from being started."""
    return (
        f"the process that forks the workers cannot be started: {error}; "
        "raise the limit it names (ulimit -n, ulimit -u, pids.max), or close open files"
    )


def _import_folders(*, everything: bool) -> list[str]:
    """List the folders that a zygote imports from; it starts without `site`.

    Args:
        everything: True: all folders that this process imports from, except the current one, since
            the dependencies of a session's packages are unknown.

    Raises:
        SetupError: If a dependency is missing.
    """
    folders = [str(Path(__file__).parent.parent.parent)]
    for name in ("RestrictedPython", "orjson"):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            msg = f"package {name} is missing; install ptc with its dependencies"
            raise SetupError(msg)
        folder = str(Path(spec.origin).parent.parent)
        if folder not in folders:
            folders.append(folder)
    if everything:
        own = [path for path in sys.path if os.path.isabs(path) and path != os.getcwd()]
        folders += [path for path in own if path not in folders and os.path.isdir(path)]
    return folders
