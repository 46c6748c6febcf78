"""A zygote whose restorer was taken over: it tries what it may not, and reports what it could.

usage: prying_zygote.py PID LAYER ENTRY [arguments of the entry]

PID is a process of the same user, outside of the jail. LAYER is "off" to leave the restorer's own
layer out.
"""

import mmap
import os
import resource
import runpy
import signal
import socket
import sys
from typing import Any

TARGET, LAYER, ENTRY = sys.argv[1:4]
del sys.argv[1:4]


def attempts(server: Any) -> dict[str, Any]:
    """Return what a restorer might try, by name."""
    from ptc.worker.kernel._trace import Tracee

    def open_below(name: str, flags: int) -> None:
        os.close(os.open(f"{TARGET}/{name}", flags, dir_fd=server._proc))

    def connect() -> None:
        with socket.socket() as sock:
            sock.connect(("127.0.0.1", 9))

    def fork() -> None:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)

    def make_sockets() -> None:
        for sock in socket.socketpair():
            sock.close()

    def map_code() -> None:
        prot = mmap.PROT_READ | mmap.PROT_EXEC
        mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE, prot=prot).close()

    def stop() -> None:
        # 0 ends nobody: it asks for the right to send a signal.
        os.kill(os.getpid(), 0)

    return {
        "forks": fork,
        "makes sockets": make_sockets,
        "maps code": map_code,
        "sends other signals": stop,
        "changes its limits": lambda: resource.setrlimit(
            resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE)
        ),
        "lists processes": lambda: os.listdir(server._proc),
        "reads memory": lambda: open_below("mem", os.O_RDONLY),
        "writes memory": lambda: open_below("mem", os.O_RDWR),
        "reads its environment": lambda: open_below("environ", os.O_RDONLY),
        "lists its files": lambda: open_below("fd", os.O_RDONLY),
        "leaves by its root": lambda: open_below("root/etc/passwd", os.O_RDONLY),
        "leaves by its folder": lambda: open_below("cwd", os.O_RDONLY),
        "opens its program": lambda: open_below("exe", os.O_RDONLY),
        "traces": lambda: Tracee(int(TARGET)),
        "connects": connect,
    }


def main() -> None:
    """Start the zygote of ENTRY."""
    # The entry takes the folders off the path again and imports nothing after that.
    folders = sys.argv[4:]
    sys.path.extend(folders)
    sys.modules["ssl"] = None  # type: ignore[assignment]  # as the entry does
    from ptc.worker.kernel import _landlock, _namespaces
    from ptc.worker.restore import _restorer

    serve = _restorer._Server.serve

    def pry(server: Any) -> None:
        for name, attempt in attempts(server).items():
            try:
                attempt()
            except OSError as error:
                server._counts[f"{name}: {error.strerror}"] = 0
            else:
                server._counts[name] = 1
        serve(server)

    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # the restorer inherits it
    _restorer._Server.serve = pry  # type: ignore[assignment, method-assign]
    # Namespaces would refuse most of it, too; not every machine has them.
    _namespaces.__dict__["unshare"] = lambda: dict.fromkeys(
        _namespaces.CLONE_FLAGS, "off for a test"
    )
    if LAYER == "off":
        _landlock.__dict__["restrict_except"] = lambda *_, **_options: None
        _restorer.__dict__["confine"] = lambda: None
    del sys.modules["ssl"]
    del sys.path[-len(folders) :]
    runpy.run_path(ENTRY, run_name="__main__")


main()
